"""The list keeps its rate and finds those who lean: simulated crowds of known making, decided without any draw."""

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from numpy.random import Generator

from fdr_core import scenarios, simulate
from fdr_core.simulate import Simulated
from tests.statistical.monte_carlo import measure

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
    measured = measure(make, 12, seed=31, draws=0, min_bias=min_bias)
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
    measured = measure(lambda rng: make(rng=rng), 10, seed=32, draws=0, min_bias=0.0)
    assert measured.holds(), measured
    assert measured.power.mean() >= power, measured


def test_sides_that_no_coin_decided_keep_the_rate() -> None:
    measured = measure(large("H8"), 12, seed=33, draws=0)
    assert measured.holds(), measured
    assert measured.power.mean() >= 0.4, measured


@pytest.mark.parametrize("n_annotators", [12, 100])
def test_nobody_leans_and_few_lists_name_anybody(n_annotators: int) -> None:
    runs = 50
    measured = measure(lambda rng: simulate.small_team(n_annotators, 0, 40, rng=rng), runs, seed=34, draws=0)
    assert (measured.found > 0).mean() <= 0.1 + 3 * np.sqrt(0.1 * 0.9 / runs), measured
