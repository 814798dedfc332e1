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

#: Up to this many coins the sign-flip distribution is enumerated; beyond, summed by a Fourier transform on a grid.
ENUMERATED_COINS = 12
#: Grid steps for the mean coin: sign flips of rounded residuals are an exact test too.
_GRID = 8


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
    of the residuals is as exact as that of the residuals themselves.
    """
    residual = answers.weight * (answers.outcome - (theta[answers.left] - theta[answers.right]))
    owner, total = _sums_by_coin(answers, residual)
    starts = np.searchsorted(owner, np.arange(n_annotators))
    ends = np.searchsorted(owner, np.arange(n_annotators), side="right")
    return np.array([_sign_flip_p(total[a:b]) for a, b in zip(starts, ends, strict=True)])


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


def _sign_flip_p(residual: Floats) -> float:
    size = np.abs(residual)
    if not len(residual) or size.sum() <= 1e-12:
        return 1.0
    units = np.rint(residual * (_GRID * len(residual) / size.sum())).astype(np.int64)
    units = units[units != 0]
    observed = abs(int(units.sum()))
    if len(units) <= ENUMERATED_COINS:
        sums = np.zeros(1, dtype=np.int64)
        for unit in np.abs(units):
            sums = np.concatenate([sums + unit, sums - unit])
        return float((np.abs(sums) >= observed).mean())
    return _fourier_tail(np.abs(units), observed)


def _fourier_tail(units: Ints, observed: int) -> float:
    """``P(|sum of signed units| >= observed)`` from the characteristic function ``prod cos(t u)``."""
    reach = int(units.sum())
    length = 1 << (2 * reach + 1).bit_length()
    value, count = np.unique(units, return_counts=True)
    t = 2.0 * np.pi * np.arange(length // 2 + 1) / length
    characteristic = np.ones(len(t))
    for u, k in zip(value, count, strict=True):
        characteristic *= np.cos(t * u) ** k
    pmf = np.fft.irfft(characteristic, n=length)
    tail = pmf[observed : reach + 1].sum() * (2.0 if observed > 0 else 1.0)
    tail = 1.0 if observed == 0 else float(tail)
    return float(np.clip(tail, 1e-15, 1.0))
