"""Which coin decided the side of which answer, whom it served, and who was shown both orders."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from fdr_core.answers import Answers
from fdr_core.codes import are_all_different, compact_codes, distinct_partners, first_rows, joint_codes
from fdr_core.types import Floats, Ints, Mask

#: What names look like: class and number, number and class, class and anything, anything and class.
_FORMS = (r"(.*\D)\d+", r"\d+(\D.*)", r"([^/:|#@]+)[/:|#@].*", r".*[/:|#@]([^/:|#@]+)")
#: So many classes are a guess worth testing, if each holds a few items.
MOST_CLASSES, FEWEST_ITEMS = 30, 5


def guessed_classes(items: Sequence[object] | NDArray[np.object_]) -> tuple[Ints, list[str]] | None:
    """Class of every item, and the classes' names; None where the items' names do not tell."""
    names = [str(item) for item in items]
    for form in _FORMS:
        pattern = re.compile(form, re.DOTALL)
        if not names or pattern.fullmatch(names[0]) is None:
            continue
        matches = [pattern.fullmatch(name) for name in names]
        found = [match[1].strip(" _-/:|#@.") for match in matches if match]
        sizes = Counter(found)
        if len(found) == len(names) and 2 <= len(sizes) <= MOST_CLASSES and min(sizes.values()) >= FEWEST_ITEMS:
            code = {name: place for place, name in enumerate(sorted(sizes))}
            return np.array([code[name] for name in found], dtype=np.int64), sorted(sizes)
    return None


#: Repeats or swaps this many standard deviations beyond what fair coins would do count as made on purpose.
ON_PURPOSE = 3.0
#: Share of answers to questions seen equally often in both orders from which both were shown on purpose.
BALANCED_FROM = 0.9
#: Share of answers under coins that several people met, of all answers or of one annotator's on average, from which
#: coins count as shared.
SHARED_FROM = 0.05


@dataclass(frozen=True)
class Presentations:
    """What every row of answers showed: which pair, and in which order.

    Attributes
    ----------
    annotator : (rows,) whom it was shown to.
    pair : (rows,) code of the pair, whatever its order.
    is_forward : (rows,) whether the item of the lower code stood left.
    """

    annotator: Ints
    pair: Ints
    is_forward: Mask

    @classmethod
    def of(cls, answers: Answers) -> Presentations:
        """Code the pairs of a table of answers."""
        low, high = np.minimum(answers.left, answers.right), np.maximum(answers.left, answers.right)
        return cls(answers.annotator, joint_codes(low, high), answers.left == low)

    @cached_property
    def by_annotator(self) -> Ints:
        """(rows,) code of the (annotator, pair)."""
        return joint_codes(self.annotator, self.pair)


def effective_coins(answers: Answers, coin_source: str, shown: Presentations | None = None) -> Ints:
    """The coin of every row: as recorded; without recorded coins, whatever keeps one orientation shares one coin.

    A pair that always stands in one orientation is one coin for everybody, in one task or in several; without task ids
    an (annotator, pair) asked again in the same order is one coin of that annotator. Both only where it happens more
    often than fair coins explain: otherwise every answer, or task, keeps its own coin.

    ``shown`` : by the answers, where it is known already.
    """
    if coin_source == "coin" or not len(answers):
        return answers.coin
    shown = shown or Presentations.of(answers)
    coin = _join_one_way_pairs(answers.coin, shown)
    if coin_source != "own":
        return coin
    unit = shown.by_annotator
    if _one_way(unit, shown.is_forward)[1]:
        in_order = 2 * unit + shown.is_forward
        asked_again = (np.bincount(in_order) > 1)[in_order] & (coin == answers.coin)
        coin = np.where(asked_again, coin.max() + 1 + in_order, coin)
    return coin


def _join_one_way_pairs(coin: Ints, shown: Presentations) -> Ints:
    """One coin per pair that always stands in one orientation, where chance does not explain how many do."""
    pair, is_forward = shown.pair, shown.is_forward
    if not are_all_different(coin):
        first = first_rows(joint_codes(coin, 2 * pair + is_forward))
        pair, is_forward = pair[first], is_forward[first]
    one_way, on_purpose = _one_way(pair, is_forward, int(shown.pair.max()) + 1)
    return np.where(one_way[shown.pair], coin.max() + 1 + shown.pair, coin) if on_purpose else coin


def _one_way(code: Ints, is_forward: Mask, n: int = 0) -> tuple[Mask, bool]:
    """Which codes were shown several times, always in one order, and whether that is more than chance."""
    shown = np.bincount(code, minlength=n)
    forward = np.bincount(code, is_forward, minlength=n)
    one_way = (shown > 1) & ((forward == 0) | (forward == shown))
    by_chance = np.where(shown > 1, 2.0 ** (1.0 - np.minimum(shown, 60)), 0.0)
    return one_way, _exceeds(float(one_way.sum()), by_chance, ON_PURPOSE)


@dataclass(frozen=True)
class OrdersShown:
    """Which questions the same annotator was shown in both orders, and whether on purpose.

    Attributes
    ----------
    unit : (rows,) code of what was swapped: the (annotator, pair) under one coin, else in one stratum.
    is_swapped : (rows,) whether the annotator saw the unit in both orders.
    share : share of the answers that belong to swapped units.
    on_purpose : whether one coin showed both orders, or nearly all was shown equally often in both.
    same_question : whether a unit is known to be one question: under one coin, in one stratum, or without any ids.
    """

    unit: Ints
    is_swapped: Mask
    share: float
    on_purpose: bool
    same_question: bool = True

    @property
    def are_both(self) -> bool:
        """Whether most answers belong to questions that the same annotator saw in both orders."""
        return self.share > 0.5 and (self.same_question or self.on_purpose)

    def joined(self, coin: Ints) -> Ints:
        """One coin per swapped unit: an honest annotator's choices in the two orders are exchangeable."""
        return np.where(self.is_swapped, coin.max(initial=-1) + 1 + self.unit, coin)


def orders_shown(
    answers: Answers, coin_source: str, stratum: Ints | None = None, shown: Presentations | None = None
) -> OrdersShown:
    """Find what the same annotator saw in both orders: under one coin, else the pair in one stratum.

    Tasks or coins of their own may ask different questions about one pair. Without a stratum they count as one question
    only where each was shown once in either order; under recorded coins of their own, never.

    ``shown`` : by the answers, where it is known already.
    """
    shown, use = shown or Presentations.of(answers), CoinUse.of(answers)
    code = shown.pair if stratum is None else joint_codes(shown.pair, stratum)
    by_pair = shown.by_annotator if stratum is None else joint_codes(answers.annotator, code)
    if not use.are_own:  # otherwise nobody saw anything twice under one coin
        by_coin = joint_codes(by_pair, use.coin)
        is_under_one = _Orders.of(by_coin, shown.is_forward, use.coin).are_both[by_coin]
        under_one = _share(answers.weight, is_under_one)
        if under_one > 0.5:
            return OrdersShown(by_coin, is_under_one, under_one, on_purpose=True)
    if coin_source == "coin":  # whether fair coins happened to show a pair both ways must not decide how to test
        return OrdersShown(by_pair, np.zeros(len(answers), dtype=bool), 0.0, on_purpose=False)
    orders = _Orders.of(by_pair, shown.is_forward, use.coin)
    is_swapped = orders.are_both[by_pair]
    same_question = coin_source == "own" or stratum is not None
    is_balanced = orders.are_balanced if same_question else orders.are_balanced & (orders.forward <= 1)
    # with shared coins everybody saw the same orders: each pair is then one observation, not one per annotator
    observed = _Orders.of(code, shown.is_forward, use.coin) if use.is_shared else orders
    on_purpose = _share(answers.weight, is_balanced[by_pair]) >= BALANCED_FROM and observed.balance_exceeds_chance
    return OrdersShown(by_pair, is_swapped, _share(answers.weight, is_swapped), on_purpose, same_question)


@dataclass(frozen=True)
class _Orders:
    """Number of coins under which each code was shown backward, and forward."""

    backward: Ints
    forward: Ints

    @classmethod
    def of(cls, code: Ints, is_forward: Mask, coin: Ints) -> _Orders:
        met = distinct_partners(2 * code + is_forward, coin, 2 * (int(code.max(initial=-1)) + 1)).reshape(-1, 2)
        return cls(met[:, 0], met[:, 1])

    @property
    def are_both(self) -> Mask:
        return np.asarray((self.backward > 0) & (self.forward > 0))

    @property
    def are_balanced(self) -> Mask:
        return np.asarray(self.forward == self.backward)

    @property
    def balance_exceeds_chance(self) -> bool:
        """Whether more codes were shown equally often in both orders than fair coins would have it."""
        times = self.backward + self.forward
        by_chance = np.where(times % 2 == 0, _chance_of_balance(times), 0.0)
        return _exceeds(float(self.are_balanced.sum()), by_chance, ON_PURPOSE)


def _chance_of_balance(times: Ints) -> Floats:
    """Probability that fair coins show both orders equally often, of an even number of times."""
    half = times // 2
    return np.asarray(np.exp(gammaln(times + 1) - 2 * gammaln(half + 1) - times * math.log(2.0)))


def _exceeds(seen: float, chance: Floats, deviations: float) -> bool:
    spread = math.sqrt(float((chance * (1.0 - chance)).sum()))
    return seen > float(chance.sum()) + deviations * spread


@dataclass(frozen=True)
class CoinUse:
    """Whom the coins served; ``coin`` holds compact codes."""

    answers: Answers
    coin: Ints

    @classmethod
    def of(cls, answers: Answers) -> CoinUse:
        """Number the coins of a table of answers, in their order."""
        return cls(answers, compact_codes(answers.coin))

    @cached_property
    def n_coins(self) -> int:
        """Number of distinct coins."""
        return int(self.coin.max(initial=-1)) + 1

    @property
    def are_own(self) -> bool:
        """Whether every row has a coin of its own."""
        return self.n_coins == len(self.coin)

    @cached_property
    def are_met_by_several(self) -> Mask:
        """(rows,) whether several people met the coin."""
        if self.are_own:
            return np.zeros(len(self.coin), dtype=bool)
        people = distinct_partners(self.coin, self.answers.annotator, self.n_coins)
        return np.asarray(people[self.coin] > 1)

    @property
    def shared_answers(self) -> float:
        """Share of the answers under coins that several people met."""
        return 0.0 if self.are_own else _share(self.answers.weight, self.are_met_by_several)

    @property
    def shared_of_one(self) -> float:
        """The same share of one annotator's answers, on average: many people may have met nothing but shared tasks."""
        if self.are_own:
            return 0.0
        who, weight = self.answers.annotator, self.answers.weight
        total = np.bincount(who, weight)
        shared = np.bincount(who, weight * self.are_met_by_several)
        return float((shared[total > 0] / total[total > 0]).mean())

    @property
    def is_shared(self) -> bool:
        """Whether coins count as shared between annotators."""
        return max(self.shared_answers, self.shared_of_one) > SHARED_FROM


def coins_per_annotator(answers: Answers, n_annotators: int) -> Floats:
    """Number of distinct coins that each annotator answered under."""
    return distinct_partners(answers.annotator, answers.coin, n_annotators).astype(float)


def _share(weight: Floats, chosen: Mask) -> float:
    return float(weight[chosen].sum() / max(float(weight.sum()), 1e-300))
