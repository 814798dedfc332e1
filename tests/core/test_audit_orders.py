"""The design audit where pairs come in both orders, or rows in any order."""

import numpy as np
import pandas as pd
import pytest
from numpy.random import Generator

from fdr_core import Comparisons
from harness.crowds import six_judges
from tests.core.test_audit import judged


def one_order_per_question(rng: Generator, n_questions: int = 80, n_items: int = 5, m: int = 4) -> pd.DataFrame:
    """Judges who lean, every pair of a few models in one order for all, drawn per question."""
    one, two = np.triu_indices(n_items, k=1)
    question, pair = np.divmod(np.arange(n_questions * len(one)), len(one))
    turned = rng.random(len(pair)) < 0.5
    left, right = np.where(turned, two[pair], one[pair]), np.where(turned, one[pair], two[pair])
    frame = pd.DataFrame(
        {"left": left, "right": right, "stratum": question, "coin": np.arange(len(pair)), "pair": pair}
    )
    frame = pd.concat([frame.assign(annotator=j) for j in range(m)], ignore_index=True)
    gap = (frame["right"] - frame["left"]) / 2 + 0.8 * frame["annotator"]
    frame["outcome"] = np.where(gap + rng.logistic(size=len(frame)) > 0, 1.0, -1.0)
    return frame


@pytest.mark.parametrize("by", ["left", "right", "pair", "annotator", "stratum", "outcome", ["pair", "left"]])
def test_audit_of_a_sound_design_sorted_in_any_way_trusts_the_coins(by: str | list[str]) -> None:
    trusted = 0
    for seed in range(10):
        frame = one_order_per_question(np.random.default_rng([12, seed])).sort_values(by, kind="stable")
        comparisons = Comparisons.from_frame(frame[["annotator", "left", "right", "outcome", "coin"]])
        trusted += judged(comparisons).how == "shared coins"
    assert trusted >= 8  # a small team: about one in twenty fails by chance


@pytest.mark.parametrize("ids", ["task", "coin"])
def test_audit_of_few_pairs_under_many_tasks_is_never_taken_for_both_orders(ids: str) -> None:
    for seed in range(25):
        c = six_judges(rng=np.random.default_rng([13, seed])).comparisons
        named = Comparisons.from_arrays(c.annotator, c.left, c.right, c.outcome, **{ids: c.coin})
        assert judged(named).how != "both orders"


def test_audit_of_tasks_that_show_each_pair_once_in_either_order_finds_both_orders() -> None:
    rng = np.random.default_rng(14)
    one, two = np.triu_indices(12, k=1)
    left, right = np.concatenate([one, two]), np.concatenate([two, one])
    who = np.repeat(np.arange(5), len(left))
    y = rng.choice([-1.0, 1.0], size=len(who))
    task = np.tile(np.arange(len(left)), 5)
    comparisons = Comparisons.from_arrays(who, np.tile(left, 5), np.tile(right, 5), y, task=task)
    assert judged(comparisons).how == "both orders"
