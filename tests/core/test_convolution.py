"""Distributions of sums of fair signs: by hand, by enumeration, and at the ends of the scale."""

from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

from fdr_core.randomisation.convolution import GRID, MOST_VALUES, SignSums, group_starts
from fdr_core.randomisation.plan import LOG_RATIOS, SCALE_SHARES, SCALES, log_cosh
from fdr_core.randomisation.results import sign_tests


def sums_of(*owners: list[float]) -> SignSums:
    """Values of several owners."""
    owner = np.repeat(np.arange(len(owners)), [len(values) for values in owners])
    return SignSums.of(owner, np.concatenate([np.asarray(values, dtype=float) for values in owners]), len(owners))


def all_sums(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """T under every vector of signs."""
    signs = np.array(list(product((-1, 1), repeat=len(values))))
    return np.asarray(signs @ np.abs(values))


def test_p_value_of_three_values_worked_by_hand() -> None:
    # |+-1 +-1 +-2| is 4 in two, 2 in four and 0 in two of eight cases
    assert sums_of([1, 1, 2]).p_values()[0] == pytest.approx(2 / 8)
    assert sums_of([1, -1, 2]).p_values()[0] == pytest.approx(6 / 8)
    assert sums_of([1, 1, -2]).p_values()[0] == pytest.approx(1.0)


@pytest.mark.parametrize("seed", range(6))
def test_p_values_equal_enumeration_of_all_sign_vectors(seed: int) -> None:
    rng = np.random.default_rng(seed)
    owners = [list(rng.gamma(1.0, size=n) * rng.choice([-1, 1], size=n)) for n in (1, 4, 9, 12)]
    sums = sums_of(*owners)
    for j, p_value in enumerate(sums.p_values()):
        units = sums.units[sums.owner == j]
        assert p_value == pytest.approx((np.abs(all_sums(units)) >= abs(units.sum())).mean(), abs=1e-12)


def test_null_p_values_are_valid_at_every_threshold_by_enumeration() -> None:
    values = np.random.default_rng(8).gamma(1.0, size=10)
    signs = np.array(list(product((-1, 1), repeat=10)))
    sums = SignSums.of(np.repeat(np.arange(len(signs)), 10), (signs * values).ravel(), len(signs))
    p = sums.p_values()
    for threshold in np.unique(p):
        assert (p <= threshold + 1e-12).mean() == pytest.approx(threshold, abs=1e-9)  # exact, not only valid


def test_above_half_is_the_null_probability_of_a_large_p_value_by_enumeration() -> None:
    values = np.array([1.0, 1.0, 2.0, 3.5, 0.5])
    signs = np.array(list(product((-1, 1), repeat=5)))
    tests = sign_tests(SignSums.of(np.repeat(np.arange(32), 5), (signs * values).ravel(), 32))
    assert np.allclose(tests.above_half, (tests.p_value > 0.5 + 1e-9).mean())
    assert sign_tests(sums_of([1, 1, 1])).above_half[0] == pytest.approx(3 / 4)  # p is 1/4 or 1


def test_planning_tables_equal_enumeration_under_null_and_lean() -> None:
    sums = sums_of([0.4, 0.9, 0.3, 1.4, 0.8, 0.7])
    size = np.abs(sums.units) * sums.unit[0]
    T = all_sums(sums.units) * sums.unit[0]
    ratio = sum(
        share * np.cosh(scale * T) / np.prod(np.cosh(scale * size))
        for share, scale in zip(SCALE_SHARES, SCALES, strict=True)
    )
    tests = sign_tests(sums)
    for log_ratio in (-1.0, 0.0, 0.5, 1.5):
        k = int(np.flatnonzero(np.isclose(LOG_RATIOS, log_ratio))[0])
        reached = ratio >= np.exp(log_ratio) - 1e-9
        assert tests.null[0, k] == pytest.approx(reached.mean(), abs=1e-6)
        assert tests.found[0, k] == pytest.approx((ratio * reached).mean(), abs=1e-6)


def test_p_value_of_all_on_one_side_is_two_to_the_one_minus_n_down_to_the_smallest() -> None:
    assert sums_of([1] * 40).p_values()[0] == pytest.approx(2.0**-39, rel=1e-2)
    assert sums_of([1] * 3000).p_values()[0] <= 1e-14


def test_many_values_are_pooled_and_stay_close_to_the_normal_tail() -> None:
    rng = np.random.default_rng(3)
    n = 3 * MOST_VALUES
    values = rng.gamma(2.0, size=n) * rng.choice([-1, 1], size=n, p=[0.48, 0.52])
    z = abs(values.sum()) / np.sqrt((values**2).sum())
    p = sums_of(list(values)).p_values()[0]
    assert np.log(p) == pytest.approx(np.log(2 * _upper(z)), rel=0.2)


def test_owner_without_values_has_p_value_one() -> None:
    sums = SignSums.of(np.array([1, 1]), np.array([0.0, 0.0]), 3)
    assert sums.p_values().tolist() == [1.0, 1.0, 1.0]
    assert sign_tests(sums).above_half.tolist() == [1.0, 1.0, 1.0]


def test_grid_has_eight_steps_for_the_mean_value() -> None:
    assert np.abs(sums_of([2.0, 2.0, -2.0]).units).tolist() == [GRID] * 3


def test_group_starts_of_two_keys() -> None:
    assert group_starts(np.array([0, 0, 0, 1, 1]), np.array([5, 5, 6, 6, 6])).tolist() == [0, 2, 3]
    assert group_starts(np.zeros(0, dtype=np.int64)).tolist() == []


def test_log_cosh_is_stable() -> None:
    assert np.allclose(log_cosh(np.array([0.0, 1.0, -2.0])), np.log(np.cosh([0.0, 1.0, -2.0])))
    assert log_cosh(np.array([1e4]))[0] == pytest.approx(1e4 - np.log(2))


def _upper(z: float) -> float:
    from scipy.stats import norm

    return float(norm.sf(z))
