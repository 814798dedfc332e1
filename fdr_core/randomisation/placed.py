"""Leans where no coin decided the sides: relative to the crowd, by a model of judging.

Where the better item was put left, or items never change sides, no experiment was made. What can be told is who leans
*more than the others*: a penalised logistic fit of item scores with a lean for everybody, and a slope where slopes
differ, each lean held against the crowd's median by the efficient score. Scores, the other leans and the own slope are
eliminated. Measured, as good as the model, and named so.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from scipy.special import ndtr, ndtri

from fdr_core.answers import Answers
from fdr_core.consensus.logistic_fit import LEAN, SLOPE, Incidence, LogisticFit, LogisticProblem, Spreads, maximise
from fdr_core.consensus.logistic_ranking import spread_beyond_noise
from fdr_core.leans import RELATIVE, Leans
from fdr_core.randomisation.convolution import SMALLEST_P
from fdr_core.randomisation.results import Tests
from fdr_core.types import Floats, Ints, Mask

#: Prior standard deviation of leans on the logit scale: wide, so that a leaner is not taken for an honest annotator
#: among better items.
LEAN_SD = 2.0
#: Part of the slopes' prior that counts in the test: a slope drawn to the crowd's leaves a steep judge, among better
#: items on the left, with an excess that looks like a lean (rate .20 at 1, .11 here, on crowds with own slopes).
OWN_SLOPE = 0.05
#: Whose lean is standardised to less than this seems to judge.
_HONEST = 2.0
_SLOPE_STEPS = 8
#: Share of clicks that the test looks for, where slopes are alike.
CLICKS = 0.2
_NOTE = "No coin decided the sides: leans are relative to the crowd's median, and as good as the model of judging."


@dataclass(frozen=True)
class RelativeLeans:
    """Leans with their tests against the crowd's median: ``z`` is positive towards the left side."""

    leans: Leans
    z: Floats
    converged: bool

    @property
    def p_value(self) -> Floats:
        """Two-sided."""
        return np.asarray(np.clip(2 * ndtr(-np.abs(self.z)), SMALLEST_P, 1.0))

    def tested(self, judged: Ints, weight: Floats, n_pairs: Ints) -> Tests:
        """The tests of the judged; ``n_pairs`` that each of them compared."""
        p_value, side = self.p_value[judged], np.sign(self.z[judged]).astype(np.int64)
        half = np.full(len(judged), 0.5)
        return Tests(p_value, half, weight, side, n_pairs, self.converged, uses_storey=True, notes=(_NOTE,))


def relative_leans(answers: Answers, n_items: int, n_annotators: int) -> RelativeLeans:
    """Fit everybody's lean, and hold each against the crowd's median."""
    incidence = Incidence(answers, n_items, n_annotators)
    problem = LogisticProblem(answers, incidence, np.zeros(n_annotators, dtype=np.int64))
    fit, alike = _with_leans(problem, None, n_items, n_annotators), np.ones(len(answers))
    null = _at_median(problem, fit)
    z, spread = _standardised(problem, incidence, fit, null, alike)
    slope_sd = _spread_of_slopes(problem, fit, null, np.abs(z) < _HONEST)
    if slope_sd > 0:
        fit = _with_leans(problem, fit, n_items, n_annotators, slope_sd)
        null = _at_median(problem, fit)
        z, spread = _standardised(problem, incidence, fit, null, alike)
    else:
        z, _ = _standardised(problem, incidence, fit, null, _how_telling(problem.eta(fit.theta, null)))
    n = np.maximum(np.bincount(answers.annotator, answers.weight, n_annotators), 1.0)
    # a grade is on average what it is less twice the score
    lean = 2 * (_score_of_lean(problem, fit.theta, null) - _score_of_lean(problem, fit.theta, fit.phi)) / n
    lean = np.clip(lean, -1.0, 1.0)
    reach = -ndtri(0.025) * 2 * np.maximum(spread, 1.0) / n
    low, high = np.maximum(lean - reach, -1.0), np.minimum(lean + reach, 1.0)
    return RelativeLeans(Leans(lean, low, high, RELATIVE), z, fit.converged)


def _score_of_lean(problem: LogisticProblem, theta: Floats, phi: Floats) -> Floats:
    """(m,) gradient of the log-likelihood in the leans."""
    return problem.per_annotator(problem.at(theta, phi).score)


def _with_leans(
    problem: LogisticProblem, start: LogisticFit | None, n_items: int, m: int, slope_sd: float = 0.0
) -> LogisticFit:
    """A lean for everybody, and a slope where slopes differ."""
    sd = np.tile([LEAN_SD, slope_sd, 0.0], (m, 1))
    if start is None:
        return maximise(problem, np.zeros(n_items), np.zeros((m, 3)), Spreads(1.0, sd))
    return maximise(problem, start.theta, start.phi, Spreads(start.spreads.score, sd))


def _spread_of_slopes(problem: LogisticProblem, fit: LogisticFit, phi: Floats, among: Mask) -> float:
    """How much slopes differ among those who do not seem to lean: clicks look like a small slope."""
    here, x = problem.at(fit.theta, phi), problem.steep_gap(fit.theta, phi)
    score, information = problem.score(here, x)[among, SLOPE], problem.information(here, x)[among, SLOPE, SLOPE]
    return spread_beyond_noise(score, information, about_mean=True)


def _at_median(problem: LogisticProblem, fit: LogisticFit) -> Floats:
    """The annotators' parameters with every lean at the median, slopes fitted to that."""
    phi = fit.phi.copy()
    phi[:, LEAN] = np.median(fit.phi[:, LEAN])
    if not fit.spreads.annotator[:, SLOPE].any():
        return phi
    held = fit.spreads.annotator.copy()
    held[:, LEAN] = 0.0
    spreads = replace(fit.spreads, annotator=held)
    for _ in range(_SLOPE_STEPS):
        here, x = problem.at(fit.theta, phi), problem.steep_gap(fit.theta, phi)
        score = problem.score(here, x)[:, SLOPE] - OWN_SLOPE * (spreads.beyond(phi) * spreads.precision)[:, SLOPE]
        information = problem.information(here, x)[:, SLOPE, SLOPE] + OWN_SLOPE * spreads.precision[:, SLOPE]
        phi[:, SLOPE] += np.clip(score / information, -1.0, 1.0)
    return phi


def _standardised(
    problem: LogisticProblem, incidence: Incidence, fit: LogisticFit, null: Floats, telling: Floats
) -> tuple[Floats, Floats]:
    """Score of every lean at the median over its standard deviation, and that: slopes, scores, other leans eliminated.

    ``telling`` : (rows,) weights of the answers.
    What the scores do not tell about everybody alike does not count: leans are relative to each other.
    """
    here, x, who = problem.at(fit.theta, null), problem.steep_gap(fit.theta, null), problem.annotator
    slopes = problem.information(here, x)[:, SLOPE, SLOPE]
    share = problem.per_annotator(telling * here.information * x)
    share /= slopes + OWN_SLOPE * fit.spreads.precision[:, SLOPE]
    left = telling - share[who] * x
    score = problem.per_annotator(telling * here.score)
    own = np.maximum(problem.per_annotator(left**2 * here.information), 1e-9)
    by_scores = here.information * left * np.exp(null[who, SLOPE]) / own[who]
    met = incidence.met_by(np.ones(len(null), dtype=bool))
    lost = _variance_beside_others(problem, fit, met.places.matrix(met.signed(by_scores)))
    spread = np.sqrt(own + own**2 * lost)
    return score / spread, spread


def _how_telling(eta: Floats) -> Floats:
    """How much more likely an answer is of somebody who clicks its side in `CLICKS`, in logs, less the same of the
    other answer: most where one of both is hardly to be expected. A slope of one's own would show there too.
    """
    odds = CLICKS / (1 - CLICKS)
    return np.asarray(np.log1p(odds * (1 + np.exp(-eta))) + np.log1p(odds * (1 + np.exp(eta))))


def _variance_beside_others(problem: LogisticProblem, fit: LogisticFit, d: sp.csr_array) -> Floats:
    """``(d_j - mean)' V (d_j - mean)`` with V the covariance of the item scores, of its diagonal where it is large."""
    system, _ = problem.system(problem.at(fit.theta, fit.phi), fit.theta, fit.phi, fit.spreads)
    V = system.inverse(np.zeros(int((fit.spreads.annotator > 0).sum()), dtype=bool))
    mean = np.asarray(d.mean(axis=1)).ravel()
    if V is None:
        V_d = sp.diags_array(1 / (system.laplacian.diagonal() + system.ridge)) @ d
        V_mean = mean / (system.laplacian.diagonal() + system.ridge)
    else:
        V_d, V_mean = sp.csr_array(V @ d), V @ mean
    return np.asarray(np.asarray(d.multiply(V_d).sum(axis=0)).ravel() - 2 * (d.T @ V_mean) + mean @ V_mean)
