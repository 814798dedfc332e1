"""What a reviewer is told about one annotator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fdr_core.answers import Answers
from fdr_core.codes import order_by
from fdr_core.randomisation.convolution import SignSums, group_starts
from fdr_core.types import Floats, Ints


def counts_by_choice(answers: Answers, n_annotators: int) -> tuple[Ints, Ints, Ints]:
    """Answers for the left item, for the right item, and ties."""
    left, right, tie = (
        np.bincount(answers.annotator, answers.weight * chosen, minlength=n_annotators)
        for chosen in (answers.outcome > 0, answers.outcome < 0, answers.outcome == 0)
    )
    return left.astype(np.int64), right.astype(np.int64), tie.astype(np.int64)


def match_ratio(answers: Answers, theta: Floats, n_annotators: int) -> Floats:
    """Share of answers that agree with the consensus order; a tie in either counts half."""
    lead = np.sign(np.where(np.abs(gap := theta[answers.left] - theta[answers.right]) > 1e-12, gap, 0.0))
    agreement = answers.weight * (1.0 + np.sign(answers.outcome) * lead) / 2.0
    total = np.bincount(answers.annotator, answers.weight, minlength=n_annotators)
    return np.asarray(np.bincount(answers.annotator, agreement, minlength=n_annotators) / np.maximum(total, 1.0))


def sign_flip_p_values(answers: Answers, theta: Floats, n_annotators: int) -> Floats:
    """Exact two-sided p-value of ``|sum of residuals|`` when the coins are flipped anew.

    Residuals are taken against a consensus that flips do not change, and rounded to a grid: the test of an odd function
    of the residuals is as exact as that of the residuals themselves. P-values below 1e-15 are given as 1e-15.
    """
    residual = answers.weight * (answers.outcome - (theta[answers.left] - theta[answers.right]))
    return SignSums.of(*_sums_by_coin(answers, residual), n_annotators).p_values()


def in_time(
    annotator: Ints | NDArray[np.int32],
    outcome: Floats,
    time: Floats | None,
    lead_time: Floats | None,
    n_annotators: int,
) -> dict[str, list[Any]]:
    """First and last answer, longest run for one side and median lead time; only what the data tell.

    Parameters
    ----------
    annotator, outcome, time, lead_time : (N,) one entry per answer; NaN where a time is unknown.

    Returns
    -------
    dict of ``first_seen``, ``last_seen``, ``longest_run``, ``median_lead_time``, each with one value per annotator,
    None where nothing is known about an annotator.
    """
    found: dict[str, list[Any]] = {}
    if time is not None:
        found["first_seen"] = by_annotator(time, annotator, n_annotators, "min")
        found["last_seen"] = by_annotator(time, annotator, n_annotators, "max")
        found["longest_run"] = longest_runs(annotator, outcome, time, n_annotators).tolist()
    if lead_time is not None:
        found["median_lead_time"] = by_annotator(lead_time, annotator, n_annotators, "median")
    return found


def longest_runs(annotator: Ints | NDArray[np.int32], outcome: Floats, time: Floats, n_annotators: int) -> Ints:
    """Longest run of answers for one side, in order of time (ties interrupt a run)."""
    order = np.lexsort((time, annotator))
    annotator, side = annotator[order], np.sign(outcome[order])
    longest = np.zeros(n_annotators, dtype=np.int64)
    if not len(order):
        return longest
    new_run = np.concatenate([[True], (np.diff(annotator) != 0) | (np.diff(side) != 0)])
    starts = np.flatnonzero(new_run)
    lengths = np.diff(np.append(starts, len(order)))
    sided = side[starts] != 0
    np.maximum.at(longest, annotator[starts][sided], lengths[sided])
    return longest


def by_annotator(
    values: Floats, annotator: Ints | NDArray[np.int32], n_annotators: int, how: str
) -> list[float | None]:
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
    order = order_by(answers.annotator, answers.coin)
    annotator, coin = answers.annotator[order], answers.coin[order]
    if not len(order):
        return annotator, np.zeros(0)
    starts = group_starts(annotator, coin)
    return annotator[starts], np.add.reduceat(values[order], starts)
