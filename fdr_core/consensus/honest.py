"""What annotators agree on, fitted without looking at sides: item scores, slopes, and how strongly people answer.

The honest model is ``P(g | x) ~ w_g exp(g x / 2)`` for grade g and ``x = slope (u_left - u_right)``: logistic for
yes/no answers, adjacent categories for graded ones, with a slope per annotator out of a grid. Turning a coin changes
the sign of ``g`` and of ``x`` together, so none of it changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from fdr_core.answers import Answers
from fdr_core.codes import by_rows
from fdr_core.design import DENSE_ITEMS, ItemGraph, item_solver
from fdr_core.types import Floats, Ints, Mask

#: How much an annotator's answers follow the item scores; the share of each slope is learnt from the crowd.
SLOPES = np.array([0.1, 0.25, 0.5, 1.0, 2.0, 4.0])
#: Graded answers are read in at most this many strengths.
STRENGTHS = 8
#: Ridge on the logit scale as a share of the least-squares one. No answer is weighed by others under its own coin,
#: so utilities cannot absorb what the coin did to all of them, and a weak ridge finds more (measured).
RIDGE_SHARE = 0.03
_NEWTON_STEPS = 25
#: EM for the shares of the slopes: least and most steps, and a change of a share that no longer matters to a slope.
_EM_STEPS, _MOST_EM_STEPS, _SETTLED = 30, 300, 2e-3


@dataclass(frozen=True)
class Grades:
    """Strengths of answers: ``values`` ascending in (0, 1], ``strength`` the index of each answer, -1 for a tie."""

    values: Floats
    strength: Ints

    @classmethod
    def of(cls, outcome: Floats) -> Grades:
        """Read the strengths of a table of answers."""
        size = np.abs(outcome)
        if len(np.unique(size[size > 0])) > STRENGTHS:
            size = np.ceil(size * STRENGTHS) / STRENGTHS
        values = np.unique(size[size > 0]) if (size > 0).any() else np.ones(1)
        return cls(values, np.where(size > 0, np.searchsorted(values, size), -1))

    @property
    def has_ties(self) -> bool:
        """Whether anybody could not decide."""
        return bool((self.strength < 0).any())


def moderated(slope: float, uncertainty: Floats | float) -> Floats | float:
    """The slope that averages a logistic curve over normally distributed scores (MacKay 1992)."""
    return slope / np.sqrt(1 + np.pi / 8 * slope**2 * uncertainty)


class HonestModel:
    """Probability of a grade given the item scores; ``log_weights`` of the strengths, ties first."""

    def __init__(self, grades: Grades, weight: Floats) -> None:
        self._has_ties = grades.has_ties
        self.values = grades.values
        self.log_weights = np.zeros(len(grades.values) + 1)
        self.observed = np.bincount(grades.strength + 1, weight, len(self.log_weights))

    def log_probability(self, strength: Ints, support: Floats) -> Floats:
        """``log P`` of answers of this strength where the chosen item has this support (``x`` towards it)."""
        value = np.concatenate([[0.0], self.values])[strength + 1]
        return np.asarray(self.log_weights[strength + 1] + value * support / 2 - self._log_normaliser(support))

    def moments(self, x: Floats) -> tuple[Floats, Floats]:
        """Mean and variance of the grade."""
        if self._is_binary:
            mean = self.values[0] * np.tanh(self.values[0] * x / 2)
            return mean, self.values[0] ** 2 - mean**2
        P, grade = self.table(x)
        mean = grade @ P
        return mean, (grade**2) @ P - mean**2

    def reweigh(self, x: Floats, weight: Floats) -> None:
        """Let the model expect every strength as often as it was observed."""
        if not self.learns:
            return
        P, _ = self.table(x)
        expected = P @ weight
        k = len(self.values)
        folded = np.concatenate([expected[2 * k :], expected[:k] + expected[k : 2 * k]])
        seen = self.observed > 0
        offset = 0 if self._has_ties else 1
        self.log_weights[seen] += np.log(self.observed[seen] / folded[np.flatnonzero(seen) - offset])

    @property
    def learns(self) -> bool:
        """Whether there are strengths whose frequency can be learnt."""
        return not self._is_binary

    @property
    def _is_binary(self) -> bool:
        return len(self.values) == 1 and not self._has_ties

    def _log_normaliser(self, x: Floats) -> Floats:
        half = np.multiply.outer(self.values, np.abs(x)) / 2
        log_sum = self.log_weights[1:, None] + half + np.log1p(np.exp(-2 * half))
        if self._has_ties:
            log_sum = np.concatenate([log_sum, np.full((1, len(x)), self.log_weights[0])])
        return np.asarray(log_sum[0] if self._is_binary else np.logaddexp.reduce(log_sum, axis=0))

    def table(self, x: Floats) -> tuple[Floats, Floats]:
        """Probabilities (grade x answer) and the grades: positive, negative, tie if there are any."""
        grade = np.concatenate([self.values, -self.values, [0.0] * self._has_ties])
        log_w = np.concatenate([self.log_weights[1:], self.log_weights[1:], self.log_weights[:1][: self._has_ties]])
        return np.exp(log_w[:, None] + np.multiply.outer(grade, x) / 2 - self._log_normaliser(x)), grade


class Consensus:
    """Item utilities, slopes and grade weights, fitted without looking at sides.

    Parameters
    ----------
    ridge : of the least-squares fit, which grows with the answers per coin.
    near : whose utilities to begin with; the fit ends at the same place without it, only later.

    Attributes
    ----------
    converged : whether the last fits of the utilities and of the slopes settled.
    grade : (rows,) of every answer, positive for the left item.
    slope : (annotators,) how much each one's answers follow the utilities.
    """

    def __init__(
        self, answers: Answers, *, n_items: int, n_annotators: int, ridge: float, near: Consensus | None = None
    ) -> None:
        self._answers, self._n_items, self._m = answers, n_items, n_annotators
        self._ridge = RIDGE_SHARE * ridge
        self.grades = Grades.of(answers.outcome)
        self.honest = HonestModel(self.grades, answers.weight)
        side = np.sign(answers.outcome)
        self.grade = side * np.where(self.grades.strength >= 0, self.grades.values[self.grades.strength], 0.0)
        self._graph = ItemGraph(answers, n_items)
        self._u: Floats = np.zeros(n_items) if near is None else near._u
        self._fit(np.ones(n_annotators))
        is_fitted = self._fit(self._learn_slopes()[0])
        self.converged = self._learn_slopes()[1] and is_fitted

    @cached_property
    def support(self) -> Floats:
        """``u_chosen - u_other`` (in ties ``u_left - u_right``) without the answer itself: one leave-one-out step."""
        found, of_gap = np.empty(len(self._answers)), self.uncertainty

        def evaluate(rows: slice) -> None:
            grade, uncertainty = self.grade[rows], of_gap[rows]
            slope, x = self._predicted(self._u, rows)
            mean, variance = self.honest.moments(x)
            leverage = slope**2 * variance / 4 * uncertainty
            own_pull = slope * (grade - mean) / 2 * uncertainty / (1 - np.minimum(leverage, 0.9))
            gap = self.gap(self._answers.left[rows], self._answers.right[rows])
            found[rows] = np.where(grade < 0, -1.0, 1.0) * (gap - np.where(grade != 0, own_pull, 0.0))

        by_rows(evaluate, len(found))
        return found

    @cached_property
    def slopes(self) -> tuple[Floats, Floats]:
        """The slopes that occur in this crowd, and how common they are."""
        kept = self._share > 1e-3
        return SLOPES[kept], self._share[kept] / self._share[kept].sum()

    def _fit(self, slope: Floats) -> bool:
        """Newton steps for the utilities, alternating with the weights of the grades; whether they settled."""
        self.slope = slope
        u, converged = self._u, False
        for _ in range(_NEWTON_STEPS):
            pull, self._information = self._derivatives(u)
            gradient = self._graph.pull(pull) - self._ridge * u
            laplacian = self._graph.laplacian(self._graph.links(self._information))
            self._solver = item_solver(laplacian, ridge=self._ridge)
            step = self._solver.solve(gradient)
            u = u + np.clip(step, -2.0, 2.0)
            if np.abs(step).max(initial=0.0) < 1e-3:
                converged = True
                break
        self._u = u
        return converged

    def _derivatives(self, u: Floats) -> tuple[Floats, Floats]:
        """Of the log-likelihood in ``u_left - u_right``, per answer: first, and expected second."""
        answers = self._answers
        if self.honest.learns:
            self.honest.reweigh(self._predicted(u, slice(None))[1], answers.weight)
        pull, information = np.empty(len(answers)), np.empty(len(answers))

        def evaluate(rows: slice) -> None:
            slope, x = self._predicted(u, rows)
            mean, variance = self.honest.moments(x)
            scaled = answers.weight[rows] * slope / 2
            pull[rows], information[rows] = scaled * (self.grade[rows] - mean), scaled * slope * variance / 2

        by_rows(evaluate, len(answers))
        return pull, information

    def _predicted(self, u: Floats, rows: slice) -> tuple[Floats, Floats]:
        """Slope, and ``slope (u_left - u_right)``, per answer."""
        slope = self.slope[self._answers.annotator[rows]]
        return slope, slope * (u[self._answers.left[rows]] - u[self._answers.right[rows]])

    @cached_property
    def uncertainty(self) -> Floats:
        """Variance of ``u_left - u_right`` per answer; beyond the dense size from the diagonal alone."""
        return self.gap_variance(self._answers.left, self._answers.right)

    def gap(self, left: Ints, right: Ints) -> Floats:
        """``u_left - u_right`` of any pairs, nothing left out."""
        return np.asarray(self._u[left] - self._u[right])

    def gap_variance(self, left: Ints, right: Ints) -> Floats:
        """Variance of ``u_left - u_right`` of any pairs."""
        if self.covariance is None:
            return np.asarray(self._variance[left] + self._variance[right])
        V, d, found = self.covariance, np.diag(self.covariance), np.empty(len(left))

        def evaluate(rows: slice) -> None:
            one, two = left[rows], right[rows]
            found[rows] = d[one] + d[two] - 2 * V[one, two]

        by_rows(evaluate, len(left))
        return found

    @property
    def unknown_gap_variance(self) -> float:
        """Variance of the gap between two items that no answer is about."""
        return 2 / self._ridge

    @cached_property
    def covariance(self) -> Floats | None:
        """Covariance of the utilities, None beyond the dense size."""
        return self._solver.solve(np.eye(self._n_items)) if self._n_items <= DENSE_ITEMS else None

    @cached_property
    def _variance(self) -> Floats:
        left, right, n = self._answers.left, self._answers.right, self._n_items
        diagonal = np.bincount(left, self._information, n) + np.bincount(right, self._information, n) + self._ridge
        return np.asarray(1 / diagonal)

    def _learn_slopes(self) -> tuple[Floats, bool]:
        """EM for how common each slope is; returns every annotator's expected slope, and whether shares settled."""
        answers = self._answers
        x = np.where(self.grade < 0, -1.0, 1.0) * (self._u[answers.left] - self._u[answers.right])
        log_likelihood = self._log_likelihoods(x)
        likelihood = np.exp(log_likelihood - log_likelihood.max(axis=0))
        share = np.full(len(SLOPES), 1 / len(SLOPES))
        for n_steps in range(1, _MOST_EM_STEPS + 1):
            total = share @ likelihood
            before, share = share, np.maximum(share * (likelihood @ (1 / total)) / self._m, 1e-4)
            share = share / share.sum()
            settled = bool(np.abs(share - before).max() < _SETTLED)
            if settled and n_steps >= _EM_STEPS:
                break
        self._share = share
        return np.asarray((SLOPES * before) @ likelihood / total), settled

    def _log_likelihoods(self, support: Floats) -> Floats:
        """Per slope and annotator."""
        answers, strength = self._answers, self.grades.strength
        log_p = np.empty(len(support))

        def evaluate(rows: slice, slope: float) -> None:
            log_p[rows] = answers.weight[rows] * self.honest.log_probability(strength[rows], slope * support[rows])

        found = []
        for slope in SLOPES:
            by_rows(partial(evaluate, slope=slope), len(support))
            found.append(np.bincount(answers.annotator, log_p, self._m))
        return np.array(found)


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
