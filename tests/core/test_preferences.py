"""Preference pairs that train: soft labels worked by hand, votes, what is to be labelled again, harm undone."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from fdr_core import Comparisons, detect
from fdr_core.judges.preferences import Preferences, preferences
from fdr_core.simulate import unique_pairs


def exported(rows: list[Any], **options: Any) -> Preferences:
    comparisons = Comparisons.from_arrays(*zip(*rows, strict=True))
    return preferences(comparisons, detect(comparisons, lbi=None), **options)


def test_pair_that_is_clear_names_the_winner_whatever_its_side() -> None:
    found = exported([(f"ann{k}", "good", "bad", 1) if k % 2 else (f"ann{k}", "bad", "good", -1) for k in range(40)])
    (row,) = found.table.to_dict("records")
    assert (row["chosen"], row["rejected"], row["votes_chosen"], row["votes_rejected"]) == ("good", "bad", 40, 0)
    assert row["margin"] > 0
    assert row["soft_label"] > 0.95
    assert found.again.empty


def test_even_pair_trains_on_one_half_and_is_to_be_labelled_again() -> None:
    rows = [(f"ann{k}", "x", "y", 1) if k % 2 else (f"ann{k}", "x", "y", -1) for k in range(40)]
    rows += [(f"ann{k}", "y", "x", 1) if k % 2 else (f"ann{k}", "y", "x", -1) for k in range(40)]
    found = exported(rows)
    assert found.table["soft_label"].tolist() == pytest.approx([0.5])
    assert found.again["reason"].tolist() == ["too close to call"]
    assert found.certain(0.75).empty


def test_single_votes_keep_their_reliability_and_none_is_lost() -> None:
    """Nobody votes twice on a pair, so two votes are taken to agree in four of five cases: k = 1/3, label .8."""
    rng = np.random.default_rng(0)
    rows = [(f"ann{k % 9}", f"a{k}", f"b{k}", rng.choice([-1, 1])) for k in range(90)]
    found = exported(rows)
    assert found.reliability == pytest.approx(0.8)
    assert found.table["soft_label"].tolist() == pytest.approx([0.8] * 90)


def test_votes_that_train_are_those_given_where_nobody_is_flagged() -> None:
    """Weight and share together train as every vote by itself does."""
    rng = np.random.default_rng(3)
    rows = [(f"ann{k % 9}", f"i{k % 7}", f"i{(k + 1 + k % 3) % 7}", rng.choice([-1.0, 0.0, 1.0])) for k in range(120)]
    table = exported(rows).table
    assert (table["weight"] * table["vote_share"]).tolist() == pytest.approx(table["votes_chosen"].tolist())
    assert table["weight"].sum() == 120


def test_vote_towards_the_side_that_a_flagged_annotator_clicks_counts_for_what_it_tells() -> None:
    crowd = unique_pairs(rng=np.random.default_rng(0)).comparisons
    found = detect(crowd, sides="random", lbi=None)
    settled = preferences(crowd, found)
    lean = found.annotators.set_index("annotator")["bias"].loc[found.flagged].abs()
    is_theirs = np.isin(crowd.annotators[crowd.annotator], found.flagged) & (crowd.outcome > 0)
    lost = sum(1 - (1 - lean[who]) / (1 + lean[who]) for who in crowd.annotators[crowd.annotator[is_theirs]])
    assert found.flagged
    assert settled.table["weight"].sum() == pytest.approx(len(crowd) - lost)
    assert len(settled.table) == len(np.unique(crowd.coin))
    assert settled.again["probability"].is_monotonic_increasing


def test_statement_about_sides_that_the_data_refute_takes_nothing_out() -> None:
    rng = np.random.default_rng(1)
    one, two = np.array([rng.choice(20, size=2, replace=False) for _ in range(1500)]).T
    better_left = (one > two) == (rng.random(1500) < 0.85)
    left, right = np.where(better_left, one, two), np.where(better_left, two, one)
    y = np.where(rng.random(1500) < 1 / (1 + np.exp(-0.3 * (left - right))), 1, -1)
    crowd = Comparisons.from_arrays(np.arange(1500) % 15, left, right, y)
    settled = preferences(crowd, detect(crowd, sides="random", lbi=None))
    assert "the data speak against it" in settled.note
    votes = settled.table["votes_chosen"] + settled.table["votes_rejected"]
    pd.testing.assert_series_equal(settled.table["weight"], votes, check_names=False)
