"""What is shipped: lock files that any index can serve, and a wheel that works away from this folder."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
import urllib.request
import venv
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from fdr_core._version import __version__
from harness.opened import token_header
from harness.serving import serving
from scripts import release_notes

ROOT = Path(__file__).resolve().parent.parent
LOCKS = ("requirements.lock", "requirements-dev.lock", "requirements-label-studio.lock")
SOURCES = ("pyproject.toml", "README.md", "LICENSE", "fdr_core", "backend")


def locked(name: str) -> dict[str, str]:
    """Return the versions that a lock file names."""
    text = (ROOT / name).read_text(encoding="utf-8")
    return {
        normal(package): version for package, version in re.findall(r"^([\w.-]+)(?:\[[\w,]+\])?==(\S+)", text, re.M)
    }


def normal(package: str) -> str:
    return re.sub(r"[-_.]+", "-", package).lower()


@pytest.mark.parametrize("name", LOCKS)
def test_lock_file_holds_hashes_and_no_addresses(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    entries = re.split(r"^(?=\S+==)", text, flags=re.M)[1:]
    assert len(entries) > 30
    assert [entry.split()[0] for entry in entries if "--hash=sha256:" not in entry] == []
    assert re.findall(r"\w+://\S+|^--\S*(?:index|find-links)\S*", text, re.M) == []


def test_lock_file_for_development_agrees_with_the_one_for_running() -> None:
    run, dev = locked("requirements.lock"), locked("requirements-dev.lock")
    assert {name: dev.get(name) for name in run} == run


def test_lock_file_for_running_holds_every_declared_dependency() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [
        entry for extra in ("server", "files", "paper", "sdk") for entry in project["optional-dependencies"][extra]
    ]
    declared = [*project["dependencies"], *extras, "label-studio-ml"]
    names = {normal(match.group()) for match in (re.match(r"[\w.-]+", entry) for entry in declared) if match}
    assert names - set(locked("requirements.lock")) == set()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel as `make dist` does, from a copy, so that nothing is written into the project."""
    folder = tmp_path_factory.mktemp("dist")
    source = folder / "source"
    source.mkdir()
    for name in SOURCES:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy2
        copy(ROOT / name, source / name)
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(source)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    (built,) = folder.glob("*.whl")
    assert len(list(folder.glob("*.tar.gz"))) == 1
    return built


@pytest.fixture(scope="module")
def elsewhere(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel into an empty environment that borrows only the locked dependencies; return its bin folder."""
    folder = tmp_path_factory.mktemp("elsewhere") / "venv"
    venv.create(folder, with_pip=False, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    dependencies = next(path for path in sys.path if path.endswith("site-packages"))
    (packages / "dependencies.pth").write_text(dependencies + "\n")
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "install", "--quiet"]
    subprocess.run(
        [*pip, "--no-deps", "--no-index", "--ignore-installed", str(wheel)], check=True, env=clean_environment()
    )
    return folder / "bin"


def clean_environment(**settings: str) -> dict[str, str]:
    """Return an environment in which this folder plays no part."""
    kept = {name: value for name, value in os.environ.items() if name in {"PATH", "LANG", "TMPDIR"}}
    return {**kept, "PIP_DISABLE_PIP_VERSION_CHECK": "1", **settings}


@pytest.mark.slow
def test_wheel_holds_every_asset_of_the_source(wheel: Path) -> None:
    shipped = set(zipfile.ZipFile(wheel).namelist())
    service = ("store/migrations", "web/templates", "web/static")
    folders = ("fdr_core/report/templates", *(f"backend/evenhand/{folder}" for folder in service))
    expected = {
        path.relative_to(ROOT).as_posix().removeprefix("backend/")
        for folder in folders
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    } | {"fdr_core/py.typed", "evenhand/py.typed"}
    assert expected - shipped == set()
    assert [name for name in shipped if name.startswith(("tests", "scripts", "docker"))] == []


@pytest.mark.slow
def test_wheel_installed_elsewhere_starts_its_program(elsewhere: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [str(elsewhere / "evenhand"), "--help"], cwd=tmp_path, env=clean_environment(), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "serve" in done.stdout
    where = [str(elsewhere / "python"), "-c", "import evenhand, fdr_core; print(evenhand.__file__, fdr_core.__file__)"]
    found = subprocess.run(where, cwd=tmp_path, env=clean_environment(), capture_output=True, text=True, check=True)
    assert all(path.startswith(str(elsewhere.parent)) for path in found.stdout.split())


@pytest.mark.slow
def test_wheel_installed_elsewhere_serves_the_dashboard_with_its_assets(elsewhere: Path, tmp_path: Path) -> None:
    with installed_service(elsewhere, tmp_path) as address:
        headers = {"Accept": "text/html", **token_header(tmp_path / "data")}
        page = fetch(f"{address}/ui/", headers)
        assets = sorted(set(re.findall(r'(?:href|src)="(/[^"]+\.(?:css|js|svg|png|ico|woff2))[^"]*"', page)))
        assert any(asset.endswith(".css") for asset in assets), page[:500]
        for asset in assets:
            assert fetch(address + asset, headers), asset


@contextmanager
def installed_service(programs: Path, folder: Path) -> Iterator[str]:
    """Run `evenhand serve` in an empty folder until the block ends."""
    environment = clean_environment(MODEL_DIR=str(folder / "data"))
    command = [str(programs / "evenhand"), "serve"]
    with serving(command, folder=folder, environment=environment, log=folder / "log") as (_, address):
        yield address


def fetch(address: str, headers: dict[str, str]) -> str:
    with urllib.request.urlopen(urllib.request.Request(address, headers=headers), timeout=120) as answer:
        body: bytes = answer.read()
        return body.decode("utf-8", "replace")


@pytest.mark.slow
def test_label_studio_ml_from_the_lock_file_imports(tmp_path: Path) -> None:
    """The package does not import as plain pip installs it; with the lock file's versions it does."""
    code = "import label_studio_ml.api, label_studio_ml.model; print(label_studio_ml.model.LabelStudioMLBase.__name__)"
    command = [sys.executable, "-W", "ignore", "-c", code]
    done = subprocess.run(
        command, cwd=tmp_path, env=clean_environment(HOME=str(tmp_path)), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["LabelStudioMLBase"]


@pytest.mark.slow
def test_wheel_leaves_a_repository_with_its_own_backend_package_alone(elsewhere: Path, tmp_path: Path) -> None:
    (tmp_path / "backend").mkdir()
    (tmp_path / "backend" / "__init__.py").write_text("ANSWER = 42\n")
    (tmp_path / "test_own.py").write_text(
        "from backend import ANSWER\n\n"
        "def test_own(request):\n    assert ANSWER == 42\n"
        "    assert not [name for name in request.fixturenames if 'evenhand' in name]\n\n"
        "def test_gate_is_off(pytestconfig):\n"
        "    plugins = [name for name, found in pytestconfig.pluginmanager.list_name_plugin() if found]\n"
        "    assert not [name for name in plugins if 'evenhand' in name or 'fdr_core' in name]\n"
    )
    # The dependencies are borrowed from an environment whose own plugins are not in question here.
    command = [str(elsewhere / "python"), "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:evenhand"]
    environment = clean_environment()
    own = subprocess.run([*command, "test_own.py"], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert "2 passed" in own.stdout, own.stdout + own.stderr
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["fdr_core.judges.pytest_gate"]\n')
    (tmp_path / "test_gate.py").write_text("def test_gate(evenhand_gate):\n    assert callable(evenhand_gate)\n")
    gate = subprocess.run([*command, "test_gate.py"], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert "1 passed" in gate.stdout, gate.stdout + gate.stderr


def test_wheel_declares_a_program_and_nothing_that_others_load() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["scripts"] == {"evenhand": "evenhand.cli:main"}
    assert "entry-points" not in project


def test_release_needs_nothing_but_a_tag() -> None:
    """The workflow's own files exist, and the recipe for conda names the versions that the package names."""
    workflow = (ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8")
    for script in re.findall(r"scripts/\w+\.\w+", workflow):
        assert os.access(ROOT / script, os.X_OK), script
    assert "secrets." not in workflow
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    recipe = yaml.safe_load((ROOT / "conda" / "recipe.yaml").read_text(encoding="utf-8"))
    assert [entry.replace(" ", "") for entry in recipe["requirements"]["run"][1:]] == project["dependencies"]
    assert recipe["context"]["version"] == __version__


def test_release_notes_are_the_part_of_the_changelog_on_the_version() -> None:
    changelog = "# Changelog\n\n## [Unreleased]\n\n## [0.2.0] - 2026-12-01\n### Added\n- This.\n\n## [0.1.0]\n- That.\n"
    assert release_notes.notes("0.2.0", changelog, '__version__ = "0.2.0"\n') == "### Added\n- This.\n"
    with pytest.raises(SystemExit, match=r"the tag is 0\.3\.0.*says 0\.2\.0"):
        release_notes.notes("0.3.0", changelog, '__version__ = "0.2.0"\n')
    with pytest.raises(SystemExit, match=r"no part \[0\.3\.0\]"):
        release_notes.notes("0.3.0", changelog, '__version__ = "0.3.0"\n')


@pytest.mark.slow
def test_action_judges_a_mapped_parquet_log_with_the_wheel_alone(elsewhere: Path, tmp_path: Path) -> None:
    """The script of the action, in an environment that holds the wheel and the locked dependencies only."""
    rng = np.random.default_rng(0)
    first, second = np.array([rng.choice(12, size=2, replace=False) for _ in range(400)]).T
    said = np.where(rng.random(400) < 0.8, "A", "B")
    log = pd.DataFrame({"model": "gpt-x", "one": first, "two": second, "said": said, "flip": np.arange(400)})
    log.to_parquet(tmp_path / "log.parquet")
    (tmp_path / "evenhand").symlink_to(elsewhere.parent)
    given = {
        "LOG": "log.parquet", "JUDGE": "gpt-x", "MAX_LEAN": "0.1", "ALPHA": "0.05", "BASELINE": "", "ANYTIME": "false",
        "UNDECIDED": "fail", "JUNIT": "gate.xml", "BADGE": "badge.svg", "FORMAT": "auto", "SIDES": "audit",
        "MAP": "annotator=model left=one\nright=two choice=said coin=flip", "RUNNER_TEMP": str(tmp_path),
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"), "GITHUB_OUTPUT": str(tmp_path / "output"),
    }  # fmt: skip
    script = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))["runs"]["steps"][-1]["run"]
    done = subprocess.run(
        ["bash", "-e", "-c", script], env=clean_environment(**given), capture_output=True, text=True, cwd=tmp_path
    )
    assert (done.returncode, "outcome=fail" in (tmp_path / "output").read_text()) == (1, True), done.stderr
    assert "| gpt-x | \u274c fail |" in (tmp_path / "summary.md").read_text(encoding="utf-8")
    assert "position lean: fail" in (tmp_path / "badge.svg").read_text(encoding="utf-8")
