"""The penalised logistic fit of item scores and of every annotator's slope, lean and clicks.

Maximised is ``sum log P(answer) - |theta|^2 / (2 s^2) - sum_j |phi_j / sd_j|^2 / 2`` (see `answer_model` for P), with
``phi_j`` = lean, log slope and log odds of clicking of annotator j: Newton steps with the expected information, the
annotators' parameters eliminated.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg as sla
import scipy.sparse as sp
from scipy.special import expit

from fdr_core.answers import Answers
from fdr_core.codes import by_rows
from fdr_core.consensus.honest import AnswerModel, Derivatives, Grades
from fdr_core.design import DENSE_ITEMS, ItemGraph, Pattern, SparseItems, components_of
from fdr_core.types import Floats, Ints, Mask

#: Parameters are eliminated up to this many multiplications: at every step, and once for the covariance.
MOST_WORK_PER_STEP, MOST_WORK_ONCE = 1e8, 4e9
_BLOCK = 5000


def work_of(n_items: int, n_parameters: int) -> float:
    """Multiplications that eliminating the parameters takes; infinite where there are too many items for it."""
    return float(n_items) ** 2 * n_parameters if n_items <= DENSE_ITEMS else np.inf


class Incidence(ItemGraph):
    """Which items were compared, and which annotators met which items."""

    def __init__(self, answers: Answers, n_items: int, n_annotators: int) -> None:
        super().__init__(answers, n_items)
        self._annotator = answers.annotator
        component = components_of(self.laplacian(np.ones(self.n_links)))
        self.rank = n_items - int(component.max(initial=-1) + 1)
        self._met = Met(self, answers.annotator, np.zeros(n_annotators, dtype=bool))

    def met_by(self, chosen: Mask) -> Met:
        """Which of the chosen annotators met which items; remembered until others are asked for."""
        if not np.array_equal(chosen, self._met.chosen):
            self._met = Met(self, self._annotator, chosen)
        return self._met


class Met:
    """Which of the chosen annotators met which items."""

    def __init__(self, incidence: Incidence, annotator: Ints, chosen: Mask) -> None:
        self.chosen = chosen
        self._rows = np.flatnonzero(chosen[annotator])
        code = (np.cumsum(chosen) - 1)[annotator[self._rows]]
        items = np.concatenate([incidence.left[self._rows], incidence.right[self._rows]])
        self.places = Pattern(items, np.concatenate([code, code]), (incidence.n_items, int(chosen.sum())))

    def signed(self, value: Floats) -> Floats:
        """``D'VA`` at the places."""
        of_chosen = value[self._rows]
        return self.places.sums(np.concatenate([of_chosen, -of_chosen]))


class Eliminated:
    """``K - U U'``: information on the item scores when the annotators' parameters are eliminated.

    Parameters
    ----------
    laplacian : information on the scores alone, without the ridge.
    U : (n, p) information between scores and parameters, times a square root of the parameters' covariance.
    """

    def __init__(self, laplacian: sp.csr_array, ridge: float, U: sp.csr_array) -> None:
        self.laplacian, self.ridge, self._U = laplacian, ridge, U

    def solve(self, b: Floats) -> Floats:
        """Return ``(K - U U')^{-1} b``."""
        if not self._fits:
            return SparseItems(self.laplacian, self.ridge, tolerance=1e-7).solve(b)
        factor = sla.cho_factor(self._dense(self._U), overwrite_a=True, check_finite=False)
        return np.asarray(sla.cho_solve(factor, b, check_finite=False))

    def inverse(self, essential: Mask) -> Floats | None:
        """The covariance of the scores; None beyond `DENSE_ITEMS`.

        Where eliminating everybody takes too long, parameters that are not ``essential`` (p,) are taken as known.
        """
        if not self._fits:
            return None
        U = (
            self._U
            if work_of(*self._U.shape) <= MOST_WORK_ONCE
            else sp.csr_array(self._U[:, np.flatnonzero(essential)])
        )
        return np.asarray(sla.inv(self._dense(U), check_finite=False))

    @property
    def _fits(self) -> bool:
        return bool(self.laplacian.shape[0] <= DENSE_ITEMS)

    def _dense(self, U: sp.csr_array) -> Floats:
        K: Floats = self.laplacian.toarray()
        K[np.diag_indices_from(K)] += self.ridge
        columns = sp.csc_array(U)
        for start in range(0, U.shape[1], _BLOCK):
            block = columns[:, start : start + _BLOCK].toarray()
            K -= block @ block.T
        return K


LEAN, SLOPE, CLICK = 0, 1, 2
_NEWTON_STEPS, _SPREAD_STEPS, _HALVINGS = 60, 8, 12
_TOLERANCE, _LONGEST_STEP = 1e-4, 2.0


@dataclass(frozen=True)
class Spreads:
    """Prior standard deviations: of scores, and (m, 3) of lean, log slope and log odds of clicking; 0 holds at 0.

    ``log_slope`` is the prior mean of log slopes, chosen so that they are 0 on average: otherwise the penalty on many
    scores would make all scores small and all slopes large.
    """

    score: float
    annotator: Floats
    learns_score: bool = True
    log_slope: float = 0.0

    def beyond(self, phi: Floats) -> Floats:
        """How far the annotators' parameters are from their prior means."""
        return np.asarray(phi - self.log_slope * (np.arange(3) == SLOPE))

    def balanced(self, theta: Floats) -> Spreads:
        """The same spreads with the prior mean at which log slopes of mean 0 have the least penalty."""
        if not self.annotator[:, SLOPE].any():
            return self
        return replace(self, log_slope=-float(theta @ theta) / self.score**2 / float(self.precision[:, SLOPE].sum()))

    @property
    def is_free(self) -> Mask:
        """(m,) whether an annotator has any parameter that is not held."""
        return np.asarray(self.annotator.any(axis=1))

    @property
    def precision(self) -> Floats:
        """One over the variance; so large where the spread is 0 that nothing moves."""
        return 1.0 / np.maximum(self.annotator, 1e-7) ** 2


@dataclass(frozen=True)
class LogisticFit:
    """A penalised maximum.

    Attributes
    ----------
    theta : (n,) item scores; phi : (m, 3) lean, log slope, log odds of clicking; spreads : as learnt.
    converged, n_iter : whether the steps became small, after how many.
    """

    theta: Floats
    phi: Floats
    spreads: Spreads
    converged: bool
    n_iter: int


class LogisticProblem:
    """Answers with a model of them: objective, gradient, Newton system."""

    def __init__(self, answers: Answers, incidence: Incidence, side: Ints, grades: Grades | None = None) -> None:
        self.annotator, self._m = answers.annotator, len(side)
        self._incidence = incidence
        self.model = AnswerModel(answers, side, grades)
        self._clicker = answers.annotator[self.model.clicking]

    def eta(self, theta: Floats, phi: Floats) -> Floats:
        """``slope (theta_left - theta_right) + lean`` per answer."""
        return self._predicted(theta, phi[:, SLOPE], phi[:, LEAN])

    def steep_gap(self, theta: Floats, phi: Floats) -> Floats:
        """``slope (theta_left - theta_right)`` per answer: what eta changes by with the log slope."""
        return self._predicted(theta, phi[:, SLOPE], np.zeros(self._m))

    def at(self, theta: Floats, phi: Floats) -> Derivatives:
        """Derivatives of the log-likelihood per answer."""
        return self.model.at(self.eta(theta, phi), expit(phi[:, CLICK])[self._clicker])

    def learn(self, theta: Floats, phi: Floats) -> bool:
        """Let the model learn how common every strength is; returns whether anything was there to learn."""
        return not self.model.is_yes_no and self.model.learn(self.eta(theta, phi))

    def score(self, here: Derivatives, x: Floats | None) -> Floats:
        """(m, 3) gradient of the log-likelihood in phi.

        ``x`` : the `steep_gap`; None where slopes are held, whose part stays 0.
        """
        found = np.zeros((self._m, 3))
        found[:, LEAN], found[:, CLICK] = self.per_annotator(here.score), self._per_clicker(here.click_score)
        if x is not None:
            found[:, SLOPE] = self.per_annotator(here.score * x)
        return found

    def gradient(self, here: Derivatives, theta: Floats, phi: Floats, spreads: Spreads) -> tuple[Floats, Floats]:
        """Of the penalised log-likelihood, in theta and phi."""
        score = self.score(here, self._free_gap(theta, phi, spreads))
        return self._by_theta(here, theta, phi, spreads), _penalised(score, phi, spreads)

    def information(self, here: Derivatives, x: Floats | None) -> Floats:
        """(m, 3, 3) expected information on the annotators' parameters; ``x`` as in `score`."""
        found = np.zeros((self._m, 3, 3))
        found[:, LEAN, LEAN] = self.per_annotator(here.information)
        found[:, CLICK, CLICK] = self._per_clicker(here.click_information)
        found[:, LEAN, CLICK] = found[:, CLICK, LEAN] = self._per_clicker(here.click_cross)
        if x is not None:
            by_x, cross = here.information * x, here.click_cross * x[self.model.clicking]
            found[:, LEAN, SLOPE] = found[:, SLOPE, LEAN] = self.per_annotator(by_x)
            found[:, SLOPE, SLOPE] = self.per_annotator(np.multiply(by_x, x, out=by_x))
            found[:, SLOPE, CLICK] = found[:, CLICK, SLOPE] = self._per_clicker(cross)
        return found

    def objective(self, here: Derivatives, theta: Floats, phi: Floats, spreads: Spreads) -> float:
        """The penalised log-likelihood."""
        penalty = theta @ theta / spreads.score**2 + (spreads.beyond(phi) ** 2 * spreads.precision).sum()
        return float(here.log_likelihood.sum() - penalty / 2)

    def links(self, here: Derivatives, phi: Floats) -> Floats:
        """Information on the gap of every pair of items that was compared."""
        return self._incidence.links(self._times_slope(here.information, 2 * phi[:, SLOPE]))

    def system(self, here: Derivatives, theta: Floats, phi: Floats, spreads: Spreads) -> tuple[Eliminated, _Coupling]:
        """The eliminated system for theta, and what brings the annotators' parameters back."""
        x = self._free_gap(theta, phi, spreads)
        covariance = self._covariance(self.score(here, x), here, x, spreads)
        free = [k for k in range(3) if spreads.annotator[:, k].any()]
        met = self._incidence.met_by(spreads.is_free)
        by_free = [met.signed(self._times_slope(self._cross(here, x, k), phi[:, SLOPE])) for k in free]
        coupling = _Coupling(met, by_free, free, covariance)
        laplacian = self._incidence.laplacian(self.links(here, phi))
        return Eliminated(laplacian, spreads.score**-2, coupling.half()), coupling

    def step_of_items(self, here: Derivatives, links: Floats, theta: Floats, phi: Floats, spreads: Spreads) -> Floats:
        """Newton step in theta alone."""
        laplacian = self._incidence.laplacian(links)
        alone = Eliminated(laplacian, spreads.score**-2, sp.csr_array((len(theta), 0)))
        return alone.solve(self._by_theta(here, theta, phi, spreads))

    def step_of_annotators(self, here: Derivatives, theta: Floats, phi: Floats, spreads: Spreads) -> Floats:
        """Newton step in phi alone."""
        x = self._free_gap(theta, phi, spreads)
        score = self.score(here, x)
        covariance = self._covariance(score, here, x, spreads)
        return np.asarray(np.einsum("jab,jb->ja", covariance, _penalised(score, phi, spreads)))

    def eliminates(self, spreads: Spreads) -> bool:
        """Whether theta and phi are few enough to move together."""
        n_free = int((spreads.annotator > 0).sum())
        return n_free == 0 or work_of(self._incidence.n_items, n_free) <= MOST_WORK_PER_STEP

    def score_spread(self, links: Floats, theta: Floats, spread: float) -> float:
        """One fixed-point step (MacKay 1992) with the degrees of freedom from the diagonal of the information.

        Two items of spread 1 are added, so that a handful of items has a spread too.
        """
        n, rank = self._incidence.n_items, self._incidence.rank
        diagonal = self._incidence.degree(links)
        diagonal *= n / max(rank, 1)  # a Laplacian has no information on a component's mean
        determined = float((diagonal / (diagonal + spread**-2)).sum()) * rank / n
        return float(np.sqrt((theta @ theta + 2.0) / (determined + 2.0)))

    def per_annotator(self, value: Floats) -> Floats:
        """Sums over every annotator's answers."""
        return np.asarray(np.bincount(self.annotator, value, self._m), dtype=np.float64)

    def _per_clicker(self, value: Floats) -> Floats:
        return np.asarray(np.bincount(self._clicker, value, self._m), dtype=np.float64)

    def _predicted(self, theta: Floats, log_slope: Floats, lean: Floats) -> Floats:
        """``slope (theta_left - theta_right) + lean`` per answer."""
        left, right, slope = self._incidence.left, self._incidence.right, np.exp(log_slope)
        eta = np.empty(len(self.annotator))

        def predict(rows: slice) -> None:
            who = self.annotator[rows]
            eta[rows] = slope[who] * (theta[left[rows]] - theta[right[rows]]) + lean[who]

        by_rows(predict, len(eta))
        return eta

    def _free_gap(self, theta: Floats, phi: Floats, spreads: Spreads) -> Floats | None:
        """The `steep_gap`; None where slopes are held."""
        return self.steep_gap(theta, phi) if spreads.annotator[:, SLOPE].any() else None

    def _times_slope(self, value: Floats, log_slope: Floats) -> Floats:
        slope = np.exp(log_slope)
        return value if (slope == 1.0).all() else value * slope[self.annotator]

    def _by_theta(self, here: Derivatives, theta: Floats, phi: Floats, spreads: Spreads) -> Floats:
        return self._incidence.pull(self._times_slope(here.score, phi[:, SLOPE])) - theta / spreads.score**2

    def _cross(self, here: Derivatives, x: Floats | None, k: int) -> Floats:
        """Information between eta and one of the annotator's parameters, per answer."""
        if k == LEAN:
            return here.information
        if k == SLOPE and x is not None:
            return here.information * x
        by_click = np.zeros(len(self.annotator))
        by_click[self.model.clicking] = here.click_cross
        return by_click

    def _covariance(self, score: Floats, here: Derivatives, x: Floats | None, spreads: Spreads) -> Floats:
        information = self.information(here, x) + spreads.precision[:, :, None] * np.eye(3)
        # d2/dlog-slope2 has the score itself as a second term. Where answers speak against the consensus the slope
        # tends to 0, the expected information with it, and without this term steps would go back and forth.
        information[:, SLOPE, SLOPE] += np.maximum(0.0, -score[:, SLOPE])
        return np.asarray(np.linalg.inv(information), dtype=np.float64)


def _penalised(score: Floats, phi: Floats, spreads: Spreads) -> Floats:
    return np.asarray(score - spreads.beyond(phi) * spreads.precision)


class _Coupling:
    """Information between scores and the annotators' free parameters, at the places where annotators met items."""

    def __init__(self, met: Met, values: list[Floats], free: list[int], covariance: Floats) -> None:
        self._places, self._chosen = met.places, met.chosen
        self._values, self._free, self._covariance = values, free, covariance

    def half(self) -> sp.csr_array:
        """``U`` with ``U U'`` = what eliminating the parameters takes away."""
        if not self._free:
            return sp.csr_array((self._places.shape[0], 0))
        covariance = self._covariance[self._chosen][:, self._free][:, :, self._free]
        root = np.linalg.cholesky(covariance)[self._places.column]
        parts = [sum(value * root[:, k, i] for k, value in enumerate(self._values)) for i in range(len(self._free))]
        return sp.csr_array(sp.hstack([self._places.matrix(np.asarray(part)) for part in parts]))

    def towards(self, value: Floats) -> Floats:
        """Bring a gradient in phi (m, 3) over to theta."""
        moved = np.einsum("jab,jb->ja", self._covariance, value)[self._chosen]
        total = np.zeros(self._places.shape[0])
        for k, at_places in zip(self._free, self._values, strict=True):
            total += self._places.matrix(at_places) @ moved[:, k]
        return total

    def back(self, value: Floats, step: Floats) -> Floats:
        """The step in phi that belongs to a step in theta."""
        rest = value.copy()
        for k, at_places in zip(self._free, self._values, strict=True):
            rest[self._chosen, k] -= self._places.matrix(at_places).T @ step
        return np.asarray(np.einsum("jab,jb->ja", self._covariance, rest))


def maximise(problem: LogisticProblem, theta: Floats, phi: Floats, spreads: Spreads) -> LogisticFit:
    """Newton steps, halved where the objective would fall; the spread of scores is learnt on the first steps.

    Scores and annotators' parameters move together, or in turns where eliminating these would take too long. The fit
    has converged when the scores stand still.
    """
    here = problem.at(theta, phi)
    in_turns, nobody_is_free = not problem.eliminates(spreads), not spreads.annotator.any()
    for n_iter in range(1, _NEWTON_STEPS + 1):
        if problem.learn(theta, phi):
            here = problem.at(theta, phi)
        links = problem.links(here, phi)
        settled = not spreads.learns_score or n_iter > _SPREAD_STEPS
        if not settled:
            previous = spreads.score
            spreads = replace(spreads, score=problem.score_spread(links, theta, previous)).balanced(theta)
            settled = abs(spreads.score - previous) < 1e-3 * previous
        moves_items = not in_turns or n_iter % 2 == 1
        if in_turns or nobody_is_free:
            step_theta, step_phi = _step_in_turn(problem, here, links, theta, phi, spreads, of_items=moves_items)
        else:
            step_theta, step_phi = _newton_step(problem, here, theta, phi, spreads)
        theta, phi, here = _accepted(problem, here, (theta, phi), (step_theta, step_phi), spreads)
        if in_turns:
            theta, phi = _rescaled(theta, phi, spreads)
        stands_still = _size(step_theta) < _TOLERANCE * max(_size(theta), 0.1)
        if moves_items and stands_still and settled and n_iter > 1:
            return LogisticFit(theta, phi, spreads, True, n_iter)
    return LogisticFit(theta, phi, spreads, False, _NEWTON_STEPS)


def _size(values: Floats) -> float:
    return float(np.sqrt(np.mean(values**2)))


def _newton_step(
    problem: LogisticProblem, here: Derivatives, theta: Floats, phi: Floats, spreads: Spreads
) -> tuple[Floats, Floats]:
    by_theta, by_phi = problem.gradient(here, theta, phi, spreads)
    system, coupling = problem.system(here, theta, phi, spreads)
    step = system.solve(by_theta - coupling.towards(by_phi))
    back = coupling.back(by_phi, step)
    return np.clip(step, -_LONGEST_STEP, _LONGEST_STEP), np.clip(back, -_LONGEST_STEP, _LONGEST_STEP)


def _step_in_turn(
    problem: LogisticProblem,
    here: Derivatives,
    links: Floats,
    theta: Floats,
    phi: Floats,
    spreads: Spreads,
    *,
    of_items: bool,
) -> tuple[Floats, Floats]:
    if of_items:
        step = problem.step_of_items(here, links, theta, phi, spreads)
        return np.clip(step, -_LONGEST_STEP, _LONGEST_STEP), np.zeros_like(phi)
    step = problem.step_of_annotators(here, theta, phi, spreads)
    return np.zeros_like(theta), np.clip(step, -_LONGEST_STEP, _LONGEST_STEP)


def _rescaled(theta: Floats, phi: Floats, spreads: Spreads) -> tuple[Floats, Floats]:
    """The same probabilities at the least penalty: larger scores with smaller slopes, or the other way round.

    That is the direction in which taking turns is slow.
    """
    precision, score_penalty = spreads.precision[:, SLOPE], float(theta @ theta) / spreads.score**2
    t = 0.0
    for _ in range(5):
        stretched = score_penalty * np.exp(2 * t)
        t += float(precision @ (phi[:, SLOPE] - spreads.log_slope - t) - stretched) / (
            float(precision.sum()) + 2 * stretched
        )
    moved = phi.copy()
    moved[:, SLOPE] -= t
    return theta * np.exp(t), moved


def _accepted(
    problem: LogisticProblem,
    here: Derivatives,
    point: tuple[Floats, Floats],
    step: tuple[Floats, Floats],
    spreads: Spreads,
) -> tuple[Floats, Floats, Derivatives]:
    """The longest of ever shorter steps that does not make things worse."""
    value = problem.objective(here, *point, spreads)
    length = 1.0
    for _ in range(_HALVINGS):
        theta, phi = point[0] + length * step[0], point[1] + length * step[1]
        there = problem.at(theta, phi)
        if problem.objective(there, theta, phi, spreads) >= value - 1e-9 * (1 + abs(value)):
            break
        length /= 2
    return theta, phi, there
