"""The error rate holds, and those who lean are found: simulated crowds with known truth."""

from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.random import Generator

from fdr_core import Comparisons, KnockoffLBI, simulate
from fdr_core.paper.copies import FlipDesign
from fdr_core.paper.draws import Flips, Rule, run_draws
from fdr_core.statistics import SufficientStatistics
from harness.scenarios import SCENARIOS
from tests.statistical.monte_carlo import Q, measure, runs_beside

pytestmark = pytest.mark.slow

CELLS = [(0.1, 0.4), (0.1, 0.7), (0.3, 0.4), (0.3, 0.7)]


def study(p1: Any, p2: Any) -> Any:
    return lambda rng: simulate.paper_study(p1, p2, rng=rng)


@pytest.mark.parametrize(("p1", "p2"), CELLS)
def test_flips_on_the_papers_simulation_hold_the_rate_and_find_all(p1: Any, p2: Any) -> None:
    measured = measure(study(p1, p2), runs_beside(4, 20), seed=1, lbi=KnockoffLBI(construction="flip", draws=1))
    assert measured.holds(), measured
    assert measured.power.mean() >= 0.99, measured


@pytest.mark.parametrize(("p1", "p2"), CELLS)
def test_papers_construction_on_its_simulation_reproduces_its_figures(p1: Any, p2: Any) -> None:
    lbi = KnockoffLBI(construction="paper", cut="knockoff", draws=1)
    measured = measure(study(p1, p2), runs_beside(10, 20), seed=2, lbi=lbi)
    assert measured.power.mean() >= 0.995, measured  # 49.75 of 50
    assert measured.holds(0.15), measured
    assert measured.fdr >= 0.09 - measured.margin, measured


@pytest.mark.parametrize(("draws", "runs"), [(1, runs_beside(80, 250)), (21, runs_beside(20, 80))])
def test_null_team_is_rarely_flagged(draws: Any, runs: int) -> None:
    measured = measure(partial(simulate_null, 12, 100), runs, seed=3, lbi=KnockoffLBI(construction="flip", draws=draws))
    share = (measured.found > 0).mean()
    assert share <= Q + 3 * np.sqrt(Q * (1 - Q) / runs), measured
    assert share > 0 or runs < 50, "a test that never errs says nothing about the rate"


def simulate_null(n_annotators: Any, n_answers: Any, rng: Generator) -> Any:
    return simulate.small_team(n_annotators, 0, n_answers, rng=rng)


def test_bots_flips_hold_the_rate_where_the_papers_construction_exceeds_it() -> None:
    make = partial(simulate_variant, "H7")
    runs = runs_beside(6, 25)
    flips = measure(make, runs, seed=4, lbi=KnockoffLBI(draws=1, construction="flip"))
    paper = measure(make, runs, seed=4, lbi=KnockoffLBI(draws=1, construction="paper"))
    assert set(flips.constructions) == {"flip"}
    assert flips.holds(), flips
    assert flips.power.mean() >= 0.8, flips
    assert not paper.holds(), paper


def simulate_variant(variant: Any, rng: Generator) -> Any:
    return simulate.large_crowd(variant, rng=rng)


def test_twelve_annotators_with_two_biased_are_found() -> None:
    measured = measure(lambda rng: simulate.small_team(12, 2, 100, rng=rng), 100, seed=5)
    assert measured.power.mean() >= 0.85, measured
    assert measured.holds(), measured


@pytest.mark.parametrize(
    ("lbi", "runs"), [(None, 80), (KnockoffLBI(draws=1), runs_beside(10, 80))], ids=["exact", "lbi"]
)
def test_unique_pairs_with_shared_coins_hold_the_rate_and_find_the_biased(lbi: KnockoffLBI | None, runs: int) -> None:
    measured = measure(lambda rng: simulate.unique_pairs(rng=rng), runs, seed=6, lbi=lbi)
    assert set(measured.constructions) == {"flip"}
    assert measured.holds(), measured
    assert measured.power.mean() >= 0.85, measured


def test_unique_pairs_with_everybody_on_every_task_hold_the_rate_of_lbi() -> None:
    runs = runs_beside(10, 60)
    lbi = KnockoffLBI(draws=1)
    measured = measure(lambda rng: simulate.unique_pairs(rng=rng, harder=True), runs, seed=7, lbi=lbi)
    assert measured.holds(), measured
    assert measured.power.mean() >= 0.85, measured


@pytest.mark.parametrize("sides", ["audit", "random"])
def test_judges_asked_five_times_per_task_are_rarely_flagged(sides: Any) -> None:
    runs = 60 if sides == "audit" else runs_beside(10, 60)
    measured = measure(lambda rng: simulate.repeated_judges(rng=rng), runs, seed=8, sides=sides)
    assert measured.fdr <= Q + 3 * np.sqrt(Q * (1 - Q) / runs), measured


def test_three_answers_each_on_null_data_hold_the_rate() -> None:
    measured = measure(lambda rng: simulate.null_crowd(rng=rng), 100, seed=9)
    assert measured.holds(), measured


@pytest.mark.parametrize(
    ("variant", "least"), [("H1", 0.81), ("H2", 0.33), ("H3", 0.56), ("H5", 0.80), ("H6", 0.75), ("H7", 0.83)]
)
def test_large_crowds_hold_the_rate_and_find_the_biased(variant: Any, least: Any) -> None:
    """Whoever has fewer than six coins, or p above .05, is not flagged: H3 and H7 have many such."""
    measured = measure(partial(simulate_variant, variant), 40, seed=14)
    assert measured.holds(), measured
    assert measured.power.mean() >= least, measured


def test_unique_pairs_with_everybody_on_every_task_hold_the_rate_of_the_exact_list() -> None:
    measured = measure(lambda rng: simulate.unique_pairs(rng=rng, harder=True), 60, seed=7)
    assert measured.holds(), measured
    assert measured.power.mean() >= 0.85, measured


@pytest.mark.parametrize("copies", [5, 10])
def test_three_answers_each_on_null_data_hold_the_rate_even_if_they_were_judged(copies: Any) -> None:
    runs, any_flag = runs_beside(100, 300), 0
    for run in range(runs):
        truth = simulate.null_crowd(rng=np.random.default_rng([10, run]))
        answers = SufficientStatistics.from_comparisons(truth.comparisons).answers()
        n_items, m = truth.comparisons.n_items, truth.comparisons.n_annotators
        design = FlipDesign(answers, n_items=n_items, n_annotators=m, judged=np.arange(m), ridge=5.0)
        flips = Flips(design, copies=copies, seed=run, path="lbi")
        any_flag += bool(run_draws(flips, Rule(Q, "knockoff+", 1, run), path="lbi").share.any())
    assert any_flag / runs <= Q + 3 * np.sqrt(Q * (1 - Q) / runs)
    assert any_flag > 0


def test_sides_not_random_are_noticed_and_judged_by_the_papers_construction() -> None:
    measured = measure(partial(simulate_variant, "H8"), runs_beside(6, 25), seed=11, lbi=KnockoffLBI(draws=1))
    assert set(measured.constructions) == {"paper"}
    assert measured.holds(), measured
    assert measured.power.mean() >= 0.5, measured


def test_e_values_over_several_draws_hold_the_rate_and_find_the_biased() -> None:
    measured = measure(
        lambda rng: simulate.small_team(30, 8, 100, rng=rng, bias=0.6),
        runs_beside(10, 30),
        seed=12,
        lbi=KnockoffLBI(draws=11, aggregate="evalues"),
    )
    assert measured.holds(), measured
    assert measured.power.mean() >= 0.5, measured


def own_slopes_on_placed_sides(rng: Generator, n_biased: Any = 45) -> Any:
    """H8 with a slope per annotator: what a regression with one slope takes for a lean."""
    m, items = 300, 200
    annotator = np.repeat(np.arange(m), 30)
    theta, slope = rng.normal(size=items), np.exp(rng.normal(size=m))
    one = rng.integers(items, size=annotator.size)
    two = (one + rng.integers(1, items, size=annotator.size)) % items
    turn = (theta[one] > theta[two]) != (rng.random(annotator.size) < 0.8)
    left, right = np.where(turn, two, one), np.where(turn, one, two)
    side = np.zeros(m, dtype=np.int64)
    side[rng.permutation(m)[:n_biased]] = rng.choice([-1, 1], size=n_biased)
    utility = 1.5 * slope[annotator] * (theta[left] - theta[right]) + rng.logistic(size=annotator.size)
    clicks = (side[annotator] != 0) & (rng.random(annotator.size) < 0.5)
    c = Comparisons.from_arrays(annotator, left, right, np.where(clicks, side[annotator], np.sign(utility)))
    who = c.annotators.astype(np.int64)
    return simulate.Simulated(c, side[who] != 0, theta[c.items.astype(np.int64)], side[who])


@pytest.mark.parametrize(
    ("make", "runs", "least"),
    [
        (partial(simulate_variant, "H8"), 20, 0.66),
        (own_slopes_on_placed_sides, 20, 0.42),
        (partial(own_slopes_on_placed_sides, n_biased=0), 30, 0.0),
        (lambda rng: SCENARIOS["team-better-left"].make(rng=rng), 60, 0.6),
    ],
    ids=["H8", "own slopes", "nobody leans", "a team of thirty"],
)
def test_sides_that_no_coin_decided_hold_the_rate(make: Any, runs: int, least: Any) -> None:
    measured = measure(make, runs, seed=29)
    assert set(measured.constructions) == {"paper"}
    assert measured.holds(), measured
    assert measured.power.mean() >= least, measured
