"""The gate: decisions worked by hand, error rates, what is refused."""

import math
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ttest_1samp

from fdr_core import Comparisons, ConfigurationError, InputError, detect
from fdr_core.judges.gate import Units, decide, decide_anytime, gate, judge_units
from fdr_core.simulate import small_team

EVEN = [1, -1] * 400


def log(outcomes: Sequence[float], *, judge: str = "gpt", coins: bool = True) -> Comparisons:
    """A judge's answers with a fresh coin each; the items change sides."""
    n = len(outcomes)
    left = ["a" if k // 2 % 2 else "b" for k in range(n)]
    right = ["b" if k // 2 % 2 else "a" for k in range(n)]
    return Comparisons.from_arrays(
        [judge] * n, left, right, outcomes, coin=[f"{judge}{k}" for k in range(n)] if coins else None
    )


def test_gate_even_judge_with_many_answers_passes() -> None:
    (found,) = gate(log(EVEN))
    assert (found.decision, found.lean, found.more_needed) == ("pass", 0.0, 0)


def test_gate_leaning_judge_fails_towards_the_first_shown() -> None:
    (found,) = gate(log([1] * 90 + [-1] * 10))
    assert (found.decision, found.lean) == ("fail", 0.8)
    assert "first shown" in found.reason


def test_gate_short_log_is_undecided_and_says_how_many_more() -> None:
    (found,) = gate(log([1, -1] * 20))
    assert found.decision == "undecided"
    assert found.reason == f"needs about {found.more_needed:,} more comparisons"
    assert found.more_needed == pytest.approx((1.645 + 1.282) ** 2 / 0.1**2, rel=0.03)  # two one-sided tests


def test_gate_that_got_the_comparisons_it_asked_for_mostly_decides() -> None:
    """The number aims at a chance of .8 where the estimate is right."""
    rng = np.random.default_rng(0)
    needed = gate(log([1, -1] * 20))[0].more_needed + 40
    decided = [
        decide("j", Units.of_values(rng.choice([-1.0, 1.0], size=needed)), max_lean=0.1, alpha=0.05).decision == "pass"
        for _ in range(300)
    ]
    assert 0.6 <= np.mean(decided) <= 1.0


@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_gate_few_coins_on_one_side_never_decide(n: int) -> None:
    assert decide("j", Units.of_values(np.ones(n)), max_lean=0.1, alpha=0.05).decision == "undecided"


def test_gate_repeats_under_one_coin_are_one_observation() -> None:
    """A hundred answers to one order of one pair say as much as one."""
    data = Comparisons.from_arrays(["gpt"] * 100, ["a"] * 100, ["b"] * 100, [1] * 100, coin=["c"] * 100)
    units = judge_units(data, ["gpt"])[0]["gpt"]
    assert (units.raw.tolist(), units.answers) == ([100.0], 100)
    assert gate(data)[0].decision == "undecided"


def test_gate_both_orders_of_a_pair_are_one_observation_without_any_coin() -> None:
    """Consistent answers cancel, inconsistent ones show the lean."""
    pairs = list(combinations("abcdef", 2))
    left, right = [x for one, two in pairs for x in (one, two)], [x for one, two in pairs for x in (two, one)]
    data = Comparisons.from_arrays(["gpt"] * 30, left, right, [1, -1, 1, 1] * 7 + [1, -1])
    assert judge_units(data, ["gpt"])[0]["gpt"].raw.tolist() == [0.0, 2.0] * 7 + [0.0]


def test_gate_bounds_are_those_of_the_t_test_but_for_one_added_observation() -> None:
    values = np.random.default_rng(1).choice([-1.0, 0.0, 1.0], size=500)
    interval = ttest_1samp(values, 0).confidence_interval(0.9)
    found = decide("j", Units.of_values(values), max_lean=0.1, alpha=0.05)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high), abs=1e-3)


def test_gate_several_judges_share_the_error_rate() -> None:
    both = Comparisons.from_frame(
        pd.concat([log(EVEN, judge="one").to_frame(), log([1] * 100, judge="two").to_frame()])
    )
    found = gate(both)
    assert [one.decision for one in found] == ["pass", "fail"]
    assert {one.alpha for one in found} == {0.025}


def test_gate_with_baseline_holds_the_change_against_the_limit() -> None:
    leaning, even = [1] * 650 + [-1] * 350, [1, -1] * 500
    assert gate(log(leaning), baseline=log(leaning))[0].decision == "pass"
    assert gate(log(leaning), baseline=log(even))[0].decision == "fail"
    assert gate(log(even[:30]), baseline=log(even[:30]))[0].decision == "undecided"


def test_gate_order_that_no_chance_decided_is_one_observation_per_pair() -> None:
    data = Comparisons.from_arrays(["gpt"] * 60, ["new"] * 55 + ["old"] * 5, ["old"] * 55 + ["new"] * 5, [1] * 60)
    (found,) = gate(data)
    assert (found.decision, found.units) == ("undecided", 1)
    assert any("the better item stands left too often" in note for note in found.notes)


def test_gate_sides_that_were_never_swapped_are_refused_as_by_every_command() -> None:
    data = Comparisons.from_arrays(["gpt"] * 60, ["new"] * 60, ["old"] * 60, [1] * 60, coin=list(range(60)))
    with pytest.raises(InputError, match="Sides were never swapped"):
        gate(data)


def test_gate_judge_who_always_ties_is_refused_with_what_to_look_at() -> None:
    with pytest.raises(InputError, match=r"gpt called all 60 comparisons a tie.*--map"):
        gate(log([0] * 60))


def test_gate_baseline_about_other_pairs_is_refused_with_one_of_them() -> None:
    other = Comparisons.from_arrays(["gpt"] * 40, ["x", "y"] * 20, ["y", "x"] * 20, [1, 1, -1, -1] * 10)
    with pytest.raises(InputError, match=r"none of its 1 pairs is among the 1 of the log .*x and y"):
        gate(log(EVEN), baseline=other)


def test_gate_lean_is_the_one_that_detect_gives() -> None:
    crowd = small_team(12, 2, 100, rng=np.random.default_rng(0)).comparisons
    leans = detect(crowd, lbi=None).annotators.set_index("annotator")["bias"]
    assert {one.judge: one.lean for one in gate(crowd)} == pytest.approx(leans.to_dict())


def test_gate_leans_that_differ_between_instructions_widen_the_bounds() -> None:
    """Thirty instructions of twenty pairs each, half of them leant on by .8, half by -.8."""
    rng = np.random.default_rng(2)
    instruction = np.repeat(np.arange(30), 20)
    y = np.where(rng.random(600) < np.where(instruction % 2, 0.9, 0.1), 1.0, -1.0)
    swapped = rng.random(600) < 0.5
    left, right = np.where(swapped, "b", "a"), np.where(swapped, "a", "b")
    given = {"coin": np.arange(600), "stratum": instruction}
    wide, narrow = (
        gate(Comparisons.from_arrays(["gpt"] * 600, left, right, y, **columns))[0]
        for columns in (given, {"coin": given["coin"]})
    )
    assert wide.high - wide.low > 2 * (narrow.high - narrow.low)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"max_lean": 0}, ConfigurationError, "max_lean was 0"),
        ({"alpha": 0.7}, ConfigurationError, r"alpha was 0\.7"),
        ({"judges": ["claude"]}, InputError, "names no judge 'claude'; it names gpt"),
        ({"anytime": True, "baseline": log(EVEN)}, ConfigurationError, "do not go together"),
    ],
)
def test_gate_bad_options_are_refused(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        gate(log(EVEN), **options)


def test_gate_anytime_decides_clear_cases() -> None:
    assert decide_anytime("j", Units.of_values(np.ones(60)), max_lean=0.1, alpha=0.05).decision == "fail"
    many = np.tile([1.0, -1.0], 1500)
    assert decide_anytime("j", Units.of_values(many), max_lean=0.1, alpha=0.05).decision == "pass"
    assert decide_anytime("j", Units.of_values(many[:50]), max_lean=0.1, alpha=0.05).decision == "undecided"


def test_gate_anytime_needs_no_single_look_to_hold() -> None:
    """The decision of a growing log never turns back: the capital once reached counts."""
    values = np.concatenate([np.ones(60), -np.ones(60)])
    assert decide_anytime("j", Units.of_values(values), max_lean=0.1, alpha=0.05).decision == "fail"


@pytest.mark.slow
@pytest.mark.parametrize("n", [10, 40, 200])
def test_gate_even_judge_fails_in_at_most_alpha_of_builds(n: int) -> None:
    rng = np.random.default_rng(n)
    fails = [
        decide("j", Units.of_values(rng.choice([-1.0, 1.0], size=n)), max_lean=0.01, alpha=0.05).decision == "fail"
        for _ in range(1000)
    ]
    assert np.mean(fails) <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 1000)


@pytest.mark.slow
def test_gate_anytime_even_judge_fails_rarely_over_all_looks() -> None:
    rng = np.random.default_rng(3)
    fails = [
        decide_anytime("j", Units.of_values(rng.choice([-1.0, 1.0], size=1000)), max_lean=0.01, alpha=0.05).decision
        == "fail"
        for _ in range(500)
    ]
    assert np.mean(fails) <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 500)
