"""One regression per annotator: worked by hand, against statsmodels and a plain maximiser, and its error rates."""

import numpy as np
import pytest
from numpy.random import Generator
from scipy.optimize import minimize
from scipy.special import expit
from scipy.stats import norm

from fdr_core.other_leans.lists import Regressions, regress, wald_p_values
from fdr_core.types import Floats, Ints


def answers(rng: Generator, m: int = 6, each: int = 60) -> tuple[Floats, Floats, Ints]:
    """Predictors, answers and who gave them, in no order."""
    who = rng.permutation(np.repeat(np.arange(m), each))
    x = np.column_stack([rng.choice([-1.0, 1.0], len(who)), np.ones(len(who)), rng.normal(size=len(who))])
    return x, (rng.random(len(who)) < expit(x @ [1.0, 0.2, 0.5])).astype(float), who


def penalised(beta: Floats, x: Floats, y: Floats) -> float:
    """Minus Firth's log-likelihood: half the log determinant of the information is added to the plain one."""
    eta = x @ beta
    mu = expit(eta)
    information = (x * (mu * (1 - mu))[:, None]).T @ x
    return float(-(y * eta - np.logaddexp(0, eta)).sum() - 0.5 * np.linalg.slogdet(information)[1])


def test_regress_one_predictor_equals_the_hand_worked_share() -> None:
    """With an intercept alone Firth's penalty adds one half to both counts: 7 of 9 become 7.5 of 10."""
    y = np.array([1.0] * 7 + [0.0] * 2)
    fit = regress(np.ones((9, 1)), y, np.zeros(9, dtype=np.int64), 1)
    assert fit.coefficient[0, 0] == pytest.approx(np.log(7.5 / 2.5), abs=1e-6)
    assert fit.error(0)[0] == pytest.approx((9 * 0.75 * 0.25) ** -0.5, abs=1e-6)


def test_regress_maximises_the_penalised_likelihood_of_every_annotator() -> None:
    x, y, who = answers(np.random.default_rng(0))
    fit = regress(x, y, who, 6)
    for j in range(6):
        own = who == j
        best = minimize(penalised, np.zeros(3), args=(x[own], y[own]), method="BFGS").x
        np.testing.assert_allclose(fit.coefficient[j], best, atol=1e-4)


def test_regress_equals_statsmodels_on_the_answers_that_the_penalty_makes() -> None:
    """Firth's maximum is the plain one for answers y + h (1/2 - mu), with the plain covariance."""
    sm = pytest.importorskip("statsmodels.api")
    x, y, who = answers(np.random.default_rng(1))
    fit = regress(x, y, who, 6)
    for j in range(6):
        own = who == j
        mu = expit(x[own] @ fit.coefficient[j])
        leverage = mu * (1 - mu) * np.einsum("np,pq,nq->n", x[own], fit.covariance[j], x[own])
        theirs = sm.GLM(y[own] + leverage * (0.5 - mu), x[own], family=sm.families.Binomial()).fit()
        np.testing.assert_allclose(fit.coefficient[j], theirs.params, atol=1e-5)
        np.testing.assert_allclose(fit.covariance[j], theirs.cov_params(), atol=1e-5)


def test_regress_errors_over_clusters_equal_the_sandwich_written_out() -> None:
    x, y, who = answers(np.random.default_rng(2))
    cluster = np.random.default_rng(3).integers(0, 30, len(y))
    plain, fit = regress(x, y, who, 6), regress(x, y, who, 6, cluster)
    for j in range(6):
        meat = np.zeros((3, 3))
        for c in range(30):
            own = (who == j) & (cluster == c)
            u = x[own].T @ (y[own] - expit(x[own] @ fit.coefficient[j]))
            meat += np.outer(u, u)
        n = len(set(cluster[who == j]))
        written = plain.covariance[j] @ meat @ plain.covariance[j] * n / (n - 3)
        np.testing.assert_allclose(fit.covariance[j], written, rtol=1e-4)


def test_regress_whoever_always_follows_quality_has_finite_coefficients() -> None:
    rng = np.random.default_rng(4)
    x, _, who = answers(rng)
    fit = regress(x, (x[:, 0] > 0).astype(float), who, 6)
    assert fit.is_fitted.all()
    assert np.isfinite(fit.covariance).all()
    assert (wald_p_values(fit.coefficient[:, 2], fit.error(2), 0.0) > 0.05).all()


def test_regress_leaves_out_who_cannot_be_told_and_nobody_else() -> None:
    x, y, who = answers(np.random.default_rng(5))
    x[who == 2, 2] = x[who == 2, 0]  # the feature is quality itself
    x[who == 3, 2] = 0.0
    few = (who != 4) | (np.cumsum(who == 4) <= 5)
    fit = regress(x[few], y[few], who[few], 7, fewest=20)
    np.testing.assert_array_equal(fit.is_fitted, [True, True, False, False, False, True, False])
    alone = regress(x[who == 5], y[who == 5], np.zeros(60, dtype=np.int64), 1)
    np.testing.assert_allclose(fit.coefficient[5], alone.coefficient[0], atol=1e-5)


def test_regress_nobody_gives_nothing() -> None:
    fit = regress(np.zeros((0, 2)), np.zeros(0), np.zeros(0, dtype=np.int64), 3)
    assert isinstance(fit, Regressions)
    assert not fit.is_fitted.any()


def test_wald_p_values_by_hand_and_at_the_border() -> None:
    p = wald_p_values(np.array([1.96, -1.96, 0.5]), np.array([1.0, 1.0, 0.1]), 0.0)
    np.testing.assert_allclose(p, [0.05, 0.05, 5.7e-7], rtol=0.01)
    border = wald_p_values(0.3 + 0.1 * norm.ppf(np.linspace(0.0005, 0.9995, 1000)), np.full(1000, 0.1), 0.3)
    assert np.mean(border < 0.05) == pytest.approx(0.05, abs=0.002)


def test_regress_without_lean_rejects_one_in_twenty_and_finds_a_lean() -> None:
    rng = np.random.default_rng(6)
    x, _, who = answers(rng, m=800, each=80)
    for delta, low, high in ((0.0, 0.03, 0.07), (0.8, 0.7, 1.0)):
        y = (rng.random(len(who)) < expit(x @ [1.5, 0.2, delta])).astype(float)
        fit = regress(x, y, who, 800)
        assert low <= np.mean(wald_p_values(fit.coefficient[:, 2], fit.error(2), 0.0) < 0.05) <= high
