"""Looking again and again: lasting flags hold the rate over a whole history and find those who lean."""

from typing import Any

import numpy as np
import pytest

from fdr_core import simulate
from harness.lasting import joining, measure, newcomer, together
from harness.looks import watch
from tests.statistical.monte_carlo import Q, runs_beside

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("make", [together, joining], ids=["side by side", "joining one by one"])
@pytest.mark.parametrize(("n_biased", "runs", "least"), [(0, 60, 0.0), (12, 20, 0.8)])
def test_lasting_flags_over_ten_looks_hold_the_rate_and_find_the_biased(
    make: Any, n_biased: Any, runs: int, least: Any
) -> None:
    measured = measure(make(n_biased), 10, runs)
    assert measured.fdp.mean() <= Q + 2 * measured.fdp.std() / np.sqrt(runs), str(measured)
    assert measured.power.mean() >= least, str(measured)


def test_lasting_flags_over_fifty_looks_hold_the_rate() -> None:
    runs = runs_beside(6, 40)
    measured = measure(together(0), 50, runs)
    assert measured.fdp.mean() <= Q + 2 * np.sqrt(Q / runs), str(measured)


def test_one_sided_newcomer_in_a_large_old_project_is_caught_within_forty_answers() -> None:
    assert newcomer(np.random.default_rng(1)) <= 40


@pytest.mark.parametrize(("n_biased", "runs"), [(0, 15), (3, 10)])
def test_lists_pile_up_errors_over_ten_looks_where_lasting_flags_and_warnings_do_not(n_biased: int, runs: int) -> None:
    rates: dict[str, list[float]] = {"evenhand": [], "persistent": [], "warned": []}
    power = []
    for run in range(runs):
        truth = simulate.growing(30, n_biased, 100, rng=np.random.default_rng([13, n_biased, run]))
        ever = watch(truth, looks=10, seed=run)
        power.append(truth.power(ever["persistent"]))
        for rule, flagged in ever.items():
            rates[rule].append(truth.false_discovery_proportion(flagged))
    assert np.mean(rates["persistent"]) <= Q
    assert np.mean(rates["evenhand"]) > np.mean(rates["persistent"])
    assert np.mean(rates["warned"]) <= Q
    if n_biased:
        assert np.mean(power) >= 0.8
