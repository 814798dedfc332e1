"""Many knockoff draws: how often each judged annotator is selected."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fdr_core.knockoffs.consensus import Consensus
from fdr_core.knockoffs.flip import FlipDesign
from fdr_core.knockoffs.likelihood import FlippedLevels, ResampledLevels
from fdr_core.knockoffs.paper import FixedDesign, FixedKnockoffs, fixed_design
from fdr_core.knockoffs.rows import JudgedRows
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


class Levels(Protocol):
    """A way of making copies that are told from their annotator by likelihood ratio alone."""

    m: int
    copies: int

    def own(self) -> Floats:
        """Levels of the annotators."""
        ...

    def draw(self, index: int) -> Floats:
        """Levels of the copies of one draw, (copies, m)."""
        ...


class Flipped:
    """Copies by flipping the coins anew."""

    def __init__(self, consensus: Consensus, design: FlipDesign, *, copies: int, seed: int) -> None:
        self.m, self.copies = design.m, copies
        self._flips, self._levels = design.flips(seed), FlippedLevels(consensus, design.rows)

    def own(self) -> Floats:
        """With the coins as they fell."""
        return self._levels.levels()

    def draw(self, index: int) -> Floats:
        """Flip all coins anew, once per copy."""
        return self._levels.copies(self._flips.signs(index, self.copies))


class Resampled:
    """Copies by answering anew, for sides that no coin decided."""

    def __init__(self, consensus: Consensus, rows: JudgedRows, *, copies: int, seed: int) -> None:
        self.m, self.copies, self._seed = len(rows.judged), copies, seed
        self._levels = ResampledLevels(consensus, rows)

    def own(self) -> Floats:
        """With the answers as given."""
        return self._levels.levels()

    def draw(self, index: int) -> Floats:
        """Let the honest model answer every question anew, once per copy."""
        return self._levels.copies(self.copies, np.random.default_rng([self._seed, index]))


@dataclass(frozen=True)
class Rule:
    """How to select in every draw, and how many draws there are."""

    q: float
    cut: str
    draws: int
    seed: int

    @property
    def offset(self) -> float:
        """1 with knockoff+, 0 without."""
        return CUTS[self.cut]


def run_draws(construction: Construction, rule: Rule, *, path: str, progress: Progress | None = None) -> Draws:
    """Draw, follow the path, select; again and again with recorded seeds."""
    m, copies, q, offset = construction.m, construction.copies, rule.q, rule.offset
    share, e = np.zeros(m), np.zeros(m)
    limit = loss_limit(m, q, offset, copies)
    for index in range(rule.draws):
        rng = np.random.default_rng([rule.seed, index])
        problem = construction.draw(index, rng)
        races = Races(problem, close=construction.closes_races, limit=limit, rng=rng)
        entry = follow(problem, path, races=races).entry
        selection = select(*race_results(entry, m), q=q, offset=offset, copies=copies)
        share += selection.selected
        e += e_values(selection, copies)
        if progress:
            progress(index + 1, rule.draws)
    return Draws(share / rule.draws, e / rule.draws)


def run_levels(levels: Levels, rule: Rule, *, shares_coins: bool, progress: Progress | None = None) -> Draws:
    """Level annotators and copies by likelihood ratio; select once per draw, the copies of that draw counting."""
    drawn = np.empty((rule.draws, levels.copies, levels.m))
    for index in range(rule.draws):
        drawn[index] = levels.draw(index)
        if progress:
            progress(index + 1, rule.draws)
    rng = np.random.default_rng([rule.seed, rule.draws])
    chooser = LevelRule(levels.own(), drawn.reshape(-1, levels.m), shares_coins=shares_coins, rng=rng)
    share = np.mean([chooser.select(copies, q=rule.q, offset=rule.offset) for copies in drawn], axis=0)
    return Draws(share, np.zeros(levels.m))


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
