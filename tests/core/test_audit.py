"""The design audit: which construction, why, and what would help, before anybody is looked at."""

import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.stats import chi2

from fdr_core import Comparisons, ConfigurationError, DesignError, SufficientStatistics, detect, simulate
from fdr_core.answer_table import AnswerTable
from fdr_core.answers import Answers, Skipped, sum_answers
from fdr_core.audit import Audit, AuditInput, audit, coins, coins_per_annotator, effective_coins, sides
from fdr_core.design import ridge_for
from tests.core.cases import crowd


def input_of(comparisons: Comparisons) -> AuditInput:
    statistics = SufficientStatistics.from_comparisons(comparisons)
    return AuditInput(
        statistics.answers(), statistics.sums, statistics.coin_source, statistics.skips(), statistics.excluded
    )


def judged(comparisons: Comparisons, **options: Any) -> Audit:
    return audit(input_of(comparisons), q=0.1, **options)


def arrays(
    rng: Generator, *, m: int = 20, n: int = 12, size: int = 1200, heads: float = 0.5, coins: Any = None
) -> Comparisons:
    """A crowd on items of known order; the better item stands left with probability ``heads``."""
    who = rng.integers(m, size=size)
    one = rng.integers(n, size=size)
    two = (one + rng.integers(1, n, size=size)) % n
    left, right = np.minimum(one, two), np.maximum(one, two)  # items of lower number are better
    turned = rng.random(size) >= heads
    left, right = np.where(turned, right, left), np.where(turned, left, right)
    y = np.where((right - left) / 3 + rng.logistic(size=size) > 0, 1.0, -1.0)
    return Comparisons.from_arrays(who, left, right, y, coin=coins)


def test_audit_of_random_sides_chooses_flips() -> None:
    result = judged(arrays(np.random.default_rng(2)))
    assert result.construction == "flip"
    assert any(reason.startswith("Sides look random") for reason in result.reasons)
    assert (result.found, result.how) == ("sides look random", "own coins")
    assert abs(result.figures["sides_z"]) < 1.96
    assert not result.shares_coins


def test_audit_of_sides_that_follow_the_items_chooses_the_papers_construction_and_says_why() -> None:
    result = judged(arrays(np.random.default_rng(0), heads=0.8))
    assert (result.found, result.how, result.construction) == ("placed", "sides fixed", "paper")
    assert any("better item stands left too often" in reason for reason in result.reasons)
    assert any("prepare" in remedy for remedy in result.remedies)
    assert result.figures["lambda_min"] > 0.1


def test_audit_with_the_owners_word_follows_it() -> None:
    comparisons = arrays(np.random.default_rng(0), heads=0.8)
    stated = judged(comparisons, sides="random")
    assert (stated.found, stated.how, stated.construction) == ("placed", "own coins", "flip")
    assert any("please check" in reason for reason in stated.reasons)
    assert judged(arrays(np.random.default_rng(0)), sides="not random").construction == "paper"


def test_audit_with_flips_asked_for_against_the_test_is_marked_as_forced() -> None:
    result = judged(arrays(np.random.default_rng(0), heads=0.8), method="flip")
    assert result.construction == "flip"
    assert result.figures["forced"]


def test_audit_with_options_that_do_not_fit_raises() -> None:
    comparisons = arrays(np.random.default_rng(0))
    with pytest.raises(ConfigurationError, match="auto, flip, paper"):
        judged(comparisons, method="lasso")
    with pytest.raises(ConfigurationError, match="audit, random, not random"):
        judged(comparisons, sides="maybe")
    with pytest.raises(ConfigurationError, match="sides='not random' was given"):
        judged(comparisons, method="flip", sides="not random")


def test_audit_of_unique_pairs_needs_recorded_coins_or_the_owners_word() -> None:
    comparisons = simulate.unique_pairs(rng=np.random.default_rng(0)).comparisons
    frame = comparisons.to_frame()
    recorded = judged(comparisons)
    assert (recorded.found, recorded.how, recorded.construction) == ("one order per task", "shared coins", "flip")
    as_task = Comparisons.from_frame(frame.rename(columns={"coin": "task"}))
    untold = judged(as_task)
    assert (untold.found, untold.how, untold.construction) == ("one order per task", "none", "none")
    assert untold.reasons[-1].startswith("Cannot be judged")
    assert any("sides='random'" in remedy for remedy in untold.remedies)
    assert judged(as_task, sides="random").construction == "flip"
    assert detect(as_task).flagged == []
    assert detect(as_task).guarantee.kind == "nothing claimed"


def test_audit_of_sides_never_swapped_refuses_whatever_is_asked_for() -> None:
    rng = np.random.default_rng(1)
    left, right = rng.integers(6, size=400), 6 + rng.integers(6, size=400)
    comparisons = Comparisons.from_arrays(rng.integers(9, size=400), left, right, rng.choice([-1, 1], size=400))
    for options in ({}, {"method": "flip"}, {"method": "paper"}, {"sides": "random"}):
        result = judged(comparisons, **options)
        assert (result.found, result.how, result.construction) == ("placed", "none", "none")
        assert result.figures["sides_never_swapped"]
        assert any("never swapped" in reason for reason in result.reasons)


def test_audit_with_few_shared_coins_says_so() -> None:
    rng = np.random.default_rng(2)
    pairs = [tuple(rng.choice(8, size=2, replace=False)) for _ in range(40)]
    task = np.tile(np.arange(40), 15)
    left, right = np.array(pairs)[task].T
    y = np.where((right - left) / 3 + rng.logistic(size=600) > 0, 1.0, -1.0)
    result = judged(Comparisons.from_arrays(np.repeat(np.arange(15), 40), left, right, y, task=task))
    assert result.shares_coins
    assert result.figures["coins"] == 40
    assert any("Only 40 distinct coins" in reason for reason in result.reasons)
    assert result.how == "shared coins"


def test_audit_of_skips_that_follow_the_side_voids_the_coin() -> None:
    rng = np.random.default_rng(3)
    comparisons = arrays(rng)
    statistics = SufficientStatistics.from_comparisons(comparisons)
    options: dict[str, Any] = {"q": 0.1}
    data = AuditInput(statistics.answers(), statistics.sums, "own", statistics.skips())
    assert audit(data, **options).construction == "flip"
    for k in range(60):
        statistics.skip(int(k % 4), int(6 + k % 5))  # always a good item on the left
    data = AuditInput(statistics.answers(), statistics.sums, "own", statistics.skips())
    result = audit(data, **options)
    assert result.construction == "paper"
    assert any(reason.startswith("Skips depend on the side") for reason in result.reasons)
    for k in range(60):
        statistics.skip(int(6 + k % 5), int(k % 4))
    data = AuditInput(statistics.answers(), statistics.sums, "own", statistics.skips())
    assert audit(data, **options).construction == "flip"


def test_audit_of_answers_too_few_says_how_many_more() -> None:
    rng = np.random.default_rng(4)
    who = np.concatenate([np.repeat(np.arange(10), 60), [10, 10]])
    left = rng.integers(8, size=len(who))
    right = (left + rng.integers(1, 8, size=len(who))) % 8
    comparisons = Comparisons.from_arrays(who, left, right, rng.choice([-1.0, 1.0], size=len(who)))
    result = judged(comparisons)
    assert result.assessable.tolist() == [True] * 10 + [False]
    assert result.more_needed[10] == 4
    table = detect(comparisons).annotators.set_index("annotator")
    assert table.loc[10, "finding"] == "too few answers"
    assert table.loc[10, "more_needed"] == result.more_needed[10]
    assert not table.loc[10, "flagged"]


def test_audit_counts_exclusions_orientations_and_shares() -> None:
    comparisons = Comparisons.from_arrays(
        ["a"] * 6, ["x", "x", "y", "y", "x", "z"], ["y", "y", "x", "z", "z", "x"], [1, 1, 1, -1, 0, 0.5]
    )
    figures = judged(comparisons).figures
    assert figures["answers"] == 6
    assert figures["left_share"] == pytest.approx(4 / 6, abs=1e-4)
    assert figures["right_share"] == pytest.approx(1 / 6, abs=1e-4)
    assert figures["components"] == 1
    assert figures["one_orientation_pairs"] == 0
    two = judged(Comparisons.from_arrays(["a"] * 3, ["x", "x", "y"], ["y", "y", "z"], [1, 1, 1]))
    assert two.figures["one_orientation_pairs"] == 1


def test_audit_of_two_groups_of_items_names_them() -> None:
    comparisons = Comparisons.from_arrays(["a"] * 8, ["x", "y", "u", "v"] * 2, ["y", "x", "v", "u"] * 2, [1, -1] * 4)
    result = judged(comparisons)
    assert result.figures["components"] == 2
    assert any("2 groups" in reason for reason in result.reasons)


def test_papers_construction_on_too_few_answers_is_refused_or_explained() -> None:
    rng = np.random.default_rng(5)
    who = np.repeat(np.arange(6), 6)
    left = rng.integers(30, size=36)
    right = (left + rng.integers(1, 30, size=36)) % 30
    comparisons = Comparisons.from_arrays(who, left, right, rng.choice([-1.0, 1.0], size=36))
    with pytest.raises(DesignError, match="more answers"):
        judged(comparisons, method="paper")
    result = judged(comparisons, sides="not random")
    assert result.construction == "none"


def test_papers_construction_where_biases_cannot_be_separated_judges_nobody() -> None:
    # everybody sees one pair of items of their own, always in one orientation: the pair's score absorbs the bias
    who = np.repeat(np.arange(5), 30)
    comparisons = Comparisons.from_arrays(who, 2 * who, 2 * who + 1, np.tile([1.0, 1.0, -1.0], 50), coin=np.arange(150))
    result = judged(comparisons, sides="not random")
    assert result.construction == "none"


def test_chance_of_balance_worked_by_hand() -> None:
    """Of two coins one each way: 2/4; of four two each: 6/16; of six three each: 20/64."""
    assert coins._chance_of_balance(np.array([2, 4, 6])) == pytest.approx([2 / 4, 6 / 16, 20 / 64])


def one_orientation() -> Answers:
    """Four annotators who answer the same ten pairs, each always in the same order."""
    left = np.tile(np.arange(10), 4)
    return Answers(np.repeat(np.arange(4), 10), left, left + 10, np.ones(40), np.arange(40), np.ones(40))


def test_effective_coins_without_ids_joins_pairs_that_keep_one_orientation() -> None:
    fixed = one_orientation()
    joined = effective_coins(fixed, "own")
    assert len(np.unique(joined)) == 10
    assert (effective_coins(fixed, "coin") == fixed.coin).all()
    mixed = crowd(np.random.default_rng(0))  # fair coins per answer keep their own
    assert (effective_coins(mixed, "own") == mixed.coin).all()


def test_effective_coins_make_the_ridge_follow_the_overlap() -> None:
    fixed = one_orientation()
    assert ridge_for(fixed.with_coin(effective_coins(fixed, "own"))) == 20.0


def test_coins_per_annotator_counts_distinct_ones() -> None:
    answers = Answers(np.array([0, 0, 0, 2]), *(np.zeros(4, int),) * 2, np.ones(4), np.array([1, 1, 2, 1]), np.ones(4))
    assert coins_per_annotator(answers, 3).tolist() == [2.0, 0.0, 1.0]


def test_sides_z_of_both_orders_under_one_coin_rests_on_no_coin() -> None:
    rng = np.random.default_rng(6)
    left = rng.integers(8, size=200)
    right = (left + rng.integers(1, 8, size=200)) % 8
    both = Answers(
        np.tile(rng.integers(10, size=200), 2),
        np.concatenate([left, right]),
        np.concatenate([right, left]),
        rng.choice([-1.0, 1.0], size=400),
        np.tile(np.arange(200), 2),
        np.ones(400),
    )
    gaps = sides.coin_gaps(both, 8, 10)
    assert gaps.n_informative == 0
    assert gaps.z == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("turn", [1, -1])
def test_sides_z_has_the_sign_of_the_side_where_better_items_stand(turn: int) -> None:
    comparisons = arrays(np.random.default_rng(7), heads=0.5 + 0.2 * turn)
    data = input_of(comparisons)
    gaps = sides.coin_gaps(data.answers, comparisons.n_items, comparisons.n_annotators)
    assert gaps.z * turn > 3
    assert gaps.z == pytest.approx(turn * 0.8 * 0.4 * np.sqrt(gaps.n_informative), rel=0.35)


def calibrated(rng: Generator, *, n_shared: int, n_own: int, m: int = 30, n: int = 40) -> Comparisons:
    """Tasks in one order for all beside own pairs; fair coins throughout."""
    one, two = rng.integers(n, size=n_shared), rng.integers(1, n, size=n_shared)
    shared = np.tile(np.stack([one, (one + two) % n, np.arange(n_shared)]), m)
    own = rng.integers(n, size=m * n_own)
    owned = np.stack([own, (own + rng.integers(1, n, size=own.size)) % n, n_shared + np.arange(own.size)])
    left, right, coin = np.concatenate([shared, owned], axis=1)
    who = np.concatenate([np.repeat(np.arange(m), n_shared), np.repeat(np.arange(m), n_own)])
    y = np.where((right - left) / 8 + rng.logistic(size=who.size) > 0, 1.0, -1.0)
    return Comparisons.from_arrays(who, left, right, y, coin=coin)


@pytest.mark.parametrize(("n_shared", "how"), [(30, "shared coins"), (1, "own coins")])
def test_audit_calls_coins_shared_by_the_share_of_answers_under_them(n_shared: int, how: str) -> None:
    result = judged(calibrated(np.random.default_rng(1), n_shared=n_shared, n_own=40))
    assert result.figures["shared_answers"] == pytest.approx(n_shared / (n_shared + 40), abs=1e-4)
    assert (result.how, result.shares_coins) == (how, how == "shared coins")
    assert n_shared / result.figures["coins"] < 0.03  # by coins alone nobody would notice
    assert result.found == "sides look random"


def repeats(rng: Generator, *, m: int = 40, n_pairs: int = 30, times: int = 3, n: int = 12) -> tuple[Any, ...]:
    """Everybody has pairs of their own, each asked several times in the order first drawn."""
    who = np.repeat(np.arange(m), n_pairs)
    left = rng.integers(n, size=who.size)
    right = (left + rng.integers(1, n, size=who.size)) % n
    rows = np.tile(np.arange(who.size), times)
    return who[rows], left[rows], right[rows]


def test_effective_coins_without_ids_joins_what_an_annotator_is_asked_again_in_one_order() -> None:
    who, left, right = repeats(np.random.default_rng(2))
    answers = Answers(who, left, right, np.ones(who.size), np.arange(who.size), np.ones(who.size))
    coin = effective_coins(answers, "own")
    asked = who * 144 + left * 12 + right
    assert len(np.unique(coin)) == len(np.unique(asked))
    assert len(np.unique(np.stack([coin, asked]), axis=1).T) == len(np.unique(asked))
    data = AuditInput(answers, sum_answers(answers, 12, 40), "own")
    assert audit(data, q=0.1).figures["coins"] == len(np.unique(asked))


def test_effective_coins_of_tasks_that_never_swap_a_pair_are_the_pairs() -> None:
    rng = np.random.default_rng(3)
    task = np.tile(np.arange(300), 4)
    left, right = np.triu_indices(5, k=1)
    pair = rng.integers(10, size=300)[task]
    answers = Answers(np.repeat(np.arange(4), 300), left[pair], right[pair], np.ones(1200), task, np.ones(1200))
    assert len(np.unique(effective_coins(answers, "task"))) == 10
    assert (effective_coins(answers, "coin") == task).all()
    result = audit(AuditInput(answers, sum_answers(answers, 5, 4), "task"), q=0.1)
    assert (result.found, result.how, result.construction) == ("placed", "none", "none")
    assert "in 300 tasks a pair always stands in the same order" in result.reasons[-1]
    assert result.remedies


def both_orders(rng: Generator, *, m: int = 6, n_pairs: int = 60, n: int = 10, coin: str | None = None) -> Comparisons:
    who = np.repeat(np.arange(m), n_pairs)
    one = rng.integers(n, size=who.size)
    two = (one + rng.integers(1, n, size=who.size)) % n
    low, high = np.minimum(one, two), np.maximum(one, two)  # placed: the better item stands left first
    prompt = np.tile(np.arange(n_pairs), m)
    left, right = np.concatenate([low, high]), np.concatenate([high, low])
    y = np.where((right - left) / 3 + rng.logistic(size=left.size) > 0, 1.0, -1.0)
    ids = {"coin": np.tile(np.arange(who.size), 2), "task": np.arange(left.size), None: None}[coin]
    named = {} if coin is None else {coin: ids}
    return Comparisons.from_arrays(np.tile(who, 2), left, right, y, stratum=np.tile(prompt, 2), **named)


@pytest.mark.parametrize("coin", ["coin", "task", None])
@pytest.mark.parametrize("sides", ["audit", "not random"])
def test_audit_of_pairs_shown_in_both_orders_needs_no_coin(coin: str | None, sides: str) -> None:
    comparisons = both_orders(np.random.default_rng(4), coin=coin)
    result = audit(AnswerTable.of(comparisons).audit_input(), q=0.1, sides=sides)
    assert (result.found, result.how, result.construction) == ("both orders", "both orders", "flip")
    assert result.figures["both_orders_answers"] == 1.0
    assert result.figures["coins"] == 360
    assert np.bincount(np.unique(result.coin, return_inverse=True)[1]).tolist() == [2] * 360
    assert not result.shares_coins


def test_audit_of_few_items_under_fair_coins_is_not_taken_for_both_orders() -> None:
    result = judged(arrays(np.random.default_rng(5), n=4))
    assert result.figures["both_orders_answers"] > 0.9
    assert (result.found, result.how) == ("sides look random", "own coins")


def test_audit_of_placed_sides_falls_back_on_pairs_seen_in_both_orders() -> None:
    result = judged(arrays(np.random.default_rng(6), n=4, heads=0.7))
    assert (result.found, result.how, result.construction) == ("both orders", "both orders", "flip")
    assert any("Sides do not look random" in reason for reason in result.reasons)


def batches(rng: Generator, by: str) -> Comparisons:
    """The better item stands left in 80 % of one batch and in 20 % of the other."""
    halves = [arrays(rng, heads=heads, size=600) for heads in (0.8, 0.2)]
    frames = [half.to_frame().assign(batch=k) for k, half in enumerate(halves)]
    frames[1]["annotator"] += 20 * (by == "annotator")
    frame = pd.concat(frames)
    frame["stratum"] = frame["batch"] if by == "stratum" else 0
    frame["time"] = frame["batch"] + rng.random(1200) if by == "time" else 0.0
    mixed = frame.sample(frac=1.0, random_state=int(rng.integers(1000)))
    kept = {"stratum": ["stratum"], "time": ["time"]}.get(by, [])
    return Comparisons.from_frame(mixed[["annotator", "left", "right", "outcome", *kept]])


@pytest.mark.parametrize("by", ["annotator", "time", "stratum"])
def test_audit_of_two_batches_on_opposite_sides_notices_though_they_balance(by: str) -> None:
    noticed = 0
    for seed in range(10):
        result = audit(AnswerTable.of(batches(np.random.default_rng([7, seed]), by)).audit_input(), q=0.1)
        name = "batch" if by == "time" else by
        noticed += f"{name} by {name}" in " ".join(result.reasons) and result.how == "sides fixed"
        assert abs(result.figures["sides_z"]) < 3.5
    assert noticed >= 8


def test_every_ending_that_judges_nobody_has_a_reason_and_a_remedy() -> None:
    rng = np.random.default_rng(8)
    few = Comparisons.from_arrays(["a", "b"], ["x", "y"], ["y", "x"], [1, -1])
    tasks = np.tile(np.arange(12), 10)
    left = rng.integers(8, size=12)
    right = (left + rng.integers(1, 8, size=12)) % 8
    shared = Comparisons.from_arrays(
        np.repeat(np.arange(10), 12), left[tasks], right[tasks], rng.choice([-1, 1], size=120), task=tasks
    )
    for comparisons in (few, shared):
        result = judged(comparisons)
        assert (result.found, result.how, result.construction) == ("cannot be told", "none", "none")
        assert result.reasons
        assert result.remedies


def brute_force_spread(x: NDArray[Any], group: NDArray[Any]) -> Any:
    """P(sum of squared group z >= seen) over all signs."""
    groups = [np.flatnonzero(group == g) for g in np.unique(group)]

    def spread(values: NDArray[Any]) -> Any:
        return sum(values[rows].sum() ** 2 / (values[rows] ** 2).sum() for rows in groups)

    signs = np.array(list(itertools.product([-1, 1], repeat=len(x))))
    return np.mean([spread(np.abs(x) * s) >= spread(x) - 1e-12 for s in signs])


def test_group_test_agrees_with_all_signs_enumerated() -> None:
    rng = np.random.default_rng(9)
    group, coin = np.repeat(np.arange(4), 3), np.arange(12)
    for _ in range(5):
        x = rng.normal(size=12)
        assert sides._test("batch", x, group, coin).p_value == pytest.approx(brute_force_spread(x, group), abs=0.08)


def test_group_test_that_could_only_come_out_one_way_tells_nothing() -> None:
    one_coin_each = sides._test("batch", np.array([1.0, -2.0, 3.0]), np.arange(3), np.arange(3))
    assert one_coin_each.p_value == 1.0
    without_coins = sides._test("batch", np.zeros(3), np.arange(3), np.arange(3))
    assert (without_coins.p_value, without_coins.lean) == (1.0, 0.0)


def test_skips_before_anybody_answered_depend_on_nothing() -> None:
    none, no_number = np.zeros(0, dtype=int), np.zeros(0)
    nothing = Answers(none, none, none, no_number, none, no_number)
    found = sides.skipped_sides(nothing, Skipped.of({(-1, 0, 1): 3}), 2, 0)
    assert (found.n.tolist(), found.p_value.tolist()) == ([0], [1.0])


def test_group_test_of_coins_that_everybody_met_is_that_of_one_group() -> None:
    x = np.random.default_rng(10).normal(size=200)
    one = sides._test("annotator", x, np.zeros(200, int), np.arange(200))
    many = sides._test("annotator", np.tile(x, 15), np.repeat(np.arange(15), 200), np.tile(np.arange(200), 15))
    assert many.p_value == pytest.approx(one.p_value, rel=1e-9)
    z = x.sum() / np.sqrt((x**2).sum())
    assert one.p_value == pytest.approx(chi2.sf(z**2, 1), abs=0.02)
