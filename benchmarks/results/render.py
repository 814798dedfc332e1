"""The appendix, docs/results/: a page per question and its figures, from stored cells only."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from benchmarks.results import plan, sections_paper, sections_peers, sections_trust
from benchmarks.results.cells import Store
from benchmarks.results.figures import draw_all
from benchmarks.results.markdown import paragraph, table
from benchmarks.results.summary import Results

TRIED = Path(__file__).with_name("tried.md")
PACKAGES = ("numpy", "scipy", "statsmodels", "crowd-kit", "knockpy", "choix", "evalica", "scikit-learn")
Section = Callable[[Results], list[str]]
PAGES: dict[str, tuple[str, tuple[Section, ...]]] = {
    "paper": ("Do the paper's figures come out again?", (sections_paper.study, sections_paper.sets)),
    "real": ("What is found in other real data?", (sections_paper.others,)),
    "crowds": ("Every crowd, every method", (sections_peers.breakers, sections_peers.quality)),
    "lasting": ("What holds over many runs?", (sections_trust.repetition,)),
    "ranking": ("How good is the ranking?", (sections_trust.ranking,)),
    "speed": ("How fast is it?", (sections_peers.speed,)),
    "choices": ("What was chosen, and what was tried?", (lambda results: _choices(),)),
}


def write(store: Store, size: plan.Size, out: Path) -> Path:
    """Write the pages and their figures; return their folder."""
    results = Results(store, size)
    drawn = draw_all(results, out / "images" / "results")
    folder = out / "results"
    folder.mkdir(parents=True, exist_ok=True)
    for name, (title, sections) in PAGES.items():
        parts = [f"# {title}", _age(results), *(part for section in sections for part in section(results))]
        kept = [part.replace("](images/", "](../images/") for part in parts if part and not _lacks_figure(part, drawn)]
        (folder / f"{name}.md").write_text("\n\n".join(kept) + "\n", encoding="utf-8")
    return folder


def _lacks_figure(part: str, drawn: list[str]) -> bool:
    return part.startswith("![") and not any(f"images/results/{name}" in part for name in drawn)


def _age(results: Results) -> str:
    dates = sorted(set(results.dates))
    notes = [f"Computed {dates[0]} to {dates[-1]} on {os.cpu_count()} cores, {_versions()}."] if dates else []
    if results.missing:
        notes.append(f'{len(results.missing)} cells were not computed and read "not run".')
    if results.stale:
        notes.append(f"**{len(results.stale)} cells come from an earlier state of the code.**")
    return paragraph(
        "Part of the appendix to [the results](../results.md), written by `make results` from seeds.", *notes
    )


def _versions() -> str:
    found = [f"Python {platform.python_version()}"]
    for name in PACKAGES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            found.append(f"{name} absent")
    return ", ".join(found)


def _choices() -> list[str]:
    tuning, report, tuned = (plan.SETTLED[name] for name in ("tuning", "report", "tuned"))
    total = sum(row["settings"] for row in tuned)
    return [
        paragraph(
            "The numbers of data sets and their seeds stand in `benchmarks/results/plan.toml`, committed before the "
            f"run. Settings are compared on data sets {tuning['first']} to {tuning['last']}; the tables report on "
            f"{report['first']:,} to {report['last']:,} only. At least {total} settings were tried in all:"
        ),
        table(("choice", "settings tried, at least"), [[row["choice"], str(row["settings"])] for row in tuned]),
        "## What was tried",
        TRIED.read_text(encoding="utf-8").strip(),
    ]
