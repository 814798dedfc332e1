"""Rankings of lists: all pairs of a ranking turn together with the shuffle of its list, for everybody who saw it."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from numpy.random import Generator

from fdr_core import Comparisons, detect
from fdr_core.simulate import Simulated
from tests.statistical.monte_carlo import measure, runs_beside

PEOPLE, SIZE, EACH = 12, 4, 4

pytestmark = pytest.mark.slow


def rankings(
    rng: Generator, *, biased: int, lists: int = 80, pull: float = 1.5, is_reversed: bool = False
) -> Simulated:
    """Lists of four responses that are shown nowhere else, in random order; the biased put earlier places higher."""
    utility = 1.5 * rng.normal(size=lists * SIZE)
    rows: list[tuple[int, int, int, float, int]] = []
    for number in range(lists):
        shown = number * SIZE + rng.permutation(SIZE)
        for person in rng.choice(PEOPLE, EACH, replace=False):
            taste = utility[shown] + rng.gumbel(size=SIZE) - (person < biased) * pull * np.arange(SIZE) / (SIZE - 1)
            for one, other in combinations(range(SIZE), 2):
                left, right = (other, one) if is_reversed else (one, other)
                outcome = 1.0 if taste[left] > taste[right] else -1.0
                rows.append((person, shown[left], shown[right], outcome, number))
    who, left_item, right_item, outcomes, task = map(np.array, zip(*rows, strict=True))
    comparisons = Comparisons.from_arrays(who, left_item, right_item, outcomes, task=task)
    is_biased = np.asarray(comparisons.annotators) < biased
    return Simulated(comparisons, is_biased, utility, is_biased.astype(np.int64))


def test_a_list_turned_round_for_all_who_saw_it_gives_the_same_p_values() -> None:
    as_shown, turned = (rankings(np.random.default_rng(3), biased=2, is_reversed=way) for way in (False, True))
    tables = [
        detect(crowd.comparisons, lbi=None, sides="random").annotators.set_index("annotator").sort_index()
        for crowd in (as_shown, turned)
    ]
    np.testing.assert_allclose(tables[0]["p_value"], tables[1]["p_value"], atol=1e-9)
    np.testing.assert_allclose(tables[0]["bias"], -tables[1]["bias"], atol=1e-9)


def test_rankings_of_honest_people_hold_the_rate() -> None:
    found = measure(lambda rng: rankings(rng, biased=0), runs_beside(6, 200), seed=61, sides="random")
    assert found.holds(), found


def test_people_who_rank_earlier_places_higher_are_found() -> None:
    found = measure(lambda rng: rankings(rng, biased=2, lists=160), runs_beside(4, 60), seed=62, sides="random")
    assert found.holds(), found
    assert found.power.mean() >= 0.6, found
