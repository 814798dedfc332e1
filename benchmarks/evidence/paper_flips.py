"""The data sets of the paper's simulated study judged by flips."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from benchmarks.evidence.paper_tables import note, study_generator
from benchmarks.evidence.scenarios import Q
from fdr_core.detection import detect
from fdr_core.simulate import paper_study


def flips_cell(p1: float, p2: float, runs: int, default_runs: int) -> dict[str, Any]:
    """The same data sets judged by one draw of flips, and by Evenhand's default."""
    measured: dict[str, Any] = defaultdict(lambda: {"fdp": [], "found": []})
    for run in range(runs):
        truth = paper_study(p1, p2, rng=study_generator(run, p1, p2))
        single = detect(truth.comparisons, q=Q, seed=run, method="flip", draws=1, min_bias=0.0)
        note(measured["flip"], truth, single.flagged)
        if run < default_runs:
            note(measured["evenhand"], truth, detect(truth.comparisons, q=Q, seed=run).flagged)
    return {"runs": runs, "default_runs": default_runs, "methods": dict(measured)}
