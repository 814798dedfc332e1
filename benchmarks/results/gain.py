"""What a lead gains: the reward that is trained, the ranking, and the answers that are asked for again."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit
from scipy.stats import kendalltau

from benchmarks.preferences import Cell, accuracies
from benchmarks.preferences import crowd as voters
from benchmarks.results.consensus import crowd
from benchmarks.results.quality import reported
from fdr_core.detection import detect
from fdr_core.relabel import LIKELY, decided_by_lean
from harness.scenarios import Q, generator

VOTES = 3


def reward(share: float, runs: int) -> dict[str, Any]:
    """Held-out accuracy of a Bradley-Terry reward on three votes a pair: all votes, minus the flagged, our export."""
    cell = Cell("", VOTES, share)
    found = []
    for run in range(runs):
        rng = generator(*reported(run), round(100 * share))
        found.append([round(value, 4) for value in accuracies(*voters(cell, rng), rng)])
    return {"runs": runs, "all": [row[0] for row in found], "export": [row[2] for row in found]}


def ranking(share: float, runs: int) -> dict[str, Any]:
    """Kendall's tau with the true order, before and after, and the share of answers that a lean can have decided."""
    measured: dict[str, list[float]] = {"before": [], "after": [], "again": []}
    for run in range(runs):
        truth = crowd(share, shared=False, rng=generator(*reported(run)))
        result = detect(truth.comparisons, q=Q, lbi=None)
        table = result.ranking.set_index("item").loc[truth.comparisons.items.tolist()]
        for name, column in (("before", "raw_score"), ("after", "score")):
            measured[name].append(round(float(kendalltau(truth.theta, table[column]).statistic), 4))
        score, c = table["score"].to_numpy(), truth.comparisons
        lean = result.annotators.set_index("annotator").loc[c.annotators.tolist(), "bias"].to_numpy()
        lean = np.where(np.isin(c.annotators, result.flagged), lean, 0.0)[c.annotator]
        expected = 2 * expit(score[c.left] - score[c.right]) - 1
        measured["again"].append(round(float((decided_by_lean(c.outcome, expected, lean) >= LIKELY).mean()), 4))
    return {"runs": runs, **measured}
