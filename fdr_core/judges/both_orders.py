"""Judges who saw pairs in both orders: how often the order decided, per judge, with counts and intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.special import betainc, betaincinv

from fdr_core.codes import joint_codes
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
    asked = _asked(comparisons)
    number = asked.groupby(["group", "forward"]).cumcount()
    one, two = (asked[asked["forward"] == way].assign(number=number) for way in (True, False))
    pairs = one.merge(two[["group", "number", "side"]], on=["group", "number"], suffixes=("", "_swapped"))
    # In the frame of the items the second answer changes its sign: consistent answers cancel.
    pairs["drift"] = pairs["side"] + pairs["side_swapped"]
    questions = asked.groupby(["annotator", "group", "forward"])["side"].agg(["size", "nunique"])
    again = (questions["nunique"] == 1)[questions["size"] > 1]
    found = [
        _measure(comparisons.annotators[judge], own, again[again.index.get_level_values(0) == judge])
        for judge in np.unique(pairs["annotator"]).tolist()
        for own in [pairs.loc[pairs["annotator"] == judge, "drift"]]
    ]
    return sorted(found, key=lambda one: (-abs(one.fairness), str(one.judge)))


def sign_test(first: int, second: int) -> float:
    """Exact two-sided p-value that ``first`` of ``first + second`` fair coins fall on one side."""
    few, many = sorted((first, second))
    return min(1.0, 2.0 * float(betainc(many, few + 1, 0.5))) if many else 1.0  # the binomial distribution's tail


def _asked(comparisons: Comparisons) -> pd.DataFrame:
    """Answers by (annotator, question, unordered pair), without those that cannot be told to belong together."""
    left, right = comparisons.left.astype(np.int64), comparisons.right.astype(np.int64)
    forward = left < right
    pair = joint_codes(np.minimum(left, right), np.maximum(left, right))
    coin = None if comparisons.coin_source == "own" else comparisons.coin
    # Where each coin or task stands for one order only, both orders have one each, and neither names the question.
    if coin is not None and not _in_both(joint_codes(coin, pair), forward).any():
        coin = None
    told = [code.astype(np.int64) for code in (coin, comparisons.stratum) if code is not None]
    group = joint_codes(comparisons.annotator.astype(np.int64), pair)
    for code in told:
        group = joint_codes(group, code)
    columns = {"annotator": comparisons.annotator, "group": group, "forward": forward}
    table = pd.DataFrame({**columns, "side": np.sign(comparisons.outcome)})
    once = (np.bincount(group, forward) == 1) & (np.bincount(group, ~forward) == 1)
    return table if told else table[once[group]]


def _in_both(code: Ints, forward: Mask) -> Mask:
    """Which codes stand for both orders."""
    return (np.bincount(code, forward) > 0) & (np.bincount(code, ~forward) > 0)


def _measure(judge: object, drift: pd.Series[float], stable: pd.Series[bool]) -> BothOrders:
    first, second, n = int((drift > 0).sum()), int((drift < 0).sum()), len(drift)
    return BothOrders(
        judge=judge,
        pairs=n,
        consistent=Share(int((drift == 0).sum()), n),
        flipped=Share(int((drift.abs() == 2).sum()), n),
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
