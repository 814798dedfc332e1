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
from fdr_core.types import Floats, Mask


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
        if outcome == 0:
            return LiveEvidence(self.log_wealth, self.log_e, self.sup_log_e, self.answers + 1)
        chosen = p_left if outcome > 0 else 1.0 - p_left
        log_wealth = np.array(self.log_wealth) + log_factors(log_odds(np.array([outcome]), np.array([chosen])))[0]
        log_e = float(log_e_values(log_wealth))
        return LiveEvidence(tuple(log_wealth.tolist()), log_e, max(self.sup_log_e, log_e), self.answers + 1)

    @property
    def e(self) -> float:
        """Current e-value."""
        return float(as_e(np.array(self.log_e)))

    @property
    def sup_e(self) -> float:
        """Largest e-value so far."""
        return float(as_e(np.array(self.sup_log_e)))

    def as_dict(self) -> dict[str, Any]:
        """State for storing."""
        return dict(self.__dict__, log_wealth=list(self.log_wealth))

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> LiveEvidence:
        """Read a stored state."""
        return cls(
            tuple(map(float, state["log_wealth"])),
            float(state["log_e"]),
            float(state["sup_log_e"]),
            int(state["answers"]),
        )


def early_warnings(e_values: Sequence[float] | Floats, q: float) -> Mask:
    """E-BH on the current e-values of all annotators; a warning once given stays; the caller remembers it."""
    return e_bh(np.asarray(e_values, dtype=float), q)


def may_warn(how: str | None) -> bool:
    """Whether early warnings may be given after an audit that ended in this `how` (None: no audit has run yet).

    The bets are fair where chance decided the sides, or where both orders are shown; where sides were placed, or nobody
    can be judged, the e-process of an honest annotator grows too.
    """
    return how in ("own coins", "shared coins", "both orders")


@dataclass
class _UnderCoin:
    """What was answered under one coin: its items, the answers and their sum (for the item of the lower code)."""

    items: set[int]
    count: float = 0.0
    total: float = 0.0


class LiveConsensus:
    """Probability that the left item is preferred, from one state of the data, without answers under the same coin."""

    def __init__(self, statistics: SufficientStatistics, biases: Mapping[Hashable, float] | None = None) -> None:
        answers, sums = statistics.answers(), statistics.sums
        self._items = {label: code for code, label in enumerate(statistics.items)}
        self._ridge = ridge_for(answers) if len(answers) else 1.0
        gamma = np.array([(biases or {}).get(label, 0.0) for label in statistics.annotators], dtype=float)
        adjusted = answers.outcome - gamma[answers.annotator]
        n = len(self._items)
        pull = answers.weight * adjusted
        Dy = np.zeros(n)
        np.add.at(Dy, answers.left, pull)
        np.subtract.at(Dy, answers.right, pull)
        solver = item_solver(sums.laplacian, ridge=self._ridge)
        self._theta = solver.solve(Dy) if n else np.zeros(0)
        self._inverse = solver.solve(np.eye(n)) if 0 < n <= DENSE_ITEMS else None
        self._coins: dict[Hashable, _UnderCoin] = {}
        labels = statistics.coin_labels()
        for left, right, coin, weight, y in zip(
            answers.left.tolist(), answers.right.tolist(), answers.coin.tolist(), answers.weight, adjusted, strict=True
        ):
            label = labels.get(coin)
            if label is not None:
                known = self._coins.setdefault(label, _UnderCoin({left, right}))
                known.items |= {left, right}
                known.count += weight
                known.total += weight * (y if left < right else -y)

    def probability_left(self, left: Hashable, right: Hashable, coin: Hashable = None) -> float:
        """P(left preferred); 1/2 where nothing is known apart from the coin, or the coin decided several pairs."""
        a, b = self._items.get(left), self._items.get(right)
        if a is None or b is None:
            return 0.5
        gap = float(self._theta[a] - self._theta[b])
        known = self._coins.get(coin) if coin is not None else None
        if known is not None:
            if self._inverse is None or known.items != {a, b}:
                return 0.5
            total = known.total if a < b else -known.total
            h = float(self._inverse[a, a] + self._inverse[b, b] - 2 * self._inverse[a, b])
            gap = (gap - h * total) / (1.0 - h * known.count)  # rank-one downdate; h count < 1 thanks to the ridge
        return float(np.clip((1.0 + gap) / 2.0, 1 - MOST_CERTAIN, MOST_CERTAIN))


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
