"""Clean preference pairs: winners, margins, what is to be labelled again, and more right labels than its rivals."""

import numpy as np

from fdr_core import Comparisons, KnockoffLBI, detect
from fdr_core.judges.preferences import preferences
from fdr_core.simulate import unique_pairs


def test_preferences_of_a_clear_pair_name_the_winner_whatever_its_side() -> None:
    rows = [(f"ann{k}", "good", "bad", 1) if k % 2 else (f"ann{k}", "bad", "good", -1) for k in range(40)]
    comparisons = Comparisons.from_arrays(*zip(*rows, strict=True))
    found = preferences(comparisons, detect(comparisons, lbi=KnockoffLBI(draws=1)))
    (row,) = found.table.to_dict("records")
    assert (row["chosen"], row["rejected"], row["answers"], row["votes"]) == ("good", "bad", 40, 1.0)
    assert row["margin"] > 0
    assert found.again.empty


def test_preferences_of_an_even_pair_are_to_be_labelled_again() -> None:
    rows = [(f"ann{k}", "x", "y", 1) if k % 2 else (f"ann{k}", "x", "y", -1) for k in range(40)]
    rows += [(f"ann{k}", "y", "x", 1) if k % 2 else (f"ann{k}", "y", "x", -1) for k in range(40)]
    comparisons = Comparisons.from_arrays(*zip(*rows, strict=True))
    found = preferences(comparisons, detect(comparisons, lbi=KnockoffLBI(draws=1)))
    assert found.table.empty
    assert found.again["reason"].tolist() == ["too close to call"]


def test_preferences_every_compared_pair_is_either_settled_or_to_be_labelled_again() -> None:
    crowd = unique_pairs(rng=np.random.default_rng(0))
    found = preferences(crowd.comparisons, detect(crowd.comparisons, sides="random", lbi=KnockoffLBI(draws=5)))
    n_pairs = len(np.unique(crowd.comparisons.coin))
    assert len(found.table) + len(found.again) == n_pairs
    assert (found.table["probability"] >= 0.75).all()
    assert found.again["probability"].is_monotonic_increasing
