"""Evidence per annotator: exact p-values, intervals that cover, counts and runs worked by hand."""

from itertools import product

import numpy as np
import pytest

from fdr_core import Comparisons, detect, evidence, simulate
from fdr_core.statistics import Answers, SufficientStatistics
from tests.core.dense import dense_design


def one_annotator(outcomes, coin=None):
    """Answers of one annotator on items of equal score."""
    n = len(outcomes)
    zero, coins = np.zeros(n, dtype=np.int64), np.arange(n) if coin is None else np.asarray(coin)
    return Answers(zero, zero, zero + 1, np.asarray(outcomes, dtype=float), coins, np.ones(n))


def enumerated(residual):
    """Share of all sign patterns at least as extreme."""
    sums = [abs(np.dot(signs, residual)) for signs in product((-1, 1), repeat=len(residual))]
    return np.mean(np.array(sums) >= abs(residual.sum()) - 1e-9)


@pytest.mark.parametrize("n", [1, 2, 5, 12, 13, 16])
@pytest.mark.parametrize("seed", [0, 1])
def test_sign_flip_p_value_equals_full_enumeration(n, seed):
    rng = np.random.default_rng(seed)
    outcomes = rng.choice([-1.0, 1.0, 1.0], size=n)
    p = evidence.sign_flip_p_values(one_annotator(outcomes), np.zeros(2), 1)[0]
    assert p == pytest.approx(enumerated(outcomes), abs=1e-9)


def test_sign_flip_p_value_of_all_answers_on_one_side_is_two_to_the_one_minus_n():
    assert evidence.sign_flip_p_values(one_annotator(np.ones(5)), np.zeros(2), 1)[0] == pytest.approx(2.0**-4)
    assert evidence.sign_flip_p_values(one_annotator(np.ones(40)), np.zeros(2), 1)[0] == pytest.approx(
        2.0**-39, rel=1e-2
    )
    assert evidence.sign_flip_p_values(one_annotator(np.ones(3000)), np.zeros(2), 1)[0] <= 1e-14


def test_sign_flip_p_value_counts_repeated_answers_under_one_coin_once():
    p = evidence.sign_flip_p_values(one_annotator(np.ones(10), coin=[0] * 5 + [1] * 5), np.zeros(2), 1)[0]
    assert p == pytest.approx(0.5)


def test_sign_flip_p_value_without_residuals_is_one():
    assert evidence.sign_flip_p_values(one_annotator(np.zeros(4)), np.zeros(2), 1).tolist() == [1.0]


def test_sign_flip_p_values_with_graded_residuals_are_close_to_full_enumeration():
    rng = np.random.default_rng(3)
    residual = rng.uniform(-1, 1.3, size=14)
    p = evidence.sign_flip_p_values(one_annotator(np.clip(residual, -1, 1)), np.zeros(2), 1)[0]
    assert p == pytest.approx(enumerated(np.clip(residual, -1, 1)), abs=0.03)


def test_sign_flip_p_values_of_honest_annotators_are_uniform():
    values = []
    for seed in range(12):
        truth = simulate.small_team(30, 0, 40, rng=np.random.default_rng(seed))
        values.append(detect(truth.comparisons, draws=1, path="marginal").annotators["p_value"].to_numpy())
    p = np.concatenate(values)
    for level in (0.05, 0.1, 0.3, 0.5):
        share = (p <= level).mean()
        assert share <= level + 3 * np.sqrt(level * (1 - level) / len(p))
        assert share >= 0.6 * level  # discrete, hence a little conservative


def test_bias_of_flagged_annotators_equals_dense_least_squares():
    truth = simulate.small_team(30, 5, 200, rng=np.random.default_rng(1), bias=0.6)
    result = detect(truth.comparisons, method="paper", cut="knockoff", draws=5, q=0.3)
    table = result.annotators.set_index("annotator")
    assert len(result.flagged) >= 4
    rows = SufficientStatistics.from_comparisons(truth.comparisons).answers()
    codes = [list(truth.comparisons.annotators).index(label) for label in result.flagged]
    D, A = dense_design(rows, 20, 30)
    X = np.concatenate([D, (A > 0)[:, codes].astype(float)], axis=1)
    expected = np.linalg.lstsq(X, rows.outcome, rcond=None)[0][20:]
    assert table.loc[result.flagged, "bias"].to_numpy() == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize(("method", "ridge"), [("flip", 5.0), ("paper", 0.0)])
def test_bias_of_unflagged_annotators_equals_least_squares_with_their_own_column_alone(method, ridge):
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
def test_bias_interval_covers_the_long_run_bias_about_95_times_in_100(method):
    covered, widths = [], []
    for seed in range(10):
        rng = np.random.default_rng([7, seed])
        truth = simulate.small_team(30, 5, 60, rng=rng, bias=0.4)
        many = simulate.small_team(1, 1, 200_000, rng=rng, bias=0.4).comparisons
        # long-run bias of a clicker on this design: the mean answer over fair coins
        long_run = abs(many.outcome.mean())
        table = detect(truth.comparisons, method=method, draws=3).annotators.set_index("annotator")
        table = table.loc[truth.comparisons.annotators]
        gamma = truth.side * long_run
        covered.append((table["bias_low"] <= gamma) & (gamma <= table["bias_high"]))
        widths.append(table["bias_high"] - table["bias_low"])
    assert 0.92 <= np.mean(covered) <= 0.985
    assert 0.3 < np.mean(widths) < 0.7


def test_bias_estimates_of_a_few_or_equal_answers_are_inside_the_range():
    one, low, high = evidence.bias_estimates(one_annotator([1.0]), np.zeros(2), np.ones(1), 1)
    assert (one[0], low[0], high[0]) == (1.0, -1.0, 1.0)
    all_left, low, high = evidence.bias_estimates(one_annotator(np.ones(50)), np.zeros(2), np.ones(1), 1)
    assert all_left[0] == high[0] == 1.0
    assert 0.9 < low[0] < 1.0


def test_counts_by_choice_and_match_ratio_worked_by_hand():
    who, left, right = np.array([0, 0, 0, 1]), np.array([0, 0, 1, 0]), np.array([1, 1, 0, 1])
    answers = Answers(who, left, right, np.array([1.0, -1.0, 0.0, 0.4]), np.arange(4), np.array([2.0, 1.0, 1.0, 1.0]))
    assert [part.tolist() for part in evidence.counts_by_choice(answers, 2)] == [[2, 1], [1, 0], [1, 0]]
    assert evidence.match_ratio(answers, np.array([1.0, -1.0]), 2) == pytest.approx([2.5 / 4, 1.0])
    assert evidence.match_ratio(answers, np.zeros(2), 2) == pytest.approx([0.5, 0.5])


def test_evidence_in_time_worked_by_hand():
    comparisons = Comparisons.from_arrays(
        ["a"] * 6 + ["b"] * 2,
        ["x"] * 8,
        ["y"] * 8,
        [1, 1, 0, -1, -1, -1, 0, 0],
        time=[6, 5, 4, 3, 2, 1, 10, 11],
        lead_time=[1, 2, 3, 4, np.nan, 60, np.nan, np.nan],
    )
    table = detect(comparisons).annotators.set_index("annotator")
    assert table.loc["a", ["first_seen", "last_seen", "median_lead_time", "longest_run"]].tolist() == [1.0, 6.0, 3.0, 3]
    assert table.loc["b", ["first_seen", "last_seen", "median_lead_time", "longest_run"]].tolist() == [10, 11, None, 0]


def test_evidence_in_time_without_times_is_empty():
    table = detect(Comparisons.from_arrays(["a"] * 2, ["x"] * 2, ["y"] * 2, [1, -1])).annotators
    for column in ("first_seen", "last_seen", "median_lead_time", "longest_run"):
        assert table[column].tolist() == [None]
