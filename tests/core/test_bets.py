"""Bets and the list they allow: fair over every fall of the coins, and the list against all subsets."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fdr_core import Comparisons, detect
from fdr_core.answers import Answers
from fdr_core.randomisation.coins import Crowd
from fdr_core.randomisation.shared import CLICKS, as_e, log_e_values, log_factors, log_odds, shared_coins
from fdr_core.selection import closed_e_bh, e_bh

Mask = NDArray[np.bool_]
E_VALUES = st.lists(st.sampled_from([0.0, 0.2, 0.7, 1.0, 2.5, 6.0, 11.0, 25.0, 60.0]), min_size=1, max_size=8)


def is_allowed(e: NDArray[np.float64], listed: Mask, q: float) -> bool:
    """The condition as it is stated, over every set of annotators."""
    sets = np.array(list(product([False, True], repeat=len(e))))[1:]
    share = (sets & listed).sum(axis=1) / max(1, listed.sum())
    return bool((share <= q * (sets @ e) / sets.sum(axis=1) * (1 + 1e-9)).all())


@given(E_VALUES, st.sampled_from([0.05, 0.1, 0.3, 0.5]))
def test_closed_e_bh_is_the_longest_list_that_every_subset_allows(values: list[float], q: float) -> None:
    e = np.array(values)
    found = closed_e_bh(e, q)
    lists = [np.array(one) for one in product([False, True], repeat=len(e))]
    longest = max(int(one.sum()) for one in lists if is_allowed(e, one, q))
    assert is_allowed(e, found, q)
    assert int(found.sum()) == longest
    assert (found | ~e_bh(e, q)).all()


def test_closed_e_bh_worked_by_hand() -> None:
    # alone, S = {first, second} asks for (10 + 0) / 2 >= 1 / .1: no; with q = .3 for 5 >= 1 / .3: yes
    assert closed_e_bh(np.array([10.0, 0.0]), 0.1).tolist() == [False, False]
    assert closed_e_bh(np.array([10.0, 0.0]), 0.3).tolist() == [True, False]
    assert closed_e_bh(np.zeros(0), 0.1).tolist() == []


def test_factor_of_one_answer_worked_by_hand() -> None:
    factor = np.exp(log_factors(log_odds(np.array([1.0, -0.3]), np.array([0.25, 0.25]))))
    for k, p in enumerate(CLICKS):
        judged = (1 - p) * 0.25
        assert factor[0, k] == pytest.approx(2 * (p + judged) / (p + 2 * judged))
        assert factor[1, k] == pytest.approx(2 * judged / (p + 2 * judged))


def test_factor_of_answers_under_one_coin_is_their_joint_likelihood_ratio() -> None:
    odds = log_odds(np.array([1.0, -1.0, 0.0]), np.array([0.3, 0.8, 0.5]))
    p = CLICKS[2]
    as_it_fell = (p + (1 - p) * 0.3) * (1 - p) * 0.8
    turned = (1 - p) * 0.3 * (p + (1 - p) * 0.8)
    assert np.exp(log_factors(odds.sum(axis=0)))[2] == pytest.approx(2 * as_it_fell / (as_it_fell + turned))


def test_e_value_has_mean_one_over_all_falls_though_bets_learn_from_earlier_coins() -> None:
    rng = np.random.default_rng(0)
    choices = rng.choice([-1.0, 1.0], size=(6, 2))  # two answers under each of six coins, in the items' frame
    e = []
    for falls in product([-1.0, 1.0], repeat=6):
        wealth, seen = np.zeros(2 * len(CLICKS)), 0.0
        for fall, chosen in zip(falls, choices, strict=True):
            belief = np.full(2, 1 / (1 + np.exp(-seen)))
            wealth = wealth + log_factors(log_odds(fall * chosen, belief).sum(axis=0))
            seen += fall  # the next bet knows how this coin fell
        e.append(float(as_e(log_e_values(wealth))))
    assert np.mean(e) == pytest.approx(1.0)
    assert max(e) > 3


def test_e_value_of_an_honest_annotator_has_mean_one_over_all_falls_of_shared_coins() -> None:
    """Coins turn for all who met them; others lean, and their choices follow the side as they do."""
    rng = np.random.default_rng(1)
    people, coins, items = 4, 6, 5
    low = rng.integers(items - 1, size=coins)
    high = low + 1
    who, coin = np.repeat(np.arange(people), coins), np.tile(np.arange(coins), people)
    choice = rng.choice([-1.0, 1.0], size=who.size)
    total = []
    for falls in product([-1.0, 1.0], repeat=coins):
        o = np.array(falls)[coin]
        left, right = np.where(o > 0, low[coin], high[coin]), np.where(o > 0, high[coin], low[coin])
        outcome = np.where(who == 0, o * choice, 1.0)  # everybody else always takes the left one
        answers = Answers(who, left, right, outcome, coin, np.ones(who.size))
        crowd = Crowd(answers, items, people, np.arange(people), 5.0, coin.astype(np.uint64))
        total.append(as_e(shared_coins(crowd).log_e))  # type: ignore[arg-type]  # there are e-values here
    assert np.mean(total, axis=0)[0] == pytest.approx(1.0)
    assert np.std(total, axis=0)[0] > 0.05
    assert (np.mean(total, axis=0)[1:] > 1.2).all()


def test_detection_says_how_many_of_a_measured_list_hold_with_a_proof() -> None:
    rng = np.random.default_rng(2)
    n, people = 150, 12
    one, other = np.array([rng.choice(15, size=2, replace=False) for _ in range(n)]).T
    task, who = np.tile(np.arange(n), people), np.repeat(np.arange(people), n)
    honest = np.where(0.4 * (one - other)[task] + rng.logistic(size=who.size) > 0, 1.0, -1.0)
    outcome = np.where((who < 2) & (rng.random(who.size) < 0.7), 1.0, honest)
    found = detect(Comparisons.from_arrays(who, one[task], other[task], outcome, coin=task), lbi=None)
    assert found.audit.how == "shared coins"
    assert {0, 1} <= set(found.exact.proven) <= set(found.flagged)
    assert found.method["proven"] == len(found.exact.proven)
    assert f"{len(found.exact.proven)} hold with a proof" in found.guarantee.sentence
    frame = found.annotators
    assert set(frame.loc[frame["proven"], "annotator"]) == set(found.exact.proven)
