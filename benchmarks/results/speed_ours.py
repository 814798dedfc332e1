"""The cases of ours whose speed is measured."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.results import speed
from fdr_core import KnockoffLBI
from fdr_core.comparisons import Comparisons
from fdr_core.detection import detect
from fdr_core.paper.copies import FixedKnockoffs
from fdr_core.paper.draws import CUTS, loss_limit, race_results, select
from fdr_core.paper.paths import Races, follow
from fdr_core.projection import fixed_design
from fdr_core.statistics import SufficientStatistics
from harness.scenarios import Q


def exact(comparisons: Comparisons, seed: int, k: int) -> Any:
    """The exact decision as it comes: audit, tests, list, consensus, evidence per annotator."""
    return detect(comparisons, q=Q, lbi=None)


def lbi(comparisons: Comparisons, seed: int, k: int) -> Any:
    """Knockoff LBI's list beside it: the default number of draws, no limit of time."""
    return detect(comparisons, q=Q, lbi=KnockoffLBI(seed=seed, seconds=None))


def paper_draw(comparisons: Comparisons, seed: int, k: int) -> Any:
    """What a knockoff package does: one draw of the paper's knockoffs, LASSO path, knockoff+; from statistics."""
    sums = SufficientStatistics.from_comparisons(comparisons).sums
    m = len(sums.counts)
    problem = FixedKnockoffs(fixed_design(sums, np.arange(m))).draw(np.random.default_rng(seed))
    limit = loss_limit(m, Q, CUTS["knockoff+"], 1)
    races = Races(problem, close=False, limit=limit, rng=np.random.default_rng(1))
    entry = follow(problem, "lasso", races=races).entry
    return select(*race_results(entry, m), q=Q, offset=CUTS["knockoff+"], copies=1)


CASES: dict[str, Callable[..., Any]] = {
    "exact": exact,
    "lbi": lbi,
    "paper-draw": paper_draw,
}


def measure(method: str, shape: list[int], limit: float) -> dict[str, Any]:
    """Measure one of these cases; a cell of its own kind, so that only these depend on the detection's code."""
    return speed.measure(f"{__name__}:{CASES[method].__name__}", shape, limit)
