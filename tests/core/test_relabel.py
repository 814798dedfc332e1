"""What a lean can have changed, by hand and against simulated clicks; the ranking without these people."""

from __future__ import annotations

import numpy as np
import pytest

from fdr_core import Comparisons
from fdr_core.answer_table import AnswerTable
from fdr_core.consensus.ranking import ranking
from fdr_core.design import ridge_for
from fdr_core.relabel import decided_by_lean, without
from fdr_core.simulate import small_team


def test_decided_by_lean_is_bayes_rule_by_hand() -> None:
    # lean .5 to the left, even items: .5 x .5 / (.5 + .5 x .5) = 1/3; left surely better: 0; right surely better: 1
    outcome, expected = np.array([1.0, 1.0, 1.0, -1.0, 0.0]), np.array([0.0, 1.0, -1.0, 0.0, 0.0])
    assert decided_by_lean(outcome, expected, 0.5) == pytest.approx([1 / 3, 0, 1, 0, 0])
    assert decided_by_lean(-outcome, -expected, -0.5) == pytest.approx([1 / 3, 0, 1, 0, 0])
    assert decided_by_lean(np.array([1.0]), np.array([np.nan]), 0.5) == pytest.approx([1 / 3])


def test_decided_by_lean_counts_the_clicks_that_changed_an_answer() -> None:
    rng = np.random.default_rng(5)
    left = rng.uniform(0.05, 0.95, 40_000)
    by_items = rng.random(40_000) < left
    outcome = np.where((rng.random(40_000) < 0.4) | by_items, 1.0, -1.0)
    changed = (outcome > 0) & ~by_items
    told = decided_by_lean(outcome, 2 * left - 1, 0.4)
    assert told.sum() == pytest.approx(changed.sum(), rel=0.03)
    likely = told > 0.5
    assert changed[likely].mean() == pytest.approx(told[likely].mean(), abs=0.03)


def test_consensus_without_people_is_that_of_a_table_that_never_held_them() -> None:
    c = small_team(12, 2, 60, rng=np.random.default_rng(2), bias=0.8).comparisons
    table, out = AnswerTable.of(c), {c.annotators[0], c.annotators[3]}
    found = without(table, out, dict.fromkeys(c.items.tolist(), 0.0), method="logistic")
    kept = np.array([label not in out for label in c.annotators.tolist()])[c.annotator]
    labels = (c.annotators[c.annotator[kept]], c.items[c.left[kept]], c.items[c.right[kept]])
    others = AnswerTable.of(Comparisons.from_arrays(*labels, c.outcome[kept]))
    nobody = np.zeros(0, dtype=np.int64)
    fit = ranking(others.answers, others.sums, nobody, fallback_ridge=ridge_for(others.answers))
    expected = dict(zip(others.items.tolist(), fit.theta.tolist(), strict=True))
    assert dict(zip(found.scores["item"], found.scores["score"], strict=True)) == pytest.approx(expected, abs=1e-6)
    n = len(others.items)
    assert (found.n_pairs, found.n_lost) == (n * (n - 1) // 2, len(c.items) - n)


def test_pairs_that_change_order_are_named_and_the_present_order_changes_nothing() -> None:
    c = small_team(12, 2, 60, rng=np.random.default_rng(2), bias=0.8).comparisons
    table = AnswerTable.of(c)
    first = without(table, {c.annotators[0]}, {}, method="logistic")
    assert first.changes.empty
    best, second = first.scores.sort_values("score", ascending=False)["item"].tolist()[:2]
    present = dict(zip(first.scores["item"], first.scores["score"], strict=True))
    present[best], present[second] = present[second], present[best]
    (row,) = without(table, {c.annotators[0]}, present, method="logistic").changes.to_dict("records")
    assert (row["above"], row["below"]) == (best, second)


def test_everybody_left_out_leaves_nothing_to_say() -> None:
    c = small_team(5, 1, 30, rng=np.random.default_rng(2)).comparisons
    found = without(AnswerTable.of(c), set(c.annotators.tolist()), {}, method="logistic")
    assert found.scores.empty
    assert found.changes.empty
    assert found.n_lost == len(c.items)
