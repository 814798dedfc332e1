"""The runner of checks and tests: parts in their order, some beside others, every failure seen."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import run_tests
from scripts.run_tests import Part, main, run_all

PROGRAMS = {
    "waits": "import pathlib, time\nwhile not pathlib.Path('done').exists(): time.sleep(0.01)\nprint('went on')\n",
    "ends": "import pathlib\npathlib.Path('done').touch()\nprint('ended')\n",
    "looks": "import pathlib, time\ntime.sleep(0.2)\nprint(pathlib.Path('done').exists())\n",
    "fails": "print('failed')\nraise SystemExit(3)\n",
    "never": "raise SystemExit('ran after a failure')\n",
    "writes": "import os\nprint(os.environ.get('PYTHONDONTWRITEBYTECODE', 'kept'))\n",
}


@pytest.fixture(autouse=True)
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules to run instead of the real tools."""
    for name, source in PROGRAMS.items():
        (tmp_path / f"{name}.py").write_text(source, encoding="utf-8")
    monkeypatch.setattr(run_tests, "ROOT", tmp_path)


def test_part_beside_others_runs_while_they_do_and_is_told_in_its_place() -> None:
    """The first part ends only after the second has run."""
    parts = [Part("static", (("waits",),), beside="unit"), Part("unit", (("ends",),))]
    assert [(found.part.name, found.code, found.closing) for found in run_all(parts)] == [
        ("static", 0, "went on"),
        ("unit", 0, "ended"),
    ]


def test_part_beside_a_later_one_waits_for_it_and_is_printed_at_its_end(capsys: pytest.CaptureFixture[str]) -> None:
    """Were the last part started with the first, it would end before it: what that waits for would be there."""
    parts = [
        Part("unit", (("looks",),)),
        Part("postgres", (("waits",),)),
        Part("browser", (("ends",),), beside="postgres"),
    ]
    assert [(found.part.name, found.closing) for found in run_all(parts)] == [
        ("unit", "False"),
        ("postgres", "went on"),
        ("browser", "ended"),
    ]
    assert "### browser: ends\nended\n" in capsys.readouterr().out


def test_part_beside_one_that_is_not_run_is_run_all_the_same() -> None:
    assert run_all([Part("browser", (("ends",),), beside="postgres")])[0].closing == "ended"


@pytest.mark.parametrize("beside", [None, "unit"])
def test_part_that_fails_stops_there_and_gives_the_exit_code(
    beside: str | None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    parts = (Part("static", (("fails",), ("never",)), beside), Part("unit", (("ends",),)))
    monkeypatch.setattr(run_tests, "PARTS", parts)
    assert main([]) == 3
    told = capsys.readouterr().out
    assert "ran after a failure" not in told
    assert "FAILED (exit code 3): failed" in told
    assert "ok: ended" in told


def test_compiled_files_are_kept_whatever_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    assert run_all([Part("unit", (("writes",),))])[0].closing == "kept"


def test_part_that_is_unknown_is_refused_with_those_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["units"]) == 2
    assert "unknown part units; the parts are static, unit" in capsys.readouterr().err
