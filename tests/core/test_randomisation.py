"""One test per annotator: exact for any answers, the same for the same answers, blind to what it may not know."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binomtest

from fdr_core import randomisation
from fdr_core.answers import Answers
from fdr_core.errors import ConfigurationError
from fdr_core.randomisation.both_orders import paired_coins
from fdr_core.randomisation.units import UnitRows
from tests.core.cases import crowd

ITEMS, PEOPLE = 8, 20


def run(answers: Answers, how: str = "own coins", *, least: int = 0, people: int = PEOPLE) -> randomisation.Tests:
    """Test everybody."""
    n_items = int(max(answers.left.max(), answers.right.max())) + 1
    return randomisation.test_annotators(
        answers,
        how=how,
        n_items=n_items,
        n_annotators=people,
        judged=np.arange(people),
        leans=np.where(np.arange(people) < least, 0, 1),
        ridge=5.0,
        part_key=None,
        placed=None,
        told=None,
        leans_of=None,
    )


def flipped(answers: Answers, rows: NDArray[np.bool_]) -> Answers:
    """The same choices with the coins of some rows fallen otherwise."""
    left, right = np.where(rows, answers.right, answers.left), np.where(rows, answers.left, answers.right)
    return replace(answers, left=left, right=right, outcome=np.where(rows, -answers.outcome, answers.outcome))


@pytest.mark.parametrize("how", ["own coins", "shared coins", "both orders"])
@pytest.mark.parametrize("graded", [False, True])
def test_all_coins_of_one_annotator_flipped_turn_its_side_and_nothing_else(how: str, graded: bool) -> None:
    answers = crowd(np.random.default_rng(1), graded=graded)
    if how == "both orders":
        answers = Answers.concatenate([answers, replace(answers, left=answers.right, right=answers.left)])
    before, after = run(answers, how), run(flipped(answers, answers.annotator == 2), how)
    assert after.plain_p_value == pytest.approx(before.plain_p_value)
    assert after.weight == pytest.approx(before.weight)
    expected = before.side.copy()
    expected[2] *= -1
    assert after.side.tolist() == expected.tolist()


def test_single_coins_flipped_leave_everybody_elses_p_value_alone() -> None:
    answers = crowd(np.random.default_rng(2))
    some = (answers.annotator == 5) & (np.arange(len(answers)) % 3 == 0)
    before, after = run(answers), run(flipped(answers, some))
    others = np.arange(PEOPLE) != 5
    assert after.plain_p_value[others] == pytest.approx(before.plain_p_value[others])
    assert after.above_half == pytest.approx(before.above_half)


@pytest.mark.parametrize("graded", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_p_value_over_all_flips_of_one_annotators_coins_is_valid(graded: bool) -> None:
    """Whatever the annotator chose: under all 2^6 falls of its coins P(p <= a) <= a, with equality where attained."""
    answers = crowd(np.random.default_rng(3), n_answers=140, graded=graded)
    mine = np.flatnonzero(answers.annotator == 7)[:6]
    kept = np.ones(len(answers), dtype=bool)
    kept[np.setdiff1d(np.flatnonzero(answers.annotator == 7), mine)] = False
    answers = answers.take(kept)
    mine = np.flatnonzero(answers.annotator == 7)
    p = []
    for falls in product((False, True), repeat=len(mine)):
        rows = np.zeros(len(answers), dtype=bool)
        rows[mine] = falls
        p.append(run(flipped(answers, rows)).plain_p_value[7])
    levels = np.array(p)
    for level in np.unique(levels):
        assert (levels <= level + 1e-9).mean() <= level + 1e-9


def test_answers_against_the_consensus_weigh_more() -> None:
    """Two clicks on the left item that nobody prefers outweigh three answers for the favourite, standing right."""
    rng = np.random.default_rng(4)
    n = 600
    left = rng.integers(2, size=n)
    outcome = np.where((left == 0) == (rng.random(n) < 0.95), 1.0, -1.0)  # item 0 is the better one
    answers = Answers(
        np.append(np.repeat(np.arange(20), n // 20), [20] * 5),
        np.append(left, [1] * 5),
        np.append(1 - left, [0] * 5),
        np.append(outcome, [1.0, 1.0, -1.0, -1.0, -1.0]),
        np.arange(n + 5),
        np.ones(n + 5),
    )
    assert run(answers, people=21).side[20] == 1


def test_repeated_answers_under_one_coin_are_one_observation() -> None:
    answers = crowd(np.random.default_rng(5), n_biased=0)
    three = Answers.concatenate([answers] * 3)
    assert run(three).plain_p_value == pytest.approx(run(answers).plain_p_value, abs=0.15)
    assert (run(three).plain_p_value > 1e-4).all()


def test_answers_under_one_coin_add_up_to_the_weight_of_its_sign() -> None:
    """One coin turned many answers: an annotator whose coins carry ten answers each is told by a few large ones."""
    rng = np.random.default_rng(12)
    honest = crowd(rng, n_biased=0)
    n, coin = 62, np.repeat(np.arange(8), [10, 10, 10, 10, 10, 10, 1, 1])
    left = rng.integers(ITEMS, size=n)
    right = (left + rng.integers(1, ITEMS, size=n)) % ITEMS
    small = coin >= 6  # against its side under two small coins only: of 256 falls four are as one-sided
    own = Answers(np.full(n, PEOPLE), left, right, np.where(small, -1.0, 1.0), 10_000 + coin, np.ones(n))
    found = run(Answers.concatenate([honest, own]), people=PEOPLE + 1)
    assert found.side[PEOPLE] == 1
    assert found.plain_p_value[PEOPLE] <= 2 * 4 / 2**8 + 1e-9


def test_no_lean_of_interest_has_p_value_one_and_keeps_its_plain_one() -> None:
    answers = crowd(np.random.default_rng(6))
    free, limited = run(answers), run(answers, least=2)
    in_line = (np.arange(PEOPLE) >= 2) & (limited.side > 0) & (free.plain_p_value <= 0.05)
    assert in_line.any()
    assert (limited.p_value[~in_line] == 1.0).all()
    assert limited.p_value[in_line].tolist() == free.plain_p_value[in_line].tolist()
    assert limited.plain_p_value.tolist() == free.plain_p_value.tolist()
    assert limited.weight.tolist() == free.weight.tolist()


@pytest.mark.parametrize("how", list(randomisation.WAYS))
def test_same_answers_give_the_same_tests_and_weights_of_mean_one(how: str) -> None:
    answers = crowd(np.random.default_rng(7), graded=True)
    if how == "both orders":
        answers = Answers.concatenate([answers, replace(answers, left=answers.right, right=answers.left)])
    one, two = run(answers, how), run(answers, how)
    assert one.plain_p_value.tolist() == two.plain_p_value.tolist()
    assert one.weight.tolist() == two.weight.tolist()
    assert one.weight.mean() == pytest.approx(1.0)
    assert one.kind == how
    assert one.uses_storey  # coins of their own, whatever they are taken for
    assert ((one.plain_p_value > 0) & (one.plain_p_value <= 1)).all()


@pytest.mark.parametrize("how", list(randomisation.WAYS))
def test_nobody_to_judge_gives_no_tests(how: str) -> None:
    answers, none = crowd(np.random.default_rng(7)), np.zeros(0, dtype=np.int64)
    options = {
        "n_items": ITEMS,
        "n_annotators": PEOPLE,
        "leans": np.zeros(PEOPLE, dtype=np.int64),
        "placed": None,
        "ridge": 5.0,
        "part_key": None,
        "told": None,
        "leans_of": None,
    }
    assert len(randomisation.test_annotators(answers, how=how, judged=none, **options).plain_p_value) == 0  # type: ignore[arg-type]  # what a caller without types may do


def test_unknown_way_is_named_in_the_error() -> None:
    with pytest.raises(ConfigurationError, match="tea leaves"):
        run(crowd(np.random.default_rng(7)), "tea leaves")


def test_unique_pairs_under_shared_coins_are_tested_by_plain_signs() -> None:
    """Items of their own tell nothing about each other, so every answer weighs the same: a sign test."""
    rng = np.random.default_rng(9)
    task = np.tile(np.arange(60), 6)
    outcome = np.where(rng.random(360) < 0.6, 1.0, -1.0)
    answers = Answers(np.repeat(np.arange(6), 60), 2 * task, 2 * task + 1, outcome, task, np.ones(360))
    tests = run(answers, "shared coins", people=6)
    clicks = [int((outcome[answers.annotator == j] > 0).sum()) for j in range(6)]
    assert tests.plain_p_value == pytest.approx([binomtest(k, 60).pvalue for k in clicks], rel=1e-6)


def test_both_orders_count_inconsistent_pairs_only() -> None:
    """Five pairs answered left in both orders, and eleven consistently: p = 2^(1 - 5)."""
    rows = [(k, 2 * k, 2 * k + 1, 1.0) for k in range(5)] + [(k, 2 * k + 1, 2 * k, 1.0) for k in range(5)]
    rows += [(k, 2 * k, 2 * k + 1, 1.0) for k in range(5, 16)] + [(k, 2 * k + 1, 2 * k, -1.0) for k in range(5, 16)]
    coin, left, right, outcome = (np.array(column) for column in zip(*rows, strict=True))
    answers = Answers(np.zeros(32, dtype=np.int64), left, right, outcome, coin, np.ones(32))
    tests = run(answers, "both orders", people=1)
    assert tests.plain_p_value[0] == pytest.approx(2.0**-4)
    assert tests.p_value[0] == 1.0, "five inconsistent pairs are too few for a flag"
    assert tests.side.tolist() == [1]
    assert tests.notes == ()


def test_paired_coins_leave_out_pairs_seen_in_one_order() -> None:
    one = np.zeros(3, dtype=np.int64)
    answers = Answers(one, np.array([0, 1, 2]), np.array([1, 0, 3]), np.ones(3), one, np.ones(3))
    coin, is_balanced = paired_coins(answers)
    assert coin[0] == coin[1] != coin[2]
    assert is_balanced.tolist() == [True, True, False]


def test_answers_under_one_coin_say_the_same_of_the_choices_only_where_they_are_about_one_pair() -> None:
    answers = Answers(
        np.zeros(5, dtype=np.int64),
        np.array([0, 1, 2, 0, 0]),
        np.array([1, 0, 3, 1, 1]),
        np.ones(5),
        np.array([7, 7, 7, 7, 8]),
        np.array([1.0, 2.0, 5.0, 1.0, 3.0]),
    )
    units = UnitRows.of(answers, np.array([0]), 1)
    assert units.starts.tolist() == [0, 4]
    assert units.share.tolist() == [0.25, 0.5, 1.0, 0.25, 1.0]
