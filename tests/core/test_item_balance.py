"""Does an item, or a class of items, stand left more often than its coins allow?"""

import numpy as np
import pytest
from numpy.random import Generator

from fdr_core import Comparisons
from fdr_core.answer_table import AnswerTable
from fdr_core.answers import Answers
from fdr_core.audit import audit, sides


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
    by_name = made.with_item_class(dict.fromkeys(made.items, "x"))
    assert audit(AnswerTable.of(by_name).audit_input(), q=0.1).how == "shared coins"


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
