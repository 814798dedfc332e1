"""Many knockoff draws: how often each judged annotator is selected."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fdr_core.answers import Answers, Sums, sum_answers
from fdr_core.paper.copies import FixedKnockoffs, FlipDesign
from fdr_core.paper.paths import follow
from fdr_core.paper.problem import TIE, PathProblem, Races
from fdr_core.projection import FixedDesign, fixed_design
from fdr_core.types import Floats, Ints, Mask

CUTS = {"knockoff": 0.0, "knockoff+": 1.0}


@dataclass(frozen=True)
class Selection:
    """One draw's selection: who won its race above the threshold, and what the draw says as e-values."""

    selected: Mask
    threshold: float
    losses: int


def smallest_list(q: float, cut: str, copies: int) -> int:
    """Fewest annotators that can be selected: ``ceil(1 / (d q))`` with the offset, one without it."""
    return max(1, math.ceil(CUTS[cut] / (copies * q) - 1e-12))


def loss_limit(m: int, q: float, offset: float, copies: int) -> float:
    """Losses beyond which no later threshold passes: ``(offset + losses) / d > q (m - losses)``."""
    return (q * copies * m - offset) / (1.0 + q * copies)


def loss_costs(of_interest: Mask | None, m: int, q: float, copies: int) -> tuple[int, Floats]:
    """How many wins count at most, and what each loss counts towards `loss_limit` of them.

    ``(offset + losses) / d > q (wins that count - losses among these)``: only a loss of somebody whose win would have
    counted takes a possible win away.
    """
    if of_interest is None:
        return m, np.ones(m)
    return int(of_interest.sum()), np.where(of_interest, 1.0, 1.0 / (1.0 + q * copies))


def race_results(entry: Floats, m: int) -> tuple[Floats, NDArray[np.int8]]:
    """Level and result of every race: +1 the own column entered first, -1 a knockoff did, 0 tied or not entered.

    With one copy, ``level * result`` is the paper's ``W_j = max(Z_j, Z~_j) sign(Z_j - Z~_j)``.
    """
    lanes = entry.reshape(-1, m)
    level = lanes.max(axis=0)
    best_knockoff = lanes[1:].max(axis=0)
    result = np.zeros(m, dtype=np.int8)
    result[lanes[0] > best_knockoff * (1 + TIE)] = 1
    result[best_knockoff > lanes[0] * (1 + TIE)] = -1
    return level, result


def select(level: Floats, result: NDArray[np.int8], *, q: float, offset: float, copies: int) -> Selection:
    """Choose the lowest level at which ``(offset + losses) / d <= q wins``.

    ``copies = 1`` gives T0 (offset 0) and T1 (offset 1) of the paper; more copies the rule of Gimenez and Zou (2019).
    """
    order = np.argsort(-level, kind="stable")
    order = order[level[order] > 0]
    wins = np.cumsum(result[order] > 0)
    losses = np.cumsum(result[order] < 0)
    passes = ((offset + losses) / copies <= q * np.maximum(wins, 1) * (1 + 1e-12)) & (wins > 0)
    passes &= np.append(np.diff(level[order]) < 0, True)  # a level belongs to all who entered at it
    if not passes.any():
        return Selection(np.zeros(len(level), dtype=bool), math.inf, 0)
    last = int(np.flatnonzero(passes)[-1])
    threshold = float(level[order[last]])
    return Selection((level >= threshold) & (result > 0), threshold, int(losses[last]))


def e_values(selection: Selection, copies: int) -> Floats:
    """E-values of one draw (Ren and Barber 2024, with d copies): ``m d 1{selected} / (1 + losses)``."""
    m = len(selection.selected)
    return np.where(selection.selected, m * copies / (1.0 + selection.losses), 0.0)


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
    """Over all draws done.

    Attributes
    ----------
    share : (m,) the share of draws that selects each annotator.
    e : (m,) average e-value.
    W : (draws done, m) level of every race, positive where the annotator's own column entered first, 0 where the race
        was tied, or not decided before the outcome was certain.
    converged : every path came to its end.
    """

    share: Floats
    e: Floats
    W: Floats = field(default_factory=lambda: np.zeros((0, 0)), repr=False)
    converged: bool = True

    @property
    def done(self) -> int:
        """How many draws there were time for."""
        return len(self.W)


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

    def __init__(
        self, design: FixedDesign, *, rss: float | None = None, solver: str = "auto", q: Floats | None = None
    ) -> None:
        self._design, self.m = design, design.m
        self._knockoffs = FixedKnockoffs(design, rss=rss, solver=solver, q=q)
        self.slack = self._knockoffs.slack

    def draw(self, index: int, rng: np.random.Generator) -> PathProblem:
        """Draw a random rotation of the knockoff columns."""
        return self._knockoffs.draw(rng)


@dataclass(frozen=True)
class Rule:
    """How to select in every draw, and how many draws there are.

    Attributes
    ----------
    e_rate : target rate of the selections that e-values are made of; by default q.
    of_interest : (m,) whose wins count; everybody's by default. Losses always do, so an honest annotator's win is never
        likelier to count than its loss, and the rate holds. (Dropping people from a list that is made shortens it.)
    """

    q: float
    cut: str
    draws: int
    seed: int
    e_rate: float | None = None
    of_interest: Mask | None = None

    @property
    def offset(self) -> float:
        """1 with knockoff+, 0 without."""
        return CUTS[self.cut]


class Budget:
    """Seconds that draws may take in all, by the caller's clock; without one there is no limit.

    Parameters
    ----------
    seconds : at least one draw is made, however long it takes.
    clock : returns seconds.
    """

    def __init__(self, seconds: float = math.inf, clock: Callable[[], float] | None = None) -> None:
        self._seconds, self._clock = seconds, clock
        self._begun = self._now()
        self._last, self._longest = self._begun, 0.0

    def has_room(self) -> bool:
        """Whether one more draw fits, told after each draw: the longest so far stands for the next."""
        now = self._now()
        self._longest, self._last = max(self._longest, now - self._last), now
        return now - self._begun + self._longest <= self._seconds

    def start_draws(self) -> None:
        """Whatever came before the first draw counts once, not for every draw."""
        self._last = self._now()

    def _now(self) -> float:
        return self._clock() if self._clock else 0.0


def run_draws(
    construction: Construction,
    rule: Rule,
    *,
    path: str,
    progress: Progress | None = None,
    budget: Budget | None = None,
) -> Draws:
    """Draw, follow the path, select; again and again with recorded seeds, as long as the budget lasts."""
    m, copies = construction.m, construction.copies
    budget = budget or Budget()
    share, e, W, converged = np.zeros(m), np.zeros(m), [], True
    most_wins, cost = loss_costs(rule.of_interest, m, rule.q, copies)
    limit = loss_limit(most_wins, rule.q, rule.offset, copies)
    budget.start_draws()
    for index in range(rule.draws):
        rng = np.random.default_rng([rule.seed, index])
        problem = construction.draw(index, rng)
        races = Races(problem, close=construction.closes_races, limit=limit, rng=rng, cost=cost)
        followed = follow(problem, path, races=races)
        level, result = race_results(followed.entry, m)
        counted = result if rule.of_interest is None else np.where(rule.of_interest, result, np.minimum(result, 0))
        choose = partial(select, level, counted, offset=rule.offset, copies=copies)
        share += choose(q=rule.q).selected
        e += e_values(choose(q=rule.e_rate or rule.q), copies)
        W.append(level * result)
        converged &= followed.converged
        if progress:
            progress(index + 1, rule.draws)
        if not budget.has_room():
            break
    return Draws(share / len(W), e / len(W), np.array(W), converged)


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
