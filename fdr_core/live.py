"""Evidence between scheduled runs: one e-process per annotator, O(1) per answer, valid however often it is looked at.

The bets of `fdr_core.randomisation.shared`, in the order of time. The first submission of an answer counts; edits and
deletions never change an e-process, and runs do not reset it.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fdr_core.design import DENSE_ITEMS, item_solver, ridge_for
from fdr_core.randomisation.shared import MOST_CERTAIN, N_BETS, as_e, log_e_values, log_factors, log_odds
from fdr_core.selection import e_bh
from fdr_core.statistics import SufficientStatistics
from fdr_core.types import Floats, Ints, Mask


@dataclass(frozen=True)
class LiveEvidence:
    """The e-process of one annotator; `update` returns the next state."""

    log_wealth: tuple[float, ...] = (0.0,) * N_BETS
    log_e: float = 0.0
    sup_log_e: float = 0.0
    answers: int = 0

    def update(self, outcome: float, p_left: float = 0.5) -> LiveEvidence:
        """Take one answer.

        Parameters
        ----------
        outcome : in [-1, 1]; only the side matters, and ties leave the evidence as it is.
        p_left : consensus probability of the left item, from answers before this one and under other coins; 1/2 where
            nothing is known.
        """
        return advance({0: self}, [0], np.array([outcome]), np.array([p_left])).evidence[0]

    @property
    def e(self) -> float:
        """Current e-value."""
        return float(as_e(np.array(self.log_e)))

    @property
    def sup_e(self) -> float:
        """Largest e-value so far."""
        return float(as_e(np.array(self.sup_log_e)))


@dataclass(frozen=True)
class Advanced:
    """What many answers made of the e-processes of those who gave them.

    Attributes
    ----------
    evidence : the state of everybody who answered.
    log_e : (answers,) the annotator's evidence after each answer.
    number : (answers,) which of the annotator's answers it is, counted from one.
    """

    evidence: dict[Any, LiveEvidence]
    log_e: Floats
    number: Ints


def advance(
    before: Mapping[Any, LiveEvidence], annotators: Sequence[Hashable], outcome: Floats, p_left: Floats
) -> Advanced:
    """Take many answers in their order, as `LiveEvidence.update` takes one, in one pass over each annotator's."""
    codes: dict[Hashable, int] = {}
    who = np.array([codes.setdefault(label, len(codes)) for label in annotators], dtype=np.int64)
    order = np.argsort(who, kind="stable")
    counts = np.bincount(who, minlength=len(codes))
    starts = np.cumsum(counts) - counts
    was = [before.get(label, LiveEvidence()) for label in codes]
    gained = log_factors(log_odds(outcome, np.where(outcome > 0, p_left, 1.0 - p_left)))[order]
    so_far = np.cumsum(gained, axis=0)
    own = np.array([state.log_wealth for state in was]).reshape(-1, N_BETS) - (so_far[starts] - gained[starts])
    wealth = so_far + np.repeat(own, counts, axis=0)
    log_e = log_e_values(wealth)
    sup = np.maximum.reduceat(log_e, starts) if len(starts) else log_e
    ends = starts + counts - 1
    rows = zip(codes, was, wealth[ends].tolist(), log_e[ends].tolist(), sup.tolist(), counts.tolist(), strict=True)
    evidence = {
        label: LiveEvidence(tuple(held), last, max(state.sup_log_e, top), state.answers + count)
        for label, state, held, last, top, count in rows
    }
    after, number = np.empty(len(who)), np.empty(len(who), dtype=np.int64)
    after[order] = log_e
    first = np.array([state.answers for state in was], dtype=np.int64) - starts
    number[order] = np.arange(1, len(who) + 1) + np.repeat(first, counts)
    return Advanced(evidence, after, number)


def early_warnings(e_values: Sequence[float] | Floats, q: float) -> Mask:
    """E-BH on the current e-values of all annotators; a warning once given stays; the caller remembers it."""
    return e_bh(np.asarray(e_values, dtype=float), q)


def may_warn(how: str | None) -> bool:
    """Whether early warnings may be given after an audit that ended in this `how` (None: no audit has run yet).

    The bets are fair where chance decided the sides, or where both orders are shown; where sides were placed, or nobody
    can be judged, the e-process of an honest annotator grows too.
    """
    return how in ("own coins", "shared coins", "both orders")


class LiveConsensus:
    """Probability that the left item is preferred, from one state of the data, without answers under the same coin."""

    def __init__(self, statistics: SufficientStatistics, biases: Mapping[Hashable, float] | None = None) -> None:
        answers, sums = statistics.answers(), statistics.sums
        self._known, n = statistics, len(statistics.items)  # labels keep their codes, later ones have higher codes
        ridge = ridge_for(answers) if len(answers) else 1.0
        gamma = np.array([(biases or {}).get(label, 0.0) for label in statistics.annotators], dtype=float)
        adjusted = answers.outcome - gamma[answers.annotator]
        pull = answers.weight * adjusted
        solver = item_solver(sums.laplacian, ridge=ridge)
        Dy = np.asarray(np.bincount(answers.left, pull, n) - np.bincount(answers.right, pull, n), dtype=float)
        self._theta = solver.solve(Dy) if n else np.zeros(0)
        self._inverse = solver.solve(np.eye(n)) if 0 < n <= DENSE_ITEMS else None
        # Under each coin: its pair if there is one only, and the answers and their sum for the item of the lower code.
        n_coins = int(answers.coin.max(initial=-1)) + 1
        pair = self._pairs(answers.left, answers.right)
        self._pair = np.full(n_coins, -1, dtype=np.int64)
        self._pair[answers.coin] = pair
        self._pair[answers.coin[self._pair[answers.coin] != pair]] = -1
        self._count = np.bincount(answers.coin, answers.weight, n_coins)
        self._total = np.bincount(answers.coin, np.where(answers.left < answers.right, pull, -pull), n_coins)

    def _pairs(self, left: Ints, right: Ints) -> Ints:
        """A number for each unordered pair of items."""
        return np.asarray(np.minimum(left, right) * len(self._theta) + np.maximum(left, right))

    def probability_left(self, left: Hashable, right: Hashable, coin: Hashable = None) -> float:
        """P(left preferred); 1/2 where nothing is known apart from the coin, or the coin decided several pairs."""
        return float(self.probabilities_left([left], [right], [coin])[0])

    def probabilities_left(
        self, left: Sequence[Hashable], right: Sequence[Hashable], coin: Sequence[Hashable]
    ) -> Floats:
        """`probability_left` of many answers."""
        a, b = self._known.item_codes(left), self._known.item_codes(right)
        n = len(self._theta)
        result = np.full(len(a), 0.5)
        rows = np.flatnonzero((a >= 0) & (b >= 0) & (a < n) & (b < n))
        a, b, coins = a[rows], b[rows], self._known.coin_codes(coin)[rows]
        gap = self._theta[a] - self._theta[b]
        coins[coins >= len(self._pair)] = -1
        is_met = (coins >= 0) & (np.append(self._count, 0.0)[coins] > 0)
        is_told = ~is_met | (self._inverse is not None) & (np.append(self._pair, -1)[coins] == self._pairs(a, b))
        if self._inverse is not None:
            met = np.flatnonzero(is_met)
            one, two, under = a[met], b[met], coins[met]
            h = self._inverse[one, one] + self._inverse[two, two] - 2 * self._inverse[one, two]
            total = np.where(one < two, self._total[under], -self._total[under])
            # Rank-one downdate; h count < 1 thanks to the ridge where the coin's answers are all on this pair.
            gap[met] = (gap[met] - h * total) / np.maximum(1.0 - h * self._count[under], np.finfo(float).tiny)
        told = np.clip((1.0 + gap) / 2.0, 1 - MOST_CERTAIN, MOST_CERTAIN)
        result[rows] = np.where(is_told, told, 0.5)
        return result


class LiveCrowd:
    """The e-processes of a whole crowd, with the warnings given so far."""

    def __init__(self, q: float = 0.1) -> None:
        self._q = q
        self._seen: set[tuple[Hashable, Hashable]] = set()
        self.evidence: dict[Hashable, LiveEvidence] = {}
        self.warned: set[Hashable] = set()

    def observe(self, annotator: Hashable, outcome: float, p_left: float = 0.5, coin: Hashable = None) -> None:
        """Take a first submission; a coin that the annotator met before is not new and does not count."""
        if coin is not None:
            if (annotator, coin) in self._seen:
                return
            self._seen.add((annotator, coin))
        self.evidence[annotator] = self.evidence.get(annotator, LiveEvidence()).update(outcome, p_left)

    def warn(self) -> set[Hashable]:
        """Give the early warnings that are due now; return all given so far."""
        annotators = list(self.evidence)
        due = early_warnings([self.evidence[a].e for a in annotators], self._q)
        self.warned |= {a for a, is_due in zip(annotators, due, strict=True) if is_due}
        return self.warned
