"""The paper's simulated study (section 3.1): FDR and true finds of ISS, LBI and LASSO under both cuts."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
from numpy.random import Generator

from benchmarks.evidence.scenarios import Q, generator
from fdr_core.knockoffs.paper import FixedKnockoffs, fixed_design
from fdr_core.paths import Races, follow
from fdr_core.selection import CUTS, loss_limit, race_results, select
from fdr_core.simulate import Simulated, paper_study
from fdr_core.statistics import SufficientStatistics

PATHS = ("iss", "lbi", "lasso")
ERRORS = (0.1, 0.2, 0.3, 0.4)
CLICKS = (0.4, 0.5, 0.6, 0.7)


def paper_cell(p1: float, p2: float, runs: int) -> dict[str, Any]:
    """One cell of Tables 1 and 2: one knockoff draw per data set, shared by three paths and two cuts."""
    measured: dict[str, Any] = defaultdict(lambda: {"fdp": [], "found": []})
    for run in range(runs):
        truth = paper_study(p1, p2, rng=study_generator(run, p1, p2))
        for name, flagged in _papers_lists(truth, run).items():
            note(measured[name], truth, flagged)
    return {"runs": runs, "methods": dict(measured)}


def study_generator(run: int, p1: float, p2: float) -> Generator:
    """Give every cell data sets of its own, so that cells err independently."""
    return generator(run, round(100 * p1), round(100 * p2))


def _papers_lists(truth: Simulated, run: int) -> dict[str, list[Any]]:
    sums = SufficientStatistics.from_comparisons(truth.comparisons).sums
    m = len(sums.counts)
    problem = FixedKnockoffs(fixed_design(sums, np.arange(m))).draw(np.random.default_rng([run, 0]))
    lists = {}
    for path in PATHS:
        # the limit of T0 is the later one, so the path serves both cuts
        limit = loss_limit(m, Q, CUTS["knockoff"], 1)
        races = Races(problem, close=False, limit=limit, rng=np.random.default_rng([run, 1]))
        level, result = race_results(follow(problem, path, races=races).entry, m)
        for cut, offset in CUTS.items():
            chosen = select(level, result, q=Q, offset=offset, copies=1).selected
            lists[f"{path} {'T0' if cut == 'knockoff' else 'T1'}"] = truth.comparisons.annotators[chosen].tolist()
    return lists


def note(measured: dict[str, list[float]], truth: Simulated, flagged: list[Any]) -> None:
    """Add one list: its share of false flags and its number of true finds."""
    measured["fdp"].append(round(truth.false_discovery_proportion(flagged), 5))
    measured["found"].append(round(truth.power(flagged) * int(truth.is_biased.sum())))
