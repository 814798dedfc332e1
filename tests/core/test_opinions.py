"""Two opinions in one result: the exact list, knockoff LBI beside it, where they differ, and what a list promises."""

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fdr_core import Comparisons, InputError, KnockoffLBI, detect, simulate
from fdr_core.engines.assembly import sum_comparisons
from fdr_core.guarantee import PROVEN_IF
from fdr_core.simulate import Simulated
from harness import crowds as scenarios
from harness.premises import naming_their_seed


@pytest.fixture(scope="module")
def team() -> Simulated:
    """Twelve annotators, two of whom click a side."""
    return simulate.small_team(12, 2, 100, rng=np.random.default_rng(5), bias=0.7)


def test_exact_list_does_not_depend_on_seed_draws_or_lbi(team: Simulated) -> None:
    exact = ["annotator", "p_value", "q_value", "exact_list", "finding", "flagged"]
    one, two, alone = (
        detect(team.comparisons, lbi=lbi) for lbi in (KnockoffLBI(draws=3, seed=0), KnockoffLBI(draws=5, seed=7), None)
    )
    pd.testing.assert_frame_equal(one.annotators[exact], two.annotators[exact])
    pd.testing.assert_frame_equal(one.annotators[exact], alone.annotators[exact])
    assert (alone.lbi.flagged, alone.lbi.draws_done, len(alone.lbi.annotators)) == ([], 0, 0)
    assert alone.annotators["lbi_share"].isna().all()
    assert alone.method["lbi_list"] is None


def test_lbi_tells_its_list_shares_path_and_draws(team: Simulated) -> None:
    lbi = detect(team.comparisons, lbi=KnockoffLBI(draws=5)).lbi
    assert set(lbi.flagged) == set(team.comparisons.annotators[team.is_biased])
    assert list(lbi.annotators.columns) == ["annotator", "share", "e_value", "entry", "selectable"]
    assert lbi.W.shape == (5, 12)
    assert lbi.annotators["selectable"].all()
    assert (lbi.draws_done, lbi.draws_asked) == (5, 5)
    assert lbi.path.gamma.shape == (len(lbi.path.times), 12)
    assert "2 of 12 judged annotators selected; 5 of 5 draws" in repr(lbi)


def test_lbi_decides_with_the_construction_named(team: Simulated) -> None:
    for method, construction in (("flip", "flip"), ("paper", "paper")):
        result = detect(team.comparisons, decide_by="lbi", lbi=KnockoffLBI(construction=method, draws=3))
        assert result.audit.construction == construction
        assert result.parameters["decide_by"] == "lbi"
        assert result.flagged == result.lbi.flagged
    assert detect(team.comparisons, decide_by="lbi", lbi=KnockoffLBI(draws=3)).audit.construction == "flip"


def test_lists_that_differ_say_why(team: Simulated) -> None:
    # ten people are the shortest list of one copy at q = .1, so that LBI selects nobody here
    result = detect(team.comparisons, lbi=KnockoffLBI(copies=1, draws=3))
    assert len(result.flagged) == 2
    assert result.lbi.flagged == []
    assert result.differences["annotator"].tolist() == result.flagged
    assert result.differences["difference"].str.contains("its shortest list has 10").all()


@pytest.mark.parametrize(
    ("options", "kind", "says"),
    [
        ({}, PROVEN_IF, "proven for this design"),
        ({"sides": "not random"}, "FDR, measured", "checked by simulation"),
        ({"draws": 1}, PROVEN_IF, "proven for knockoff LBI"),
        ({"draws": 1, "cut": "knockoff"}, "modified FDR", "5 right entries were added"),
        ({"draws": 3}, "FDR, measured", "checked by simulation"),
        ({"aggregate": "evalues"}, PROVEN_IF, "proven for knockoff LBI"),
        ({"aggregate": "evalues", "cut": "knockoff"}, PROVEN_IF, "proven for knockoff LBI"),
        ({"draws": 1, "construction": "paper"}, "FDR, proven", "given equal Gaussian noise"),
        ({"construction": "paper"}, "FDR, measured", "given equal Gaussian noise"),
    ],
)
def test_guarantee_says_in_plain_words_what_is_proven(
    team: Simulated, options: dict[str, Any], kind: str, says: str
) -> None:
    if "sides" not in options and options:
        options = {"decide_by": "lbi", "lbi": KnockoffLBI(**{"draws": 3, **options})}
    guarantee = detect(team.comparisons, q=0.2, **options).guarantee
    assert guarantee.kind == kind
    assert guarantee == f"{kind}: {guarantee.sentence}"
    assert guarantee.sentence.startswith("Of the entries on such lists at most about 1 in 5 is wrong")
    assert says in guarantee.sentence
    assert pickle.loads(pickle.dumps(guarantee)).sentence == guarantee.sentence


def test_guarantee_is_proven_on_no_condition_where_the_coins_name_their_seed(team: Simulated) -> None:
    named = naming_their_seed(team.comparisons)
    for data in (named, sum_comparisons(named)):
        found = detect(data, lbi=None)
        assert (found.guarantee.kind, found.audit.figures["drawn_by_seed"]) == ("FDR, proven", 1.0)
    assert "as the owner states" in detect(team.comparisons, sides="random", lbi=None).guarantee
    assert "tests by item, annotator do not contradict it" in detect(team.comparisons, lbi=None).guarantee


def test_items_moved_after_the_coins_were_drawn_are_an_error_that_names_the_coins(team: Simulated) -> None:
    rows = naming_their_seed(team.comparisons).to_frame()
    moved = rows.index[:2]
    rows.loc[moved, ["left", "right"]] = rows.loc[moved, ["right", "left"]].to_numpy()
    with pytest.raises(InputError, match=f"2 answers, under the coins {rows['coin'].tolist()[0]}, "):
        detect(Comparisons.from_frame(rows), lbi=None)


@pytest.mark.parametrize("options", [{"construction": "paper"}, {"copies": 1}])
def test_whom_no_list_is_short_enough_for_is_never_called_free_of_a_lean(options: dict[str, Any]) -> None:
    """With one copy the shortest list has ten people; here are six."""
    six = simulate.small_team(6, 1, 200, rng=np.random.default_rng(1)).comparisons
    result = detect(six, decide_by="lbi", lbi=KnockoffLBI(draws=3, **options))
    assert result.smallest_list == 10
    assert result.flagged == []
    assert set(result.annotators["finding"]) == {"suspicious, not enough to flag", "not assessable"}
    assert "no lean seen" in set(detect(six, decide_by="lbi", lbi=KnockoffLBI(draws=3)).annotators["finding"])


def test_who_saw_one_order_only_cannot_be_told_where_both_orders_are_compared() -> None:
    both = scenarios.both_orders(3, 0, 400, rng=np.random.default_rng(2)).comparisons
    is_second = np.arange(len(both)) >= len(both) // 2
    result = detect(both.take(~(is_second & (both.annotator == 0))), lbi=None)
    assert result.audit.how == "both orders"
    row = result.annotators.set_index("annotator").loc[both.annotators[0]]
    assert (row["comparisons"], row["p_value"], row["finding"]) == (400, 1.0, "not assessable")
    assert "no lean seen" in set(result.annotators["finding"])


def test_construction_that_can_judge_nobody_leaves_no_list_beside_it() -> None:
    unique = simulate.unique_pairs(rng=np.random.default_rng(0)).comparisons
    result = detect(unique, sides="random", decide_by="lbi", lbi=KnockoffLBI(construction="paper", draws=1))
    assert (result.audit.how, result.audit.construction) == ("none", "none")
    assert result.exact.flagged == []
    assert set(result.annotators["finding"]) == {"not assessable"}


def test_guarantee_with_own_coins_is_proven_only_where_nobody_shares_any(team: Simulated) -> None:
    c = team.comparisons
    coin = np.arange(len(c))
    coin[np.flatnonzero(c.annotator != c.annotator[0])[0]] = 0  # two people met one task
    shared = Comparisons.from_arrays(c.annotator, c.left, c.right, c.outcome, coin=coin)
    result = detect(shared, lbi=None)
    assert result.audit.how == "own coins"
    assert result.guarantee.kind == "FDR, measured"
    assert "less than 1 % of the answers stand under coins that several people met" in result.guarantee


def test_guarantee_of_flips_forced_or_with_shared_coins_says_so(team: Simulated) -> None:
    shared = detect(simulate.unique_pairs(rng=np.random.default_rng(0)).comparisons, lbi=None)
    assert shared.guarantee.kind == "FDR, measured"
    assert "annotators saw the same order" in shared.guarantee
    leaning = simulate.large_crowd("H8", rng=np.random.default_rng(0)).comparisons
    forced = detect(leaning, decide_by="lbi", lbi=KnockoffLBI(construction="flip", draws=1, path="marginal")).guarantee
    assert forced.kind == "nothing proven (sides not random)"
