"""The data sets of the paper's simulated study judged by the exact list."""

from __future__ import annotations

from typing import Any

from benchmarks.results.paper_tables import note, study_generator
from fdr_core.detection import detect
from fdr_core.simulate import paper_study
from harness.scenarios import Q


def exact_cell(p1: float, p2: float, runs: int) -> dict[str, Any]:
    """The same data sets as the paper's paths see."""
    measured: dict[str, list[float]] = {"fdp": [], "found": []}
    for run in range(runs):
        truth = paper_study(p1, p2, rng=study_generator(run, p1, p2))
        note(measured, truth, detect(truth.comparisons, q=Q, lbi=None).flagged)
    return {"runs": runs, "methods": {"exact": measured}}
