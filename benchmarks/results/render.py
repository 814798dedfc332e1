"""docs/results.md and its figures, from stored cells only."""

from __future__ import annotations

import os
import platform
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from benchmarks.results import plan, sections_paper, sections_peers, sections_questions, sections_trust
from benchmarks.results.cells import Store
from benchmarks.results.figures import draw_all
from benchmarks.results.markdown import paragraph
from benchmarks.results.summary import Results

TRIED = Path(__file__).with_name("tried.md")
PACKAGES = ("numpy", "scipy", "statsmodels", "crowd-kit", "knockpy", "choix", "evalica", "scikit-learn")


def write(store: Store, size: plan.Size, out: Path) -> Path:
    """Write the document and its figures; return the document's path."""
    results = Results(store, size)
    drawn = draw_all(results, out / "images" / "results")
    path = out / "results.md"
    path.write_text(document(results, drawn), encoding="utf-8")
    return path


def document(results: Results, drawn: list[str]) -> str:
    """Build the whole text; figures that could not be drawn are left out."""
    parts = [
        "# Results",
        *_opening(results),
        *sections_questions.questions(results),
        *sections_paper.study(results),
        *sections_paper.sets(results),
        *sections_paper.others(results),
        *sections_trust.orders(results),
        *sections_peers.breakers(results),
        *sections_peers.quality(results),
        *sections_trust.repetition(results),
        *sections_trust.ranking(results),
        *sections_peers.speed(results),
        "## What was tried",
        TRIED.read_text(encoding="utf-8").strip(),
    ]
    kept = [part for part in parts if part and not _lacks_figure(part, drawn)]
    return "\n\n".join(kept) + "\n"


def _lacks_figure(part: str, drawn: list[str]) -> bool:
    return part.startswith("![") and not any(f"images/results/{name}" in part for name in drawn)


def _opening(results: Results) -> list[str]:
    size = results.size
    command = "make results" if size.name == "full" else f"make results-{size.name}"
    dates = sorted(set(results.dates)) or [time.strftime("%Y-%m-%d")]
    when = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    notes = []
    if size.name == "quick":
        notes.append(
            f'**This is the quick run: a few data sets each, so that most claims read "too few runs".** '
            f"`make results` computes all of it in at most {plan.FULL.minutes:.0f} minutes on two quiet cores, "
            "in parts if "
            "it is interrupted."
        )
    if results.missing:
        notes.append(f'{len(results.missing)} cells were not computed and read "not run".')
    if results.stale:
        notes.append(f"{len(results.stale)} cells come from an earlier state of the code.")
    return [
        paragraph(
            f"Everything here is written by `{command}` (`python -m benchmarks.results"
            f'{"" if size.name == "full" else " --quick"}`) from seeds; nothing is typed by hand except "What was '
            f'tried". Computed {when} on {os.cpu_count()} cores, Python {platform.python_version()}, {_versions()}; '
            f"{results.seconds / 60:.0f} minutes of processor time.",
            "Real data is read from the folder that `EVENHAND_DATA` names.",
            *notes,
        )
    ]


def _versions() -> str:
    found = []
    for name in PACKAGES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            found.append(f"{name} absent")
    return ", ".join(found)
