"""Coins that several annotators met: one order per task for everybody, as Label Studio shows tasks.

Where others lean, what they chose tells how the coin fell. So an answer is weighed by what is known from other parts of
the coins alone, and a proof is by bets on the coins in a fixed order, each from what is known from earlier ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit

from fdr_core.answers import Answers
from fdr_core.codes import compact_codes, mix, smallest_by
from fdr_core.consensus.honest import Consensus
from fdr_core.randomisation.coins import Crowd, examine_units
from fdr_core.randomisation.convolution import group_starts
from fdr_core.randomisation.results import Tests
from fdr_core.randomisation.units import UnitRows
from fdr_core.types import Floats, Ints, Mask

#: Probabilities of clicking the side that are bet on.
CLICKS = np.array([0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9, 0.99])
#: Bets: on the left side with every probability, then on the right.
N_BETS = 2 * len(CLICKS)
#: The choice is never taken as more certain than this.
MOST_CERTAIN = 0.95
#: Largest exponent of an e-value that is written as a number.
_MOST = 700.0


def log_odds(outcome: Floats, chosen: Floats) -> Floats:
    """How much each answer speaks for each bet: ``log a(its side) / a(the other)``, none where it is a tie.

    Parameters
    ----------
    outcome : (rows,) positive where the left item was chosen.
    chosen : (rows,) probability of the chosen item where the annotator judges.

    Returns
    -------
    (rows, bets)
    """
    judged = np.multiply.outer(np.clip(chosen, 1 - MOST_CERTAIN, MOST_CERTAIN), 1.0 - CLICKS)
    size = np.sign(outcome)[:, None] * np.log1p(CLICKS / judged)
    return np.concatenate([size, -size], axis=1)


def log_factors(odds: Floats) -> Floats:
    """By what a coin multiplies the wealth, ``log(2 / (1 + exp(-odds)))``; ``odds`` summed over its answers."""
    return np.asarray(np.log(2.0) - np.logaddexp(0.0, -odds))


def log_e_values(log_wealth: Floats) -> Floats:
    """Mean wealth over the bets, the last axis, in logs."""
    return np.asarray(np.logaddexp.reduce(log_wealth, axis=-1) - np.log(N_BETS))


def as_e(log_e: Floats) -> Floats:
    """E-values as numbers, none of them infinite."""
    return np.asarray(np.exp(np.minimum(log_e, _MOST)))


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


#: Parts of the coins: so many, and fewer where there are many answers and each part has enough.
PARTS, MANY_ANSWERS, PARTS_OF_MANY = 20, 50_000, 5
#: Bets on a part know about so many groups of earlier parts.
BLOCKS, BLOCKS_OF_MANY = 5, 3
_UNITS_AT_ONCE = 50_000


def shared_coins(crowd: Crowd) -> Tests:
    """Test annotators who met the same coins: an answer is weighed by answers under other coins only.

    Utilities for the answers under a coin come from the other parts of the coins (items of their own leave every answer
    weighing the same), and weights of annotators know no p-values unless the tests are as good as independent.
    """
    units = UnitRows.of(crowd.answers, crowd.judged, crowd.n_annotators)
    part = parts_of_coins(crowd)
    if nothing_in_common(part, crowd.answers, crowd.n_items):
        known = Known.nothing(crowd, units)
        chosen = np.full(len(units.rows), 0.5)
    else:
        known = cross_fitted(crowd, units, part)
        chosen = known_from_earlier(crowd, units, part).chosen(crowd, units)
    tested = examine_units(crowd, units, known.consensus, known.support, known.uncertainty, room=1.0)
    log_e = log_wealth(crowd, units, chosen)
    return replace(tested, converged=tested.converged and known.converged, log_e=log_e)


@dataclass(frozen=True)
class Known:
    """What answers under some coins say of answers under others.

    Attributes
    ----------
    consensus : of the last fit, whose slopes and grades stand for all.
    support, uncertainty : of the chosen items, per row of the units; whoever has answers enough is asked for its own
        taste, the others for the consensus.
    slope : (rows,) how much the annotator's answers follow it.
    converged : whether every fit settled.
    """

    consensus: Consensus
    support: Floats
    uncertainty: Floats
    slope: Floats
    converged: bool

    @classmethod
    def nothing(cls, crowd: Crowd, units: UnitRows) -> Known:
        """Where no item is met under other coins."""
        consensus, n = crowd.consensus(), len(units.rows)
        unknown = np.full(n, consensus.unknown_gap_variance)
        return cls(consensus, np.zeros(n), unknown, np.ones(n), consensus.converged)

    def chosen(self, crowd: Crowd, units: UnitRows) -> Floats:
        """Probability that somebody who judges chooses the item that was chosen, rather than the other as strongly."""
        size = np.abs(crowd.answers.outcome[units.rows])
        steepness = self.slope / np.sqrt(1 + np.pi / 8 * self.slope**2 * self.uncertainty)
        return np.asarray(expit(size * steepness * self.support))


def cross_fitted(crowd: Crowd, units: UnitRows, part: Ints) -> Known:
    """What is known from the parts of the coins that an answer is not in."""
    return _known(crowd, units, part, lambda k: part != k)


def known_from_earlier(crowd: Crowd, units: UnitRows, part: Ints) -> Known:
    """What is known from earlier parts of the coins; the parts come in blocks."""
    n_blocks = BLOCKS if len(crowd.answers) <= MANY_ANSWERS else BLOCKS_OF_MANY
    block = part * n_blocks // (int(part.max()) + 1)
    return _known(crowd, units, block, lambda k: block < k)


def _known(crowd: Crowd, units: UnitRows, part: Ints, knows: Callable[[int], Mask]) -> Known:
    answers, of_row = crowd.answers, part[units.rows]
    support, uncertainty, slope = np.zeros(len(of_row)), np.ones(len(of_row)), np.ones(len(of_row))
    with_taste = who_has_many(answers, crowd.judged, crowd.n_items, crowd.n_annotators)
    consensus, converged = None, True
    for k in np.unique(part):
        mine = np.flatnonzero(of_row == k)
        others = replace(answers, weight=answers.weight * knows(int(k)))
        if not others.weight.any():
            continue
        consensus = crowd.consensus(others, near=consensus)
        tastes = fit_tastes(others, consensus, with_taste, crowd.n_items, crowd.n_annotators)
        converged &= consensus.converged and tastes.converged
        asked = answers.take(units.rows[mine])
        gap, uncertainty[mine] = tastes.gaps(consensus, asked.annotator, asked.left, asked.right)
        support[mine] = np.where(asked.outcome < 0, -1.0, 1.0) * gap
        slope[mine] = consensus.slope[asked.annotator]
    consensus = crowd.consensus() if consensus is None else consensus
    return Known(consensus, support, uncertainty, slope, converged)


def log_wealth(crowd: Crowd, units: UnitRows, chosen: Floats) -> Floats:
    """(judged,) log e-values: bets on every coin, each answered pair's probability from earlier coins."""
    log_factor = np.zeros((len(crowd.judged), N_BETS))
    outcome, weight = crowd.answers.outcome[units.rows], crowd.answers.weight[units.rows]
    ends = np.append(units.starts, len(units.rows))
    owner = units.position[units.starts]
    for first in range(0, len(units.starts), _UNITS_AT_ONCE):  # by units: rows times bets are many numbers
        some = slice(first, min(first + _UNITS_AT_ONCE, len(units.starts)))
        rows = slice(ends[some.start], ends[some.stop])
        odds = weight[rows, None] * log_odds(outcome[rows], chosen[rows])
        won = log_factors(np.add.reduceat(odds, units.starts[some] - rows.start, axis=0))
        whose = group_starts(owner[some])
        log_factor[owner[some][whose]] += np.add.reduceat(won, whose, axis=0)
    return log_e_values(log_factor)


def nothing_in_common(part: Ints, answers: Answers, n_items: int) -> bool:
    """Whether no item is met in two parts of the coins: then other parts say nothing about any of them."""
    first, last = np.full(n_items, np.iinfo(np.int64).max), np.full(n_items, -1)
    for item in (answers.left, answers.right):
        np.minimum.at(first, item, part)
        np.maximum.at(last, item, part)
    return bool((last <= first).all())


def parts_of_coins(crowd: Crowd) -> Ints:
    """The part of every row's coin, by what its answers are labelled with, in whatever order they came.

    New answers leave it where it is, until there are `MANY_ANSWERS` and fewer parts.
    """
    answers = crowd.answers
    coin = compact_codes(answers.coin)
    key = coin.astype(np.uint64) if crowd.part_key is None else smallest_by(coin, crowd.part_key)[coin]
    n_parts = PARTS if len(answers) <= MANY_ANSWERS else PARTS_OF_MANY
    return (mix(key) % np.uint64(n_parts)).astype(np.int64)
