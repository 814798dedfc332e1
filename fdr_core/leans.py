"""Leans where a coin decided the sides: the side itself is the experiment, so no model and no crowd can shift them.

An annotator's mean outcome estimates its lean. It varies with what stood where, and what *other* coins say of a pair
takes much of that out: per answer o = 1 where the pair's first item (in a fixed order) stands left, c = o y the choice,
which knows no side, and g what answers under other coins say of c. Then

    ``E_u = sum over the unit of w (y - b o g)``,  ``lean_j = sum_u E_u / n_j``,

b the annotator's own amplitude, estimated without the unit's coin. Given the other coins g and b are fixed while o
turns with the coin, so the mean is not moved, whatever the crowd's lean and however wrong the consensus. The filter
that the theorem of the list allows is kept: an annotator's own sides and everybody's choices, nobody else's sides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from scipy.special import stdtrit

from fdr_core.answers import Answers, item_pull, laplacian_of, pair_sums
from fdr_core.codes import are_all_different, compact_codes, first_rows, mix, smallest_by
from fdr_core.design import DenseItems, SparseItems
from fdr_core.types import Floats, Ints, Words

#: Ridges on what the pairs are worth, per answer under one coin; the one that predicts other coins best is taken.
RIDGES = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
#: Up to this many items every coin is left out by itself, beyond in folds.
LEAVE_ONE_OUT_ITEMS = 500
FOLDS = 5
#: The pooled amplitude counts like the annotator's own from so many units.
_POOLED_UNITS = 10.0
#: Relative error of the fits in folds.
_TOLERANCE = 1e-6

#: An interval that holds no 0 has this end at least, or its negative.
SHORT_OF_0 = 1e-4

ABSOLUTE, RELATIVE = "absolute", "relative to the crowd"


@dataclass(frozen=True)
class Leans:
    """Lean of every annotator with its 95 % interval, (m,) each, in [-1, 1].

    ``basis``: `ABSOLUTE` where coins decided the sides, or both orders were shown; else `RELATIVE`.
    """

    estimate: Floats
    low: Floats
    high: Floats
    basis: str = ABSOLUTE

    def side_of_interest(self, min_bias: float) -> Ints:
        """1 for left, -1 for right; 0 where the lean is smaller than ``min_bias``."""
        return np.where(np.abs(self.estimate) >= min_bias, np.sign(self.estimate), 0).astype(np.int64)

    def with_those_of(self, other: Leans, who: Ints) -> Leans:
        """Take some annotators' leans from another estimate."""
        columns = {name: getattr(self, name).copy() for name in ("estimate", "low", "high")}
        for name, column in columns.items():
            column[who] = getattr(other, name)[who]
        return replace(self, **columns)

    def beside_tests(self, listed: Ints, side: Ints) -> Leans:
        """Intervals of the ``listed`` end short of 0 on the side that the test of each speaks for.

        The test weighs answers by what they tell and so sees more than a mean does; what either rejects is left out.
        Of those on the list alone: of everybody whom it rejects, honest people's intervals would cover less.
        """
        low, high = self.low.copy(), self.high.copy()
        left, right = listed[side > 0], listed[side < 0]
        low[left], high[right] = np.maximum(low[left], SHORT_OF_0), np.minimum(high[right], -SHORT_OF_0)
        return replace(self, low=low, high=high)


@dataclass(frozen=True)
class UnitLeans:
    """``E_u`` of every unit, what one coin decided for one annotator: ``owner``, ``value`` and number of answers."""

    owner: Ints
    value: Floats
    size: Floats


def absolute_leans(answers: Answers, n_items: int, n_annotators: int, key: Callable[[], Words]) -> Leans:
    """Estimate all leans, one coin left out at a time.

    Parameters
    ----------
    answers : under the coins that decided their sides.
    key : gives (rows,) keys by which coins come into folds where there are many items; the smallest of a coin decides.
    """
    return leans_of_units(unit_leans(answers, n_items, n_annotators, key), n_annotators)


def leans_of_units(units: UnitLeans, n_owners: int) -> Leans:
    """Means over the units of each owner, with their intervals."""
    n = np.bincount(units.owner, units.size, n_owners)
    coins = np.bincount(units.owner, minlength=n_owners)
    lean = np.bincount(units.owner, units.value, n_owners) / np.maximum(n, 1e-12)
    # one pseudo coin for either side keeps the interval of somebody who never varied from collapsing
    rms = np.sqrt(np.bincount(units.owner, units.value**2, n_owners) / np.maximum(coins, 1))
    p = np.clip(rms, 1.0, np.maximum(n / np.maximum(coins, 1), 1.0))
    middle = lean * n / (n + 2 * p)
    squares = np.bincount(units.owner, (units.value - units.size * middle[units.owner]) ** 2, n_owners)
    squares += p**2 * ((1 - middle) ** 2 + (1 + middle) ** 2)
    reach = stdtrit(coins + 1, 0.975) * np.sqrt((coins + 2) / (coins + 1) * squares) / (n + 2 * p)
    lean = np.clip(lean, -1.0, 1.0)
    low, high = np.maximum(middle - reach, -1.0), np.minimum(middle + reach, 1.0)
    return Leans(lean, np.minimum(low, lean), np.maximum(high, lean))


def unit_leans(answers: Answers, n_items: int, n_annotators: int, key: Callable[[], Words]) -> UnitLeans:
    """What every unit says of its annotator's lean, without what other coins say of its pairs."""
    known = _said_by_other_coins(answers, n_items, key)
    worth = np.where(answers.left < answers.right, known, -known)  # f = o g
    unit, owner = units_of(answers)
    size, total, explained, square, product = (
        np.bincount(unit, answers.weight * figure, len(owner))
        for figure in (np.ones(len(unit)), answers.outcome, worth, worth**2, worth * answers.outcome)
    )
    of_all = square.sum()
    pooled = product.sum() / of_all if of_all > 0 else 0.0
    k = max(_POOLED_UNITS * of_all / max(len(owner), 1), 1e-300)
    own_square, own_product = (np.bincount(owner, figure, n_annotators)[owner] for figure in (square, product))
    # Near a draw what others say of a choice is against it, by leaving it out; only agreement explains an answer.
    amplitude = np.maximum((own_product - product + k * pooled) / (own_square - square + k), 0.0)
    return UnitLeans(owner, total - amplitude * explained, np.asarray(size, dtype=np.float64))


def units_of(answers: Answers) -> tuple[Ints, Ints]:
    """The unit of every row, and the annotator of every unit."""
    if are_all_different(answers.coin):
        return np.arange(len(answers)), answers.annotator
    unit = compact_codes(answers.annotator.astype(np.int64) * (int(answers.coin.max()) + 1) + answers.coin)
    return unit, answers.annotator[first_rows(unit)]


def _said_by_other_coins(answers: Answers, n_items: int, key: Callable[[], Words]) -> Floats:
    """``g``: what is expected of every choice from answers under other coins; 0 where its pair is met under none."""
    coin = compact_codes(answers.coin)
    low, high = np.minimum(answers.left, answers.right), np.maximum(answers.left, answers.right)
    if _has_items_of_its_own(coin, low, high, n_items):
        return np.zeros(len(answers))
    per_coin = float(answers.weight.sum()) / (int(coin.max()) + 1)
    ridges = [ridge * per_coin for ridge in RIDGES]
    choice = np.where(answers.left < answers.right, answers.outcome, -answers.outcome)
    pairs = _Choices(coin, low, high, choice, answers)
    if n_items <= LEAVE_ONE_OUT_ITEMS and pairs.are_one_per_coin(n_items):
        return pairs.left_out(n_items, ridges)
    return pairs.in_folds(n_items, ridges, key())


def _has_items_of_its_own(coin: Ints, low: Ints, high: Ints, n_items: int) -> bool:
    """Whether every item is met under one coin only: other coins say nothing then."""
    of_item = np.full(n_items, -1)
    of_item[low], of_item[high] = coin, coin  # whichever is written last
    return bool((of_item[low] == coin).all() and (of_item[high] == coin).all())


@dataclass(frozen=True)
class _Choices:
    """Choices in the frame of the items, by coin (compact codes)."""

    coin: Ints
    low: Ints
    high: Ints
    choice: Floats
    answers: Answers

    def are_one_per_coin(self, n_items: int) -> bool:
        """Whether every coin decided one pair only."""
        pair, first = self.low * n_items + self.high, first_rows(self.coin)
        return bool((pair[first][self.coin] == pair).all())

    def left_out(self, n_items: int, ridges: list[float]) -> Floats:
        """``(x'u - h S_t) / (1 - h W_t)``: the fit without the coin, by a rank-one downdate."""
        weight = self.answers.weight
        laplacian, pull = self._sums(weight, n_items)
        W, S = np.bincount(self.coin, weight), np.bincount(self.coin, weight * self.choice)
        first = first_rows(self.coin)
        one, two = self.low[first], self.high[first]

        def said(ridge: float) -> Floats:
            inverse = DenseItems(laplacian, ridge).solve(np.eye(n_items))
            u, d = inverse @ pull, np.diag(inverse)
            h = d[one] + d[two] - 2 * inverse[one, two]
            return np.asarray(((u[one] - u[two] - h * S) / (1 - h * W))[self.coin])

        return self._best(said, ridges)[0]

    def in_folds(self, n_items: int, ridges: list[float], key: Words) -> Floats:
        """The same with a fifth of the coins left out at a time; the ridge is chosen on the first fold."""
        fold = (mix(smallest_by(self.coin, key)) % np.uint64(FOLDS)).astype(np.int64)[self.coin]
        said = np.zeros(len(self.coin))
        for k in np.unique(fold):
            out = np.flatnonzero(fold == k)
            pairs, pull = self._sums(np.where(fold == k, 0.0, self.answers.weight), n_items)

            def by(ridge: float, out: Ints = out, pairs: sp.csr_array = pairs, pull: Floats = pull) -> Floats:
                u = SparseItems(pairs, ridge, tolerance=_TOLERANCE).solve(pull)
                return np.asarray(u[self.low[out]] - u[self.high[out]])

            said[out], best = self._best(by, ridges, out)
            ridges = [best]
        return said

    def _best(
        self, said: Callable[[float], Floats], ridges: list[float], rows: Ints | slice = slice(None)
    ) -> tuple[Floats, float]:
        """What predicts the choices best, and its ridge; upwards until it predicts worse."""
        found, best = said(ridges[0]), ridges[0]
        error = self._error(found, rows)
        for ridge in ridges[1:]:
            other = said(ridge)
            if (worse := self._error(other, rows)) >= error:
                break
            found, best, error = other, ridge, worse
        return found, best

    def _sums(self, weight: Floats, n_items: int) -> tuple[sp.csr_array, Floats]:
        """Laplacian and ``D'y``."""
        laplacian = laplacian_of(pair_sums(self.low, self.high, weight, n_items))
        return laplacian, item_pull(self.low, self.high, weight * self.choice, n_items)

    def _error(self, said: Floats, rows: Ints | slice = slice(None)) -> float:
        return float(self.answers.weight[rows] @ (self.choice[rows] - said) ** 2)
