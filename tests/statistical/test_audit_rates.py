"""Were the sides random? The test per coin rejects sound designs rarely and finds a lean."""

from typing import Any

import numpy as np
import pytest
from numpy.random import Generator
from scipy.stats import norm

from fdr_core.answers import Answers
from fdr_core.audit.sides import OVERALL, coin_gaps, level_of_each
from harness.sides import audited, has_flag, opposite_batches, own_coins
from tests.statistical.monte_carlo import Q

pytestmark = pytest.mark.slow


def shared_tasks(
    rng: Generator,
    *,
    n_tasks: Any,
    heads: Any = 0.5,
    m: Any = 40,
    n_items: Any = 40,
    each: Any = None,
    leaning: Any = 0,
) -> Any:
    """Tasks in one orientation for all; the better item stands left with probability ``heads``; some lean left."""
    theta = rng.normal(size=n_items)
    one = rng.integers(n_items, size=n_tasks)
    two = (one + rng.integers(1, n_items, size=n_tasks)) % n_items
    better_first = theta[one] > theta[two]
    better, worse = np.where(better_first, one, two), np.where(better_first, two, one)
    is_left = rng.random(n_tasks) < heads
    left, right = np.where(is_left, better, worse), np.where(is_left, worse, better)
    task = np.concatenate([rng.permutation(n_tasks)[: each or n_tasks] for _ in range(m)])
    who = np.repeat(np.arange(m), each or n_tasks)
    y = np.where(1.5 * (theta[left] - theta[right])[task] + rng.logistic(size=len(task)) > 0, 1.0, -1.0)
    y[(who < leaning) & (rng.random(len(task)) < 0.5)] = 1.0
    return Answers(who, left[task], right[task], y, task, np.ones(len(task)))


def z_values(runs: int, seed: int, **options: Any) -> Any:
    values = [coin_gaps(shared_tasks(np.random.default_rng([seed, k]), **options), 40, 40).z for k in range(runs)]
    return np.array(values)


@pytest.mark.parametrize("leaning", [0, 12], ids=["nobody leans", "12 of 40 lean left"])
@pytest.mark.parametrize("each", [60, None], ids=["60 tasks each", "everybody answers all"])
def test_sides_z_on_sound_designs_with_shared_coins_rejects_at_most_three_in_a_hundred(leaning: Any, each: Any) -> None:
    z = z_values(400, 1, n_tasks=300, each=each, leaning=leaning)
    assert (np.abs(z) > norm.isf(level_of_each(1, 300, OVERALL) / 2)).mean() <= 0.03
    assert 0.8 < z.std() < 1.2


def test_sides_z_finds_six_in_ten_at_a_thousand_coins() -> None:
    z = z_values(60, 2, n_tasks=1000, each=100, heads=0.6)
    assert (z > norm.isf(level_of_each(1, 1000, OVERALL) / 2)).mean() >= 0.9
    assert z.mean() == pytest.approx(0.8 * 0.2 * np.sqrt(1000), rel=0.2)


@pytest.mark.parametrize("leaning", [0.0, 0.4], ids=["nobody leans", "two of five lean left"])
@pytest.mark.parametrize(("m", "each", "most"), [(12, 100, 0.06), (40, 60, 0.02), (200, 20, 0.02)])
def test_audit_of_sound_designs_with_own_coins_rarely_calls_them_placed(
    leaning: Any, m: Any, each: Any, most: Any
) -> None:
    runs = 150
    placed = [
        audited(own_coins(np.random.default_rng([3, k]), m=m, each=each, leaning=leaning)).found for k in range(runs)
    ]
    assert np.mean(np.array(placed) == "placed") <= most + 2 * np.sqrt(most / runs)
    assert set(placed) <= {"placed", "sides look random"}


@pytest.mark.parametrize("leaning", [0, 12], ids=["nobody leans", "12 of 40 lean left"])
def test_audit_of_sound_designs_with_shared_coins_rarely_calls_them_placed(leaning: Any) -> None:
    found = [
        audited(shared_tasks(np.random.default_rng([4, k]), n_tasks=300, each=60, leaning=leaning), "task", 40)
        for k in range(150)
    ]
    assert np.mean([result.found == "placed" for result in found]) <= 0.02 + 2 * np.sqrt(0.02 / 150)
    assert {result.how for result in found} <= {"shared coins", "sides fixed"}


@pytest.mark.parametrize(("m", "each"), [(12, 100), (60, 40), (300, 20)])
def test_audit_of_two_batches_on_opposite_sides_calls_most_placed(m: Any, each: Any) -> None:
    found = []
    for k in range(30):
        rng = np.random.default_rng([5, k])
        answers = own_coins(rng, m=m, each=each, heads=opposite_batches(m, each))
        found.append(audited(answers).found)
    assert np.mean(np.array(found) == "placed") >= 0.9


def test_what_passes_as_random_though_better_items_stand_left_in_55_percent_keeps_the_null_rate() -> None:
    flagged = []
    for k in range(240):
        m, each = ((12, 100), (30, 60), (100, 20))[k % 3]
        answers = own_coins(np.random.default_rng([6, k]), m=m, each=each, heads=0.55)
        if audited(answers).how == "own coins":
            flagged.append(has_flag(answers, "residuals"))
    assert len(flagged) >= 30
    assert np.mean(flagged) <= Q + 2 * np.sqrt(Q / len(flagged)), (np.mean(flagged), len(flagged))
