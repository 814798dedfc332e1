"""Evenhand's rankings on the crowds of the consensus table."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.evidence.consensus import crowd, note
from benchmarks.evidence.scenarios import Q, generator
from fdr_core.comparisons import Comparisons
from fdr_core.detection import detect

Floats = NDArray[np.float64]


def ours(share: float, shared: bool, runs: int) -> dict[str, Any]:
    """Raw least squares, corrected for the flagged, and without the flagged annotators' answers."""
    measured: dict[str, Any] = {name: {"tau": [], "top": []} for name in ("raw", "corrected", "dropped")}
    for run in range(runs):
        truth = crowd(share, shared, rng=generator(run))
        result = detect(truth.comparisons, q=Q, seed=run)
        table = result.ranking.set_index("item").loc[truth.comparisons.items]
        note(measured["raw"], truth.theta, table["raw_score"].to_numpy())
        note(measured["corrected"], truth.theta, table["score"].to_numpy())
        note(measured["dropped"], truth.theta, _without(truth.comparisons, result.flagged))
    return {"runs": runs, "methods": measured}


def _without(comparisons: Comparisons, flagged: list[Any]) -> Floats:
    """Least-squares scores without the answers of the flagged."""
    kept = ~np.isin(comparisons.annotators[comparisons.annotator], flagged)
    left, right, y = comparisons.left[kept], comparisons.right[kept], comparisons.outcome[kept]
    n = comparisons.n_items
    L, pull = np.zeros((n, n)), np.zeros(n)
    for one, other in ((left, right), (right, left)):
        np.add.at(L, (one, one), 1.0)
        np.add.at(L, (one, other), -1.0)
    np.add.at(pull, left, y)
    np.subtract.at(pull, right, y)
    return np.asarray(np.linalg.lstsq(L, pull, rcond=None)[0])
