"""Spending: one p-value per annotator for all its looks together, and flags that stay."""

import functools
import json
from collections.abc import Hashable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, norm

from fdr_core import InputError
from fdr_core.baselines import benjamini_hochberg
from fdr_core.spending import FIRST_LOOK, GROWTH, LastingFlags, Spending, listed_by_storey, spend, spent_by


def test_spent_by_worked_by_hand_rises_from_nothing_to_all() -> None:
    assert spent_by(0) == 0.0
    assert spent_by(40) == pytest.approx(0.8 * np.exp(-1) + 0.2 * np.exp(-7.5))
    assert spent_by(300) == pytest.approx(0.8 * np.exp(-((2 / 15) ** 4)) + 0.2 * np.exp(-1))
    assert spent_by(10**9) == pytest.approx(1.0)


def test_look_worked_by_hand_divides_by_what_it_spends() -> None:
    first = Spending().look(40, 0.01)
    assert (first.answers, first.looks, first.is_lasting) == (40, 1, False)
    assert first.p_star == pytest.approx(0.01 / (0.8 * np.exp(-1) + 0.2 * np.exp(-7.5)))
    assert first.look(47, 1e-9) == first  # 47 < 1.2 x 40: not counted
    second = first.look(160, 0.001)
    assert second.looks == 2
    assert second.p_star == pytest.approx(0.001 / (spent_by(160) - spent_by(40)))
    assert second.look(1000, 0.9).p_star == second.p_star


def test_look_before_the_first_answers_or_without_a_test_spends_nothing() -> None:
    assert Spending().look(FIRST_LOOK - 1, 1e-9) == Spending()
    assert Spending(40, 1, 0.2).look(400, np.nan) == Spending(40, 1, 0.2)


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=60))
def test_all_looks_together_spend_at_most_one(answers: list[Any]) -> None:
    state, spent = Spending(), 0.0
    for n in sorted(answers):
        after = state.look(n, 1.0)
        if after.looks > state.looks:
            assert n >= max(FIRST_LOOK, GROWTH * state.answers)
            spent += spent_by(n) - spent_by(state.answers)
        state = after
    assert 0.0 <= spent <= 1.0
    assert state.p_star == 1.0


def test_spend_equals_benjamini_hochberg_on_everybody_ever_looked_at() -> None:
    # looked at: p* = 0.02, 0.03, 1.0; the fourth has too few answers and does not count
    states = [Spending(1000, 3, 0.02), Spending(1000, 2, 0.06), Spending(1000, 1, 1.0), Spending()]
    new, lasting = spend(states, [1000, 1000, 1000, 3], [0.5, 0.5, 0.5, 0.01], 0.1)
    assert lasting.tolist() == [True, True, False, False]  # 0.02 <= 0.1 / 3 and 0.06 <= 0.2 / 3
    assert [state.p_star for state in new] == [0.02, 0.06, 1.0, 1.0]
    assert spend(states[1:], [1000, 1000, 3], [0.5, 0.5, 0.5], 0.1)[1].tolist() == [False, False, False]


def test_spend_with_weights_multiplies_what_a_look_spends() -> None:
    share = spent_by(100)
    new, _ = spend([Spending()] * 3, [100] * 3, [0.01] * 3, 0.1, weights=[2.0, 1.0, 0.0])
    assert [state.p_star for state in new] == [pytest.approx(0.005 / share), pytest.approx(0.01 / share), 1.0]
    assert [state.looks for state in new] == [1, 1, 1]


def test_spend_of_independent_tests_estimates_how_many_are_honest() -> None:
    # pi m = (1 + 1) / .9 = 2.22: 0.08 * 2.22 <= 0.1 * 2, where Benjamini-Hochberg asks for 0.08 <= 0.1 * 2 / 3
    states = [Spending(1000, 1, p) for p in (0.02, 0.08, 1.0)]
    nothing_new = ([1000] * 3, [1.0] * 3, 0.1)
    assert spend(states, *nothing_new, independent=True)[1].tolist() == [True, True, False]
    flags = LastingFlags(0.1, dict(zip("abc", states, strict=True)))
    assert flags.look(["c"], [1000], [1.0], independent=True) == {"a", "b"}
    looked = [states[0], Spending(1000, 1, 0.08, is_independent=False), states[2]]
    assert spend(looked, *nothing_new, independent=True)[1].tolist() == [True, False, False]


def test_spend_remembers_whether_every_look_was_at_independent_tests() -> None:
    once = spend([Spending()] * 2, [100] * 2, [0.5, np.nan], 0.1, independent=True)[0]
    twice = spend(once, [200] * 2, [0.5, np.nan], 0.1)[0]
    again = spend(twice, [400] * 2, [0.5, 0.5], 0.1, independent=True)[0]
    assert [[state.is_independent for state in states] for states in (once, twice, again)] == [
        [True, True],
        [False, True],
        [False, True],
    ]


def test_run_that_tests_nobody_gives_no_lasting_flag_and_takes_none() -> None:
    states: dict[Hashable, Spending] = {"a": Spending(1000, 1, 1e-6, True), "b": Spending(1000, 1, 1e-6)}
    flags = LastingFlags(0.1, states)
    assert flags.look([], [], []) == {"a"}
    assert flags.states == states
    assert flags.look(["b"], [1000], [1.0]) == {"a", "b"}


def test_list_by_storey_holds_nobody_above_q_and_grows_as_p_values_fall() -> None:
    assert listed_by_storey(np.array([0.04, 0.11]), 0.1).tolist() == [True, False]  # .04 * 2.22 <= .1
    assert listed_by_storey(np.array([0.11, 0.12]), 0.1).tolist() == [False, False]
    assert listed_by_storey(np.full(4, 0.1), 0.1).tolist() == [True] * 4
    rng = np.random.default_rng(5)
    for _ in range(200):
        later = rng.random(12) ** 3
        earlier = np.minimum(1.0, later * rng.choice([1.0, 1.5, 6.0], size=12))
        assert (listed_by_storey(later, 0.1) >= listed_by_storey(earlier, 0.1)).all()


def test_list_by_storey_keeps_its_rate_and_finds_more_than_benjamini_hochberg() -> None:
    rng = np.random.default_rng(6)
    z = rng.normal(size=(3000, 40)) + np.where(np.arange(40) < 16, 3.0, 0.0)
    p = 2 * norm.sf(np.abs(z))
    found = [np.array([rule(row, 0.1) for row in p]) for rule in (listed_by_storey, benjamini_hochberg)]
    rate, power = zip(
        *((is_on[:, 16:].sum(1) / np.maximum(is_on.sum(1), 1), is_on[:, :16].mean()) for is_on in found), strict=True
    )
    assert rate[0].mean() <= 0.1 + 3 * rate[0].std() / 3000**0.5
    assert power[0] > power[1] + 0.03


def test_spend_keeps_what_it_found_when_the_crowd_grows() -> None:
    states, lasting = spend([Spending()], [100], [0.02], 0.1)
    assert lasting.tolist() == [True]
    crowd = [*states, *(Spending() for _ in range(50))]
    states, lasting = spend(crowd, [100] * 51, [0.02] + [0.8] * 50, 0.1)
    assert lasting.tolist() == [True] + [False] * 50
    assert states[0].is_lasting


def test_spend_leaves_the_given_states_as_they_are() -> None:
    states = [Spending()]
    spend(states, [100], [1e-6], 0.1)
    assert states == [Spending()]


@pytest.mark.parametrize(
    ("answers", "p_values", "message"),
    [([10], [0.1, 0.2], "2 states, 1 numbers of answers and 2 p-values"), ([10, 10], [0.1, 1.2], r"p-value was 1\.2")],
)
def test_spend_with_columns_that_do_not_fit_raises(answers: list[Any], p_values: list[Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        spend([Spending(), Spending()], answers, p_values, 0.1)


def test_state_survives_storing() -> None:
    state = Spending(57, 3, 0.0123, True)
    assert Spending.from_dict(json.loads(json.dumps(state.as_dict()))) == state


def test_lasting_flags_follow_annotators_by_label_and_remember_who_is_away() -> None:
    flags = LastingFlags(0.1)
    assert flags.look(["ann", "bob"], [50, 50], [1e-6, 0.4]) == {"ann"}
    assert flags.look(["cid", "bob"], [50, 70], [0.3, 0.5]) == {"ann"}
    assert {label: state.looks for label, state in flags.states.items()} == {"ann": 1, "bob": 2, "cid": 1}
    again = LastingFlags(0.1, flags.states)
    assert again.look(["cid"], [51], [0.3]) == {"ann"}
    assert LastingFlags().look([], [], []) == set()


def test_p_star_of_honest_coins_is_a_p_value_over_two_hundred_looks() -> None:
    rng = np.random.default_rng(0)
    smallest = []
    for _ in range(300):
        side = rng.choice([-1, 1], size=400).cumsum()
        state = Spending()
        for n in range(2, 401, 2):
            state = state.look(n, float(sign_test(abs(int(side[n - 1])), n)))
        smallest.append(state.p_star)
    for level in (0.05, 0.1, 0.3):
        assert np.mean(np.array(smallest) <= level) <= level + 2 * np.sqrt(level / 300)
    assert np.mean(np.array(smallest) <= 0.3) > 0.03


@functools.cache
def sign_test(excess: int, n: int) -> Any:
    """P(|heads - tails| >= excess) of n fair coins."""
    return min(1.0, 2 * binom.sf((n + excess) // 2 - 1, n, 0.5)) if excess else 1.0
