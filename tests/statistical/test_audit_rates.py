"""Were the sides random? The test per coin rejects sound designs rarely and finds a lean."""

import numpy as np
import pytest

from fdr_core.audit import Z_LIMIT, sides_z
from fdr_core.statistics import Answers

pytestmark = pytest.mark.slow


def shared_tasks(rng, *, n_tasks, heads=0.5, m=40, n_items=40, each=None, leaning=0):
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


def z_values(runs, seed, **options):
    values = [sides_z(shared_tasks(np.random.default_rng([seed, k]), **options), 40, 40)[0] for k in range(runs)]
    return np.array(values)


@pytest.mark.parametrize("leaning", [0, 12], ids=["nobody leans", "12 of 40 lean left"])
@pytest.mark.parametrize("each", [60, None], ids=["60 tasks each", "everybody answers all"])
def test_sides_z_on_sound_designs_with_shared_coins_rejects_at_most_three_in_a_hundred(leaning, each):
    z = z_values(400, 1, n_tasks=300, each=each, leaning=leaning)
    assert (np.abs(z) > Z_LIMIT).mean() <= 0.03
    assert 0.8 < z.std() < 1.2


def test_sides_z_finds_six_in_ten_at_a_thousand_coins():
    z = z_values(60, 2, n_tasks=1000, each=100, heads=0.6)
    assert (z > Z_LIMIT).mean() >= 0.9
    assert z.mean() == pytest.approx(0.8 * 0.2 * np.sqrt(1000), rel=0.2)
