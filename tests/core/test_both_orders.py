"""Judges who saw both orders: worked by hand, against an independent count, and on real judges."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest

from fdr_core import Comparisons, detect
from fdr_core.judges.both_orders import Share, adjusted, both_orders, sign_test


def judged(*rows: tuple[str, str, float, int], coin: bool = True) -> Comparisons:
    """Answers of one judge given as (first, second, answer, coin)."""
    first, second, answer, coins = zip(*rows, strict=True)
    return Comparisons.from_arrays(["judge"] * len(rows), first, second, answer, coin=coins if coin else None)


def test_both_orders_hand_worked_pairs_give_every_measure() -> None:
    """Coin 1 consistent, coin 2 moved to the first, coin 3 tie then first, coin 4 moved to the second."""
    data = judged(
        ("a", "b", 1, 1), ("b", "a", -1, 1),
        ("a", "b", 1, 2), ("b", "a", 1, 2),
        ("a", "b", 0, 3), ("b", "a", 1, 3),
        ("a", "b", -1, 4), ("b", "a", -1, 4),
        ("a", "c", 1, 5),
    )  # fmt: skip
    (found,) = both_orders(data)
    assert (found.pairs, found.consistent, found.flipped) == (4, Share(1, 4), Share(2, 4))
    assert (found.first, found.second, found.fairness) == (2, 1, 0.25)
    assert found.repeated == Share(0, 0)
    assert found.p_value == 1.0


def test_both_orders_repeated_questions_count_towards_stability_only() -> None:
    data = judged(
        ("a", "b", 1, 1), ("a", "b", 1, 1), ("a", "b", -1, 1), ("b", "a", -1, 1), ("b", "a", -1, 1)
    )  # fmt: skip
    (found,) = both_orders(data)
    assert found.pairs == 2
    assert found.repeated == Share(1, 2)
    assert found.consistent == Share(2, 2)


def test_both_orders_under_separate_coins_are_found_by_the_pair() -> None:
    """The two orders of a pair, each a task of its own, asked once each."""
    data = judged(("a", "b", 1, 1), ("b", "a", 1, 2), ("a", "c", -1, 3), ("c", "a", 1, 4))
    (found,) = both_orders(data)
    assert (found.pairs, found.first) == (2, 1)


def test_both_orders_of_models_over_many_prompts_are_no_swap_pairs() -> None:
    """Without any record of the question two models that met often, in either order, met over other prompts."""
    data = judged(("a", "b", 1, 0), ("b", "a", 1, 0), ("a", "b", 1, 0), coin=False)
    assert both_orders(data) == []


def test_both_orders_one_order_only_finds_nobody() -> None:
    assert both_orders(judged(("a", "b", 1, 1), ("a", "c", 1, 2))) == []


@pytest.mark.parametrize(("first", "second"), [(0, 0), (5, 0), (3, 9), (20, 20), (400, 320)])
def test_sign_test_equals_the_binomial_test_of_scipy(first: int, second: int) -> None:
    expected = binomtest(first, first + second).pvalue if first + second else 1.0
    assert math.isclose(sign_test(first, second), expected, rel_tol=1e-9)


@pytest.mark.parametrize(("count", "of"), [(0, 10), (3, 10), (10, 10), (50, 400)])
def test_share_interval_equals_the_exact_interval_of_scipy(count: int, of: int) -> None:
    expected = binomtest(count, of).proportion_ci(method="exact")
    assert np.allclose(Share(count, of).interval, expected)


def test_adjusted_p_values_hand_worked() -> None:
    assert np.allclose(adjusted(np.array([0.01, 0.04, 0.03, 0.5])), [0.04, 0.16 / 3, 0.16 / 3, 0.5])


@pytest.mark.data
def test_both_orders_of_real_judges_show_the_lean_that_is_in_the_data(dataset: Callable[[str], Path]) -> None:
    """Four LLM judges, 800 swap pairs each; their leans as the source tells them."""
    data = Comparisons.from_file(dataset("prd_both_orders") / "comparisons.csv")
    found = {one.judge: one for one in both_orders(data)}
    assert {judge: one.pairs for judge, one in found.items()} == dict.fromkeys(("bard", "claude", "gpt35", "gpt4"), 800)
    lean = {judge: data.outcome[data.annotators[data.annotator] == judge].mean() for judge in found}
    assert lean == pytest.approx({"bard": 0.60, "claude": -0.25, "gpt4": 0.21, "gpt35": -0.02}, abs=0.01)
    significant = {
        judge
        for judge, p in zip(found, adjusted(np.array([o.p_value for o in found.values()])), strict=True)
        if p <= 0.1
    }
    assert significant == {"bard", "claude", "gpt4"}
    assert set(detect(data).flagged) >= significant


def test_both_orders_of_a_fair_judge_are_significant_as_often_as_stated() -> None:
    rng = np.random.default_rng(5)
    p_values = []
    for _ in range(400):
        strength = rng.normal(size=60)
        answers = [np.where(strength + rng.logistic(size=60) > 0, 1, -1) for _ in range(2)]
        one, two = answers[0], -answers[1]
        drift = one + two
        p_values.append(sign_test(int((drift > 0).sum()), int((drift < 0).sum())))
    assert np.mean(np.array(p_values) <= 0.05) <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 400)


def judges_in_both_orders(
    rng: np.random.Generator, *, n_judges: int = 8, n_leaning: int = 3
) -> tuple[Comparisons, set[str]]:
    """Judges who saw 120 pairs of twelve models in both orders; some prefer the first shown when unsure."""
    columns: dict[str, list[Any]] = {name: [] for name in ("annotator", "left", "right", "outcome", "coin")}
    for judge in range(n_judges):
        shift = 0.6 if judge < n_leaning else 0.0
        for pair in range(120):
            one, two = rng.choice(12, size=2, replace=False)
            for left, right in ((one, two), (two, one)):
                outcome = 1 if (left - right) / 3 + shift + rng.logistic() > 0 else -1
                row = (f"judge {judge}", f"model {left}", f"model {right}", outcome, f"{judge}/{pair}")
                for name, value in zip(columns, row, strict=True):
                    columns[name].append(value)
    return Comparisons.from_arrays(**columns), {f"judge {judge}" for judge in range(n_leaning)}


@pytest.mark.slow
def test_detection_on_both_orders_finds_about_what_a_sign_test_finds() -> None:
    """True finds of 100 data sets, Benjamini-Hochberg at .1 on the sign tests beside the detection at q = .1.

    On a few data sets a single find by either would decide; the sign tests know no least lean and no least evidence.
    """
    by_sign_test = by_detection = 0
    false_share = []
    for seed in range(100, 200):
        data, leaning = judges_in_both_orders(np.random.default_rng(seed))
        found = both_orders(data)
        kept = adjusted(np.array([one.p_value for one in found])) <= 0.1
        by_sign_test += sum(one.judge in leaning for one, is_kept in zip(found, kept, strict=True) if is_kept)
        flagged = set(detect(data, q=0.1, lbi=None).flagged)
        by_detection += len(leaning & flagged)
        false_share.append(len(flagged - leaning) / max(1, len(flagged)))
    assert by_detection >= 0.98 * by_sign_test > 0
    assert np.mean(false_share) <= 0.1 + 3 * np.std(false_share) / 10


@pytest.mark.data
@pytest.mark.parametrize(("name", "n"), [("reife_mtbench", 124), ("llmbar_features", 32)])
def test_flagged_in_both_orders_are_those_whose_lean_is_a_tenth_or_more(data_folder: Path, name: str, n: int) -> None:
    """Every pair was asked in both orders, so the mean outcome is the lean; at q = .1 no wrong entry and no miss."""
    data = Comparisons.from_file(data_folder / name / "both_orders.csv.gz")
    truth = data.to_frame().groupby("annotator")["outcome"].mean().abs()
    assert set(detect(data, lbi=None).flagged) == set(truth.index[truth >= 0.1])
    assert int((truth >= 0.1).sum()) == n
