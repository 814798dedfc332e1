"""What a reviewer is told about one annotator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student_t

from fdr_core.comparisons import Comparisons
from fdr_core.statistics import Answers

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Grid steps for the mean coin: sign flips of rounded residuals are an exact test too.
_GRID = 8
#: Beyond this many coins neighbours are flipped together: a smaller group of flips, hence still an exact test.
_MOST_COINS = 4096
#: Numbers held at once while the distributions of many annotators are computed.
_BATCH = 4_000_000


def counts_by_choice(answers: Answers, n_annotators: int) -> tuple[Ints, Ints, Ints]:
    """Answers for the left item, for the right item, and ties."""
    left, right, tie = (
        np.bincount(answers.annotator, answers.weight * chosen, minlength=n_annotators)
        for chosen in (answers.outcome > 0, answers.outcome < 0, answers.outcome == 0)
    )
    return left.astype(np.int64), right.astype(np.int64), tie.astype(np.int64)


def match_ratio(answers: Answers, theta: Floats, n_annotators: int) -> Floats:
    """Share of answers that agree with the consensus order; a tie, on either part, counts half."""
    lead = np.sign(np.where(np.abs(gap := theta[answers.left] - theta[answers.right]) > 1e-12, gap, 0.0))
    agreement = answers.weight * (1.0 + np.sign(answers.outcome) * lead) / 2.0
    total = np.bincount(answers.annotator, answers.weight, minlength=n_annotators)
    return np.asarray(np.bincount(answers.annotator, agreement, minlength=n_annotators) / np.maximum(total, 1.0))


def bias_estimates(
    answers: Answers, theta: Floats, information: Floats, n_annotators: int
) -> tuple[Floats, Floats, Floats]:
    """Bias of each annotator given the corrected scores, with a 95 % interval that treats a coin as one observation.

    Returns
    -------
    estimate, low, high : (m,) clipped to [-1, 1].
    """
    residual = answers.outcome - (theta[answers.left] - theta[answers.right])
    n = np.bincount(answers.annotator, answers.weight, minlength=n_annotators)
    share = np.clip(information, 0.05, 1.0)
    estimate = np.bincount(answers.annotator, answers.weight * residual, minlength=n_annotators) / np.maximum(
        n * share, 1.0
    )
    centred = answers.weight * (residual - np.clip(estimate, -1.0, 1.0)[answers.annotator])
    owner, total = _sums_by_coin(answers, centred)
    coins = np.bincount(owner, minlength=n_annotators)
    spread = np.bincount(owner, total**2, minlength=n_annotators) * coins / np.maximum(coins - 1, 1)
    # one pseudo-observation keeps the interval of an annotator who never varied from collapsing
    se = np.sqrt(spread + 1.0) / np.maximum(n * share, 1.0)
    reach = np.where(coins > 1, student_t.ppf(0.975, np.maximum(coins - 1, 1)), np.inf)
    low, high = np.maximum(estimate - reach * se, -1.0), np.minimum(estimate + reach * se, 1.0)
    estimate = np.clip(estimate, -1.0, 1.0)
    return estimate, np.minimum(low, estimate), np.maximum(high, estimate)


def sign_flip_p_values(answers: Answers, theta: Floats, n_annotators: int) -> Floats:
    """Exact two-sided p-value of ``|sum of residuals|`` when the coins are flipped anew.

    Residuals are taken against a consensus that flips do not change, and rounded to a grid: the test of an odd function
    of the residuals is as exact as that of the residuals themselves. P-values below 1e-15 are given as 1e-15.
    """
    residual = answers.weight * (answers.outcome - (theta[answers.left] - theta[answers.right]))
    owner, units = _grid_units(*_sums_by_coin(answers, residual), n_annotators)
    observed = np.abs(np.bincount(owner, units, minlength=n_annotators)).astype(np.int64)
    reach = np.bincount(owner, np.abs(units), minlength=n_annotators).astype(np.int64)
    p_value = np.ones(n_annotators)
    length = 2 ** np.ceil(np.log2(2 * reach + 2)).astype(np.int64)
    for size in np.unique(length[reach > 0]):
        members = np.flatnonzero((length == size) & (reach > 0))
        step = max(1, _BATCH // int(size))
        for block in (members[i : i + step] for i in range(0, len(members), step)):
            p_value[block] = _fourier_tails(owner, units, block, observed[block], int(size))
    return np.clip(p_value, 1e-15, 1.0)


def longest_runs(comparisons: Comparisons) -> Ints:
    """Longest run of answers for one side, in order of time (ties interrupt a run)."""
    assert comparisons.time is not None
    order = np.lexsort((comparisons.time, comparisons.annotator))
    annotator, side = comparisons.annotator[order], np.sign(comparisons.outcome[order])
    longest = np.zeros(comparisons.n_annotators, dtype=np.int64)
    if not len(order):
        return longest
    new_run = np.concatenate([[True], (np.diff(annotator) != 0) | (np.diff(side) != 0)])
    starts = np.flatnonzero(new_run)
    lengths = np.diff(np.append(starts, len(order)))
    sided = side[starts] != 0
    np.maximum.at(longest, annotator[starts][sided], lengths[sided])
    return longest


def by_annotator(values: Floats, annotator: NDArray[np.int32], n_annotators: int, how: str) -> list[float | None]:
    """Minimum, maximum or median of the known values of each annotator; None where there are none."""
    found: list[float | None] = [None] * n_annotators
    known = ~np.isnan(values)
    order = np.argsort(annotator[known], kind="stable")
    owner, ordered = annotator[known][order], values[known][order]
    reductions: dict[str, Callable[[Floats], Any]] = {"min": np.min, "max": np.max, "median": np.median}
    reduce = reductions[how]
    for part in np.split(np.arange(len(owner)), np.flatnonzero(np.diff(owner)) + 1) if len(owner) else []:
        found[int(owner[part[0]])] = float(reduce(ordered[part]))
    return found


def _sums_by_coin(answers: Answers, values: Floats) -> tuple[Ints, Floats]:
    """Sums per (annotator, coin), ordered by annotator."""
    order = np.lexsort((answers.coin, answers.annotator))
    annotator, coin = answers.annotator[order], answers.coin[order]
    if not len(order):
        return annotator, np.zeros(0)
    starts = np.flatnonzero(np.concatenate([[True], (np.diff(annotator) != 0) | (np.diff(coin) != 0)]))
    return annotator[starts], np.add.reduceat(values[order], starts)


def _grid_units(owner: Ints, total: Floats, n_annotators: int) -> tuple[Ints, Ints]:
    """Residual sums per coin in whole grid units, ordered by annotator, zeros left out."""
    coins = np.bincount(owner, minlength=n_annotators)
    if (coins > _MOST_COINS).any():
        place = np.arange(len(owner)) - np.searchsorted(owner, owner)
        group = np.where(coins[owner] > _MOST_COINS, place * _MOST_COINS // np.maximum(coins[owner], 1), place)
        starts = np.flatnonzero(np.concatenate([[True], (np.diff(owner) != 0) | (np.diff(group) != 0)]))
        owner, total = owner[starts], np.add.reduceat(total, starts)
        coins = np.bincount(owner, minlength=n_annotators)
    size = np.bincount(owner, np.abs(total), minlength=n_annotators)
    scale = np.where(size > 1e-12, _GRID * coins / np.maximum(size, 1e-12), 0.0)
    units = np.rint(total * scale[owner]).astype(np.int64)
    return owner[units != 0], units[units != 0]


def _fourier_tails(owner: Ints, units: Ints, block: Ints, observed: Ints, length: int) -> Floats:
    """``P(|sum of signed units| >= observed)`` for several annotators, from ``prod cos(t u)`` on a grid of t."""
    rows = np.concatenate([np.arange(*np.searchsorted(owner, [j, j + 1])) for j in block])
    place = np.searchsorted(block, owner[rows])
    value, which = np.unique(np.abs(units[rows]), return_inverse=True)
    count = np.bincount(place * len(value) + which, minlength=len(block) * len(value)).reshape(len(block), -1)
    cosine = np.cos(np.outer(value, 2.0 * np.pi * np.arange(length // 2 + 1) / length))
    magnitude = np.exp(count @ np.log(np.maximum(np.abs(cosine), 1e-300)))
    sign = 1.0 - 2.0 * ((count @ (cosine < 0).astype(float)) % 2)
    pmf = np.fft.irfft(magnitude * sign, n=length, axis=1)
    upper = np.arange(length // 2)[None, :] >= observed[:, None]
    tail = 2.0 * (pmf[:, : length // 2] * upper).sum(axis=1)
    return np.where(observed == 0, 1.0, tail)
