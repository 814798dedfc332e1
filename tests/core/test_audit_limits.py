"""What the design audit finds and decides, at its limits: each from both sides, with what it says."""

from typing import Any

import numpy as np
import pytest

from fdr_core import DesignError, simulate
from fdr_core.answer_table import AnswerTable
from fdr_core.answers import Answers, Skipped
from fdr_core.audit import audit, coins, decision, sides
from fdr_core.design import ridge_for
from fdr_core.live import may_warn
from tests.core.test_audit_counts import CYCLE, mixed_crowd, put, rows

# -- sides


def test_gaps_have_the_z_and_the_lean_of_their_sums() -> None:
    use = coins.CoinUse.of(rows(*CYCLE))
    found = sides.Gaps(use, np.zeros(3), total=-6.0, square=9.0, n_informative=25)
    assert (found.z, found.lean) == pytest.approx((-2.0, 2.0 / (0.8 * 5.0)))
    nothing = sides.Gaps(use, np.zeros(3), total=0.0, square=0.0, n_informative=0)
    assert (nothing.z, nothing.lean) == (0.0, 0.0)


def test_gaps_equal_dense_ridge_scores_of_the_other_half() -> None:
    answers = mixed_crowd(size=300)
    found = sides.coin_gaps(answers, 8, 12)
    half = sides._halves(answers.annotator)
    expected = np.zeros(300)
    for side in (0, 1):
        fit = answers.take(half == side)
        D = np.eye(8)[fit.left] - np.eye(8)[fit.right]
        ridge = ridge_for(fit)
        theta = np.linalg.solve(D.T @ D + ridge * np.eye(8), D.T @ fit.outcome)
        apart = half != side
        expected[apart] = theta[answers.left[apart]] - theta[answers.right[apart]]
    assert found.x == pytest.approx(expected, abs=1e-9)
    assert (found.total, found.square) == pytest.approx((expected.sum(), (expected**2).sum()))
    assert found.n_informative == 300


def test_halves_are_of_equal_size_and_keep_units_together() -> None:
    unit = np.repeat([4, 9, 2, 7, 30, 31], 3)
    half = sides._halves(unit)
    assert half.sum() == 9
    assert all(len(set(half[unit == code])) == 1 for code in unit)


@pytest.mark.parametrize(("n_coins", "n_batches"), [(40, 2), (59, 2), (60, 3), (199, 9), (200, 10), (400, 10)])
def test_batches_hold_at_least_twenty_coins_and_are_at_most_ten(n_coins: int, n_batches: int) -> None:
    zeros = np.zeros(n_coins, dtype=int)
    use = coins.CoinUse.of(rows(zeros, zeros, zeros + 1))
    batch = sides._batches(use, np.arange(float(n_coins)))
    assert np.unique(batch).tolist() == list(range(n_batches))
    assert np.ptp(np.bincount(batch)) <= 1
    assert (np.diff(batch) >= 0).all()
    assert sides._batches(use, -np.arange(float(n_coins))).tolist() == batch[::-1].tolist()


@pytest.mark.parametrize(("n_coins", "names"), [(39, []), (40, ["batch", "item in a batch"])])
def test_groups_are_items_annotators_and_where_known_batches_of_enough_coins_and_strata(
    n_coins: int, names: list[str]
) -> None:
    gaps, time = sides.coin_gaps(mixed_crowd(size=n_coins), 8, 12), np.arange(float(n_coins))
    always = ["item", "annotator"]
    assert [test.name for test in sides.group_tests(gaps, None, None)] == always, "the order of rows is no time"
    assert [test.name for test in sides.group_tests(gaps, None, time)] == always + names
    known = [test.name for test in sides.group_tests(gaps, np.zeros(n_coins, dtype=int), time, np.arange(8) % 2)]
    assert known == ["item", "class of items", "annotator", *names, "stratum", "item in a stratum"]


def test_levels_of_all_tests_in_all_runs_add_up_to_one_level() -> None:
    runs = sum(5 * sides.level_of_each(5, 100 * 2**k) for k in range(60))
    assert 0.97 * sides.LEVEL < runs < sides.LEVEL


@pytest.mark.parametrize(("n_annotators", "n_kept"), [(1999, 1999), (2000, 2000), (2001, 2000)])
def test_groups_of_annotators_are_the_two_thousand_with_the_most_coins(n_annotators: int, n_kept: int) -> None:
    annotator = np.append(np.arange(n_annotators), n_annotators - 1)
    kept, coin = sides._busiest(annotator, np.arange(n_annotators + 1))
    assert len(np.unique(kept)) == n_kept
    assert len(coin) == n_kept + 1
    assert np.count_nonzero(kept == n_annotators - 1) == 2  # the busiest stays


def test_groups_that_balance_better_than_coins_would_have_no_lean() -> None:
    found = sides._test("batch", np.tile([1.0, -1.0], 10), np.repeat([0, 1], 10), np.arange(20))
    assert found.lean == 0.0
    assert found.p_value == pytest.approx(1.0, abs=1e-6)


def test_skipped_sides_worked_by_hand() -> None:
    """Item 0 is better: nine skips of person 0 with it left, one with it right; one skip of who is not known."""
    answers = rows([0] * 4, [0] * 4, [1] * 4)
    skips = Skipped.of({(0, 0, 1): 9, (0, 1, 0): 1, (-1, 1, 0): 1})
    found = sides.skipped_sides(answers, skips, 2, 1)
    assert (found.n.tolist(), found.majority.tolist()) == ([10, 1], [1, -1])
    assert found.p_value == pytest.approx([2 * 11 / 1024, 1.0])


# -- the look and the decision


@pytest.mark.parametrize(("n_tasks", "found"), [(60, "one order per task"), (None, "sides look random")])
def test_orders_that_everybody_shares_are_named_as_one_order_per_task(n_tasks: int | None, found: str) -> None:
    result = audit(put(mixed_crowd(n_tasks=n_tasks), "coin"), q=0.1)
    assert result.found == found
    assert ("one order per task for everybody" in result.reasons[-1]) == (n_tasks is not None)


def test_papers_construction_asked_for_where_nobody_can_be_judged_still_needs_its_answers() -> None:
    with pytest.raises(DesignError, match="more answers"):
        audit(put(rows([0, 1], [0, 1], [1, 0])), q=0.1, method="paper")


def test_design_that_cannot_be_decomposed_is_not_separable(monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(*_: Any) -> None:
        raise np.linalg.LinAlgError("did not converge")

    monkeypatch.setattr(decision, "fixed_design", breaks)
    found = audit(put(mixed_crowd(), "coin"), q=0.1, sides="not random")
    assert (found.how, found.construction, found.figures["lambda_min"]) == ("none", "none", 0.0)
    assert "cannot be told from item scores" in found.reasons[-1]


@pytest.mark.parametrize(("m", "limit"), [(29, 2.81), (30, 3.02)])
def test_limit_is_stricter_for_teams_below_thirty_and_shares_its_level_over_runs(m: int, limit: float) -> None:
    assert audit(put(mixed_crowd(m, size=40 * m)), q=0.1).figures["sides_z_limit"] == limit
    later = audit(put(mixed_crowd(m, size=160 * m)), q=0.1).figures["sides_z_limit"]
    assert limit < later < 4


@pytest.mark.parametrize(("n_skips", "undo"), [(9, False), (30, True)])
def test_skips_of_one_person_who_is_not_known_are_tested_from_ten_on(n_skips: int, undo: bool) -> None:
    found = audit(put(mixed_crowd(), skips=Skipped.of({(-1, 0, 7): n_skips})), q=0.1)
    assert found.figures["skips_undo_the_coin"] == undo
    assert any(reason.startswith("Skips depend on the side") for reason in found.reasons) == undo
    assert ("Ask annotators not to skip, or allow ties." in found.remedies) == undo


@pytest.mark.parametrize(("n_tasks", "how"), [(19, "none"), (20, "shared coins")])
def test_shared_coins_are_too_few_below_twenty_unless_the_owner_vouches_for_them(n_tasks: int, how: str) -> None:
    answers = mixed_crowd(6, n_tasks=n_tasks, n=4, seed=3)
    assert audit(put(answers, "coin"), q=0.1).how == how
    assert audit(put(answers, "coin"), q=0.1, sides="random").how == "shared coins"


def test_too_few_coins_name_their_number_and_no_placement_where_each_task_has_its_own() -> None:
    found = audit(put(mixed_crowd(6, n_tasks=12, n=4, seed=3), "coin"), q=0.1)
    assert found.found == "cannot be told"
    assert "only 12 coins decided the sides for everybody, too few" in found.reasons[-1]


def test_flips_asked_for_against_the_test_are_said_to_be_uncontrolled() -> None:
    answers = mixed_crowd()
    left, right = np.minimum(answers.left, answers.right), np.maximum(answers.left, answers.right)
    turn = np.arange(600) % 10 == 0  # one in ten the other way
    placed = Answers(
        answers.annotator,
        np.where(turn, right, left),
        np.where(turn, left, right),
        np.where(turn, -1.0, 1.0),
        answers.coin,
        answers.weight,
    )
    found = audit(put(placed, "coin"), q=0.1, method="flip")
    assert "Coin flips were asked for explicitly" in found.reasons[-1]
    assert found.construction == "flip"
    assert found.how == audit(put(placed, "coin"), q=0.1).how != "own coins"  # the exact tests believe in no coins
    assert not may_warn(found.how)
    assert "forced" not in audit(put(answers, "coin"), q=0.1, method="flip").figures


def test_audit_says_why_it_trusts_the_sides_and_counts_who_can_be_judged() -> None:
    found = audit(put(mixed_crowd()), q=0.1)
    figures_of = found.figures
    said = f"Sides look random: z = {figures_of['sides_z']:.2f} over {figures_of['sides_z_coins']} coins."
    assert found.reasons == [said]
    assert found.remedies == []
    assert figures_of["assessable"] == int(found.assessable.sum()) == 12
    assert found.as_dict() == {
        "found": "sides look random",
        "how": "own coins",
        "construction": "flip",
        "reasons": [said],
        "remedies": [],
        "figures": figures_of,
    }


@pytest.mark.parametrize("stated", [False, True])
def test_owner_who_says_that_sides_were_not_random_is_quoted_and_followed(stated: bool) -> None:
    found = audit(put(mixed_crowd(), "coin"), q=0.1, sides="not random" if stated else "audit")
    assert ("The owner states that sides were not assigned by chance." in found.reasons) == stated
    assert (found.how, found.construction) == (("sides fixed", "paper") if stated else ("own coins", "flip"))
    assert ("lambda_min" in found.figures) == stated
    assert any("Item scores and biases are separable" in reason for reason in found.reasons) == stated


def test_owner_who_says_that_coins_decided_is_quoted_without_contradiction() -> None:
    found = audit(put(mixed_crowd(), "coin"), q=0.1, sides="random")
    assert found.reasons == ["The owner states that coins decided the sides."]


def test_nobody_with_enough_answers_is_said_with_the_remedy() -> None:
    found = audit(put(rows([0, 1], [0, 1], [1, 0])), q=0.1)
    assert found.reasons == ["No annotator has enough answers to be judged yet."]
    assert found.remedies == ["Collect more answers per annotator."]
    assert (found.figures["assessable"], found.more_needed.tolist()) == (0, [5, 5])


def test_biases_that_item_scores_absorb_cannot_be_judged_with_sides_fixed() -> None:
    """Everybody meets one pair of their own in one order but for one answer: what is left carries no flag."""
    who = np.repeat(np.arange(4), 30)
    turned = np.arange(120) % 30 == 0
    answers = rows(who, np.where(turned, 2 * who + 1, 2 * who), np.where(turned, 2 * who, 2 * who + 1))
    found = audit(put(answers, "coin"), q=0.1, sides="not random")
    assert (found.how, found.construction) == ("none", "none")
    assert "once item scores are fitted" in found.reasons[-1]
    assert "let more annotators judge the same items" in found.remedies[-1]


def test_items_that_occur_once_leave_recorded_coins_trusted_and_say_so() -> None:
    crowd = simulate.unique_pairs(rng=np.random.default_rng(0)).comparisons
    found = audit(AnswerTable.of(crowd).audit_input(), q=0.1)
    assert found.figures["items_under_one_coin"] > 0.5
    assert "the recorded coins are trusted" in found.reasons[-1]
