"""Evidence per annotator: exact p-values, intervals that cover, counts and runs worked by hand."""

from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fdr_core import Comparisons, KnockoffLBI, detect, evidence, simulate
from fdr_core.answers import Answers


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
        values.append(
            detect(truth.comparisons, lbi=KnockoffLBI(draws=1, path="marginal")).annotators["p_value"].to_numpy()
        )
    p = np.concatenate(values)
    for threshold in (0.05, 0.1, 0.3, 0.5):
        share = (p <= threshold).mean()
        assert share <= threshold + 3 * np.sqrt(threshold * (1 - threshold) / len(p))
        assert share >= 0.6 * threshold  # discrete, hence a little conservative


@pytest.mark.parametrize("sides", ["random", "not random"])
def test_bias_interval_covers_the_long_run_bias_about_95_times_in_100(sides: str) -> None:
    covered, widths = [], []
    for seed in range(10):
        rng = np.random.default_rng([7, seed])
        truth = simulate.small_team(30, 5, 60, rng=rng, bias=0.4)
        many = simulate.small_team(1, 1, 200_000, rng=rng, bias=0.4).comparisons
        # long-run bias of a clicker on this design: the mean answer over fair coins
        long_run = abs(many.outcome.mean())
        table = detect(truth.comparisons, sides=sides, lbi=None).annotators.set_index("annotator")
        table = table.loc[truth.comparisons.annotators.tolist()]
        gamma = truth.side * long_run
        covered.append((table["bias_low"] <= gamma) & (gamma <= table["bias_high"]))
        widths.append(table["bias_high"] - table["bias_low"])
    assert 0.92 <= np.mean(covered) <= 0.985
    assert 0.3 < np.mean(widths) < 0.7


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
