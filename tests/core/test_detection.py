"""The pipeline: options, bad input, guarantees, and what relabelling and swapping sides must not change."""

import functools
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest

import fdr_core
from fdr_core import Comparisons, ConfigurationError, InputError, KnockoffLBI, SufficientStatistics, detect, simulate
from fdr_core.detection import Detection
from fdr_core.findings import FINDINGS
from fdr_core.options import OPTIONS
from fdr_core.progress import STAGES, share_done
from fdr_core.simulate import Simulated
from tests.core.cases import comparisons_of, crowd

PATHS = ("lbi", "iss", "lasso", "marginal")
COLUMNS = [
    *("annotator", "comparisons", "left", "right", "ties", "bias", "bias_low", "bias_high", "p_value", "q_value"),
    *("exact_list", "proven", "lbi_share", "lbi_list", "entry", "match_ratio", "finding", "flagged", "difference"),
    *("more_needed", "first_seen", "last_seen", "median_lead_time", "longest_run"),
]


@pytest.fixture(scope="module")
def team() -> Simulated:
    """Twelve annotators, two of whom click a side."""
    return simulate.small_team(12, 2, 100, rng=np.random.default_rng(5), bias=0.7)


def numbers_are_sound(result: Detection) -> Detection:
    """No infinity anywhere, NaN only where nobody was tested, intervals in order, findings in line with them."""
    tested = ["p_value", "q_value", "lbi_share", "entry"]
    for frame in (result.annotators.drop(columns=tested), result.ranking, result.order_changes):
        numeric = frame.select_dtypes("number")
        assert np.isfinite(numeric.to_numpy(dtype=float)).all()
    table = result.annotators
    assert not np.isinf(table[tested].to_numpy(dtype=float)).any()
    exact, lbi = table["exact_list"].eq(True), table["lbi_list"].eq(True)
    assert table["exact_list"].isna().all() == table["q_value"].isna().all()  # no list where nobody was tested
    assert table["lbi_list"].isna().all() == table["lbi_share"].isna().all()
    assert table.loc[exact, ["p_value", "q_value"]].notna().all(axis=None)
    assert (table.loc[exact, "q_value"] <= result.parameters["q"]).all()
    assert list(table.columns) == COLUMNS
    assert (table["bias_low"] <= table["bias"]).all()
    assert (table["bias"] <= table["bias_high"]).all()
    assert table[["bias_low", "bias_high"]].abs().to_numpy().max() <= 1.0
    assert table["p_value"].dropna().between(0, 1).all()
    assert table["lbi_share"].dropna().between(0, 1).all()
    assert set(table["finding"]) <= set(FINDINGS)
    are_both_known = table["exact_list"].notna() & table["lbi_list"].notna()
    assert (table["difference"] != "").tolist() == (are_both_known & (exact != lbi)).tolist()
    decides = lbi if result.parameters["decide_by"] == "lbi" else exact
    assert table["flagged"].tolist() == decides.tolist()
    assert result.flagged == table.loc[table["flagged"], "annotator"].tolist()
    return result


@pytest.mark.parametrize(
    ("method", "path", "cut", "aggregate"),
    [*product(("auto", "flip", "paper"), PATHS, ("knockoff", "knockoff+"), ("majority", "evalues"))],
)
def test_detect_with_any_combination_of_options_runs(
    team: Simulated, method: str, path: str, cut: str, aggregate: str
) -> None:
    result = numbers_are_sound(
        detect(
            team.comparisons,
            q=0.2,
            decide_by="exact" if method == "auto" else "lbi",
            lbi=KnockoffLBI(construction=method, path=path, cut=cut, aggregate=aggregate, draws=3),
        )
    )
    wrong = set(result.flagged) - set(team.comparisons.annotators[team.is_biased])
    assert len(wrong) <= 1
    if method == "auto":
        assert len(result.flagged) >= 2
    assert f"path={path}" in result.parameters["lbi"]
    assert result.parameters["decide_by"] == ("exact" if method == "auto" else "lbi")


def test_detect_finds_the_clickers_the_strongest_first(team: Simulated) -> None:
    result = detect(team.comparisons)
    clickers = set(team.comparisons.annotators[team.is_biased])
    assert set(result.flagged) == clickers
    top = result.annotators.head(2)
    assert top["annotator"].tolist() == result.flagged
    assert top["p_value"].is_monotonic_increasing
    side = dict(zip(team.comparisons.annotators, team.side, strict=True))
    assert all(np.sign(bias) == side[who] for who, bias in zip(top["annotator"], top["bias"], strict=True))
    assert top["finding"].tolist() == ["leans left" if bias > 0 else "leans right" for bias in top["bias"]]
    assert result.exact.flagged == result.flagged
    assert set(result.lbi.flagged) == clickers
    assert result.differences.empty
    assert result.smallest_list == 1
    assert "2 of 12 annotators flagged" in repr(result)
    assert result.guarantee.sentence in result._repr_html_()


def test_detect_twice_is_the_same_and_progress_is_told(team: Simulated) -> None:
    seen = []
    first = detect(team.comparisons, progress=lambda *at: seen.append(at), lbi=KnockoffLBI(draws=4, seed=3))
    again = detect(team.comparisons, lbi=KnockoffLBI(draws=4, seed=3))
    pd.testing.assert_frame_equal(first.annotators, again.annotators)
    assert [at for at in seen if at[2] == 4] == [("LBI", draw, 4) for draw in (1, 2, 3, 4)]
    assert list(dict.fromkeys(stage for stage, _, _ in seen)) == list(STAGES)
    assert all(np.diff([share_done(*at) for at in seen]) >= 0)
    assert share_done(*seen[-1]) == 1.0


@pytest.mark.parametrize(
    ("make", "method"), [(simulate.small_team, "flip"), (simulate.small_team, "paper"), (simulate.unique_pairs, "flip")]
)
def test_detect_of_statistics_equals_detect_of_comparisons(make: Callable[..., Any], method: str) -> None:
    truth = make(rng=np.random.default_rng(2))
    lbi = KnockoffLBI(construction=method, draws=3)
    options: dict[str, Any] = {"decide_by": "lbi", "lbi": lbi, "sides": "random" if method == "flip" else "audit"}
    c = truth.comparisons
    statistics = SufficientStatistics()
    for k in range(len(c)):
        coin = None if c.coins is None else c.coins[c.coin[k]]
        statistics.add(
            c.annotators[c.annotator[k]], c.items[c.left[k]], c.items[c.right[k]], float(c.outcome[k]), coin=coin
        )
    ours, theirs = detect(statistics, **options), detect(c, **options)
    pd.testing.assert_frame_equal(ours.annotators, theirs.annotators)
    pd.testing.assert_frame_equal(ours.ranking, theirs.ranking)
    assert ours.guarantee == theirs.guarantee


def renamed(comparisons: Comparisons) -> Comparisons:
    frame = comparisons.to_frame()
    return Comparisons.from_frame(
        frame.assign(
            annotator=[f"person {label}" for label in frame["annotator"]],
            left=[f"thing {label}" for label in frame["left"]],
            right=[f"thing {label}" for label in frame["right"]],
        )
    )


def swapped(comparisons: Comparisons) -> Comparisons:
    frame = comparisons.to_frame()
    return Comparisons.from_frame(frame.assign(left=frame["right"], right=frame["left"], outcome=-frame["outcome"]))


def graded_team() -> Comparisons:
    a = crowd(np.random.default_rng(1), n_annotators=40, n_items=12, n_answers=2000, n_biased=8, graded=True)
    return Comparisons.from_arrays(a.annotator, a.left, a.right, a.outcome, coin=a.coin)


def first_tasks(comparisons: Comparisons, n_tasks: int) -> Comparisons:
    return comparisons.take(np.flatnonzero(comparisons.coin < n_tasks))


CROWDS: dict[str, Callable[[], Comparisons]] = {
    "own coins": lambda: simulate.small_team(30, 5, 60, rng=np.random.default_rng(1)).comparisons,
    "graded": graded_team,
    "shared coins": lambda: first_tasks(simulate.unique_pairs(rng=np.random.default_rng(1)).comparisons, 150),
    "large": lambda: simulate.large_crowd("H5", rng=np.random.default_rng(1)).comparisons,
}
METHODS = [
    ("flip", "own coins"),
    ("paper", "own coins"),
    ("flip", "graded"),
    ("paper", "graded"),
    ("flip", "shared coins"),
    pytest.param("flip", "large", marks=pytest.mark.slow),
    pytest.param("paper", "large", marks=pytest.mark.slow),
]


def by_races(method: str, path: str) -> dict[str, Any]:
    lbi = KnockoffLBI(construction=method, path=path, draws=3, cut="knockoff")
    return {"q": 0.2, "decide_by": "lbi", "lbi": lbi}


@functools.cache
def raced(kind: str, method: str, path: str) -> Detection:
    found = detect(CROWDS[kind](), **by_races(method, path))
    assert found.flagged
    return found


@pytest.mark.parametrize(("method", "kind"), METHODS)
@pytest.mark.parametrize("path", ["lbi", "iss", "marginal"])
def test_detect_after_relabelling_changes_nothing_but_names(method: str, kind: str, path: str) -> None:
    before = raced(kind, method, path)
    after = detect(renamed(CROWDS[kind]()), **by_races(method, path))
    assert after.flagged == [f"person {label}" for label in before.flagged]
    assert after.annotators["annotator"].tolist() == [f"person {label}" for label in before.annotators["annotator"]]
    pd.testing.assert_frame_equal(before.annotators.iloc[:, 1:], after.annotators.iloc[:, 1:])
    pd.testing.assert_frame_equal(before.ranking.iloc[:, 1:], after.ranking.iloc[:, 1:])


@pytest.mark.parametrize(("method", "kind"), METHODS)
@pytest.mark.parametrize("path", ["lbi", "iss", "marginal"])
def test_detect_after_swapping_left_and_right_changes_nothing_but_signs(method: str, kind: str, path: str) -> None:
    comparisons = CROWDS[kind]()
    before = raced(kind, method, path)
    after = detect(swapped(comparisons), **by_races(method, path))
    assert set(after.flagged) == set(before.flagged)
    one, two = (
        result.annotators.set_index("annotator").loc[list(comparisons.annotators)] for result in (before, after)
    )
    for same in ("comparisons", "ties", "entry", "lbi_share", "p_value", "q_value", "match_ratio"):
        assert two[same].to_numpy(dtype=float) == pytest.approx(one[same].to_numpy(dtype=float), abs=1e-7), same
    assert two["left"].tolist() == one["right"].tolist()
    assert two["bias"].to_numpy() == pytest.approx(-one["bias"].to_numpy(), abs=1e-7)
    assert two["bias_low"].to_numpy() == pytest.approx(-one["bias_high"].to_numpy(), abs=1e-7)
    mirrored = [name.replace("left", "?").replace("right", "left").replace("?", "right") for name in one["finding"]]
    assert two["finding"].tolist() == mirrored
    ranks = [result.ranking.set_index("item").loc[list(comparisons.items)] for result in (before, after)]
    for same in ("score", "se", "raw_score"):
        assert ranks[1][same].to_numpy() == pytest.approx(ranks[0][same].to_numpy(), abs=1e-7)


def test_finding_of_one_who_always_clicks_one_side_says_so() -> None:
    rng = np.random.default_rng(4)
    truth = simulate.small_team(12, 2, 60, rng=rng, bias=1.0)
    table = detect(truth.comparisons, lbi=None).annotators
    assert table["flagged"].sum() == 2
    assert set(table.loc[table["flagged"], "finding"]) <= {"left side only", "right side only"}
    assert (table.loc[table["flagged"], ["left", "right"]].min(axis=1) == 0).all()


@pytest.mark.parametrize("decide_by", ["exact", "lbi"])
def test_leans_below_the_smallest_bias_of_interest_are_small_leans_and_never_flagged(decide_by: str) -> None:
    truth = simulate.small_team(12, 2, 2000, rng=np.random.default_rng(1), bias=0.15)
    found, kept = (
        detect(truth.comparisons, min_bias=limit, decide_by=decide_by, q=0.2, lbi=KnockoffLBI(draws=5))
        for limit in (0.05, 0.5)
    )
    assert len(found.flagged) == 2
    assert kept.flagged == []
    # a win of theirs does not count, in any draw: paths need not be followed to it
    assert (kept.annotators["lbi_share"] == 0).all()
    assert (kept.annotators["finding"] == "small lean, below your limit").sum() >= 2
    assert (kept.annotators["q_value"] == 1.0).all()
    assert (kept.exact.annotators["listed_p_value"] == 1.0).all()
    assert (kept.annotators["p_value"] < 0.001).sum() >= 2
    assert kept.order_changes.empty


def test_full_path_of_the_own_columns_is_recorded(team: Simulated) -> None:
    for path in ("lbi", "iss", "lasso"):
        record = detect(team.comparisons, lbi=KnockoffLBI(path=path, draws=1)).lbi.path
        assert record.gamma.shape == (len(record.times), 12)
        assert (np.diff(record.times) >= 0).all()
        assert (record.gamma[-1] != 0).sum() >= 10


def test_timings_are_taken_from_the_clock_given(team: Simulated) -> None:
    ticks = iter(range(100))
    result = detect(team.comparisons, clock=lambda: float(next(ticks)), lbi=KnockoffLBI(draws=1))
    assert list(result.timings) == ["statistics", "audit", "tests", "lbi", "consensus", "evidence"]
    assert all(seconds >= 1.0 for seconds in result.timings.values())
    assert detect(team.comparisons, lbi=KnockoffLBI(draws=1)).timings == {}


@pytest.mark.parametrize("decide_by", ["exact", "lbi"])
def test_lists_do_not_depend_on_how_items_are_ranked(team: Simulated, decide_by: str) -> None:
    one, two = (
        detect(team.comparisons, decide_by=decide_by, consensus=consensus, lbi=KnockoffLBI(draws=3))
        for consensus in ("logistic", "least squares")
    )
    columns = ["annotator", "p_value", "q_value", "bias", "exact_list", "lbi_list", "lbi_share", "flagged"]
    assert one.flagged
    pd.testing.assert_frame_equal(one.annotators[columns], two.annotators[columns], check_exact=True)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *(("q", value) for value in (0, 1, -0.1, 1.5, float("nan"), "0.1", None, True)),
        *(("min_bias", value) for value in (-0.1, 1.1, float("nan"))),
        *(("lbi", value) for value in (21, "draws=5")),
        *((option.name, "something") for option in OPTIONS if option.choices),
    ],
)
def test_option_outside_its_range_raises_and_names_it(team: Simulated, option: str, value: Any) -> None:
    with pytest.raises(ConfigurationError, match=option.replace("_", ".")):
        detect(team.comparisons, **{option: value})


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"lbi": None, "decide_by": "lbi"}, "knockoff LBI was left out"),
        ({"lbi": KnockoffLBI(construction="flip"), "sides": "not random"}, "needs sides assigned by chance"),
    ],
)
def test_options_that_do_not_go_together_raise(team: Simulated, options: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        detect(team.comparisons, **options)


@pytest.mark.parametrize("data", [None, [], pd.DataFrame(), "file.csv"])
def test_detect_of_anything_but_comparisons_raises(data: Any) -> None:
    with pytest.raises(InputError, match="expected Comparisons"):
        detect(data)


def test_detect_of_empty_statistics_raises() -> None:
    with pytest.raises(InputError, match="no answers"):
        detect(SufficientStatistics())
    emptied = SufficientStatistics().add("a", "x", "y", 1.0).remove("a", "x", "y", 1.0)
    with pytest.raises(InputError, match="no answers"):
        detect(emptied)


def test_annotator_with_few_answers_is_not_assessable_and_told_how_many_more() -> None:
    rows = [("once", 0, 1, 1.0)]
    rng = np.random.default_rng(0)
    rows += [(k % 5, *rng.choice(6, 2, replace=False).tolist(), float(rng.choice([-1, 1]))) for k in range(150)]
    table = detect(comparisons_of(rows)).annotators.set_index("annotator")
    assert table.loc["once", "finding"] == "too few answers"
    assert table["p_value"].isna().tolist() == [label == "once" for label in table.index]
    assert table.loc["once", "more_needed"] == 5
    assert (table.drop(index="once")["more_needed"] == 0).all()


def test_exact_ties_in_entry_times_flag_nobody_on_balanced_data() -> None:
    # eight annotators, copies of each other's answers with honest votes: all correlations are equal
    rows = [
        (who, a, b, 1.0 if (a < b) == (vote % 3 > 0) else -1.0)
        for who in range(8)
        for vote, (a, b) in enumerate([(0, 1), (1, 0), (0, 2), (2, 0), (1, 2), (2, 1)] * 6)
    ]
    for path, method in product(["lbi", "iss", "lasso", "marginal"], ["flip", "paper"]):
        result = numbers_are_sound(
            detect(comparisons_of(rows), decide_by="lbi", lbi=KnockoffLBI(path=path, construction=method, draws=5))
        )
        assert result.flagged == []


@pytest.mark.slow
@pytest.mark.parametrize("path", ["lbi", "marginal"])
def test_detect_on_many_items_equals_the_dense_computation_on_the_same_answers(
    path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    truth = simulate.unique_pairs(rng=np.random.default_rng(3))
    dense = detect(truth.comparisons, lbi=KnockoffLBI(path=path, draws=3))
    for module in ("design", "paper.copies", "live", "consensus.ranking", "audit.decision"):
        monkeypatch.setattr(f"fdr_core.{module}.DENSE_ITEMS", 100)
    sparse = detect(truth.comparisons, lbi=KnockoffLBI(path=path, draws=3))
    assert set(sparse.flagged) == set(dense.flagged)
    one, two = (result.annotators.set_index("annotator").sort_index() for result in (dense, sparse))
    assert two["entry"].to_numpy() == pytest.approx(one["entry"].to_numpy(), rel=1e-5)
    assert two["lbi_share"].to_numpy() == pytest.approx(one["lbi_share"].to_numpy(), abs=1e-9)
    assert two["bias"].to_numpy() == pytest.approx(one["bias"].to_numpy(), abs=0.05)


def test_public_version_is_recorded_with_the_parameters(team: Simulated) -> None:
    parameters = detect(team.comparisons, lbi=KnockoffLBI(draws=1, seed=9)).parameters
    assert parameters["version"] == fdr_core.__version__
    assert KnockoffLBI.parse(parameters["lbi"]) == KnockoffLBI(draws=1, seed=9, copies=10)
    assert parameters["ridge"] == 5.0


def test_judge_everybody_includes_who_has_too_few_answers_and_needs_the_papers_construction(team: Simulated) -> None:
    frame = team.comparisons.to_frame()
    newcomer = frame.head(1).assign(annotator=99)
    comparisons = Comparisons.from_frame(pd.concat([frame, newcomer]))
    few, everybody = (
        detect(
            comparisons, min_bias=0.0, decide_by="lbi", lbi=KnockoffLBI(construction="paper", judge=judge, draws=1)
        ).annotators.set_index("annotator")
        for judge in ("assessable", "everybody")
    )
    assert np.isnan(few["entry"].to_dict()[99])
    assert everybody["entry"].to_dict()[99] >= 0
    with pytest.raises(ConfigurationError, match="judge='everybody'"):
        detect(comparisons, lbi=KnockoffLBI(judge="everybody"))


@pytest.mark.data
def test_worldcollege_with_everybody_judged_has_the_papers_annotators_enter_first(dataset: Any) -> None:
    folder = dataset("worldcollege")
    papers = set(pd.read_csv(folder / "paper_table8.csv")["annotator"])
    comparisons = Comparisons.from_frame(pd.read_csv(folder / "comparisons.csv"))
    table = detect(
        comparisons, min_bias=0.0, decide_by="lbi", lbi=KnockoffLBI(construction="paper", judge="everybody", draws=1)
    ).annotators
    assert set(table.sort_values("entry", ascending=False)["annotator"].head(len(papers))) == papers
