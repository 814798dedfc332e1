"""docs/results.md and its figures, from stored cells only."""

from __future__ import annotations

import os
import platform
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from benchmarks.evidence import plan, sections_paper, sections_peers, sections_trust
from benchmarks.evidence.cells import Store
from benchmarks.evidence.figures import draw_all
from benchmarks.evidence.markdown import paragraph, table
from benchmarks.evidence.summary import Evidence
from benchmarks.evidence.verdicts import verdicts

TRIED = Path(__file__).with_name("tried.md")
PACKAGES = ("numpy", "scipy", "statsmodels", "crowd-kit", "knockpy", "choix", "scikit-learn")


def write(store: Store, size: plan.Size, out: Path) -> Path:
    """Write the document and its figures; return the document's path."""
    evidence = Evidence(store, size)
    drawn = draw_all(evidence, out / "images" / "results")
    path = out / "results.md"
    path.write_text(document(evidence, drawn), encoding="utf-8")
    return path


def document(evidence: Evidence, drawn: list[str]) -> str:
    """Build the whole text; figures that could not be drawn are left out."""
    parts = [
        "# Results",
        *_opening(evidence),
        *_headline(evidence),
        *sections_peers.in_short(evidence),
        *sections_paper.study(evidence),
        *sections_paper.worldcollege(evidence),
        *sections_paper.others(evidence),
        *sections_peers.quality(evidence),
        *sections_peers.oracle_gap(evidence),
        *sections_peers.audit(evidence),
        *sections_peers.speed(evidence),
        *sections_trust.repetition(evidence),
        *sections_trust.ranking(evidence),
        *sections_trust.seeds(evidence),
        "## What was tried",
        TRIED.read_text(encoding="utf-8").strip(),
    ]
    kept = [part for part in parts if part and not _lacks_figure(part, drawn)]
    return "\n\n".join(kept) + "\n"


def _lacks_figure(part: str, drawn: list[str]) -> bool:
    return part.startswith("![") and not any(f"images/results/{name}" in part for name in drawn)


def _opening(evidence: Evidence) -> list[str]:
    size = evidence.size
    command = "make evidence" if size.name == "full" else f"make evidence-{size.name}"
    dates = sorted(set(evidence.dates)) or [time.strftime("%Y-%m-%d")]
    when = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    notes = []
    if evidence.missing:
        notes.append(f'{len(evidence.missing)} cells were not computed and read "not run".')
    if evidence.stale:
        notes.append(f"{len(evidence.stale)} cells come from an earlier state of the code.")
    return [
        paragraph(
            f"Everything here is written by `{command}` (`python -m benchmarks.evidence"
            f'{"" if size.name == "full" else " --quick"}`) from seeds; nothing is typed by hand except "What was '
            f'tried". Computed {when} on {os.cpu_count()} cores, Python {platform.python_version()}, {_versions()}; '
            f"{evidence.seconds / 60:.0f} minutes of work for one core.",
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


def _headline(evidence: Evidence) -> list[str]:
    rows = [[verdict.claim, verdict.seen or "", f"**{verdict.word}**"] for verdict in verdicts(evidence)]
    return ["## What must be seen", table(("claim", "seen", "verdict"), rows)]
