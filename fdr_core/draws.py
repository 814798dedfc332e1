"""Many knockoff draws: how often each judged annotator is selected."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fdr_core.knockoffs.flip import FlipDesign
from fdr_core.knockoffs.paper import FixedDesign, FixedKnockoffs, fixed_design
from fdr_core.paths import follow
from fdr_core.paths.problem import PathProblem, Races
from fdr_core.selection import CUTS, LevelRule, e_values, loss_limit, race_results, select
from fdr_core.statistics import Answers, Sums, sum_answers

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: An annotator this many standard errors away is left out of the second pass of the variance.
CLEAR_OUTLIER = 3.0

Progress = Callable[[int, int], None]


class Construction(Protocol):
    """A way of making knockoffs: draw after draw a path problem."""

    m: int
    copies: int
    closes_races: bool

    def draw(self, index: int, rng: np.random.Generator) -> PathProblem:
        """Return the problem of one draw."""
        ...

    def own_problem(self) -> PathProblem:
        """Return the problem of the own columns alone."""
        ...


@dataclass(frozen=True)
class Draws:
    """Over all draws: the share that selects each annotator, and its average e-value."""

    share: Floats
    e: Floats


class Flips:
    """Coin flips with d copies."""

    closes_races = True

    def __init__(self, design: FlipDesign, *, copies: int, seed: int, path: str) -> None:
        self._design, self.copies, self.m = design, copies, design.m
        self._flips = design.flips(seed)
        self._is_marginal = path == "marginal"

    def draw(self, index: int, rng: np.random.Generator) -> PathProblem:
        """Flip all coins anew, d times."""
        return self._design.draw(self._flips, index, self.copies, correlations_only=self._is_marginal)

    def own_problem(self) -> PathProblem:
        """The annotators' own columns."""
        return self._design.own_problem(correlations_only=self._is_marginal)


class Fixed:
    """The paper's construction, one copy."""

    copies = 1
    closes_races = False

    def __init__(self, design: FixedDesign, *, rss: float | None = None, solver: str = "auto") -> None:
        self._design, self.m = design, design.m
        self._knockoffs = FixedKnockoffs(design, rss=rss, solver=solver)

    def draw(self, index: int, rng: np.random.Generator) -> PathProblem:
        """Draw a random rotation of the knockoff columns."""
        return self._knockoffs.draw(rng)

    def own_problem(self) -> PathProblem:
        """The annotators' own columns."""
        return self._design.own_problem()


def run_draws(
    construction: Construction,
    *,
    path: str,
    q: float,
    cut: str,
    draws: int,
    seed: int,
    progress: Progress | None = None,
) -> Draws:
    """Draw, follow the path, select; again and again with recorded seeds."""
    m, copies, offset = construction.m, construction.copies, CUTS[cut]
    share, e = np.zeros(m), np.zeros(m)
    limit = loss_limit(m, q, offset, copies)
    for index in range(draws):
        rng = np.random.default_rng([seed, index])
        problem = construction.draw(index, rng)
        races = Races(problem, close=construction.closes_races, limit=limit, rng=rng)
        entry = follow(problem, path, races=races).entry
        selection = select(*race_results(entry, m), q=q, offset=offset, copies=copies)
        share += selection.selected
        e += e_values(selection, copies)
        if progress:
            progress(index + 1, draws)
    return Draws(share / draws, e / draws)


def run_levels(
    design: FlipDesign,
    *,
    shares_coins: bool,
    copies: int,
    q: float,
    cut: str,
    draws: int,
    seed: int,
    progress: Progress | None = None,
) -> Draws:
    """Level annotators and copies by likelihood ratio; select once per draw, the copies of that draw counting."""
    flips, statistic = design.flips(seed), design.likelihood_levels(shares_coins=shares_coins)
    drawn = np.empty((draws, copies, design.m))
    for index in range(draws):
        drawn[index] = statistic.copies(flips.signs(index, copies))
        if progress:
            progress(index + 1, draws)
    rng = np.random.default_rng([seed, draws])
    pooled = drawn.reshape(-1, design.m)
    rule = LevelRule(statistic.levels(), pooled, statistic.in_common(), shares_coins=shares_coins, rng=rng)
    share = np.mean([rule.select(levels, q=q, offset=CUTS[cut]) for levels in drawn], axis=0)
    return Draws(share, np.zeros(design.m))


def two_pass_rss(design: FixedDesign, answers: Answers, sums: Sums, judged: Ints) -> float:
    """Residual sum of squares as if all noise were that of the annotators who are no clear outliers.

    Annotators who always click one side have almost no noise; pooled with the others they make the variance too small
    for honest ones, and the real error rate rises.
    """
    Sigma_inverse_diagonal, gamma = design.unit_estimates()
    se = np.sqrt(design.rss / max(design.df, 1) * Sigma_inverse_diagonal)
    is_outlier = np.abs(gamma) > CLEAR_OUTLIER * se
    if not is_outlier.any() or is_outlier.all():
        return design.rss
    dropped = np.zeros(len(sums.counts), dtype=bool)
    dropped[judged[is_outlier]] = True
    rest = answers.take(~dropped[answers.annotator])
    kept = judged[~is_outlier]
    again = fixed_design(sum_answers(rest, sums.pairs.shape[0], len(sums.counts)), kept)
    return again.rss / max(again.df, 1) * design.df
