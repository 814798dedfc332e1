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
from fdr_core.consensus.honest import Grades, HonestModel
from fdr_core.pieces import by_rows
from fdr_core.types import Floats, Ints, Mask

#: From this many answers on, moments of grades are interpolated on as many points (errors below 1e-6).
GRID_POINTS = 20_000
_TINY = 1e-300
#: Of an answer, on the logit scale: odds beyond would overflow.
_MOST_SUPPORT = 700.0


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
    grades : of the same answers, where they were read before.
    """

    def __init__(self, answers: Answers, side: Ints, grades: Grades | None = None) -> None:
        self._grades = Grades.of(answers.outcome) if grades is None else grades
        self._honest = HonestModel(self._grades, answers.weight)
        self._weight = answers.weight
        size = np.where(self._grades.strength >= 0, self._grades.values[self._grades.strength], 0.0)
        self._grade = np.sign(answers.outcome) * size
        self.is_yes_no = len(self._grades.values) == 1 and not self._grades.has_ties
        self.clicking = np.flatnonzero(side[answers.annotator] != 0)
        self._side = side[answers.annotator[self.clicking]]
        self._clicked, self._given = self._clicked_strengths(), self._row_in_table()

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
        by_click = np.empty((3, len(self.clicking)))

        def evaluate(place: slice) -> None:
            rows = self.clicking[place]
            found = self._weight[rows] * self._clicked_or_judged(eta[rows], click[place], place)
            log_probability[rows], score[rows], information[rows] = found[:3]
            by_click[:, place] = found[3:]

        by_rows(evaluate, len(self.clicking))
        return Derivatives(log_probability, score, information, *by_click)

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
        """The same for yes/no answers."""
        value = self._grades.values[0]
        log_probability, score, information = np.empty_like(eta), np.empty_like(eta), np.empty_like(eta)

        def evaluate(rows: slice) -> None:
            w, grade, x = self._weight[rows], self._grade[rows], eta[rows]
            support = np.minimum(grade * x, _MOST_SUPPORT)
            odds = np.exp(support)
            other = 1 / (1 + odds)  # probability of the answer that was not given
            log_probability[rows] = w * (support - np.log1p(odds))
            score[rows] = w * grade * other
            information[rows] = w * value**2 * (odds * other) * other

        by_rows(evaluate, len(eta))
        return log_probability, score, information

    def _log_normaliser(self, eta: Floats) -> Floats:
        tie = np.full(len(eta), -1)
        return np.asarray(self._honest.log_weights[0] - self._honest.log_probability(tie, eta))

    def _clicked_or_judged(self, eta: Floats, click: Floats, place: slice) -> Floats:
        """(6, K) log probability, score and information in eta, and the three derivatives that involve clicking.

        ``place`` : of these answers among the answers of those who may click.
        """
        J, grade = self._honest.table(eta)
        clicked = self._clicked[:, place]
        P = np.maximum((1 - click) * J + click * clicked, _TINY)
        by_eta = (1 - click) * J * (grade[:, None] - grade @ J) / 2
        by_click = click * (1 - click) * (clicked - J)
        given = self._given[place], np.arange(len(eta))
        seen = P[given]
        of_eta = np.log(seen), by_eta[given] / seen, (by_eta**2 / P).sum(axis=0)
        return np.stack(
            [*of_eta, by_click[given] / seen, (by_eta * by_click / P).sum(axis=0), (by_click**2 / P).sum(axis=0)]
        )

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
