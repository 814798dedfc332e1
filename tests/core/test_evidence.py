"""Evidence per annotator: exact p-values, intervals that cover, counts and runs worked by hand."""

from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fdr_core import Comparisons, detect, evidence, simulate
from fdr_core.answers import Answers
from fdr_core.statistics import SufficientStatistics
from tests.core.dense import dense_design


def one_annotator(outcomes: NDArray[Any] | list[Any], coin: list[Any] | None = None) -> Answers:
    """Answers of one annotator on items of equal score."""
    n = len(outcomes)
    zero, coins = np.zeros(n, dtype=np.int64), np.arange(n) if coin is None else np.asarray(coin)
    return Answers(zero, zero, zero + 1, np.asarray(outcomes, dtype=float), coins, np.ones(n))


def enumerated(residual: NDArray[Any]) -> Any:
    """Share of all sign patterns at least as extreme."""
    sums = [abs(np.dot(signs, residual)) for signs in product((-1, 1), repeat=len(residual))]
    return np.mean(np.array(sums) >= abs(residual.sum()) - 1e-9)


@pytest.mark.parametrize("n", [1, 2, 5, 12, 13, 16])
@pytest.mark.parametrize("seed", [0, 1])
def test_sign_flip_p_value_equals_full_enumeration(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    outcomes = rng.choice([-1.0, 1.0, 1.0], size=n)
    p = evidence.sign_flip_p_values(one_annotator(outcomes), np.zeros(2), 1)[0]
    assert p == pytest.approx(enumerated(outcomes), abs=1e-9)


def test_sign_flip_p_value_of_all_answers_on_one_side_is_two_to_the_one_minus_n() -> None:
    assert evidence.sign_flip_p_values(one_annotator(np.ones(5)), np.zeros(2), 1)[0] == pytest.approx(2.0**-4)
    assert evidence.sign_flip_p_values(one_annotator(np.ones(40)), np.zeros(2), 1)[0] == pytest.approx(
        2.0**-39, rel=1e-2
    )
    assert evidence.sign_flip_p_values(one_annotator(np.ones(3000)), np.zeros(2), 1)[0] <= 1e-14


def test_sign_flip_p_value_counts_repeated_answers_under_one_coin_once() -> None:
    p = evidence.sign_flip_p_values(one_annotator(np.ones(10), coin=[0] * 5 + [1] * 5), np.zeros(2), 1)[0]
    assert p == pytest.approx(0.5)


def test_sign_flip_p_value_without_residuals_is_one() -> None:
    assert evidence.sign_flip_p_values(one_annotator(np.zeros(4)), np.zeros(2), 1).tolist() == [1.0]


def test_sign_flip_p_values_with_graded_residuals_are_close_to_full_enumeration() -> None:
    rng = np.random.default_rng(3)
    residual = rng.uniform(-1, 1.3, size=14)
    p = evidence.sign_flip_p_values(one_annotator(np.clip(residual, -1, 1)), np.zeros(2), 1)[0]
    assert p == pytest.approx(enumerated(np.clip(residual, -1, 1)), abs=0.03)


def test_sign_flip_p_values_of_honest_annotators_are_uniform() -> None:
    values = []
    for seed in range(12):
        truth = simulate.small_team(30, 0, 40, rng=np.random.default_rng(seed))
        values.append(detect(truth.comparisons, draws=1, path="marginal").annotators["p_value"].to_numpy())
    p = np.concatenate(values)
    for threshold in (0.05, 0.1, 0.3, 0.5):
        share = (p <= threshold).mean()
        assert share <= threshold + 3 * np.sqrt(threshold * (1 - threshold) / len(p))
        assert share >= 0.6 * threshold  # discrete, hence a little conservative


def test_bias_before_flags_equals_dense_least_squares_with_one_annotator_at_a_time() -> None:
    truth = simulate.small_team(30, 5, 200, rng=np.random.default_rng(1), bias=0.6)
    table = detect(truth.comparisons, method="paper", draws=1).annotators.set_index("annotator")
    rows = SufficientStatistics.from_comparisons(truth.comparisons).answers()
    D, A = dense_design(rows, 20, 30)
    for code in (0, 7, 29):
        X = np.concatenate([D, (A[:, [code]] > 0).astype(float)], axis=1)
        expected = np.linalg.lstsq(X, rows.outcome, rcond=None)[0][20]
        assert table["bias"][truth.comparisons.annotators[code]] == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize(("method", "ridge"), [("flip", 5.0), ("paper", 0.0)])
def test_bias_of_unflagged_annotators_equals_least_squares_with_their_own_column_alone(
    method: str, ridge: float
) -> None:
    truth = simulate.small_team(10, 0, 40, rng=np.random.default_rng(2))
    result = detect(truth.comparisons, method=method, draws=1, min_bias=1.0)
    assert result.flagged == []
    table = result.annotators.set_index("annotator").loc[list(truth.comparisons.annotators)]
    rows = SufficientStatistics.from_comparisons(truth.comparisons).answers()
    D, A = dense_design(rows, 20, 10)
    D = np.concatenate([D, np.sqrt(ridge) * np.eye(20)])
    y = np.concatenate([rows.outcome, np.zeros(20)])
    for j in range(10):
        column = np.concatenate([A[:, j] > 0, np.zeros(20)])
        expected = np.linalg.lstsq(np.column_stack([D, column]), y, rcond=None)[0][20]
        assert table["bias"].iloc[j] == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("method", ["flip", "paper"])
def test_bias_interval_covers_the_long_run_bias_about_95_times_in_100(method: str) -> None:
    covered, widths = [], []
    for seed in range(10):
        rng = np.random.default_rng([7, seed])
        truth = simulate.small_team(30, 5, 60, rng=rng, bias=0.4)
        many = simulate.small_team(1, 1, 200_000, rng=rng, bias=0.4).comparisons
        # long-run bias of a clicker on this design: the mean answer over fair coins
        long_run = abs(many.outcome.mean())
        table = detect(truth.comparisons, method=method, draws=3).annotators.set_index("annotator")
        table = table.loc[truth.comparisons.annotators.tolist()]
        gamma = truth.side * long_run
        covered.append((table["bias_low"] <= gamma) & (gamma <= table["bias_high"]))
        widths.append(table["bias_high"] - table["bias_low"])
    assert 0.92 <= np.mean(covered) <= 0.985
    assert 0.3 < np.mean(widths) < 0.7


def test_bias_estimates_of_a_few_or_equal_answers_are_inside_the_range() -> None:
    one = evidence.bias_estimates(one_annotator([1.0]), np.zeros(2), np.ones(1), 1)
    assert (one.estimate[0], one.low[0], one.high[0]) == (1.0, -1.0, 1.0)
    all_left = evidence.bias_estimates(one_annotator(np.ones(50)), np.zeros(2), np.ones(1), 1)
    assert all_left.estimate[0] == all_left.high[0] == 1.0
    assert 0.9 < all_left.low[0] < 1.0
    half_told = evidence.bias_estimates(one_annotator(np.ones(50)), np.zeros(2), np.array([0.5]), 1)
    assert (half_told.estimate[0], half_told.high[0]) == (1.0, 1.0)


@pytest.mark.parametrize("side", [1.0, -1.0])
def test_bias_interval_of_equal_answers_rests_on_one_pseudo_observation_worked_by_hand(side: float) -> None:
    """Ten answers for one side, nine tenths of the information: the bias is 10/9, spread is taken about the side."""
    found = evidence.bias_estimates(one_annotator(np.full(10, side)), np.zeros(2), np.array([0.9]), 1)
    near, far = (found.low[0], found.high[0]) if side > 0 else (found.high[0], found.low[0])
    assert (found.estimate[0], far) == (side, side)
    assert near == pytest.approx(side * (10 / 9 - 2.2621572 / 9), rel=1e-6)  # Student's t with 9 degrees of freedom


def test_bias_of_many_answers_under_one_coin_may_be_anything() -> None:
    found = evidence.bias_estimates(one_annotator(np.ones(50), coin=[0] * 50), np.zeros(2), np.ones(1), 1)
    assert (found.estimate[0], found.low[0], found.high[0]) == (1.0, -1.0, 1.0)


def test_bias_of_people_who_answered_nothing_may_be_anything() -> None:
    found = evidence.bias_estimates(one_annotator([]), np.zeros(2), np.ones(2), 2)
    assert (found.estimate.tolist(), found.low.tolist(), found.high.tolist()) == ([0, 0], [-1, -1], [1, 1])


def test_bias_estimate_and_interval_where_items_leave_four_fifths_of_the_information_worked_by_hand() -> None:
    found = evidence.bias_estimates(one_annotator([1.0] * 22 + [-1.0] * 18), np.zeros(2), np.array([0.8]), 1)
    estimate = 4 / 32
    spread = (22 * (1 - estimate) ** 2 + 18 * (1 + estimate) ** 2) * 40 / 39
    reach = 2.0226909 * np.sqrt(spread + 1) / 32  # Student's t with 39 degrees of freedom
    assert found.estimate[0] == pytest.approx(estimate)
    assert (found.low[0], found.high[0]) == pytest.approx((estimate - reach, estimate + reach), rel=1e-6)


def test_side_of_interest_needs_a_lean_large_enough_and_an_interval_without_zero() -> None:
    bias = evidence.Bias(
        np.array([0.3, -0.3, 0.05, 0.3]), np.array([0.1, -0.5, 0.01, -0.1]), np.array([0.5, -0.1, 0.09, 0.7])
    )
    assert bias.side_of_interest(0.1).tolist() == [1, -1, 0, 0]


def test_counts_by_choice_and_match_ratio_worked_by_hand() -> None:
    who, left, right = np.array([0, 0, 0, 1]), np.array([0, 0, 1, 0]), np.array([1, 1, 0, 1])
    answers = Answers(who, left, right, np.array([1.0, -1.0, 0.0, 0.4]), np.arange(4), np.array([2.0, 1.0, 1.0, 1.0]))
    assert [part.tolist() for part in evidence.counts_by_choice(answers, 2)] == [[2, 1], [1, 0], [1, 0]]
    assert evidence.match_ratio(answers, np.array([1.0, -1.0]), 2) == pytest.approx([2.5 / 4, 1.0])
    assert evidence.match_ratio(answers, np.zeros(2), 2) == pytest.approx([0.5, 0.5])


def test_longest_runs_worked_by_hand() -> None:
    """In order of time: ann left, left, right, right, right, tie, right; bob left only; the third answered nothing."""
    annotator = np.array([0, 0, 0, 0, 0, 0, 0, 1, 1])
    outcome = np.array([1.0, 0.5, -1.0, -0.5, -1.0, 0.0, -1.0, 1.0, 1.0])
    time = np.arange(9.0)
    order = np.array([6, 0, 8, 3, 1, 5, 2, 7, 4])
    found = evidence.longest_runs(annotator[order], outcome[order], time[order], 3)
    assert found.tolist() == [3, 2, 0]
    none = np.zeros(0)
    assert evidence.longest_runs(none.astype(np.int64), none, none, 2).tolist() == [0, 0]


def test_evidence_in_time_worked_by_hand() -> None:
    comparisons = Comparisons.from_arrays(
        ["a"] * 6 + ["b"] * 2,
        ["x"] * 8,
        ["y"] * 8,
        [1, 1, 0, -1, -1, -1, 0, 0],
        time=[6, 5, 4, 3, 2, 1, 10, 11],
        lead_time=[1, 2, 3, 4, np.nan, 60, np.nan, np.nan],
    )
    table = detect(comparisons).annotators.set_index("annotator")
    seen = table[["first_seen", "last_seen", "median_lead_time", "longest_run"]].T
    assert seen["a"].tolist() == [1.0, 6.0, 3.0, 3]
    assert seen["b"].tolist() == [10, 11, None, 0]


def test_evidence_in_time_without_times_is_empty() -> None:
    table = detect(Comparisons.from_arrays(["a"] * 2, ["x"] * 2, ["y"] * 2, [1, -1])).annotators
    for column in ("first_seen", "last_seen", "median_lead_time", "longest_run"):
        assert table[column].tolist() == [None]


def test_sign_flip_p_values_without_any_answer_are_one() -> None:
    empty = Answers.empty()
    assert evidence.sign_flip_p_values(empty, np.zeros(2), 3).tolist() == [1.0, 1.0, 1.0]
