"""Did chance decide the sides? Of the better items, over all coins and group by group; and of every item by itself."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sp
from scipy.special import betainc, chdtrc, expit

from fdr_core.answers import Answers, Skipped, item_pull, laplacian_of, pair_sums
from fdr_core.audit.coins import CoinUse
from fdr_core.codes import compact_codes, distinct_pairs, first_rows, joint_codes, mix
from fdr_core.design import item_solver, ridge_for
from fdr_core.types import Floats, Ints

#: How often a sound design may be taken for one whose sides were placed, in all runs together: by |z| over all coins,
#: where nobody recorded them (more often in small teams, where a flip in error weighs more), and by all tests over
#: groups (items, classes of items, annotators, batches, strata) together.
OVERALL, OVERALL_SMALL_TEAM, SMALL_TEAM, LEVEL = 0.05, 0.1, 30, 0.005
#: Runs with about so many coins share a half of the level; with twice as many a sixth, then a twelfth, and so on.
FIRST_COINS = 100
#: A lean of the design is harmless while ``lean x sqrt(90th percentile of n_j)`` stays below this: with sides that far
#: from random a crowd of honest annotators had a flag in about q of simulations (`python -m benchmarks.sides`).
HARMLESS = 0.3
#: Answers are split into at most this many batches, of at least this many coins.
BATCHES, BATCH_COINS = 10, 20
#: Annotators whose shared coins are looked at, those with the most.
MOST_ANNOTATORS = 2000
#: Newton steps of a fit of three parameters.
_STEPS = 25
#: Sums up to this are rounding errors.
_NOTHING = 1e-12
#: z is about this times (2p - 1) sqrt(coins) where the better item stands left with probability p.
Z_PER_LEAN = 0.8


@dataclass(frozen=True)
class Gaps:
    """``x = theta[left] - theta[right]`` of every coin, theta from answers under other coins.

    Attributes
    ----------
    use : the coins.
    x : (coins,) gaps; 0 where nothing is known.
    total, square, n_informative : sum, sum of squares and number of the gaps that tell something.
    """

    use: CoinUse = field(repr=False)
    x: Floats
    total: float
    square: float
    n_informative: int

    @property
    def z(self) -> float:
        """``sum x / sqrt(sum x^2)``."""
        return self.total / math.sqrt(self.square) if self.square > 0 else 0.0

    @property
    def lean(self) -> float:
        """``|2p - 1|`` where the better item stands left with probability p."""
        return abs(self.z) / (Z_PER_LEAN * math.sqrt(self.n_informative)) if self.n_informative else 0.0


def coin_gaps(answers: Answers, n_items: int, n_annotators: int) -> Gaps:
    """Fit theta with the ridge on half of the coins (own coins: half of the annotators), apply it to the others."""
    use = CoinUse.of(answers)
    half = _halves(use.coin if use.is_shared or n_annotators < 2 else answers.annotator)
    rows = [np.flatnonzero(half == side) for side in (0, 1)]
    halves = [answers.take(chosen) for chosen in rows]
    x, total, square, n_informative = np.zeros(use.n_coins), 0.0, 0.0, 0
    for side in (0, 1):
        theta, test = _ridge_scores(halves[side], n_items), halves[1 - side]
        coin = use.coin[rows[1 - side]]
        pull = np.bincount(coin, test.weight * (theta[test.left] - theta[test.right]), minlength=use.n_coins)
        gap = pull / np.maximum(np.bincount(coin, test.weight, minlength=use.n_coins), 1e-300)
        x += gap
        total += float(gap.sum())
        square += float((gap**2).sum())
        n_informative += int((np.abs(gap) > 1e-12).sum())
    return Gaps(use, x, total, square, n_informative)


@dataclass(frozen=True)
class GroupTest:
    """Whether the better items, or the group's own, stand on one side within groups, whichever side that is in each.

    Attributes
    ----------
    name : what the groups are.
    p_value : of the sum of the groups' squared z under fair coins.
    lean : root mean square over groups of ``2p - 1`` beyond what fair coins would show.
    """

    name: str
    p_value: float
    lean: float


def level_of_each(n_tests: int, n_coins: int, level: float = LEVEL) -> float:
    """Level of each of several tests at a run with so many coins, of a ``level`` for all tests and runs.

    Runs are many and see nearly the same coins; all runs up to the k-th doubling of the coins get 1 / (k (k + 1)) of
    the level, which sums to 1 however long the project lives.
    """
    k = 1 + int(math.log2(max(n_coins / FIRST_COINS, 1.0)))
    return level / max(n_tests, 1) / (k * (k + 1))


def group_tests(
    gaps: Gaps, stratum: Ints | None, time: Floats | None, item_class: Ints | None = None
) -> Iterator[GroupTest]:
    """Look item by item, class by class, annotator by annotator, and batch by batch and stratum by stratum.

    Parameters
    ----------
    stratum, time : (rows,) of the answers behind ``gaps``, where known. Rows are in no order that says anything, so
        there are batches only where answers carry times.
    item_class : (items,) of every item, where known.
    """
    answers, coin = gaps.use.answers, gaps.use.coin
    yield _own_balance("item", answers) if gaps.use.are_own else balance("item", answers, coin)
    if item_class is not None:
        yield balance("class of items", answers, coin, item_class)
    annotator, met = answers.annotator, coin
    if not gaps.use.are_own:
        annotator, met = distinct_pairs(annotator, coin)
    annotator, met = _busiest(annotator, met)
    yield _test("annotator", gaps.x[met], annotator, met)
    coins = np.arange(gaps.use.n_coins)
    for name, group in groups_of_coins(gaps, stratum, time).items():
        yield _test(name, gaps.x, group, coins)
        yield balance(f"item in a {name}", answers, coin, item_class, within=group)


def groups_of_coins(gaps: Gaps, stratum: Ints | None, time: Floats | None) -> dict[str, Ints]:
    """(coins,) batch and stratum of every coin, where known."""
    found = {}
    if gaps.use.n_coins >= 2 * BATCH_COINS and time is not None and not np.isnan(time).any():
        found["batch"] = _batches(gaps.use, time)
    if stratum is not None:
        found["stratum"] = np.zeros(gaps.use.n_coins, dtype=np.int64)
        found["stratum"][gaps.use.coin] = stratum
    return found


def balance(
    name: str,
    answers: Answers,
    coin: Ints,
    item_class: Ints | None = None,
    *,
    within: Ints | None = None,
    value: Floats | None = None,
) -> GroupTest:
    """Does an item, or a class of items, stand left more often than its coins allow?

    ``Q = sum over items of (left - right)^2 / n``, with one sign per coin, whoever met it. ``within`` : (coins,) groups
    in which every item is looked at apart. ``value`` : (coins,) of every sign, one by default.
    """
    left, right = answers.left, answers.right
    if int(coin.max(initial=-1)) + 1 < len(coin):  # some coin in several rows: each of its orders counts once
        once = first_rows(joint_codes(coin, joint_codes(left, right)))
        left, right, coin = left[once], right[once], coin[once]
    if item_class is not None:
        left, right = item_class[left], item_class[right]
        differ = left != right
        left, right, coin = left[differ], right[differ], coin[differ]
    signs = np.ones(len(coin)) if value is None else value[coin]
    if within is not None:
        n = int(within.max(initial=0)) + 1
        left, right = left * n + within[coin], right * n + within[coin]
    return _of_two(name, left, right, coin, signs)


def balance_beyond_gaps(gaps: Gaps, item_class: Ints | None, within: Ints | None = None) -> GroupTest:
    """The same of what is left once every coin has the chance that the gap of its items gives it.

    ``P(as it stands) = sigma(f(x))`` with f odd in the gap: its sign, itself, and a bounded part, fitted to all coins
    of a group (of the first `BATCHES`; the others have the chance of all).
    """
    x = gaps.x / max(math.sqrt(gaps.square / max(gaps.n_informative, 1)), 1e-300)
    beyond = _beyond(x)
    for group in range(BATCHES if within is not None else 0):
        mine = np.flatnonzero(within == group)
        beyond[mine] = _beyond(x[mine])
    name, use = "item beyond gaps", gaps.use
    return balance(name, use.answers, use.coin, item_class, within=within, value=beyond)


def _beyond(x: Floats) -> Floats:
    """1 less the mean sign by the fit."""
    F = np.stack([np.sign(x), x, np.tanh(2 * x)], axis=1)
    beta, ridge = np.zeros(3), np.eye(3)
    for _ in range(_STEPS):
        p = expit(F @ beta)
        beta += np.linalg.solve((F * (p * (1 - p))[:, None]).T @ F + ridge, F.T @ (1 - p) - beta)
    return np.asarray(1.0 - np.tanh(F @ beta / 2))


def drift(annotator: Ints, items: tuple[Ints, Ints], coin: Ints, item_class: Ints | None) -> Iterator[GroupTest]:
    """Does what is chosen change from the first order of a pair to the second? Item by item and class by class.

    ``items`` : of every pair answered inconsistently the item chosen first and the one chosen second; under fair
    ``coin`` or without drift either could have come first.
    """
    then, now = items
    yield _of_two("drift", now, then, coin)
    if item_class is not None:
        first, second = item_class[then], item_class[now]
        differ, n = first != second, int(item_class.max(initial=0)) + 1
        of_own = annotator[differ] * n
        yield _of_two("drift of classes", of_own + second[differ], of_own + first[differ], coin[differ])


def _own_balance(name: str, answers: Answers) -> GroupTest:
    """The same where every row has a coin of its own, from the counts of the pairs alone."""
    n_items = 1 + int(max(answers.left.max(), answers.right.max()))
    pairs = pair_sums(answers.left, answers.right, np.ones(len(answers)), n_items).tocoo()
    left, right = np.bincount(pairs.row, pairs.data, n_items), np.bincount(pairs.col, pairs.data, n_items)
    n = np.maximum(left + right, 1.0)
    Q, n_groups = float(((left - right) ** 2 / n).sum()), int(np.count_nonzero(left + right))
    one_way = pairs.data * (1 / n[pairs.row] + 1 / n[pairs.col]) ** 2
    links = (pairs + pairs.T).tocoo()
    beside = float((links.data**2 / (n[links.row] * n[links.col])).sum())
    return _against_chance(name, Q, n_groups, 2.0 * (n_groups + beside - float(one_way.sum())), 2 * len(answers))


def _of_two(name: str, plus: Ints, minus: Ints, coin: Ints, value: Floats | None = None) -> GroupTest:
    """A test over groups, one of which gains and another loses a value (one) under every coin."""
    value = np.ones(len(coin)) if value is None else value
    x, group = np.concatenate([value, -value]), np.concatenate([plus, minus])
    return _test(name, x, group, np.concatenate([coin, coin]))


def _batches(use: CoinUse, time: Floats) -> Ints:
    """Batch of every coin: about equally many coins each, in order of time."""
    first = np.full(use.n_coins, np.inf)
    np.minimum.at(first, use.coin, time)
    order = np.searchsorted(np.sort(first), first)  # equal times are in no order
    n_batches = min(BATCHES, use.n_coins // BATCH_COINS)
    return np.asarray(order * n_batches // use.n_coins)


def _busiest(annotator: Ints, coin: Ints) -> tuple[Ints, Ints]:
    """The (annotator, coin) of those who met the most coins."""
    met = np.bincount(annotator)
    if np.count_nonzero(met) <= MOST_ANNOTATORS:
        return annotator, coin
    kept = np.zeros(len(met), dtype=bool)
    kept[np.argsort(-met, kind="stable")[:MOST_ANNOTATORS]] = True
    return annotator[kept[annotator]], coin[kept[annotator]]


def _test(name: str, x: Floats, group: Ints, coin: Ints) -> GroupTest:
    """Compare ``Q = sum over groups of z_g^2`` with its law under fair coins, ``c chi2_nu`` of the same two moments.

    Coins decide the signs of ``x``, summed per group and coin. With ``a = x / |x_group|`` and s the signs of the coins
    ``Q = s'A'A s``: mean the number of groups, variance ``2 (|AA'|^2 - sum_c (A'A)_cc^2)``.
    """
    if not len(x):
        return GroupTest(name, 1.0, 0.0)
    A = sp.coo_array((x, (compact_codes(group), coin))).tocsr()
    A.data[np.abs(A.data) <= _NOTHING] = 0.0
    A.eliminate_zeros()
    met = np.diff(A.indptr)
    n_groups, owner = int((met > 0).sum()), np.repeat(np.arange(len(met)), met)
    if not n_groups:
        return GroupTest(name, 1.0, 0.0)
    A.data /= np.sqrt(np.bincount(owner, A.data**2, len(met)))[owner]
    Q = float((np.bincount(owner, A.data) ** 2).sum())
    together, of_coin = A @ A.T, np.bincount(A.indices, A.data**2)
    variance = 2.0 * (float((together.data**2).sum()) - float((of_coin**2).sum()))
    return _against_chance(name, Q, n_groups, variance, A.nnz)


def _against_chance(name: str, Q: float, n_groups: int, variance: float, n: int) -> GroupTest:
    """Compare Q with ``c chi2_nu`` of the same mean and variance; ``n`` values in all."""
    lean = math.sqrt(max(Q - n_groups, 0.0) / n) / Z_PER_LEAN
    if variance <= 1e-9 * n_groups:
        return GroupTest(name, 1.0, lean)
    scale, freedom = variance / (2.0 * n_groups), 2.0 * n_groups**2 / variance
    return GroupTest(name, float(chdtrc(freedom, Q / scale)), lean)


@dataclass(frozen=True)
class SkippedSides:
    """Skips by the side of the better item, of everybody who skipped: the last one is whoever is not known.

    ``p_value`` : exact binomial, two-sided. ``n`` : skips that tell a side. ``majority`` : 1 where the better item
    stood left in more of them, -1 where in fewer.
    """

    n: Ints
    p_value: Floats
    majority: Ints


def skipped_sides(answers: Answers, skips: Skipped, n_items: int, n_annotators: int) -> SkippedSides:
    """Do skips depend on the side of the better item?"""
    theta = _ridge_scores(answers, n_items)
    x = theta[skips.left] - theta[skips.right]
    who = np.where(skips.annotator < 0, n_annotators, skips.annotator)
    left = np.bincount(who, skips.count * (x > 0), n_annotators + 1)
    right = np.bincount(who, skips.count * (x < 0), n_annotators + 1)
    p_value = np.minimum(2 * betainc(np.maximum(left, right), np.minimum(left, right) + 1, 0.5), 1.0)
    return SkippedSides((left + right).astype(np.int64), p_value, np.sign(left - right).astype(np.int64))


def _ridge_scores(answers: Answers, n_items: int) -> Floats:
    if not len(answers):
        return np.zeros(n_items)
    pairs = pair_sums(answers.left, answers.right, answers.weight, n_items)
    Dy = item_pull(answers.left, answers.right, answers.weight * answers.outcome, n_items)
    return item_solver(laplacian_of(pairs), ridge=ridge_for(answers)).solve(Dy)


def _halves(unit: Ints) -> Ints:
    """Split units into two halves of equal size by a fixed shuffle of their codes."""
    position = compact_codes(unit)
    rank = np.argsort(np.argsort(mix(np.arange(position.max(initial=-1) + 1).astype(np.uint64))))
    return np.asarray((rank % 2)[position])
