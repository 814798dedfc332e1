"""What people do by hand: a test of each annotator's clicks, or a logistic regression, then Benjamini-Hochberg."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy import linalg, special, stats

from fdr_core.comparisons import Comparisons
from fdr_core.errors import ConfigurationError, DesignError
from fdr_core.types import Floats, Mask

MOST_ITEMS = 5_000
_RIDGE = 1e-3
_MAX_ITER = 100
_MAX_HALVINGS = 30


@dataclass(frozen=True)
class Baseline:
    """
    Who a baseline flags.

    Attributes
    ----------
    flagged : list
        Annotator labels, smallest p-value first.
    p_value : (m,) float
        By annotator code.
    """

    flagged: list[Any]
    p_value: Floats


@dataclass(frozen=True)
class BaselineFit:
    """Item scores and annotator biases on the logit scale, with what the tests need."""

    theta: Floats
    gamma: Floats
    inverse: Floats
    converged: bool
    n_iter: int


def benjamini_hochberg(p_value: Floats, q: float) -> Mask:
    """Mark the hypotheses that the step-up procedure of Benjamini and Hochberg (1995) rejects at rate ``q``."""
    if not 0 < q < 1:
        raise ConfigurationError(f"q is {q!r}; expected a number between 0 and 1, such as 0.1")
    return np.asarray(stats.false_discovery_control(p_value) <= q)


def binomial_bh(comparisons: Comparisons, q: float = 0.1) -> Baseline:
    """
    Test each annotator's left clicks against one half (exact, two-sided), then Benjamini-Hochberg.

    Ties are dropped and graded answers count by their sign; someone with ties only has p = 1.

    Parameters
    ----------
    comparisons : Comparisons
        The answers.
    q : float
        Target false discovery rate.
    """
    m = comparisons.n_annotators
    n_left = np.bincount(comparisons.annotator[comparisons.outcome > 0], minlength=m)
    n_right = np.bincount(comparisons.annotator[comparisons.outcome < 0], minlength=m)
    # At one half the distribution is symmetric, so the two-sided p-value is twice the smaller tail.
    tail = stats.binom.cdf(np.minimum(n_left, n_right), n_left + n_right, 0.5)
    return _flag(comparisons, np.minimum(1.0, 2 * tail), q)


def glm_bh(comparisons: Comparisons, q: float = 0.1) -> Baseline:
    """
    Fit a logistic regression with item and annotator effects, test each annotator effect, then Benjamini-Hochberg.

    The test is the likelihood ratio of the annotator's answers with and without the effect, multiplied by the share of
    their information that the item effects leave (for a quadratic likelihood exactly the profile likelihood ratio).
    Unlike a Wald test it keeps its power for someone who always clicks one side, where the estimate diverges.
    A tie counts as half an answer to each side, a graded answer in proportion.

    Parameters
    ----------
    comparisons : Comparisons
        The answers.
    q : float
        Target false discovery rate.

    Raises
    ------
    DesignError
        With more than 5,000 items, for which this regression is not practical.
    """
    fit = fit_logistic(comparisons)
    D, A = _incidence(comparisons)
    y = (comparisons.outcome + 1) / 2
    without = D @ fit.theta
    gain = _log_likelihood(y, without + A @ fit.gamma) - _log_likelihood(y, without)
    weight = _weights(without)
    W = A.T @ weight
    B = np.asarray((D.T @ sp.diags_array(weight) @ A).todense())
    lost = np.einsum("ij,ij->j", B, fit.inverse @ B) / W
    statistic = np.maximum(0.0, 2 * (A.T @ gain)) / (1 + lost)
    return _flag(comparisons, stats.chi2.sf(statistic, df=1), q)


def fit_logistic(comparisons: Comparisons, *, ridge: float = _RIDGE) -> BaselineFit:
    """
    Fit the logistic regression by Newton's method.

    Objective: max sum(y eta - log(1 + exp eta)) - ridge/2 (|theta|^2 + |gamma|^2), eta = D theta + A gamma.
    The annotators' block of the Hessian is diagonal, so each step solves a system of the size of the items only.
    The small ridge fixes the scores' origin and keeps effects finite where answers are separated.
    """
    if comparisons.n_items > MOST_ITEMS:
        raise DesignError(
            f"the regression was asked for {comparisons.n_items:,} items; at most {MOST_ITEMS:,} are feasible; "
            "use binomial_bh, or detect"
        )
    D, A = _incidence(comparisons)
    y = (comparisons.outcome + 1) / 2
    theta, gamma = np.zeros(comparisons.n_items), np.zeros(comparisons.n_annotators)
    value = _penalised(D, A, y, theta, gamma, ridge)
    inverse = np.empty((0, 0))
    for n_iter in range(1, _MAX_ITER + 1):
        step_theta, step_gamma, inverse, slope = _newton_step(D, A, y, theta, gamma, ridge)
        if slope <= 1e-9:
            return BaselineFit(theta, gamma, inverse, True, n_iter)
        length = 1.0
        for _ in range(_MAX_HALVINGS):
            new_theta, new_gamma = theta + length * step_theta, gamma + length * step_gamma
            new_value = _penalised(D, A, y, new_theta, new_gamma, ridge)
            if new_value >= value + 0.1 * length * slope or slope < 1e-6:
                break
            length /= 2
        theta, gamma, value = new_theta, new_gamma, new_value
    return BaselineFit(theta, gamma, inverse, False, _MAX_ITER)


def _newton_step(
    D: sp.csr_array, A: sp.csr_array, y: Floats, theta: Floats, gamma: Floats, ridge: float
) -> tuple[Floats, Floats, Floats, float]:
    """Give the step, the inverse of the items' block after eliminating the annotators, and the slope along the step."""
    eta = D @ theta + A @ gamma
    residual, weight = y - special.expit(eta), _weights(eta)
    g_theta, g_gamma = D.T @ residual - ridge * theta, A.T @ residual - ridge * gamma
    scaled = sp.diags_array(weight)
    W = A.T @ weight + ridge
    B = D.T @ scaled @ A
    S = (D.T @ scaled @ D - B @ sp.diags_array(1 / W) @ B.T).toarray()
    S[np.diag_indices_from(S)] += ridge
    inverse = np.asarray(linalg.inv(S, check_finite=False), dtype=np.float64)
    step_theta = inverse @ (g_theta - B @ (g_gamma / W))
    step_gamma = (g_gamma - B.T @ step_theta) / W
    slope = float(g_theta @ step_theta + g_gamma @ step_gamma)
    return step_theta, step_gamma, inverse, slope


def _incidence(comparisons: Comparisons) -> tuple[sp.csr_array, sp.csr_array]:
    """Build D (answers by items) and A (answers by annotators)."""
    n_rows = len(comparisons)
    rows, ones = np.arange(n_rows), np.ones(n_rows)
    both = (np.concatenate([rows, rows]), np.concatenate([comparisons.left, comparisons.right]))
    D = sp.csr_array((np.concatenate([ones, -ones]), both), shape=(n_rows, comparisons.n_items))
    A = sp.csr_array((ones, (rows, comparisons.annotator)), shape=(n_rows, comparisons.n_annotators))
    return D, A


def _log_likelihood(y: Floats, eta: Floats) -> Floats:
    """Give each answer's log-likelihood."""
    return np.asarray(y * eta - np.logaddexp(0.0, eta))


def _weights(eta: Floats) -> Floats:
    """Give p (1 - p), never exactly zero."""
    p = special.expit(eta)
    return np.asarray(np.maximum(p * (1 - p), 1e-12))


def _penalised(D: sp.csr_array, A: sp.csr_array, y: Floats, theta: Floats, gamma: Floats, ridge: float) -> float:
    """Give the objective."""
    fit = _log_likelihood(y, D @ theta + A @ gamma).sum()
    return float(fit - ridge / 2 * (theta @ theta + gamma @ gamma))


def _flag(comparisons: Comparisons, p_value: Floats, q: float) -> Baseline:
    """Select by Benjamini-Hochberg and order by p-value."""
    is_flagged = benjamini_hochberg(p_value, q)
    order = np.argsort(p_value, kind="stable")
    return Baseline([comparisons.annotators[j] for j in order if is_flagged[j]], p_value)


BASELINES: Mapping[str, Callable[[Comparisons, float], Baseline]] = MappingProxyType(
    {"binomial + BH": binomial_bh, "GLM + BH": glm_bh}
)
