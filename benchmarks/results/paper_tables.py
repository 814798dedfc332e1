"""The paper's simulated study (section 3.1): FDR and true finds of ISS, LBI and LASSO under both cuts."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
from numpy.random import Generator

from benchmarks.results.quality import FIRST
from fdr_core.comparisons import Comparisons
from fdr_core.paper.copies import FixedKnockoffs, householder_q
from fdr_core.paper.draws import CUTS, loss_limit, race_results, select, two_pass_rss
from fdr_core.paper.paths import Races, follow
from fdr_core.paper.problem import PathProblem
from fdr_core.projection import fixed_design
from fdr_core.simulate import Simulated, paper_study
from fdr_core.statistics import SufficientStatistics
from harness.scenarios import Q, generator

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
    return generator(FIRST + run, round(100 * p1), round(100 * p2))


def _papers_lists(truth: Simulated, run: int) -> dict[str, list[Any]]:
    """Lists of three paths and two cuts with the paper's variance; of ISS under T0 with the two-pass variance too."""
    statistics = SufficientStatistics.from_comparisons(truth.comparisons)
    sums, everybody = statistics.sums, np.arange(truth.comparisons.n_annotators)
    design = fixed_design(sums, everybody)
    problem = FixedKnockoffs(design).draw(np.random.default_rng([run, 0]))
    lists = {name: found for path in PATHS for name, found in _by_cut(truth, problem, path, run).items()}
    rss = two_pass_rss(design, statistics.answers(), sums, everybody)
    problem = FixedKnockoffs(design, rss=rss).draw(np.random.default_rng([run, 0]))
    lists["two-pass T0"] = _by_cut(truth, problem, "iss", run)["iss T0"]
    by_rows = _good_first(truth)
    q = householder_q(by_rows.answers(), by_rows.sums, everybody)
    problem = FixedKnockoffs(fixed_design(by_rows.sums, everybody), q=q).draw(np.random.default_rng(0))
    back = truth.comparisons.annotators[np.argsort(truth.is_biased, kind="stable")]
    for path in ("iss", "lasso"):
        lists[f"{path} T0, rows"] = back[_by_cut(truth, problem, path, run)[f"{path} T0"]].tolist()
    return lists


def _good_first(truth: Simulated) -> SufficientStatistics:
    """The same answers, those who judge first: no path sees labels, but the paper's copies are made of certain rows."""
    place = np.argsort(np.argsort(truth.is_biased, kind="stable"))
    c = truth.comparisons
    row = np.argsort(place[c.annotator], kind="stable")  # codes follow the order of rows
    columns = (place[c.annotator], c.items[c.left], c.items[c.right], c.outcome)
    renamed = Comparisons.from_arrays(*(column[row] for column in columns))
    return SufficientStatistics.from_comparisons(renamed)


def _by_cut(truth: Simulated, problem: PathProblem, path: str, run: int) -> dict[str, list[Any]]:
    """Follow one path, select by both cuts."""
    m = truth.comparisons.n_annotators
    # the limit of T0 is the later one, so the path serves both cuts
    races = Races(
        problem, close=False, limit=loss_limit(m, Q, CUTS["knockoff"], 1), rng=np.random.default_rng([run, 1])
    )
    level, result = race_results(follow(problem, path, races=races).entry, m)
    lists = {}
    for cut, offset in CUTS.items():
        chosen = select(level, result, q=Q, offset=offset, copies=1).selected
        lists[f"{path} {'T0' if cut == 'knockoff' else 'T1'}"] = truth.comparisons.annotators[chosen].tolist()
    return lists


def note(measured: dict[str, list[float]], truth: Simulated, flagged: list[Any]) -> None:
    """Add one list: its share of false flags and its number of true finds."""
    measured["fdp"].append(round(truth.false_discovery_proportion(flagged), 5))
    measured["found"].append(round(truth.power(flagged) * int(truth.is_biased.sum())))
