"""Live evidence: every bet is fair under the null, the consensus never sees the answer's own coin."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import Generator

from fdr_core import SufficientStatistics
from fdr_core.design import ridge_for
from fdr_core.live import LiveConsensus, LiveCrowd, LiveEvidence, advance, early_warnings, may_warn
from fdr_core.randomisation.shared import CLICKS, N_BETS


@given(st.floats(0.0, 1.0), st.sampled_from([1.0, 0.3]))
def test_update_averages_to_one_over_the_two_sides_of_the_chosen_item(pi: float, strength: float) -> None:
    start = LiveEvidence()
    shown_left = start.update(strength, pi)  # the chosen item, of probability pi, stood left
    shown_right = start.update(-strength, 1.0 - pi)  # the same item stood right
    mean = (np.exp(shown_left.log_wealth) + np.exp(shown_right.log_wealth)) / 2
    assert mean == pytest.approx(np.ones(N_BETS))
    assert (shown_left.e + shown_right.e) / 2 == pytest.approx(1.0)


def test_update_worked_by_hand_follows_the_formula() -> None:
    evidence = LiveEvidence().update(1.0, 0.25)
    for k, p in enumerate(CLICKS):
        assert np.exp(evidence.log_wealth[k]) == pytest.approx(2 * (p + (1 - p) * 0.25) / (p + 2 * (1 - p) * 0.25))
        assert np.exp(evidence.log_wealth[k + len(CLICKS)]) == pytest.approx(
            2 * (1 - p) * 0.25 / (p + 2 * (1 - p) * 0.25)
        )
    assert evidence.answers == 1


def test_update_with_a_tie_is_no_evidence() -> None:
    evidence = LiveEvidence().update(1.0).update(0.0, 0.9)
    assert evidence.e == LiveEvidence().update(1.0).e
    assert evidence.answers == 2


def test_bet_is_larger_where_the_choice_contradicts_the_consensus() -> None:
    surprised, unsurprised = LiveEvidence(), LiveEvidence()
    for _ in range(8):
        surprised, unsurprised = surprised.update(1.0, 0.1), unsurprised.update(1.0, 0.9)
    assert surprised.e > 2 * unsurprised.e > 2


def test_e_process_of_honest_annotators_has_mean_one_and_rarely_reaches_twenty() -> None:
    rng = np.random.default_rng(0)
    shown, sides, p_left = [], [], []
    for person in range(800):
        quality = rng.normal(size=(40, 2))
        p_one = 1 / (1 + np.exp(quality[:, 1] - quality[:, 0]))
        first_left = rng.random(40) < 0.5
        shown += [person] * 40
        sides.append(np.where((rng.random(40) < p_one) == first_left, 1.0, -1.0))
        p_left.append(np.where(first_left, p_one, 1 - p_one))
    crowd = advance({}, shown, np.concatenate(sides), np.concatenate(p_left)).evidence.values()
    last, highest = [one.e for one in crowd], [one.sup_e for one in crowd]
    assert np.mean(last) <= 1 + 3 * np.std(last) / np.sqrt(len(last))
    assert np.mean(np.array(highest) >= 20) <= 0.05
    assert np.mean(np.array(highest) >= 2) > 0.05


def test_e_process_of_a_clicker_grows_and_keeps_its_supremum() -> None:
    evidence = LiveEvidence()
    for _ in range(40):
        evidence = evidence.update(1.0)
    top = evidence.e
    assert top > 1e6
    for _ in range(40):
        evidence = evidence.update(-1.0)
    assert evidence.e < top
    assert evidence.sup_e >= top


def test_e_process_of_very_many_answers_stays_finite() -> None:
    evidence = LiveEvidence()
    for _ in range(3000):
        evidence = evidence.update(1.0)
    assert np.isfinite(evidence.e)
    assert np.isfinite(evidence.sup_e)


def test_many_answers_at_once_are_those_answers_one_by_one() -> None:
    rng = np.random.default_rng(4)
    who, sides, p_left = rng.integers(5, size=300), rng.choice([-1.0, 0.0, 1.0], 300), rng.uniform(size=300)
    one_by_one: dict[Any, LiveEvidence] = {}
    log_e, number = [], []
    for key, side, p in zip(who.tolist(), sides, p_left, strict=True):
        one_by_one[key] = one_by_one.get(key, LiveEvidence()).update(side, p)
        log_e.append(one_by_one[key].log_e)
        number.append(one_by_one[key].answers)
    first = advance({}, who[:120].tolist(), sides[:120], p_left[:120])
    rest = advance(first.evidence, who[120:].tolist(), sides[120:], p_left[120:])
    assert [*first.number, *rest.number] == number
    assert [*first.log_e, *rest.log_e] == pytest.approx(log_e)
    for key, found in rest.evidence.items():
        assert found.answers == one_by_one[key].answers
        assert found.sup_e == pytest.approx(one_by_one[key].sup_e)
        assert found.log_wealth == pytest.approx(one_by_one[key].log_wealth)
    assert not advance({}, [], np.array([]), np.array([])).evidence


def history(rng: Generator, n: int = 80) -> list[Any]:
    """Answers of five annotators on six items under twenty coins, one pair each."""
    pairs = [tuple(rng.choice(6, size=2, replace=False)) for _ in range(20)]
    rows = []
    for _ in range(n):
        coin = int(rng.integers(20))
        left, right = pairs[coin] if rng.random() < 0.5 else pairs[coin][::-1]
        rows.append((int(rng.integers(5)), int(left), int(right), float(rng.choice([-1, 1, 0, 0.5])), coin))
    return rows


def filled(rows: list[Any]) -> SufficientStatistics:
    statistics = SufficientStatistics()
    for who, left, right, outcome, coin in rows:
        statistics.add(who, left, right, outcome, coin=coin)
    return statistics


def dense_gap(rows: list[Any], left: int, right: int, ridge: float, biases: dict[Any, Any] | dict[str, Any]) -> Any:
    """theta[left] - theta[right] of a ridge fit to the rows."""
    D, y = np.zeros((len(rows), 6)), np.zeros(len(rows))
    for k, (who, a, b, outcome, _) in enumerate(rows):
        D[k, a], D[k, b], y[k] = 1.0, -1.0, outcome - biases.get(who, 0.0)
    theta = np.linalg.solve(D.T @ D + ridge * np.eye(6), D.T @ y)
    return theta[left] - theta[right]


@pytest.mark.parametrize("biases", [{}, {0: 0.4, 3: -0.2}], ids=["no bias known", "biases of the last run"])
def test_consensus_without_the_coin_equals_a_refit_without_its_answers(biases: dict[Any, Any]) -> None:
    rows = history(np.random.default_rng(2))
    statistics = filled(rows)
    consensus = LiveConsensus(statistics, biases)
    ridge = ridge_for(statistics.answers())
    for _, left, right, _, coin in rows:
        others = [row for row in rows if row[4] != coin]
        expected = (1 + dense_gap(others, left, right, ridge, biases)) / 2
        assert consensus.probability_left(left, right, coin) == pytest.approx(np.clip(expected, 0.05, 0.95))
        everything = (1 + dense_gap(rows, left, right, ridge, biases)) / 2
        assert consensus.probability_left(left, right) == pytest.approx(np.clip(everything, 0.05, 0.95))
        assert consensus.probability_left(left, right, "a new coin") == consensus.probability_left(left, right)


def test_consensus_where_only_the_same_coin_was_answered_is_even() -> None:
    statistics = SufficientStatistics()
    for who in range(5):
        statistics.add(who, "a", "b", 1.0, coin="task 1")
    consensus = LiveConsensus(statistics)
    assert consensus.probability_left("a", "b", "task 1") == pytest.approx(0.5)
    assert consensus.probability_left("a", "b", "task 2") > 0.5
    assert consensus.probability_left("a", "unknown") == 0.5


def test_consensus_where_one_coin_decided_several_pairs_is_even_for_that_coin() -> None:
    statistics = SufficientStatistics()
    statistics.add("ann", "a", "b", 1.0, coin="shared").add("ann", "b", "c", 1.0, coin="shared")
    statistics.add("bob", "a", "b", 1.0, coin="other")
    consensus = LiveConsensus(statistics)
    assert consensus.probability_left("a", "b", "shared") == 0.5
    assert consensus.probability_left("a", "c", "other") == 0.5  # another pair than the one the coin is known for


def test_consensus_of_nothing_is_even() -> None:
    assert LiveConsensus(SufficientStatistics()).probability_left("a", "b") == 0.5


def test_crowd_counts_a_coin_of_an_annotator_once() -> None:
    crowd = LiveCrowd()
    for _ in range(5):
        crowd.observe("ann", 1.0, coin="task 1")
    crowd.observe("ann", 1.0, coin="task 2")
    crowd.observe("bob", 1.0, coin="task 1")
    assert crowd.evidence["ann"].answers == 2
    assert crowd.evidence["bob"].answers == 1


def test_crowd_warns_of_a_clicker_and_keeps_the_warning() -> None:
    crowd = LiveCrowd(q=0.1)
    rng = np.random.default_rng(0)
    for k in range(60):
        crowd.observe("clicker", 1.0, coin=k)
        for name in range(9):
            crowd.observe(name, float(rng.choice([-1, 1])), coin=k)
    assert crowd.warn() == {"clicker"}
    for k in range(200):
        crowd.observe("clicker", -1.0, coin=100 + k)
    assert "clicker" in crowd.warn()


@pytest.mark.parametrize("how", ["own coins", "shared coins", "both orders"])
def test_may_warn_where_the_last_audit_trusts_the_sides(how: str | None) -> None:
    assert may_warn(how)


@pytest.mark.parametrize("how", ["none", "sides fixed", None])
def test_may_warn_without_random_sides_or_before_the_first_audit_is_refused(how: str | None) -> None:
    assert not may_warn(how)


def test_early_warnings_follow_e_bh() -> None:
    assert early_warnings([100.0, 1.0, 0.5], 0.1).tolist() == [True, False, False]
    assert early_warnings([29.0, 1.0, 0.5], 0.1).tolist() == [False, False, False]
    assert early_warnings([16.0, 15.0, 0.5], 0.1).tolist() == [True, True, False]
