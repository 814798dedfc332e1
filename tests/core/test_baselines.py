"""Baselines: against hand-worked cases, scipy's exact test, and an independent optimiser."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, stats

from fdr_core import simulate
from fdr_core.baselines import benjamini_hochberg, binomial_bh, fit_logistic, glm_bh
from fdr_core.comparisons import Comparisons
from fdr_core.errors import ConfigurationError, DesignError


def clicks(left: int, right: int, ties: int = 0, annotator: str = "ann") -> list[tuple[str, float]]:
    """Answers of one annotator."""
    return [(annotator, 1.0)] * left + [(annotator, -1.0)] * right + [(annotator, 0.0)] * ties


def comparisons(rows: list[tuple[str, float]]) -> Comparisons:
    """Answers about two items whose sides alternate."""
    n = len(rows)
    left = ["x" if k % 2 else "y" for k in range(n)]
    right = ["y" if k % 2 else "x" for k in range(n)]
    return Comparisons.from_arrays([a for a, _ in rows], left, right, [y for _, y in rows])


def test_benjamini_hochberg_hand_worked_case_steps_up() -> None:
    # Sorted .01 .02 .04 .5 against .025 .05 .075 .1: the third passes, hence the first two as well.
    assert benjamini_hochberg(np.array([0.5, 0.04, 0.01, 0.02]), 0.1).tolist() == [False, True, True, True]


def test_benjamini_hochberg_later_pass_rescues_earlier_failures() -> None:
    # .04 > .0333 fails at rank 1, .06 <= .0667 passes at rank 2.
    assert benjamini_hochberg(np.array([0.04, 0.06, 0.9]), 0.1).tolist() == [True, True, False]


def test_benjamini_hochberg_nothing_passes_gives_nothing() -> None:
    assert not benjamini_hochberg(np.array([0.2, 0.9]), 0.1).any()


@pytest.mark.parametrize("q", [0, 1, -0.1, float("nan")])
def test_benjamini_hochberg_bad_level_is_a_configuration_error(q: float) -> None:
    with pytest.raises(ConfigurationError, match="q is"):
        benjamini_hochberg(np.array([0.2]), q)


@pytest.mark.parametrize(("left", "right"), [(0, 1), (3, 3), (3, 4), (9, 1), (0, 20), (37, 63)])
def test_binomial_p_value_equals_scipys_exact_test(left: int, right: int) -> None:
    result = binomial_bh(comparisons(clicks(left, right, ties=2)))
    assert result.p_value[0] == pytest.approx(stats.binomtest(left, left + right).pvalue, rel=1e-12)


def test_binomial_only_ties_is_never_flagged() -> None:
    result = binomial_bh(comparisons(clicks(0, 0, ties=5)))
    assert (result.flagged, result.p_value.tolist()) == ([], [1.0])


def test_binomial_flags_strongest_first() -> None:
    rows = clicks(20, 2, annotator="b") + clicks(30, 0, annotator="a") + clicks(10, 10, annotator="c")
    assert binomial_bh(comparisons(rows)).flagged == ["a", "b"]


def penalised(parameters: np.ndarray, c: Comparisons, ridge: float) -> float:
    """The objective written out again, without any of the module's code."""
    theta, gamma = parameters[: c.n_items], parameters[c.n_items :]
    eta = theta[c.left] - theta[c.right] + gamma[c.annotator]
    y = (c.outcome + 1) / 2
    return float(-np.sum(y * eta - np.log1p(np.exp(eta))) + ridge / 2 * parameters @ parameters)


def test_fit_logistic_equals_an_independent_optimiser() -> None:
    c = simulate.small_team(8, 2, 40, rng=np.random.default_rng(0), n_items=5).comparisons
    fit = fit_logistic(c)
    start = np.zeros(c.n_items + c.n_annotators)
    other = optimize.minimize(penalised, start, args=(c, 1e-3), method="BFGS", options={"gtol": 1e-7})
    assert fit.converged
    np.testing.assert_allclose(np.concatenate([fit.theta, fit.gamma]), other.x, atol=2e-4)


def test_glm_statistic_is_close_to_the_exact_profile_likelihood_ratio() -> None:
    c = simulate.small_team(8, 2, 60, rng=np.random.default_rng(1), n_items=5).comparisons
    start = np.zeros(c.n_items + c.n_annotators)
    full = optimize.minimize(penalised, start, args=(c, 1e-3), method="BFGS").fun
    p_value = glm_bh(c).p_value
    for j in range(c.n_annotators):
        free = np.ones(start.size)
        free[c.n_items + j] = 0.0
        reduced = optimize.minimize(lambda x, free=free: penalised(x * free, c, 1e-3), start, method="BFGS").fun
        exact = 2 * (reduced - full)
        assert stats.chi2.isf(p_value[j], df=1) == pytest.approx(exact, rel=0.1, abs=0.02)


def test_glm_always_one_side_is_flagged_although_the_estimate_diverges() -> None:
    honest = simulate.small_team(20, 0, 60, rng=np.random.default_rng(2)).comparisons.to_frame()
    bot = honest[honest["annotator"] == 3].assign(annotator=99, outcome=1.0)
    c = Comparisons.from_frame(pd.concat([honest, bot]))
    result = glm_bh(c)
    assert result.flagged[0] == 99
    assert np.all(np.isfinite(result.p_value))


def test_glm_one_answer_one_annotator_and_all_ties_give_no_flag_and_no_nan() -> None:
    for rows in (clicks(1, 0), clicks(0, 0, ties=4), clicks(5, 5)):
        result = glm_bh(comparisons(rows))
        assert result.flagged == []
        assert np.all((result.p_value >= 0) & (result.p_value <= 1))


def test_glm_disconnected_items_are_handled() -> None:
    c = Comparisons.from_arrays([1, 1, 2, 2], ["a", "b", "c", "d"], ["b", "a", "d", "c"], [1, -1, 1, -1])
    assert glm_bh(c).flagged == []


def test_glm_too_many_items_is_a_design_error() -> None:
    n = 5_001
    c = Comparisons.from_arrays(np.zeros(n), np.arange(n), np.arange(n) + 1, np.ones(n))
    with pytest.raises(DesignError, match="5,002 items; at most 5,000"):
        glm_bh(c)


def test_glm_null_p_values_are_close_to_uniform() -> None:
    p = np.concatenate(
        [
            glm_bh(simulate.small_team(30, 0, 60, rng=np.random.default_rng(seed)).comparisons).p_value
            for seed in range(20)
        ]
    )
    assert np.mean(p < 0.1) == pytest.approx(0.1, abs=0.05)
    assert np.mean(p < 0.5) == pytest.approx(0.5, abs=0.07)


@pytest.mark.parametrize(("method", "power"), [(binomial_bh, 0.35), (glm_bh, 0.65)])
def test_baselines_on_a_large_crowd_control_false_flags_and_find_the_biased(
    method: Callable[..., Any], power: float
) -> None:
    crowds = [simulate.large_crowd("H1", rng=np.random.default_rng(seed)) for seed in range(10)]
    flagged = [method(crowd.comparisons, 0.1).flagged for crowd in crowds]
    fdp = np.array([crowd.false_discovery_proportion(f) for crowd, f in zip(crowds, flagged, strict=True)])
    assert fdp.mean() <= 0.1 + 3 * fdp.std(ddof=1) / np.sqrt(10)
    assert np.mean([crowd.power(f) for crowd, f in zip(crowds, flagged, strict=True)]) >= power
