"""The documentation site: builds without a warning, loads nothing from elsewhere, and all it shows has been run."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from fdr_core.commands.doctor import doctor
from fdr_core.inputs.registry import FORMATS

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))
#: A fence, with the marker that says why it is not run, where there is one.
FENCE = re.compile(r"(?:<!-- not run: (?P<reason>[^\n]+?) -->\n[ ]*)?```(?P<language>\w+)\n(?P<code>.*?)```", re.DOTALL)
RUN = ("sh", "python")


@dataclass(frozen=True)
class Block:
    language: str
    code: str
    reason: str


def blocks(page: Path) -> Iterator[Block]:
    for found in FENCE.finditer(page.read_text(encoding="utf-8")):
        if found["language"] in RUN:
            yield Block(found["language"], found["code"], found["reason"] or "")


def environment() -> dict[str, str]:
    return {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "COLUMNS": "120",
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", [page for page in PAGES if any(not block.reason for block in blocks(page))], ids=lambda page: page.stem
)
def test_blocks_of_a_page_run_in_order_as_a_reader_would_run_them(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for block in blocks(page):
        if block.reason:
            continue
        if block.language == "python":
            exec(compile(block.code, f"{page.name}", "exec"), names)
            continue
        done = subprocess.run(["bash", "-e", "-c", block.code], env=environment(), capture_output=True, text=True)
        assert done.returncode == 0, f"{block.code}\n{done.stdout[-1000:]}{done.stderr[-2000:]}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_blocks_that_are_not_run_say_why(page: Path) -> None:
    assert all(len(block.reason) > 10 for block in blocks(page) if block.reason)


@pytest.mark.slow
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs_from_top_to_bottom(notebook: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    document = json.loads(notebook.read_text(encoding="utf-8"))
    names: dict[str, Any] = {}
    for number, cell in enumerate(document["cells"]):
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), f"{notebook.name}, cell {number}", "exec"), names)


def test_notebooks_are_two_and_store_no_outputs() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["llm_judges", "people"]
    cells = [cell for path in NOTEBOOKS for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]]
    assert all(not cell.get("outputs") for cell in cells)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site; every warning is an error."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, env={**environment(), "NO_MKDOCS_2_WARNING": "1"}
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return folder


@pytest.mark.slow
def test_site_builds_strictly_and_loads_nothing_from_other_hosts(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) >= len(PAGES)
    for page in pages:
        loaded = re.findall(
            r"<(?:script|link|img|iframe)\b[^>]*?(?:src|href)=\"?((?:https?:)?//[^\"\s>]+)", page.read_text()
        )
        assert [address for address in loaded if "rel=canonical" not in address] == [], page.name


@pytest.mark.slow
def test_site_reference_documents_the_public_functions(site: Path) -> None:
    text = (site / "api.html").read_text(encoding="utf-8")
    for name in (
        "fdr_core.judges.gate.gate",
        "fdr_core.detection.detect",
        "fdr_core.judges.record.Recorder",
        "from_file",
    ):
        assert name in text


def test_site_navigation_has_every_page() -> None:
    nav = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    assert {page.relative_to(DOCS).as_posix() for page in PAGES} == set(_targets(nav))


def _targets(entry: Any) -> Iterator[str]:
    if isinstance(entry, str):
        yield entry
    for inner in entry.values() if isinstance(entry, dict) else entry if isinstance(entry, list) else ():
        yield from _targets(inner)


def test_formats_are_listed_with_whether_they_are_read() -> None:
    listed = CliRunner().invoke(doctor, ["--formats"]).output.splitlines()
    assert [line.partition(":")[0] for line in listed] == list(FORMATS)
    assert ["(refused)" in line for line in listed] == [bool(one.refusal) for one in FORMATS.values()]
    assert "evenhand doctor --formats" in (ROOT / "docs" / "formats.md").read_text(encoding="utf-8")
