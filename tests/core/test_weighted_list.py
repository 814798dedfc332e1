"""The weighted list: by hand, against brute force, and its rate by enumeration of everything that can happen."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fdr_core.randomisation.convolution import SignSums
from fdr_core.randomisation.plan import (
    FLOOR,
    LEANING,
    LOG_RATIOS,
    ROOM,
    _never_nothing,
    leaning_shares,
    planned_thresholds,
    weights_at,
)
from fdr_core.randomisation.results import sign_tests
from fdr_core.selection import weighted_list

Array = NDArray[np.float64]

PEOPLE = st.lists(
    st.tuples(st.sampled_from([1e-6, 0.001, 0.01, 0.04, 0.2, 0.25, 0.3, 0.5, 0.7, 1.0]), st.floats(0.05, 5.0)),
    min_size=1,
    max_size=25,
)


def brute_force(p: Array, w: Array, q: float, storey: bool) -> NDArray[np.bool_]:
    """The rule as it is stated, every count tried from the largest down."""
    m = len(p)
    pi = np.ones(m)
    if storey:
        pi = np.array([2 * (w[j] + sum(w[k] for k in range(m) if k != j and p[k] > 0.5)) / m for j in range(m)])
    for r in range(m, 0, -1):
        flagged = (p <= 0.5) & (p <= w * q * r / (m * pi) * (1 + 1e-12))
        if flagged.sum() >= r:
            return flagged
    return np.zeros(m, dtype=bool)


@given(PEOPLE, st.sampled_from([0.05, 0.1, 0.2, 0.5]), st.booleans())
def test_list_equals_brute_force(people: list[tuple[float, float]], q: float, storey: bool) -> None:
    p, w = (np.array(column) for column in zip(*people, strict=True))
    w = w * len(w) / w.sum()
    found = weighted_list(p, w, q=q * (1 + 1e-12), storey=storey)
    assert found.flagged.tolist() == brute_force(p, w, q, storey).tolist()
    assert found.flagged.tolist() == (found.q_value <= q * (1 + 1e-12)).tolist()


@given(PEOPLE, st.sampled_from([0.05, 0.1, 0.3]))
def test_q_value_is_the_smallest_rate_that_flags(people: list[tuple[float, float]], q: float) -> None:
    p, w = (np.array(column) for column in zip(*people, strict=True))
    q_value = weighted_list(p, w, q=q, storey=True).q_value
    for j, rate in enumerate(q_value):
        if rate < 1:
            assert weighted_list(p, w, q=rate * (1 + 1e-9), storey=True).flagged[j]
            assert not weighted_list(p, w, q=rate * (1 - 1e-9), storey=True).flagged[j]


def test_four_annotators_worked_by_hand() -> None:
    p, w = np.array([0.01, 0.02, 0.6, 0.9]), np.ones(4)
    # pi of the first two: 2 (1 + 2) / 4 = 1.5; scores p m pi / w = .06 and .12; adjusted .06 and .06
    found = weighted_list(p, w, q=0.1, storey=True)
    assert found.flagged.tolist() == [True, True, False, False]
    assert found.q_value[:2] == pytest.approx([0.06, 0.06])
    assert found.q_value[2:].tolist() == [1.0, 1.0]
    plain = weighted_list(p, w, q=0.05, storey=False)  # scores .04 and .08, adjusted .04 and .04
    assert plain.q_value[:2] == pytest.approx([0.04, 0.04])


def test_list_does_not_depend_on_a_common_factor_of_the_weights() -> None:
    rng = np.random.default_rng(1)
    p, w = rng.random(40) ** 3, rng.gamma(1.0, size=40)
    one, two = (weighted_list(p, factor * w, q=0.1, storey=True).q_value for factor in (1.0, 7.0))
    assert one == pytest.approx(two)


def test_plain_p_values_count_the_honest_where_p_values_were_set_to_one() -> None:
    plain = np.array([1e-4, 0.3, 0.4, 0.2, 0.9])
    p = np.array([1e-4, 1.0, 1.0, 1.0, 1.0])
    with_plain = weighted_list(p, np.ones(5), q=0.1, storey=True, plain_p_value=plain).q_value[0]
    without = weighted_list(p, np.ones(5), q=0.1, storey=True).q_value[0]
    assert with_plain == pytest.approx(1e-4 * 2 * (1 + 1))
    assert without == pytest.approx(1e-4 * 2 * (1 + 4))


def test_nobody_is_flagged_with_a_p_value_above_one_half_whatever_the_weight() -> None:
    p, w = np.array([0.51, 0.01]), np.array([1e6, 1.0])
    assert not weighted_list(p, w, q=0.9, storey=False).flagged[0]


def test_no_annotators_give_an_empty_list() -> None:
    assert weighted_list(np.zeros(0), np.zeros(0), q=0.1, storey=True).flagged.tolist() == []


#: Attainable p-values of annotators with 3, 4 and 5 equal coins, and 3 unequal ones, with their null probabilities.
ATTAINABLE = [
    ([0.25, 1.0], [0.25, 0.75]),
    ([0.125, 0.625, 1.0], [0.125, 0.5, 0.375]),
    ([0.0625, 0.375, 1.0], [0.0625, 0.3125, 0.625]),
    ([0.25, 0.5, 0.75, 1.0], [0.25, 0.25, 0.25, 0.25]),
]


@pytest.mark.parametrize("q", [0.1, 0.3, 0.6, 0.9])
@pytest.mark.parametrize("seed", range(4))
def test_rate_with_weights_that_learn_holds_by_enumeration(q: float, seed: int) -> None:
    """Nobody leans: the probability of any flag, over everything that can happen, is at most q."""
    rng = np.random.default_rng(seed)
    people = [ATTAINABLE[k] for k in rng.integers(len(ATTAINABLE), size=5)]
    planned = np.cumsum(rng.gamma(0.5, size=(len(LEANING), 5)), axis=0)  # any thresholds that rise with the share
    above_half = np.array([sum(c for v, c in zip(*person, strict=True) if v > 0.5) for person in people])
    rate = 0.0
    for chosen in product(*(range(len(person[0])) for person in people)):
        p = np.array([person[0][k] for person, k in zip(people, chosen, strict=True)])
        chance = np.prod([person[1][k] for person, k in zip(people, chosen, strict=True)])
        w = weights_at(planned, leaning_shares(p, above_half))
        rate += chance * weighted_list(p, w, q=q, storey=True, above_half=above_half).flagged.any()
    assert rate <= q


def test_leaning_shares_leave_out_the_own_p_value_and_fall_when_another_rises() -> None:
    half = np.full(40, 0.5)
    p = np.linspace(0.001, 0.6, 40)
    low, high = p.copy(), p.copy()
    low[3], high[3] = 0.01, 0.99
    one, two = leaning_shares(low, half), leaning_shares(high, half)
    assert one[3] == two[3]
    assert (np.delete(one, 3) > np.delete(two, 3)).all()


def test_weights_at_have_mean_one() -> None:
    planned = np.zeros((len(LEANING), 10))
    planned[:, :2] = np.linspace(0.01, 0.2, len(LEANING))[:, None]
    w = weights_at(planned, 0.2)
    assert w.mean() == pytest.approx(1.0)
    assert (w[:2] == 5.0).all()


def test_weights_fall_with_the_share_of_leaning_also_where_nothing_is_planned() -> None:
    null, found = np.zeros((2, 3, len(LOG_RATIOS)), dtype=np.float32)
    null[:, :3], found[:, :3] = (0.5, 0.25, 0.1), (0.6, 0.3, 0.12)  # a lean hardly shows: nothing is worth planning
    nobody = planned_thresholds(null, found, np.ones(3), np.zeros(3))
    assert (nobody > 0).all()
    assert weights_at(nobody, 0.2).tolist() == [1.0, 1.0, 1.0]
    planned = _never_nothing(np.array([[0.0, 0.0], [0.0, 0.1], [0.05, 0.2]]))
    assert (np.diff(planned, axis=0) >= 0).all()
    assert planned[0] == pytest.approx([0.0, 1e-7])


def test_nobody_is_out_of_reach_but_those_with_too_few_answers_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whom choices speak against keeps the floor, however light its answers; four answers cannot reach it."""
    counts, size = np.array([20, 4, *[30] * 300]), np.array([0.01, 1.0, *[1.0] * 300])
    owner = np.repeat(np.arange(len(counts)), counts)
    tests = sign_tests(SignSums.of(owner, size[owner], len(counts)))
    assert tests.smallest[:3].tolist() == [2.0**-19, 2.0**-3, 2.0**-29]
    said = np.array([-30.0, -30.0, *[0.0] * 300])
    planned = planned_thresholds(tests.null, tests.found, tests.smallest, said)[0]
    monkeypatch.setattr("fdr_core.randomisation.plan.FLOOR", 0.0)
    without = planned_thresholds(tests.null, tests.found, tests.smallest, said)[0]
    assert without[0] == without[1] == 0.0
    assert planned[0] == pytest.approx(FLOOR * without.mean())
    assert planned[0] > 0
    assert planned[1] == 0.0


def test_thresholds_have_room_up_to_the_next_p_value_and_by_no_more_than_a_factor() -> None:
    """Ten equal answers reach 2^-9, 11 * 2^-9, ...: the list may scale all thresholds down by 1.8 and lose nobody."""
    owner = np.repeat(np.arange(40), 10)
    tests = sign_tests(SignSums.of(owner, np.ones(len(owner)), 40))
    with_room = planned_thresholds(tests.null, tests.found, tests.smallest, np.zeros(40), room=ROOM)
    without = planned_thresholds(tests.null, tests.found, tests.smallest, np.zeros(40))
    factor = with_room / without
    assert without[0] == pytest.approx(2.0**-9 * (1 + FLOOR), rel=1e-5)
    assert factor == pytest.approx(ROOM)
    reached = (tests.null[None] <= with_room[:, :, None]).sum(axis=2)
    assert (reached == (tests.null[None] <= without[:, :, None] * (1 + 1e-6)).sum(axis=2)).all()


def test_room_ends_at_a_near_p_value(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many unequal answers reach p-values close to each other: thresholds with room are reachable ones too."""
    monkeypatch.setattr("fdr_core.randomisation.plan.FLOOR", 0.0)
    rng = np.random.default_rng(5)
    owner = np.repeat(np.arange(5), 60)
    tests = sign_tests(SignSums.of(owner, rng.gamma(2.0, size=len(owner)), 5))
    planned = planned_thresholds(tests.null, tests.found, tests.smallest, np.zeros(5), room=ROOM)
    distance = np.abs(np.log(planned[:, :, None] / tests.null[None])).min(axis=2)
    assert distance == pytest.approx(0.0, abs=1e-5)
