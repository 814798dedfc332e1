"""Judges who saw pairs in both orders: how often the order decided, per judge, with counts and intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import betainc, betaincinv

from fdr_core.comparisons import Comparisons
from fdr_core.types import Floats, Ints, Mask

_CONFIDENCE = 0.95


@dataclass(frozen=True)
class Share:
    """``count`` of ``of``, as a share with an exact (Clopper-Pearson) 95 % interval; NaN where ``of`` is 0."""

    count: int
    of: int

    @property
    def value(self) -> float:
        """The share."""
        return self.count / self.of if self.of else math.nan

    @property
    def interval(self) -> tuple[float, float]:
        """Lower and upper end."""
        if not self.of:
            return math.nan, math.nan
        tail = (1 - _CONFIDENCE) / 2
        low = float(betaincinv(self.count, self.of - self.count + 1, tail)) if self.count else 0.0
        high = float(betaincinv(self.count + 1, self.of - self.count, 1 - tail)) if self.count < self.of else 1.0
        return low, high


@dataclass(frozen=True)
class BothOrders:
    """
    What one judge did with pairs shown in both orders.

    Attributes
    ----------
    judge : object
        The annotator's label.
    pairs : int
        Swap pairs: one answer in each order, the same pair, the same coin, task or stratum.
    consistent : Share
        Position consistency: pairs in which both answers name the same item, or both are ties.
    flipped : Share
        Flip rate: pairs in which the answers name different items (a tie against a choice is not a flip).
    first, second : int
        Inconsistent pairs that moved towards the item shown first, and shown second.
    fairness : float
        Preference fairness ``(first - second) / pairs``: 0 even, 1 always the first shown, -1 always the second.
    repeated : Share
        Repetition stability: of the questions asked again in the same order, those answered alike.
    p_value : float
        Exact two-sided sign test on the inconsistent pairs: under no lean both directions are equally likely,
        whatever the pairs, without any coin.
    """

    judge: object
    pairs: int
    consistent: Share
    flipped: Share
    first: int
    second: int
    fairness: float
    repeated: Share
    p_value: float


def both_orders(comparisons: Comparisons) -> list[BothOrders]:
    """
    Measure every annotator who saw at least one pair in both orders.

    Answers belong together when annotator, pair of items and question agree; the question is the recorded coin or task
    that both orders share, and the stratum, where there are any. Where one order was asked several times, answers are
    paired as they come and the rest counts towards the repetition stability only. Without any record of the question
    only pairs asked exactly once in each order count: the same two models may have met over many prompts.

    Parameters
    ----------
    comparisons : Comparisons
        Answers, in any order.

    Returns
    -------
    list of BothOrders
        By the size of the lean, strongest first; empty where no pair was shown in both orders.
    """
    groups = _groups(comparisons)
    pairs, repeats = _swap_pairs(comparisons, groups), _repeats(comparisons, groups)
    judges = np.unique(comparisons.annotator[pairs[0]]) if len(pairs[0]) else np.zeros(0, dtype=np.int64)
    found = [_measure(comparisons, int(judge), pairs, repeats) for judge in judges]
    return sorted(found, key=lambda one: (-abs(one.fairness), str(one.judge)))


def sign_test(first: int, second: int) -> float:
    """Exact two-sided p-value that ``first`` of ``first + second`` fair coins fall on one side."""
    few, many = sorted((first, second))
    return min(1.0, 2.0 * float(betainc(many, few + 1, 0.5))) if many else 1.0  # the binomial distribution's tail


def _groups(comparisons: Comparisons) -> Ints:
    """One code per (annotator, question, unordered pair); -1 where answers cannot be told to belong together."""
    low = np.minimum(comparisons.left, comparisons.right)
    high = np.maximum(comparisons.left, comparisons.right)
    question = _questions(comparisons, low, high)
    is_told = question is not None or comparisons.stratum is not None
    columns = [comparisons.annotator, low, high]
    columns += [column for column in (question, comparisons.stratum) if column is not None]
    group = np.asarray(np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)[1]).ravel()
    if is_told:
        return group
    forward = comparisons.left == low
    once = (np.bincount(group, forward) == 1) & (np.bincount(group, ~forward) == 1)
    return np.where(once[group], group, -1)


def _questions(comparisons: Comparisons, low: Ints, high: Ints) -> Ints | None:
    """The recorded coin or task, unless each stands for one order only: then both orders have one each."""
    if comparisons.coin_source == "own":
        return None
    forward = comparisons.left == low
    pair = np.unique(np.stack([comparisons.coin, low, high], axis=1), axis=0, return_inverse=True)[1].ravel()
    has_both = (np.bincount(pair, forward) > 0) & (np.bincount(pair, ~forward) > 0)
    return comparisons.coin if bool(has_both.any()) else None


def _swap_pairs(comparisons: Comparisons, groups: Ints) -> tuple[Ints, Ints]:
    """Rows that are the two orders of one pair, the k-th of one order with the k-th of the other."""
    forward = comparisons.left < comparisons.right
    one = _numbered(groups, np.flatnonzero(forward & (groups >= 0)))
    two = _numbered(groups, np.flatnonzero(~forward & (groups >= 0)))
    shared = sorted(set(one) & set(two))
    return np.array([one[key] for key in shared], dtype=np.int64), np.array(
        [two[key] for key in shared], dtype=np.int64
    )


def _numbered(groups: Ints, rows: Ints) -> dict[tuple[int, int], int]:
    """Rows by (group, how many of the group came before)."""
    seen: dict[int, int] = {}
    found = {}
    for row in rows.tolist():
        group = int(groups[row])
        found[group, seen.get(group, 0)] = row
        seen[group] = seen.get(group, 0) + 1
    return found


def _repeats(comparisons: Comparisons, groups: Ints) -> tuple[Ints, Mask]:
    """Annotator of every question asked again in the same order, and whether all answers to it agree."""
    told = groups >= 0
    asked = 2 * groups[told] + (comparisons.left < comparisons.right)[told]
    _, question = np.unique(asked, return_inverse=True)
    times = np.bincount(question)
    side = np.sign(comparisons.outcome[told])
    low, high = np.full(len(times), 2.0), np.full(len(times), -2.0)
    np.minimum.at(low, question, side)
    np.maximum.at(high, question, side)
    who = np.zeros(len(times), dtype=np.int64)
    who[question] = comparisons.annotator[told]
    again = times > 1
    return who[again], (low == high)[again]


def _measure(comparisons: Comparisons, judge: int, pairs: tuple[Ints, Ints], repeats: tuple[Ints, Mask]) -> BothOrders:
    own = comparisons.annotator[pairs[0]] == judge
    one, two = np.sign(comparisons.outcome[pairs[0][own]]), np.sign(comparisons.outcome[pairs[1][own]])
    # In the frame of the items the second answer changes its sign: consistent answers cancel.
    drift = one + two
    first, second = int((drift > 0).sum()), int((drift < 0).sum())
    n = int(own.sum())
    stable: Mask = repeats[1][repeats[0] == judge]
    return BothOrders(
        judge=comparisons.annotators[judge],
        pairs=n,
        consistent=Share(int((drift == 0).sum()), n),
        flipped=Share(int((np.abs(drift) == 2).sum()), n),
        first=first,
        second=second,
        fairness=(first - second) / n,
        repeated=Share(int(stable.sum()), len(stable)),
        p_value=sign_test(first, second),
    )


def adjusted(p_values: Floats) -> Floats:
    """Benjamini-Hochberg adjusted p-values."""
    n = len(p_values)
    order = np.argsort(p_values)
    stepped = p_values[order] * n / np.arange(1, n + 1)
    found = np.empty(n)
    found[order] = np.minimum.accumulate(stepped[::-1])[::-1].clip(max=1.0)
    return found
