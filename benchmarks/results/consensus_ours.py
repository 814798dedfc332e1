"""Evenhand's rankings on the crowds of the consensus table."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.results.consensus import crowd, note
from benchmarks.results.quality import reported
from fdr_core.answer_table import AnswerTable
from fdr_core.consensus.ranking import ranking
from fdr_core.detection import detect
from harness.scenarios import Q, generator


def ours(share: float, shared: bool, runs: int) -> dict[str, Any]:
    """The consensus with a lean for the flagged, the same without, and the paper's least squares."""
    measured: dict[str, Any] = {name: {"tau": [], "top": []} for name in ("logistic", "raw", "squares")}
    for run in range(runs):
        truth = crowd(share, shared, rng=generator(*reported(run)))
        table = AnswerTable.of(truth.comparisons)
        flagged = np.flatnonzero(np.isin(table.annotators, detect(truth.comparisons, q=Q, lbi=None).flagged))
        logistic = ranking(table.answers, table.sums, flagged)
        note(measured["logistic"], truth.theta, logistic.theta)
        note(measured["raw"], truth.theta, logistic.raw)
        squares = ranking(table.answers, table.sums, flagged, method="least squares")
        note(measured["squares"], truth.theta, squares.theta)
    return {"runs": runs, "methods": measured}
