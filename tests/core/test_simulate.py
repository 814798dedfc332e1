"""Simulated crowds: shapes, rates and truths as the scenarios state them."""

import numpy as np
import pytest

from fdr_core import simulate
from fdr_core.comparisons import Comparisons
from fdr_core.errors import ConfigurationError
from fdr_core.simulate import SCENARIOS, Simulated
from harness import crowds


def rng(seed: int = 0) -> np.random.Generator:
    """A seeded generator."""
    return np.random.default_rng(seed)


def own_side_share(s: Simulated) -> float:
    """How often the biased answer with their own side."""
    side = s.side[s.comparisons.annotator]
    return float(np.mean(np.sign(s.comparisons.outcome[side != 0]) == side[side != 0]))


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenario_same_seed_gives_the_same_crowd_and_consistent_truth(name: str) -> None:
    one, two = SCENARIOS[name](rng(3)), SCENARIOS[name](rng(3))
    np.testing.assert_array_equal(one.comparisons.outcome, two.comparisons.outcome)
    np.testing.assert_array_equal(one.comparisons.left, two.comparisons.left)
    assert one.is_biased.shape == one.side.shape == (one.comparisons.n_annotators,)
    assert one.theta.shape == (one.comparisons.n_items,)
    np.testing.assert_array_equal(one.is_biased, one.side != 0)
    assert not np.array_equal(one.comparisons.outcome, SCENARIOS[name](rng(4)).comparisons.outcome)


def test_paper_study_has_the_papers_sizes_and_rates() -> None:
    s = simulate.paper_study(0.2, 0.7, rng=rng())
    assert (len(s.comparisons), s.comparisons.n_annotators, s.comparisons.n_items) == (150 * 120, 150, 16)
    assert s.is_biased.sum() == 50
    c = s.comparisons
    is_right = (s.theta[c.left] > s.theta[c.right]) == (c.outcome > 0)
    is_good = ~s.is_biased[c.annotator]
    assert is_right[is_good].mean() == pytest.approx(0.8, abs=0.015)
    assert own_side_share(s) == pytest.approx(0.7 + 0.3 / 2, abs=0.02)
    assert np.unique(c.annotator, return_counts=True)[1].tolist() == [120] * 150


@pytest.mark.parametrize(
    ("variant", "n_items", "n_biased", "bias"),
    [("H1", 200, 45, 0.5), ("H2", 200, 45, 0.3), ("H4", 500, 45, 0.5), ("H7", 200, 90, 1.0), ("H10", 200, 9, 0.6)],
)
def test_large_crowd_variants_have_their_sizes_and_bias(variant: str, n_items: int, n_biased: int, bias: float) -> None:
    s = simulate.large_crowd(variant, rng=rng(1))
    assert (s.comparisons.n_annotators, s.comparisons.n_items, s.is_biased.sum()) == (300, n_items, n_biased)
    assert own_side_share(s) == pytest.approx(bias + (1 - bias) / 2, abs=0.06)
    sizes = np.bincount(s.comparisons.annotator)
    assert sizes.max() <= (500 if variant == "H7" else 40)


def test_large_crowd_h3_sizes_are_log_normal() -> None:
    sizes = np.bincount(simulate.large_crowd("H3", rng=rng(1)).comparisons.annotator)
    assert 3 <= sizes.min() < 6
    assert np.median(sizes) == pytest.approx(20, abs=4)
    assert sizes.max() > 150


def test_large_crowd_h5_answers_have_seven_points() -> None:
    s = simulate.large_crowd("H5", rng=rng(1))
    assert np.unique(np.rint(3 * s.comparisons.outcome)).tolist() == [-3, -2, -1, 0, 1, 2, 3]


def test_large_crowd_h8_better_item_stands_left_four_times_in_five() -> None:
    s = simulate.large_crowd("H8", rng=rng(1))
    assert np.mean(s.theta[s.comparisons.left] > s.theta[s.comparisons.right]) == pytest.approx(0.8, abs=0.02)


def test_large_crowd_unknown_variant_is_a_configuration_error() -> None:
    with pytest.raises(ConfigurationError, match="variant is 'H11'; expected one of H1, "):
        simulate.large_crowd("H11", rng=rng())


def test_small_team_honest_answers_follow_the_logistic() -> None:
    s = simulate.small_team(200, 0, 200, rng=rng())
    c = s.comparisons
    assert np.unique(s.theta).size == 20
    p = 1 / (1 + np.exp(-3 * (s.theta[c.left] - s.theta[c.right])))
    for low, high in ((0.05, 0.2), (0.4, 0.6), (0.8, 0.95)):
        is_in = (p > low) & (p < high)
        assert np.mean(c.outcome[is_in] > 0) == pytest.approx(p[is_in].mean(), abs=0.02)


def test_unique_pairs_share_one_orientation_and_coin_per_task() -> None:
    s = simulate.unique_pairs(rng=rng())
    c = s.comparisons
    assert (len(c), c.coin_source, s.is_biased.sum(), set(s.side)) == (1800, "coin", 6, {0, 1})
    for coin in range(20):
        assert np.unique(c.left[c.coin == coin]).size == np.unique(c.right[c.coin == coin]).size == 1
    harder = simulate.unique_pairs(rng=rng(), harder=True)
    assert (len(harder.comparisons), harder.is_biased.sum()) == (6000, 12)


def test_repeated_judges_repeat_under_one_coin_and_agree_with_themselves() -> None:
    s = simulate.repeated_judges(rng=rng())
    c = s.comparisons
    assert c.coin_source == "task"
    assert not s.is_biased.any()
    sums = np.zeros((c.n_annotators, c.coin.max() + 1))
    np.add.at(sums, (c.annotator, c.coin), c.outcome)
    assert np.all(np.bincount(c.annotator * 200 + c.coin) == 5)
    # Five answers from one taste agree far more often than five fair coins (all alike: 1/16).
    assert np.mean(np.abs(sums) == 5) > 0.3


def test_growing_answers_arrive_in_time_and_mixed() -> None:
    s = simulate.growing(rng=rng())
    c = s.comparisons
    assert c.time is not None
    assert np.all(np.diff(c.time) > 0)
    assert np.unique(c.annotator[:100]).size > 20
    assert own_side_share(s) == pytest.approx(0.7, abs=0.08)


def test_shaped_has_the_asked_for_shape() -> None:
    s = crowds.shaped(50, 30, 5000, rng=rng())
    assert (len(s.comparisons), s.comparisons.n_annotators, s.comparisons.n_items) == (5000, 50, 30)
    assert s.is_biased.sum() == 5


def test_on_design_keeps_everything_but_the_answers() -> None:
    design = simulate.unique_pairs(rng=rng()).comparisons
    s = simulate.on_design(design, rng=rng(1), n_biased=3, bias=1.0)
    for name in ("annotators", "items", "annotator", "left", "right", "coin"):
        np.testing.assert_array_equal(getattr(s.comparisons, name), getattr(design, name))
    assert s.comparisons.coin_source == "coin"
    assert s.is_biased.sum() == 3
    assert own_side_share(s) == 1.0


def test_on_design_keeps_the_share_of_ties_and_how_clear_the_items_are() -> None:
    given = simulate.small_team(40, 0, 200, rng=rng())
    outcome = np.where(rng(2).random(len(given.comparisons)) < 0.3, 0.0, given.comparisons.outcome)
    c = given.comparisons
    design = Comparisons.from_arrays(c.annotators[c.annotator], c.items[c.left], c.items[c.right], outcome)
    s = simulate.on_design(design, rng=rng(3), n_biased=0)
    assert np.mean(s.comparisons.outcome == 0) == pytest.approx(0.3, abs=0.02)
    better = np.sign(s.theta[design.left] - s.theta[design.right])
    agreement = [np.mean(better[y != 0] == y[y != 0]) for y in (outcome, s.comparisons.outcome)]
    assert agreement[1] == pytest.approx(agreement[0], abs=0.04)


def test_ridge_scores_solve_the_ridge_equations() -> None:
    c = simulate.small_team(5, 0, 30, rng=rng()).comparisons
    D = np.zeros((len(c), c.n_items))
    D[np.arange(len(c)), c.left] = 1
    D[np.arange(len(c)), c.right] = -1
    expected = np.linalg.solve(D.T @ D + 5 * np.eye(c.n_items), D.T @ c.outcome)
    np.testing.assert_allclose(simulate.ridge_scores(c), expected, atol=1e-7)


def test_more_biased_than_annotators_is_a_configuration_error() -> None:
    with pytest.raises(ConfigurationError, match="n_biased is 4; expected 0 to 3"):
        simulate.small_team(3, 4, 10, rng=rng())
    with pytest.raises(ConfigurationError, match=r"bias is 1\.5; expected a probability"):
        simulate.small_team(3, 1, 10, rng=rng(), bias=1.5)


def test_simulated_rates_count_true_and_false_flags() -> None:
    s = simulate.small_team(10, 4, 10, rng=rng())
    labels = s.comparisons.annotators
    flagged = [labels[np.flatnonzero(s.is_biased)[0]], labels[np.flatnonzero(~s.is_biased)[0]]]
    assert (s.false_discovery_proportion(flagged), s.power(flagged)) == (0.5, 0.25)
    assert (s.false_discovery_proportion([]), s.power([])) == (0.0, 0.0)
