"""Coins that several people met: parts of them that labels alone decide, and tests with little in common."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from fdr_core import Comparisons, SufficientStatistics, detect, randomisation
from fdr_core.answer_table import AnswerTable
from fdr_core.answers import Answers
from fdr_core.audit.coins import effective_coins
from fdr_core.codes import smallest_by
from fdr_core.engines import sum_comparisons
from fdr_core.inputs.item_keys import label_keys
from fdr_core.randomisation.coins import Crowd, common_coins
from fdr_core.randomisation.shared import PARTS, Known, cross_fitted, nothing_in_common, parts_of_coins
from fdr_core.randomisation.units import UnitRows
from fdr_core.simulate import Simulated, large_crowd, unique_pairs
from harness.crowds import calibration_tasks, six_judges


def pairs_asked_twice(seed: int, *, ids: bool) -> pd.DataFrame:
    """A crowd in which one answer in four repeats somebody else's pair in the same order, as one coin has it."""
    frame = large_crowd("H1", rng=np.random.default_rng(seed)).comparisons.to_frame()
    rng = np.random.default_rng([seed, 1])
    frame["coin"] = np.arange(len(frame))
    rows = rng.permutation(len(frame))
    again, source = rows[: len(frame) // 8], rows[len(frame) // 8 : 2 * (len(frame) // 8)]
    frame.loc[again, ["left", "right", "coin"]] = frame.loc[source, ["left", "right", "coin"]].to_numpy()
    return frame if ids else frame.drop(columns="coin")


def by_name(frame: pd.DataFrame) -> pd.DataFrame:
    columns = ["annotator", "p_value", "q_value", "exact_list"]
    return frame[columns].sort_values("annotator").reset_index(drop=True)


@pytest.mark.parametrize("ids", [True, False])
def test_answers_in_another_order_give_the_same_tests_and_list(ids: bool) -> None:
    frame = pairs_asked_twice(5, ids=ids)
    found = detect(Comparisons.from_frame(frame), sides="random", lbi=None)
    assert found.audit.how == "shared coins"
    assert len(found.flagged) > 10
    for seed in range(2):
        shuffled = frame.sample(frac=1.0, random_state=seed)
        again = detect(Comparisons.from_frame(shuffled), sides="random", lbi=None)
        pd.testing.assert_frame_equal(by_name(again.annotators), by_name(found.annotators), rtol=1e-6)


@pytest.mark.parametrize("ids", [True, False])
def test_engines_and_memory_part_the_coins_alike(ids: bool) -> None:
    comparisons = Comparisons.from_frame(pairs_asked_twice(6, ids=ids))
    here = detect(comparisons, sides="random", lbi=None)
    there = detect(sum_comparisons(comparisons), sides="random", lbi=None)
    pd.testing.assert_frame_equal(by_name(there.annotators), by_name(here.annotators), rtol=1e-6)


def test_keys_follow_from_labels_and_whole_numbers_equal_their_texts() -> None:
    keys = label_keys([7, "7", "seven", "Seven"])
    assert keys[0] == keys[1]
    assert len(set(keys.tolist())) == 3
    assert keys.tolist() == label_keys(iter([7, "7", "seven", "Seven"])).tolist()
    assert len(label_keys([])) == 0


def test_keys_of_coins_stay_when_other_coins_come_and_own_coins_have_none() -> None:
    statistics = SufficientStatistics().add("ann", "a", "b", 1.0, coin="first")
    (first,) = statistics.coin_keys()
    statistics.add("ann", "a", "b", 1.0).add("ann", "b", "c", -1.0, coin="second")
    keys = statistics.coin_keys()
    assert keys[0] == first == label_keys(["first"])[0]
    assert keys[1] == 0
    assert keys[2] == label_keys(["second"])[0]


def test_smallest_key_of_a_coin_does_not_depend_on_the_order_of_its_rows() -> None:
    code, key = np.array([0, 1, 0, 1, 1]), np.array([9, 4, 3, 8, 2], dtype=np.uint64)
    assert smallest_by(code, key).tolist() == [3, 2]
    assert smallest_by(code[::-1], key[::-1]).tolist() == [3, 2]


def crowd_of(annotator: list[int], coin: list[int], key: list[int] | None = None) -> Crowd:
    n = len(annotator)
    answers = Answers(
        np.array(annotator),
        np.zeros(n, dtype=np.int64),
        np.ones(n, dtype=np.int64),
        np.ones(n),
        np.array(coin),
        np.ones(n),
    )
    part_key = None if key is None else np.array(key, dtype=np.uint64)
    return Crowd(answers, 2, max(annotator) + 1, np.arange(max(annotator) + 1), 5.0, part_key)


def test_answers_under_one_coin_are_in_one_part_and_new_coins_move_nobody() -> None:
    rng = np.random.default_rng(1)
    coin = rng.integers(300, size=2000).tolist()
    key = (1000 + np.array(coin)).tolist()
    some = parts_of_coins(crowd_of([0] * 2000, coin, key))
    assert all(len(set(some[np.array(coin) == c])) == 1 for c in set(coin))
    assert set(some.tolist()) == set(range(PARTS))
    more = parts_of_coins(crowd_of([0] * 2003, [300, 301, 302, *coin], [5, 6, 7, *key]))
    assert more[3:].tolist() == some.tolist()


def in_common(crowd: Crowd, value: list[float] | None = None) -> float:
    units = UnitRows.of(crowd.answers, crowd.judged, crowd.n_annotators)
    return common_coins(crowd, units, np.ones(len(units.starts)) if value is None else np.array(value))


def test_common_coins_by_hand() -> None:
    """Ann and Bo have four coins each, one of them in common: a correlation of 1/4. Cy has none in common."""
    annotator, coin = [0, 0, 0, 0, 1, 1, 1, 1, 2, 2], [0, 1, 2, 3, 3, 4, 5, 6, 7, 8]
    assert in_common(crowd_of(annotator, coin)) == pytest.approx((1 / 16 + 1 / 16 + 0) / 3)
    assert in_common(crowd_of([0, 0, 1, 1], [0, 1, 0, 1])) == pytest.approx(1.0)
    assert in_common(crowd_of([0, 0, 1, 1], [0, 1, 2, 3])) == 0.0


def test_common_coins_that_weigh_much_count_as_much() -> None:
    """One of two coins in common, three times as heavy as the other on both sides: a correlation of 9/10."""
    assert in_common(crowd_of([0, 0, 1, 1], [0, 1, 1, 2]), [1.0, -3.0, 3.0, 1.0]) == pytest.approx(0.81)
    assert in_common(crowd_of([0, 0, 1, 1], [0, 1, 1, 2]), [3.0, 1.0, 1.0, 3.0]) == pytest.approx(0.01)


def test_everybody_under_every_coin_is_not_even_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fdr_core.randomisation.coins.MOST_PAIRS", 7)
    assert in_common(crowd_of([0, 0, 1, 1], [0, 1, 0, 1])) == np.inf


@pytest.mark.parametrize("make", [six_judges, calibration_tasks])
def test_what_others_chose_under_a_coin_does_not_weigh_the_answers_under_it(make: Callable[..., Simulated]) -> None:
    table = AnswerTable.of(make(rng=np.random.default_rng(3)).comparisons)
    sizes, coin = (len(table.items), len(table.annotators)), table.answers.coin
    crowd = Crowd(table.answers, *sizes, np.arange(sizes[1]), 5.0, table.part_keys(coin))
    theirs = (parts_of_coins(crowd) == 4) & (table.answers.annotator != 0)
    turned = replace(table.answers, outcome=np.where(theirs, -1.0, 1.0) * table.answers.outcome)
    units = UnitRows.of(table.answers, crowd.judged, crowd.n_annotators)
    mine = (parts_of_coins(crowd) == 4)[units.rows] & (units.position == 0)
    part = parts_of_coins(crowd)
    before, after = (cross_fitted(each, units, part).support[mine] for each in (crowd, replace(crowd, answers=turned)))
    assert mine.sum() >= 5
    assert after == pytest.approx(before, abs=2e-4)


def test_items_of_one_coin_each_are_weighed_alike_without_a_fit_for_every_part() -> None:
    table = AnswerTable.of(unique_pairs(rng=np.random.default_rng(4)).comparisons)
    sizes = (len(table.items), len(table.annotators))
    crowd = Crowd(table.answers, *sizes, np.arange(sizes[1]), 5.0, table.part_keys(table.answers.coin))
    units = UnitRows.of(table.answers, crowd.judged, crowd.n_annotators)
    part = parts_of_coins(crowd)
    at_once, one_by_one = Known.nothing(crowd, units), cross_fitted(crowd, units, part)
    assert nothing_in_common(part, crowd.answers, crowd.n_items)
    assert at_once.support == pytest.approx(one_by_one.support, abs=1e-9)
    assert at_once.uncertainty == pytest.approx(one_by_one.uncertainty)
    assert at_once.converged


def test_items_met_in_two_parts_have_something_in_common() -> None:
    crowd = crowd_of([0, 0, 1, 1], [0, 1, 0, 1])
    left = replace(crowd.answers, left=np.array([0, 1, 0, 1]), right=np.array([2, 3, 2, 3]))
    assert nothing_in_common(np.array([5, 6, 5, 6]), left, 4)
    assert not nothing_in_common(np.array([5, 6, 6, 6]), left, 4)
    assert not nothing_in_common(np.array([5, 6, 5, 6]), replace(left, right=np.array([2, 0, 2, 3])), 4)


def test_coin_joined_from_several_tasks_stays_in_its_part_when_tasks_come() -> None:
    """Forty pairs, each always in one order, in more and more tasks: the audit takes a pair for one coin."""
    rng = np.random.default_rng(2)
    frames = []
    for number in range(3):
        frame = pd.DataFrame({"annotator": np.tile(np.arange(8), 40), "left": np.repeat(np.arange(40), 8)})
        frame["right"], frame["outcome"] = frame["left"] + 40, rng.choice([-1.0, 1.0], size=320)
        frames.append(frame.assign(task=frame["left"] + 1000 * number))
    parts = []
    for n in (2, 3):
        table = AnswerTable.of(Comparisons.from_frame(pd.concat(frames[:n])))
        answers = table.answers.with_coin(effective_coins(table.answers, "task"))
        assert len(np.unique(answers.coin)) == 40
        sizes = (len(table.items), len(table.annotators))
        crowd = Crowd(answers, *sizes, np.arange(sizes[1]), 5.0, table.part_keys(answers.coin))
        parts.append(dict(zip(table.items[answers.left], parts_of_coins(crowd), strict=True)))
    assert parts[0] == parts[1]


def examine(comparisons: Comparisons) -> randomisation.Tests:
    """Test everybody of a crowd under the coins that were recorded."""
    table = AnswerTable.of(comparisons)
    m = len(table.annotators)
    return randomisation.test_annotators(
        table.answers,
        how="shared coins",
        n_items=len(table.items),
        n_annotators=m,
        judged=np.arange(m),
        leans=np.zeros(m, dtype=np.int64),
        ridge=5.0,
        part_key=table.part_keys(table.answers.coin),
        placed=None,
        told=None,
        leans_of=None,
    )


def test_how_many_are_honest_is_estimated_only_where_tests_have_little_in_common() -> None:
    assert examine(Comparisons.from_frame(pairs_asked_twice(7, ids=True))).uses_storey
    assert not examine(six_judges(rng=np.random.default_rng(8), n_tasks=100).comparisons).uses_storey
    assert not examine(calibration_tasks(rng=np.random.default_rng(8)).comparisons).uses_storey
