"""What the design audit counts, of coins and of answers: worked by hand, and each limit from both sides."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fdr_core.answers import Answers, Skipped, sum_answers
from fdr_core.audit import AuditInput, audit, coins, figures

Codes = list[int] | NDArray[Any]


def rows(who: Codes, left: Codes, right: Codes, *, coin: Codes | None = None, weight: Any = None) -> Answers:
    """Answers for the left item, each under a coin of its own unless given."""
    n = len(who)
    coin = np.arange(n) if coin is None else coin
    weight = np.ones(n) if weight is None else np.asarray(weight, dtype=float)
    return Answers(np.array(who), np.array(left), np.array(right), np.ones(n), np.array(coin), weight)


def put(answers: Answers, source: str = "own", **more: Any) -> AuditInput:
    n_items = int(max(answers.left.max(), answers.right.max())) + 1
    return AuditInput(answers, sum_answers(answers, n_items, int(answers.annotator.max()) + 1), source, **more)


def described(answers: Answers, **more: Any) -> dict[str, Any]:
    return figures.describe(answers, put(answers, **more), 1 / 3)


def mixed_crowd(m: int = 12, size: int = 600, n: int = 8, seed: int = 0, n_tasks: int | None = None) -> Answers:
    """Answers by chance about items on sides by chance; in tasks that everybody sees, if so many are named."""
    rng = np.random.default_rng(seed)
    drawn = size if n_tasks is None else n_tasks
    left = rng.integers(n, size=drawn)
    right = (left + rng.integers(1, n, size=drawn)) % n
    task = np.arange(size) if n_tasks is None else np.tile(np.arange(n_tasks), m)
    who = rng.integers(m, size=size) if n_tasks is None else np.repeat(np.arange(m), n_tasks)
    answers = rows(who, left[task], right[task], coin=task)
    better = (right[task] - left[task]) / 3 + rng.logistic(size=len(who)) > 0
    return Answers(who, answers.left, answers.right, np.where(better, 1.0, -1.0), task, answers.weight)


# -- coins


def test_more_than_chance_is_three_deviations_above_what_coins_would_do() -> None:
    four = np.full(4, 0.5)  # two expected, deviation one
    assert not coins._exceeds(5.0, four, 3.0)
    assert coins._exceeds(5.1, four, 3.0)
    uneven = np.full(100, 0.1)  # ten expected, deviation three
    assert not coins._exceeds(18.9, uneven, 3.0)
    assert coins._exceeds(19.1, uneven, 3.0)


def test_one_way_codes_are_those_shown_several_times_in_one_order_alone() -> None:
    code = np.array([0, 0, 1, 1, 2, 3, 3, 3])
    one_way, on_purpose = coins._one_way(code, np.array([1, 1, 1, 0, 1, 0, 0, 0], dtype=bool))
    assert (one_way.tolist(), on_purpose) == ([True, False, False, True], False)


@pytest.mark.parametrize(("n_one_way", "on_purpose"), [(65, False), (66, True)])
def test_one_way_pairs_count_as_made_on_purpose_beyond_three_deviations(n_one_way: int, on_purpose: bool) -> None:
    """Of a hundred pairs shown twice fair coins leave fifty in one order, with a deviation of five."""
    second = np.arange(100) < n_one_way
    forward = np.concatenate([np.ones(100, dtype=bool), second])
    assert coins._one_way(np.tile(np.arange(100), 2), forward)[1] == on_purpose


def test_presentations_tell_pairs_whatever_their_order() -> None:
    shown = coins.Presentations.of(rows([0] * 4, [0, 1, 0, 2], [1, 0, 2, 1]))
    assert (shown.pair.tolist(), shown.is_forward.tolist()) == ([0, 0, 1, 2], [True, False, True, False])


def test_effective_coins_join_no_pair_that_was_ever_swapped() -> None:
    """Thirty pairs in one order for everybody are one coin each; the one seen either way keeps its coins."""
    left, right = np.arange(30), np.arange(30, 60)
    answers = rows(
        np.repeat([0, 1, 2], 31),
        np.concatenate([left, [60], left, [61], left, [60]]),
        np.concatenate([right, [61], right, [60], right, [61]]),
    )
    coin = coins.effective_coins(answers, "own")
    assert len(np.unique(coin)) == 30 + 3
    assert coin[[30, 61, 92]].tolist() == [30, 61, 92]
    assert len(np.unique(coin[[0, 31, 62]])) == 1
    assert set(np.unique(coin[:30])).isdisjoint({30, 61, 92})


def both_ways(n_units: int, n_swapped: int, times: int = 1) -> Answers:
    """Units of one annotator and a pair of its own, each shown twice: some in both orders, the others in one."""
    unit = np.tile(np.arange(n_units), 2 * times)
    second = (np.arange(len(unit)) >= n_units * times) & (unit < n_swapped)
    low, high = 2 * unit, 2 * unit + 1
    return rows(unit, np.where(second, high, low), np.where(second, low, high))


@pytest.mark.parametrize(("n_swapped", "are_both"), [(2, False), (3, True)])
def test_both_orders_were_shown_where_more_than_half_of_the_answers_belong_to_them(
    n_swapped: int, are_both: bool
) -> None:
    found = coins.orders_shown(both_ways(4, n_swapped), "own")
    assert (found.share, found.are_both, found.on_purpose) == (n_swapped / 4, are_both, False)
    assert found.is_swapped.tolist() == (found.unit < n_swapped).tolist()


@pytest.mark.parametrize(("n_swapped", "on_purpose"), [(17, False), (18, True)])
def test_both_orders_are_on_purpose_from_nine_tenths_of_the_answers(n_swapped: int, on_purpose: bool) -> None:
    assert coins.orders_shown(both_ways(20, n_swapped), "own").on_purpose == on_purpose


@pytest.mark.parametrize(("source", "on_purpose"), [("own", True), ("task", False), ("coin", False)])
def test_tasks_of_one_pair_are_one_question_only_where_each_order_was_shown_once(source: str, on_purpose: bool) -> None:
    assert coins.orders_shown(both_ways(20, 20), source).on_purpose == (source != "coin")
    twice = coins.orders_shown(both_ways(20, 20, times=2), source)
    assert (twice.on_purpose, twice.are_both) == (on_purpose, on_purpose)


@pytest.mark.parametrize(("n_joined", "on_purpose"), [(2, False), (3, True)])
def test_both_orders_under_one_coin_are_on_purpose_beyond_half_of_the_answers(n_joined: int, on_purpose: bool) -> None:
    apart = both_ways(4, 4)
    coin = np.where(apart.annotator < n_joined, apart.annotator, apart.coin)
    found = coins.orders_shown(apart.with_coin(coin), "task")
    assert (found.on_purpose, found.same_question) == (on_purpose, on_purpose)
    assert found.share == (n_joined / 4 if on_purpose else 1.0)


def test_orders_that_everybody_saw_alike_are_counted_once_and_not_by_the_annotators() -> None:
    """Three pairs in both orders, by thirty people: as likely as not; by people of their own it would be no chance."""
    pair = np.tile([0, 1, 2, 0, 1, 2], 30)
    swapped = np.tile([False] * 3 + [True] * 3, 30)
    coin = np.tile(np.arange(6), 30)
    answers = rows(
        np.repeat(np.arange(30), 6),
        np.where(swapped, 2 * pair + 1, 2 * pair),
        np.where(swapped, 2 * pair, 2 * pair + 1),
        coin=coin,
    )
    assert not coins.orders_shown(answers, "own").on_purpose
    assert coins.orders_shown(answers.with_coin(np.arange(180)), "own").on_purpose


@pytest.mark.parametrize(("n_answers", "is_shared"), [(40, False), (39, True)])
def test_coins_are_shared_beyond_a_twentieth_of_the_answers(n_answers: int, is_shared: bool) -> None:
    who = np.arange(n_answers) % 2
    coin = np.maximum(np.arange(n_answers) - 1, 0)  # the first two answers, by two people, under one coin
    use = coins.CoinUse.of(rows(who, who, who + 1, coin=coin))
    assert (use.shared_answers, use.is_shared) == (2 / n_answers, is_shared)
    assert use.n_coins == n_answers - 1


def test_coins_are_shared_where_many_people_met_nothing_but_shared_tasks() -> None:
    # forty people with ten own answers each, and four or five newcomers with the same two tasks: 2 % of the answers
    own = np.repeat(np.arange(40), 10)
    for n_new, is_shared in [(2, False), (3, True)]:
        who = np.concatenate([own, 40 + np.arange(2 * n_new) // 2])
        coin = np.concatenate([np.arange(400), 400 + np.arange(2 * n_new) % 2])
        use = coins.CoinUse.of(rows(who, who, who + 1, coin=coin))
        assert use.shared_answers < coins.SHARED_FROM
        assert use.shared_of_one == n_new / (40 + n_new)
        assert use.is_shared == is_shared


def test_shares_and_numbers_of_coins_worked_by_hand() -> None:
    assert coins._share(np.array([0.125, 0.125]), np.array([True, False])) == 0.5
    assert coins._share(np.zeros(2), np.array([True, False])) == 0.0
    assert coins.CoinUse.of(Answers.empty()).n_coins == 0


# -- figures


def test_figures_of_a_small_design_worked_by_hand() -> None:
    answers = Answers(
        np.array([0, 0, 0, 2]),
        np.array([0, 0, 1, 3]),
        np.array([1, 1, 2, 4]),
        np.array([1.0, -1.0, 0.0, 0.5]),
        np.array([5, 5, 6, 7]),
        np.array([1.0, 1.0, 1.0, 3.0]),
    )
    skips = Skipped.of({(0, 0, 1): 2, (-1, 1, 2): 1})
    found = described(answers, skips=skips, excluded={"drafts": 4})
    assert found == {
        "answers": 6,
        "annotators": 3,
        "items": 5,
        "coins": 3,
        "drawn_by_seed": 0.0,
        "coin_source": "own",
        "shared_coins": False,
        "few_coins": False,
        "shared_answers": 0.0,
        "both_orders_answers": 0.3333,
        "components": 2,
        "left_share": 0.6667,
        "right_share": 0.1667,
        "one_orientation_pairs": 2,  # 0 and 1, 3 and 4
        "items_on_one_side": 4,  # all but item 1
        "items_under_one_coin": 0.8,  # all but item 1
        "sides_never_swapped": False,
        "answers_median": 3.0,  # of those who answered at all
        "answers_90th_percentile": 3.0,
        "excluded": {"drafts": 4},
        "skips": 3,
    }


def test_figures_of_answers_per_annotator_are_quantiles_of_those_who_answered() -> None:
    who = np.repeat(np.arange(11), np.arange(1, 12))
    found = described(rows(who, who % 2, 2 + who % 3))
    assert (found["answers_median"], found["answers_90th_percentile"]) == (6.0, 10.0)


def test_pairs_seen_once_or_in_both_orders_are_not_of_one_orientation() -> None:
    assert described(rows([0] * 3, [0, 1, 2], [1, 0, 3]))["one_orientation_pairs"] == 0
    assert described(rows([0] * 5, [0, 0, 0, 4, 4], [1, 1, 1, 5, 5]))["one_orientation_pairs"] == 2


@pytest.mark.parametrize(("n_coins", "is_said"), [(5, False), (6, True)])
def test_sides_were_never_swapped_once_ten_further_coins_agree(n_coins: int, is_said: bool) -> None:
    """Two items that always stand on their sides: each coin but the first speaks twice."""
    zeros = np.zeros(n_coins, dtype=int)
    assert described(rows(zeros, zeros, zeros + 1))["sides_never_swapped"] == is_said


def test_sides_were_swapped_where_one_item_was() -> None:
    left, right = np.append(np.zeros(30, dtype=int), 2), np.append(np.ones(30, dtype=int), 0)
    found = described(rows(np.zeros(31, dtype=int), left, right))
    assert (found["items_on_one_side"], found["sides_never_swapped"]) == (2, False)


@pytest.mark.parametrize(("n_coins", "are_few"), [(99, True), (100, False)])
def test_fewer_than_a_hundred_shared_coins_are_few(n_coins: int, are_few: bool) -> None:
    answers = mixed_crowd(4, n_tasks=n_coins)
    assert described(answers)["few_coins"] == are_few
    said = " ".join(audit(put(answers, "coin"), q=0.1).reasons)
    assert (f"Only {n_coins} distinct coins" in said) == are_few
    assert not described(answers.with_coin(np.arange(len(answers))))["few_coins"]  # nobody shares one


CYCLE = ([0] * 3, [0, 1, 2], [1, 2, 0])  # every item once on each side: theta absorbs nothing


@pytest.mark.parametrize(("q", "more"), [(0.25, 0), (0.249, 1), (0.125, 1), (1 / 16, 2)])
def test_answers_are_enough_for_the_papers_construction_once_signs_can_reach_q(q: float, more: int) -> None:
    """Three coins reach 2^-2."""
    answers = rows(*CYCLE)
    enough = figures.enough_beside_items(answers, put(answers).sums, q)
    assert (enough.is_so.tolist(), enough.more_needed.tolist()) == ([more == 0], [more])


def test_six_coins_are_enough_however_the_items_stood() -> None:
    who, first = np.repeat([0, 1], [6, 5]), np.arange(11)
    for turned in (first < 0, first % 2 == 0):
        answers = rows(who, np.where(turned, first, first + 1), np.where(turned, first + 1, first))
        enough = figures.enough_coins(answers, 2)
        assert (enough.is_so.tolist(), enough.more_needed.tolist()) == ([True, False], [0, 1])


def test_coins_of_their_own_are_described_as_if_each_were_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(8)
    left = rng.integers(6, size=60)
    answers = rows(rng.integers(5, size=60), left, (left + rng.integers(1, 6, size=60)) % 6)
    found = described(answers)
    monkeypatch.setattr(coins.CoinUse, "are_own", False)
    assert described(answers) == found
