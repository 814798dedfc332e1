"""The runners of checks, tests and trials: what is run for which part, and every failure seen."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from scripts import run_tests, trials

PROGRAMS = {
    "ends": "import sys\nprint('ended with', sys.argv[1:])\n",
    "fails": "print('failed')\nraise SystemExit(3)\n",
    "writes": "import os\nprint(os.environ.get('PYTHONDONTWRITEBYTECODE', 'kept'))\n",
}


@pytest.fixture(autouse=True)
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules to run instead of the real tools."""
    for name, source in PROGRAMS.items():
        (tmp_path / f"{name}.py").write_text(source, encoding="utf-8")
    for runner in (run_tests, trials):
        monkeypatch.setattr(runner, "ROOT", tmp_path)
    run(monkeypatch, static="ends", tests="ends")


def run(monkeypatch: pytest.MonkeyPatch, *, static: str, tests: str) -> None:
    monkeypatch.setattr(run_tests, "STATIC", f"{sys.executable} -m {static}")
    monkeypatch.setattr(run_tests, "PYTEST", (sys.executable, "-m", tests))


def test_checks_are_told_after_the_tests_and_all_is_summed_up(capfd: pytest.CaptureFixture[str]) -> None:
    assert run_tests.main([]) == 0
    told = capfd.readouterr().out
    assert told.index("ended with ['-m'") < told.index("### static\nended with []")
    assert "tests: ok\nstatic: ok\n" in told


def test_parts_that_are_named_are_run_alone_and_together(capfd: pytest.CaptureFixture[str]) -> None:
    assert run_tests.main(["browser", "labelstudio"]) == 0
    told = capfd.readouterr().out
    assert "'(browser and not labelstudio) or (labelstudio)'" in told
    assert "static" not in told


@pytest.mark.parametrize(("static", "tests"), [("fails", "ends"), ("ends", "fails")])
def test_part_that_fails_gives_the_exit_code_and_the_rest_runs(
    static: str, tests: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    run(monkeypatch, static=static, tests=tests)
    assert run_tests.main([]) == 3
    told = capfd.readouterr().out
    assert "FAILED (exit code 3)" in told
    assert ": ok" in told
    assert "ended with" in told


def test_compiled_files_are_kept_whatever_the_environment_says(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    run(monkeypatch, static="writes", tests="writes")
    run_tests.main([])
    assert capfd.readouterr().out.count("kept") == 2


def test_part_or_trial_that_is_unknown_is_refused_with_those_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_tests.main(["units"]) == 2
    assert "unknown part units; the parts are static, unit" in capsys.readouterr().err
    assert trials.main(["fuss"]) == 2
    assert "unknown trial fuss; the trials are simulation, fuzz" in capsys.readouterr().err


def test_trial_gets_its_arguments_and_all_run_though_one_fails(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(trials, "TRIALS", {"faults": ("fails",), "fuzz": ("ends",)})
    assert trials.main(["fuzz", "--inputs", "9"]) == 0
    assert "ended with ['--inputs', '9']" in capfd.readouterr().out
    assert trials.main([]) == 3
    assert "faults: exit code 3\nfuzz: ok\n" in capfd.readouterr().out
