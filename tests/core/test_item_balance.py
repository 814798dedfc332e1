"""What the audit looks at beside consensus gaps: where items stand, what is skipped, which order came first."""

from collections.abc import Iterable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from numpy.random import Generator

from fdr_core import Comparisons, InputError, KnockoffLBI, SufficientStatistics, detect
from fdr_core.answer_table import AnswerTable
from fdr_core.answers import Answers
from fdr_core.audit import audit, sides
from fdr_core.commands.doctor import doctor
from fdr_core.simulate import small_team
from harness.premises import drift_between_orders, naming_their_seed
from tests.core.test_audit import arrays


def new_items_left(rng: Generator, heads: float, *, coin: bool = False, names: bool = False) -> Comparisons:
    """Sixty people compare new with old items of equal worth; tastes for new differ, so gaps show nothing."""
    who = np.repeat(np.arange(60), 40)
    new, old = rng.integers(20, size=2400), rng.integers(20, size=2400)
    is_left = rng.random(2400) < heads
    taste = rng.normal(size=60)[who] + rng.logistic(size=2400)
    label = np.array([f"new-{k}" for k in range(20)] + [f"old-{k}" for k in range(20)], dtype=object)
    left, right = label[np.where(is_left, new, 20 + old)], label[np.where(is_left, 20 + old, new)]
    if not names:
        left, right = (np.unique(label, return_inverse=True)[0].searchsorted(side) for side in (left, right))
    outcome = np.where((taste > 0) == is_left, 1.0, -1.0)
    return Comparisons.from_arrays(who, left, right, outcome, coin=np.arange(2400) if coin else None)


@pytest.mark.parametrize("heads", [0.6, 0.75])
def test_audit_sees_new_items_left_though_they_are_worth_no_more(heads: float) -> None:
    for seed in range(5):
        result = audit(AnswerTable.of(new_items_left(np.random.default_rng([11, seed]), heads)).audit_input(), q=0.1)
        assert result.found == "placed"
        assert result.figures.get("sides_p_by_item", 0.0) < 1e-4
    fair = audit(AnswerTable.of(new_items_left(np.random.default_rng(11), 0.5)).audit_input(), q=0.1)
    assert fair.how == "own coins"


def test_recorded_coins_that_look_unfair_end_in_nobody_judged_and_not_in_another_test() -> None:
    result = audit(AnswerTable.of(new_items_left(np.random.default_rng(12), 0.75, coin=True)).audit_input(), q=0.1)
    assert (result.found, result.how) == ("placed", "none")
    assert "another test" not in result.remedies[-1]
    assert "sides='not random'" in result.remedies[-1]


def test_classes_are_guessed_from_names_told_and_tested_where_every_pair_is_unique() -> None:
    rng = np.random.default_rng(13)
    task = np.repeat(np.arange(300), 4)
    is_left = (rng.random(300) < 0.75)[task]
    names = [np.array([f"{model}#{t}" for t in task], dtype=object) for model in ("vega", "lyra")]
    left, right = np.where(is_left, *names), np.where(is_left, *names[::-1])
    made = Comparisons.from_arrays(np.tile(np.arange(4), 300), left, right, rng.choice([-1.0, 1.0], 1200), coin=task)
    result = audit(AnswerTable.of(made).audit_input(), q=0.1)
    assert (result.found, result.how) == ("placed", "none")
    assert "told apart: lyra, vega" in result.reasons[0]
    items = pd.DataFrame({"item": made.items, "class": "x"})
    for by_name in (made.with_item_class(dict.fromkeys(made.items, "x")), made.with_items(items)):
        assert audit(AnswerTable.of(by_name).audit_input(), q=0.1).how == "shared coins"


def test_classes_of_items_are_named_in_a_file(tmp_path: Path) -> None:
    """Unique pairs whose names tell nothing: 75 % of the new ones stand left."""
    rng = np.random.default_rng(15)
    answers, items = tmp_path / "answers.csv", tmp_path / "items.csv"
    pair = np.arange(400), 400 + np.arange(400)
    is_left = rng.random(400) < 0.75
    left, right = np.where(is_left, *pair), np.where(is_left, *pair[::-1])
    choice = rng.choice(["left", "right"], 400)
    pd.DataFrame({"annotator": np.arange(400) % 8, "left": left, "right": right, "choice": choice}).to_csv(
        answers, index=False
    )
    pd.DataFrame({"item": np.arange(800), "class": np.repeat(["new", "old"], 400)}).to_csv(items, index=False)
    said = CliRunner().invoke(doctor, [str(answers), "--items", str(items)]).output
    assert "new, old" in said
    assert "class of items by class of items" in " ".join(said.split())
    items.write_text("name,class\n1,new\n")
    with pytest.raises(InputError, match="columns name, class; expected item"):
        Comparisons.from_file(answers, items=items)


def test_item_balance_has_its_law_where_coins_are_shared() -> None:
    """Twenty people meet the same 200 coins: what they saw is one set of sides, not twenty."""
    rng = np.random.default_rng(14)
    p = []
    for _ in range(200):
        one = rng.integers(12, size=200)
        two = (one + rng.integers(1, 12, size=200)) % 12
        task = np.tile(np.arange(200), 20)
        who, rest = np.repeat(np.arange(20), 200), np.ones(4000)
        p.append(sides.balance("item", Answers(who, one[task], two[task], rest, task, rest), task).p_value)
    assert 0.02 <= np.mean(np.array(p) < 0.05) <= 0.09


@pytest.mark.parametrize("heads", [0.6, 0.75])
def test_items_that_stand_left_for_no_reason_seen_let_nobody_be_judged(heads: float) -> None:
    for seed in range(3):
        result = audit(AnswerTable.of(new_items_left(np.random.default_rng([11, seed]), heads)).audit_input(), q=0.1)
        assert result.how == "none"
        assert "more often than their scores explain" in result.reasons[-1]
    better_left = audit(AnswerTable.of(arrays(np.random.default_rng(1), heads=0.8)).audit_input(), q=0.1)
    assert better_left.how == "sides fixed", "the better item left is explained by the scores"


def test_items_that_stand_left_in_one_batch_and_right_in_another_are_seen() -> None:
    early, late = new_items_left(np.random.default_rng(1), 0.75), new_items_left(np.random.default_rng(2), 0.25)
    made = Comparisons.from_frame(pd.concat([early.to_frame().assign(time=0.0), late.to_frame().assign(time=1e5)]))
    result = audit(AnswerTable.of(made).audit_input(), q=0.1)
    assert (result.figures["sides_p_by_item"] > 0.001, result.figures["sides_p_by_item_in_a_batch"] < 1e-6) == (
        True,
        True,
    )
    assert result.how == "none"


def test_times_noted_beside_sums_are_those_of_the_comparisons() -> None:
    crowd = drift_between_orders(rng=np.random.default_rng(5), first="shared").comparisons
    summed = SufficientStatistics().add(crowd.take(np.random.default_rng(6).permutation(len(crowd))))
    rows = crowd.to_frame()
    summed.note_times(rows[["annotator", "left", "right", "coin", "time"]].itertuples(index=False, name=None))
    one, two = detect(crowd, lbi=None), detect(summed, lbi=None)
    told = ("sides_p_by_drift", "sides_p_by_item", "sides_p_by_batch")
    assert [two.audit.figures.get(name) for name in told] == [one.audit.figures.get(name) for name in told]
    assert one.audit.figures["sides_p_by_drift"] > 0
    assert AnswerTable.of(SufficientStatistics().add(crowd)).audit_input().time is None


@pytest.mark.parametrize(("first", "how"), [("original", "none"), ("own", "both orders")])
def test_both_orders_need_the_first_drawn_where_choices_may_drift(first: str, how: str) -> None:
    crowd = drift_between_orders(rng=np.random.default_rng(5), first=first).comparisons
    result = detect(crowd, lbi=None)
    assert result.audit.how == how
    assert result.guarantee.kind == ("FDR, proven" if how == "both orders" else "nothing claimed")
    stated = detect(crowd, sides="random", lbi=None).audit
    assert stated.how == "both orders"
    assert any("judges have no memory" in reason for reason in stated.reasons)


def test_drift_that_everybody_shares_is_seen_and_refused_where_a_coin_is_shared() -> None:
    """The item of the higher number is chosen more often the second time; a pair's first order is drawn for all."""
    rng = np.random.default_rng(6)
    who, pair = np.repeat(np.arange(20), 30), np.tile(np.arange(30), 20)
    one = rng.integers(10, size=30)[pair]
    low, high = np.minimum(one, (one + 3) % 10), np.maximum(one, (one + 3) % 10)
    is_low_left = (rng.random(30) < 0.5)[pair]
    chosen = [np.where(drift + rng.logistic(size=600) > 0, -1.0, 1.0) for drift in (0.0, 1.5)]  # 1: the lower
    left, right = np.where(is_low_left, low, high), np.where(is_low_left, high, low)
    sign = np.where(is_low_left, 1.0, -1.0)
    made = Comparisons.from_arrays(
        np.tile(who, 2),
        np.concatenate([left, right]),
        np.concatenate([right, left]),
        np.concatenate([chosen[0] * sign, -chosen[1] * sign]),
        coin=np.tile(pair, 2),
        time=np.arange(1200.0),
    )
    result = detect(naming_their_seed(made, both_orders=True), lbi=None)
    assert result.audit.figures["sides_p_by_drift"] < 1e-3
    assert (result.audit.how, result.flagged) == ("none", [])


def with_skips(comparisons: Comparisons, who: Iterable[Any]) -> SufficientStatistics:
    """Each of them skips thirty times where a good item stands left; items are the better the lower their number."""
    statistics = SufficientStatistics.from_comparisons(comparisons)
    for person, k in product(who, range(30)):
        statistics.skip(int(k % 4), int(6 + k % 5), annotator=person)
    return statistics


def test_skips_by_side_move_one_persons_answers_only_and_are_a_finding() -> None:
    comparisons = arrays(np.random.default_rng(3))
    before = detect(comparisons, lbi=None)
    after = detect(with_skips(comparisons, [2]), lbi=KnockoffLBI(draws=1))
    assert 2 not in set(after.lbi.annotators["annotator"])
    assert (after.audit.how, after.guarantee.kind) == (before.audit.how, before.guarantee.kind)
    assert comparisons.annotators[after.audit.skips_by_side].tolist() == [2]
    old, new = (found.annotators.set_index("annotator") for found in (before, after))
    assert new.loc[2, "finding"] == "skips by side"
    assert 2 not in set(after.exact.annotators["annotator"])
    others = [who for who in old.index if who != 2]
    assert new.loc[others, "p_value"].to_numpy() == pytest.approx(old.loc[others, "p_value"].to_numpy())


def test_skips_by_side_of_most_people_undo_the_coin() -> None:
    comparisons = arrays(np.random.default_rng(3))
    found = detect(with_skips(comparisons, comparisons.annotators), lbi=None)
    assert found.audit.how != "own coins"
    assert any(reason.startswith("Skips depend on the side") for reason in found.audit.reasons)


def test_who_skips_by_side_and_leans_is_found_by_the_measured_test_beside_the_proven_list() -> None:
    rng = np.random.default_rng(4)
    team = small_team(14, 2, 120, rng=rng, bias=0.9)
    leaning, other = team.comparisons.annotators[team.is_biased].tolist()
    statistics = SufficientStatistics.from_comparisons(team.comparisons)
    better = np.argsort(-team.theta)
    for k in range(40):
        one, two = (int(team.comparisons.items[better[k % 5]]), int(team.comparisons.items[better[-1 - k % 5]]))
        statistics.skip(one, two, annotator=leaning)
    found = detect(statistics, lbi=None)
    rows = found.annotators.set_index("annotator")
    assert rows.loc[[leaning, other], "flagged"].tolist() == [True, True]
    assert rows.loc[[leaning, other], "proven"].tolist() == [False, True]
    assert found.exact.flagged == [other]
    assert "Beside it 1 whose skips go with the side" in found.guarantee
