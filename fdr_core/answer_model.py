"""How an answer follows from item scores, a slope, a lean and clicks, with the derivatives that a fit needs.

An annotator judges with ``eta = slope (theta_left - theta_right) + lean`` and answers grade g with probability
``J(g) ~ w_g exp(g eta / 2)``: Bradley-Terry for yes/no answers, adjacent categories for graded ones, ties as the grade
0. A flagged annotator clicks its side with probability ``c`` instead, whatever stands there, with the strengths C of
its answers on that side: ``P(g) = (1 - c) J(g) + c C(g)``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fdr_core.answers import Answers
from fdr_core.consensus import Grades, HonestModel
from fdr_core.types import Floats, Ints, Mask

#: From this many answers on, moments of grades are interpolated on as many points (errors below 1e-6).
GRID_POINTS = 20_000
_TINY = 1e-300
#: Answers that are evaluated at once.
_BLOCK = 16_384


@dataclass(frozen=True)
class Derivatives:
    """Of the log-likelihood at every answer, weighted by how often the answer was given.

    Attributes
    ----------
    log_likelihood : (N,).
    score, information : (N,) first derivative and expected information in eta.
    click_score, click_cross, click_information : (K,) at the answers of those who may click: first derivative in the
        log odds of clicking, expected information between it and eta, and its own.
    """

    log_likelihood: Floats
    score: Floats
    information: Floats
    click_score: Floats
    click_cross: Floats
    click_information: Floats


class AnswerModel:
    """Probabilities of the given answers.

    Parameters
    ----------
    side : (m,) the side that an annotator may click: 1 left, -1 right, 0 where it only judges.
    """

    def __init__(self, answers: Answers, side: Ints) -> None:
        self._grades = Grades.of(answers.outcome)
        self._honest = HonestModel(self._grades, answers.weight)
        self._weight = answers.weight
        size = np.where(self._grades.strength >= 0, self._grades.values[self._grades.strength], 0.0)
        self._grade = np.sign(answers.outcome) * size
        self.is_yes_no = len(self._grades.values) == 1 and not self._grades.has_ties
        self.clicking = np.flatnonzero(side[answers.annotator] != 0)
        self._side = side[answers.annotator[self.clicking]]
        self._clicked = self._clicked_strengths()

    def learn(self, eta: Floats) -> bool:
        """Let every strength be as common as observed; returns whether anything was there to learn."""
        if self.is_yes_no:
            return False
        if len(eta) <= GRID_POINTS:
            self._honest.reweigh(eta, self._weight)
            return True
        grid = _grid(eta)
        nearest = np.rint((eta - grid[0]) / (grid[1] - grid[0])).astype(np.int64)
        self._honest.reweigh(grid, np.asarray(np.bincount(nearest, self._weight, len(grid)), dtype=np.float64))
        return True

    def at(self, eta: Floats, click: Floats) -> Derivatives:
        """Evaluate where ``click`` (K,) is the probability of clicking at the answers of those who may."""
        log_probability, score, information = self._judged(eta)
        nothing = np.zeros(0)
        if not len(self.clicking):
            return Derivatives(log_probability, score, information, nothing, nothing, nothing)
        w = self._weight[self.clicking]
        log_p, score_k, information_k, by_click = self._clicked_or_judged(eta[self.clicking], click)
        log_probability[self.clicking] = w * log_p
        score[self.clicking], information[self.clicking] = w * score_k, w * information_k
        return Derivatives(log_probability, score, information, w * by_click[0], w * by_click[1], w * by_click[2])

    def _judged(self, eta: Floats) -> tuple[Floats, Floats, Floats]:
        """Weighted log probability of the answers, its derivative and expected information, where nobody clicks."""
        if self.is_yes_no:
            return self._answered_yes_no(eta)
        if len(eta) <= GRID_POINTS:
            mean, variance = self._honest.moments(eta)
            normaliser = self._log_normaliser(eta)
        else:
            grid = _grid(eta)
            mean, variance = (np.interp(eta, grid, at_grid) for at_grid in self._honest.moments(grid))
            normaliser = np.interp(eta, grid, self._log_normaliser(grid))
        log_weight = self._honest.log_weights[self._grades.strength + 1]
        log_probability = log_weight + self._grade * eta / 2 - normaliser
        w = self._weight
        return w * log_probability, w * (self._grade - mean) / 2, w * variance / 4

    def _answered_yes_no(self, eta: Floats) -> tuple[Floats, Floats, Floats]:
        """The same for yes/no answers, block by block: what is computed on the way stays in the processor's cache."""
        value = self._grades.values[0]
        log_probability, score, information = np.empty_like(eta), np.empty_like(eta), np.empty_like(eta)
        for start in range(0, len(eta), _BLOCK):
            rows = slice(start, start + _BLOCK)
            w, grade, x = self._weight[rows], self._grade[rows], eta[rows]
            mean = np.tanh(x * (value / 2))
            support = grade * x
            log_probability[rows] = w * (np.minimum(support, 0.0) - np.log1p(np.exp(-np.abs(support))))
            score[rows] = w * (grade - value * mean) / 2
            information[rows] = w * (value**2 * (1 - mean**2)) / 4
        return log_probability, score, information

    def _log_normaliser(self, eta: Floats) -> Floats:
        tie = np.full(len(eta), -1)
        return np.asarray(self._honest.log_weights[0] - self._honest.log_probability(tie, eta))

    def _clicked_or_judged(
        self, eta: Floats, click: Floats
    ) -> tuple[Floats, Floats, Floats, tuple[Floats, Floats, Floats]]:
        """Log probability, score and information in eta, and the three derivatives that involve clicking."""
        J, grade = self._honest.table(eta)
        P = np.maximum((1 - click) * J + click * self._clicked, _TINY)
        by_eta = (1 - click) * J * (grade[:, None] - grade @ J) / 2
        by_click = click * (1 - click) * (self._clicked - J)
        rows = np.arange(len(eta))
        given = self._row_in_table()
        seen = P[given, rows]
        clicks = (by_click[given, rows] / seen, (by_eta * by_click / P).sum(axis=0), (by_click**2 / P).sum(axis=0))
        return np.log(seen), by_eta[given, rows] / seen, (by_eta**2 / P).sum(axis=0), clicks

    def _row_in_table(self) -> Ints:
        """Where the given answers stand in `HonestModel.table`: positive grades, negative ones, tie."""
        strength, k = self._grades.strength[self.clicking], len(self._grades.values)
        return np.where(strength < 0, 2 * k, np.where(self._grade[self.clicking] < 0, k + strength, strength))

    def _clicked_strengths(self) -> Floats:
        """``C`` (grade x answer): how strongly those who may click answer on their side."""
        strength, k = self._grades.strength[self.clicking], len(self._grades.values)
        on_side = np.sign(self._grade[self.clicking]) == self._side
        share = np.bincount(strength[on_side], self._weight[self.clicking][on_side], k) + 1.0
        share = (share / share.sum())[:, None]
        is_left: Mask = self._side > 0
        tie = [np.zeros((1, len(self._side)))] if self._grades.has_ties else []
        return np.concatenate([share * is_left, share * ~is_left, *tie])


def _grid(eta: Floats) -> Floats:
    reach = float(np.abs(eta).max()) + 1e-9
    return np.linspace(-reach, reach, GRID_POINTS + 1)
