"""The list keeps its rate and finds those who lean: simulated crowds of known making, decided without any draw."""

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from numpy.random import Generator

from fdr_core import Comparisons, KnockoffLBI, detect, simulate
from fdr_core.simulate import Simulated
from harness import crowds as scenarios
from tests.statistical.monte_carlo import measure, runs_beside

pytestmark = pytest.mark.slow

Make = Callable[[Generator], Simulated]


def large(variant: str) -> Make:
    return lambda rng: simulate.large_crowd(variant, rng=rng)


@pytest.mark.parametrize(
    ("make", "power", "min_bias"),
    [
        (large("H1"), 0.8, 0.1),
        (large("H3"), 0.55, 0.1),
        (large("H7"), 0.85, 0.1),
        (lambda rng: scenarios.shift_leaners(rng=rng), 0.8, 0.0),
        (lambda rng: scenarios.shift_leaners(100, 15, (20, 40), gamma=1.5, n_items=80, rng=rng), 0.5, 0.1),
        (lambda rng: scenarios.mild_big_leaners(click=0.16, rng=rng), 0.9, 0.1),
        (lambda rng: scenarios.both_orders(rng=rng), 0.9, 0.1),
    ],
    ids=["H1", "H3", "bots", "shift", "shift-short", "mild", "both-orders"],
)
def test_own_coins_keep_the_rate_and_find_the_leaning(make: Make, power: float, min_bias: float) -> None:
    measured = measure(make, 12, seed=31, min_bias=min_bias)
    assert measured.holds(), measured
    assert measured.power.mean() >= power, measured


@pytest.mark.parametrize(
    ("make", "power"),
    [
        (partial(scenarios.six_judges, lean="click"), 0.55),
        (partial(scenarios.six_judges, lean="shift"), 0.5),
        (scenarios.calibration_tasks, 0.95),
        (partial(simulate.unique_pairs, harder=True), 0.95),
    ],
    ids=["judges-click", "judges-shift", "calibration", "unique-pairs"],
)
def test_shared_coins_keep_the_rate_and_find_the_leaning(make: Callable[..., Simulated], power: float) -> None:
    measured = measure(lambda rng: make(rng=rng), 10, seed=32, min_bias=0.0)
    assert measured.holds(), measured
    assert measured.power.mean() >= power, measured


def test_sides_that_no_coin_decided_keep_the_rate() -> None:
    measured = measure(large("H8"), 12, seed=33)
    assert measured.holds(), measured
    assert measured.power.mean() >= 0.4, measured


def newcomers_on_shared_tasks(rng: Generator) -> Simulated:
    """Thirty people with 700 own answers each, and 95 newcomers who only met the same eleven clear tasks; nobody
    leans."""
    n_items, n_old, n_new, n_tasks = 30, 30, 95, 11
    theta = rng.normal(size=n_items)
    own, shared = 700 * n_old, rng.integers(n_items, size=n_tasks)
    left = np.concatenate([rng.integers(n_items, size=own), np.tile(shared, n_new)])
    gap = np.concatenate([rng.integers(1, n_items, size=own), np.tile(rng.integers(1, n_items, size=n_tasks), n_new)])
    right = (left + gap) % n_items
    who = np.concatenate([np.repeat(np.arange(n_old), 700), n_old + np.repeat(np.arange(n_new), n_tasks)])
    coin = np.concatenate([np.arange(own), own + np.tile(np.arange(n_tasks), n_new)])
    slope = np.where(who < n_old, 0.5, 30.0)
    outcome = np.where(slope * (theta[left] - theta[right]) + rng.logistic(size=len(who)) > 0, 1.0, -1.0)
    comparisons = Comparisons.from_arrays(who, left, right, outcome, coin=coin)
    nobody = np.zeros(n_old + n_new, dtype=np.int64)
    return Simulated(comparisons, nobody != 0, theta, nobody)


def test_newcomers_who_met_the_same_few_tasks_share_coins_whatever_their_share_of_the_answers() -> None:
    """Tested as if their coins were their own, with how many are honest estimated, any flag came in .23 of 150 sets."""
    truth = newcomers_on_shared_tasks(np.random.default_rng(35))
    result = detect(truth.comparisons, lbi=None)
    assert result.audit.figures["shared_answers"] < 0.05
    assert (result.audit.how, result.guarantee.kind) == ("shared coins", "FDR, measured")
    assert not result.exact.independent


@pytest.mark.parametrize("n_annotators", [12, 100])
def test_nobody_leans_and_few_lists_name_anybody(n_annotators: int) -> None:
    runs = 50
    measured = measure(lambda rng: simulate.small_team(n_annotators, 0, 40, rng=rng), runs, seed=34)
    assert (measured.found > 0).mean() <= 0.1 + 3 * np.sqrt(0.1 * 0.9 / runs), measured


@pytest.mark.parametrize(
    "lbi", [KnockoffLBI(draws=1), KnockoffLBI(draws=5, aggregate="evalues")], ids=["one draw", "e-values"]
)
def test_leans_below_the_limit_leave_the_rate_of_a_proven_lbi_list(lbi: KnockoffLBI) -> None:
    """Mild big leaners win every race; counted as wins and dropped afterwards, they made room for honest people."""
    runs = runs_beside(5, 16)
    measured = measure(lambda rng: scenarios.mild_big_leaners(rng=rng), runs, seed=36, lbi=lbi)
    assert measured.holds(), measured
