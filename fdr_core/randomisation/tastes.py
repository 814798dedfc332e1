"""Tastes of their own: what annotators with many answers think of the items, beyond the consensus.

Judges answer thousands of times about a few items, and differ from each other. An answer of theirs is weighed by their
own scores ``slope u + d_j``: d_j is fitted to the annotator's answers with a normal prior, whose variance is learnt
from all of them together on the first steps (MacKay 1992). Sides play no part in it, as in the consensus.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fdr_core.answers import Answers
from fdr_core.consensus.honest import Consensus
from fdr_core.types import Floats, Ints

#: Answers per item from which on an annotator's own taste is fitted.
ANSWERS_PER_ITEM = 10
#: Annotators times items^3, what one step of the fits takes, beyond which nobody's is: some ten seconds in all.
MOST_WORK = 5e7
_STEPS, _VARIANCE_STEPS, _LONGEST_STEP, _TOLERANCE = 25, 10, 2.0, 1e-3
#: Variance of a taste to begin with, and the least.
_VARIANCE, _LEAST_VARIANCE = 0.5, 1e-3


@dataclass(frozen=True)
class Tastes:
    """Deviations from the consensus.

    Attributes
    ----------
    place : (annotators,) row of those who have a taste of their own, -1 for the others.
    deviation : (k, items) of the scores, in the units of the utilities.
    covariance : (k, items, items) of the own scores.
    converged : whether the fit settled.
    """

    place: Ints
    deviation: Floats
    covariance: Floats
    converged: bool

    def gaps(self, consensus: Consensus, annotator: Ints, left: Ints, right: Ints) -> tuple[Floats, Floats]:
        """``u_left - u_right`` as each annotator sees it, and its variance."""
        gap, variance = consensus.gap(left, right), consensus.gap_variance(left, right)
        own = np.flatnonzero(self.place[annotator] >= 0)
        k, one, two = self.place[annotator[own]], left[own], right[own]
        gap[own] += self.deviation[k, one] - self.deviation[k, two]
        V = self.covariance
        variance[own] = V[k, one, one] + V[k, two, two] - 2 * V[k, one, two]
        return gap, variance


def who_has_many(answers: Answers, judged: Ints, n_items: int, n_annotators: int) -> Ints:
    """The judged with enough answers for a taste of their own; nobody where fitting them all would take too long."""
    counts = np.bincount(answers.annotator, answers.weight, minlength=n_annotators)
    many = judged[counts[judged] >= ANSWERS_PER_ITEM * n_items]
    return many if len(many) * float(n_items) ** 3 <= MOST_WORK else many[:0]


def fit_tastes(answers: Answers, consensus: Consensus, who: Ints, n_items: int, n_annotators: int) -> Tastes:
    """Fit the tastes of ``who``, with the answers and the consensus that may be known."""
    place = np.full(n_annotators, -1)
    place[who] = np.arange(len(who))
    shape = (len(who), n_items)
    if not len(who):
        return Tastes(place, np.zeros(shape), np.zeros((*shape, n_items)), True)
    rows = np.flatnonzero((place[answers.annotator] >= 0) & (answers.weight > 0))
    k, left, right = place[answers.annotator[rows]], answers.left[rows], answers.right[rows]
    slope = consensus.slope[answers.annotator[rows]]
    problem = _OwnScores(k, left, right, answers.weight[rows], consensus.grade[rows], shape)
    agreed = slope * consensus.gap(left, right)
    d, variance, converged = np.zeros(shape), _VARIANCE, False
    for n_steps in range(1, _STEPS + 1):
        mean, spread = consensus.honest.moments(agreed + d[k, left] - d[k, right])
        covariance = np.linalg.inv(problem.information(spread) + np.eye(n_items) / variance)
        step = np.einsum("kab,kb->ka", covariance, problem.score(mean) - d / variance)
        d = d + np.clip(step, -_LONGEST_STEP, _LONGEST_STEP)
        settled = n_steps > _VARIANCE_STEPS
        if not settled:
            determined = d.size - float(np.einsum("kaa->", covariance)) / variance
            before, variance = variance, max(float((d**2).sum()) / max(determined, 1.0), _LEAST_VARIANCE)
            settled = abs(variance - before) < _TOLERANCE * before
        if settled and np.abs(step).max() < _TOLERANCE:
            converged = True
            break
    scale = consensus.slope[who]
    return Tastes(place, d / scale[:, None], covariance / scale[:, None, None] ** 2, converged)


@dataclass(frozen=True)
class _OwnScores:
    """Answers of several annotators as functions of their own scores: ``k`` whose, on which items, how weighed."""

    k: Ints
    left: Ints
    right: Ints
    weight: Floats
    grade: Floats
    shape: tuple[int, int]

    def score(self, mean: Floats) -> Floats:
        """Gradient of the log-likelihood."""
        pull = self.weight * (self.grade - mean) / 2
        n = self.shape[1]
        total = np.bincount(self.k * n + self.left, pull, self.shape[0] * n)
        total -= np.bincount(self.k * n + self.right, pull, self.shape[0] * n)
        return np.asarray(total.reshape(self.shape), dtype=np.float64)

    def information(self, variance: Floats) -> Floats:
        """(k, items, items) Laplacians of the expected information."""
        m, n = self.shape
        pair = (self.k * n + self.left) * n + self.right
        links = np.bincount(pair, self.weight * variance / 4, m * n * n).reshape(m, n, n)
        links = links + links.transpose(0, 2, 1)
        found = -links
        found[:, np.arange(n), np.arange(n)] += links.sum(axis=2)
        return np.asarray(found, dtype=np.float64)
