"""The consensus that people get: item scores by a penalised logistic fit, with slopes and the leans of the flagged.

Everybody has a slope. A flagged annotator clicks its side, or leans to it when unsure, whichever its answers show;
others have a small lean where somebody is flagged, for the list may be incomplete. How far scores, slopes and these
leans spread is learnt from the crowd, so that slopes and leans cost nothing where there are none.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from fdr_core.answers import Answers, summed_over_annotators
from fdr_core.consensus.honest import Grades
from fdr_core.consensus.logistic_fit import (
    CLICK,
    LEAN,
    SLOPE,
    Incidence,
    LogisticFit,
    LogisticProblem,
    Spreads,
    maximise,
)
from fdr_core.types import Floats, Ints, Mask

#: Spread of the lean or of the log odds of clicking of a flagged annotator: wide, only to keep them finite.
FLAGGED_LEAN_SD, FLAGGED_CLICK_SD = 1.5, 1.5
#: A flagged annotator leans when unsure, rather than clicks, only if that makes its answers this much likelier
#: (log-likelihood).
SHIFT_MARGIN = 1.0
#: The spread of log slopes and of leans is never taken to be more than this.
MOST_SPREAD = 1.0
_SHIFT_STEPS = 5


@dataclass(frozen=True)
class LogisticRanking:
    """Scores with (``theta``) and without (``raw``) the leans, and what their covariance follows from.

    Attributes
    ----------
    covariance : (n, n) of theta, None beyond `DENSE_ITEMS`; laplacian : information on theta alone; ridge : on theta.
    fit : with leans; converged, n_iter : of all fits together.
    """

    theta: Floats
    raw: Floats
    covariance: Floats | None
    laplacian: sp.csr_array
    ridge: float
    fit: LogisticFit
    converged: bool
    n_iter: int


def logistic_ranking(answers: Answers, flagged: Ints, *, n_items: int, n_annotators: int) -> LogisticRanking:
    """Fit without and with leans.

    Parameters
    ----------
    flagged : codes of the annotators whose leans are fitted freely.
    """
    is_flagged = np.zeros(n_annotators, dtype=bool)
    is_flagged[flagged] = True
    incidence = Incidence(answers, n_items, n_annotators)
    grades = Grades.of(answers.outcome)
    judging = LogisticProblem(answers, incidence, np.zeros(n_annotators, dtype=np.int64), grades)
    plain, raw, spread, side = _without_leans(judging, answers, n_items, ~is_flagged)
    if not is_flagged.any():
        return _assembled(judging, raw, [plain, raw], is_flagged)
    clicking = LogisticProblem(answers, incidence, np.where(is_flagged, side, 0), grades)
    fits = [plain, raw, _with_leans(clicking, raw, raw, is_flagged, is_flagged, spread)]
    is_clicking = is_flagged & ~_leans_when_unsure(judging, clicking, fits[-1])
    if (is_clicking != is_flagged).any():
        clicking = LogisticProblem(answers, incidence, np.where(is_clicking, side, 0), grades)
        fits.append(_with_leans(clicking, raw, fits[-1], is_flagged, is_clicking, spread))
    return _assembled(clicking, raw, fits, is_flagged)


def _without_leans(
    problem: LogisticProblem, answers: Answers, n_items: int, among: Mask
) -> tuple[LogisticFit, LogisticFit, Floats, Ints]:
    """Fits without and with slopes; the spread of leans and slopes ``among`` these; the side everybody leans to."""
    zero = np.zeros((len(among), 3))
    plain = _plain_fit(problem, answers, n_items, zero)
    here = problem.at(plain.theta, plain.phi)
    x = problem.steep_gap(plain.theta, plain.phi)
    score, information = problem.score(here, x), problem.information(here, x)
    spread = np.array(
        [spread_beyond_noise(score[among, k], information[among, k, k], about_mean=k == SLOPE) for k in (LEAN, SLOPE)]
    )
    side = np.where(score[:, LEAN] < 0, -1, 1)
    if spread[SLOPE] == 0:
        return plain, replace(plain, n_iter=0), spread, side
    slopes = zero.copy()
    slopes[:, SLOPE] = spread[SLOPE]
    return plain, maximise(problem, plain.theta, zero, Spreads(plain.spreads.score, slopes)), spread, side


def _plain_fit(problem: LogisticProblem, answers: Answers, n_items: int, zero: Floats) -> LogisticFit:
    """Fit scores alone: it does not matter who answered, so many yes/no answers are summed over annotators first.

    Graded ones are not: how finely their moments are interpolated depends on the number of rows.
    """
    if not problem.model.is_yes_no or 2 * n_items**2 > len(answers):
        return maximise(problem, np.zeros(n_items), zero, Spreads(1.0, zero))
    together = summed_over_annotators(answers, n_items)
    everybody = LogisticProblem(together, Incidence(together, n_items, 1), np.zeros(1, dtype=np.int64))
    fit = maximise(everybody, np.zeros(n_items), zero[:1], Spreads(1.0, zero[:1]))
    return replace(fit, phi=zero, spreads=replace(fit.spreads, annotator=zero))


def spread_beyond_noise(score: Floats, information: Floats, *, about_mean: bool) -> float:
    """Spread of a parameter beyond the noise of its one-step estimates (DerSimonian and Laird 1986).

    One standard error less than estimated: where everybody is alike, fitting differences would cost accuracy.
    """
    known = information > 1e-3
    noise = 1.0 / information[known]
    step = np.clip(score[known] * noise, -2.0, 2.0)
    weight = 1.0 / (noise + 0.1) ** 2
    weight /= max(float(weight.sum()), 1e-300)
    step -= float(weight @ step) * about_mean
    excess = float(weight @ (step**2 - noise) - np.sqrt(2.0) * np.linalg.norm(weight * noise))
    return float(min(np.sqrt(max(excess, 0.0)), MOST_SPREAD))


def _with_leans(
    problem: LogisticProblem,
    raw: LogisticFit,
    start: LogisticFit,
    is_flagged: Mask,
    is_clicking: Mask,
    spread: Floats,
) -> LogisticFit:
    sd = raw.spreads.annotator.copy()
    sd[:, LEAN] = np.where(is_flagged & ~is_clicking, FLAGGED_LEAN_SD, spread[LEAN])
    sd[:, CLICK] = np.where(is_clicking, FLAGGED_CLICK_SD, 0.0)
    phi = np.where(sd > 0, start.phi, 0.0)
    return maximise(problem, start.theta, phi, Spreads(start.spreads.score, sd))


def _leans_when_unsure(judging: LogisticProblem, clicking: LogisticProblem, fit: LogisticFit) -> Mask:
    """Whose answers are likelier with a lean instead of clicks, at the scores and slopes of a fit with clicks."""
    phi = fit.phi.copy()
    phi[:, CLICK] = 0.0
    precision = FLAGGED_LEAN_SD**-2
    for _ in range(_SHIFT_STEPS):
        here = judging.at(fit.theta, phi)
        information = judging.per_annotator(here.information) + precision
        step = (judging.per_annotator(here.score) - precision * phi[:, LEAN]) / information
        phi[:, LEAN] += np.clip(step, -1.0, 1.0)
    shifted = judging.per_annotator(judging.at(fit.theta, phi).log_likelihood)
    clicked = judging.per_annotator(clicking.at(fit.theta, fit.phi).log_likelihood)
    return np.asarray(shifted > clicked + SHIFT_MARGIN)


def _assembled(
    problem: LogisticProblem, raw: LogisticFit, fits: list[LogisticFit], is_flagged: Mask
) -> LogisticRanking:
    fit = fits[-1]
    here = problem.at(fit.theta, fit.phi)
    system, _ = problem.system(here, fit.theta, fit.phi, fit.spreads)
    free = int(fit.spreads.annotator.any(axis=0).sum())
    return LogisticRanking(
        fit.theta,
        raw.theta,
        system.inverse(np.tile(is_flagged[fit.spreads.is_free], free)),
        system.laplacian,
        system.ridge,
        fit,
        all(one.converged for one in fits),
        sum(one.n_iter for one in fits),
    )
