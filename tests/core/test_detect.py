"""The pipeline: options, bad input, guarantees, and what relabelling and swapping sides must not change."""

import pickle
from itertools import product

import numpy as np
import pandas as pd
import pytest

import fdr_core
from fdr_core import Comparisons, ConfigurationError, DesignError, InputError, SufficientStatistics, detect, simulate

PATHS = ("lbi", "iss", "lasso", "marginal")
COLUMNS = [
    *("annotator", "comparisons", "left", "right", "ties", "bias", "bias_low", "bias_high", "entry", "draw_share"),
    *("p_value", "match_ratio", "verdict", "flagged", "more_needed"),
    *("first_seen", "last_seen", "median_lead_time", "longest_run"),
]


@pytest.fixture(scope="module")
def team():
    """Twelve annotators, two of whom click a side."""
    return simulate.small_team(12, 2, 100, rng=np.random.default_rng(5), bias=0.7)


def numbers_are_sound(result):
    """No NaN or infinity in any numeric column, and intervals in order."""
    for frame in (result.annotators, result.ranking, result.order_changes):
        numeric = frame.select_dtypes("number")
        assert np.isfinite(numeric.to_numpy(dtype=float)).all()
    table = result.annotators
    assert list(table.columns) == COLUMNS
    assert (table["bias_low"] <= table["bias"]).all()
    assert (table["bias"] <= table["bias_high"]).all()
    assert table[["bias_low", "bias_high"]].abs().to_numpy().max() <= 1.0
    assert table["p_value"].between(0, 1).all()
    assert table["draw_share"].between(0, 1).all()
    assert set(table["verdict"]) <= {"good", "ugly", "bad", "not assessable"}
    assert result.flagged == table.loc[table["flagged"], "annotator"].tolist()
    return result


@pytest.mark.parametrize(
    ("method", "path", "cut", "aggregate"),
    [*product(("auto", "flip", "paper"), PATHS, ("knockoff", "knockoff+"), ("majority", "evalues"))],
)
def test_detect_with_any_combination_of_options_runs(team, method, path, cut, aggregate):
    result = numbers_are_sound(
        detect(team.comparisons, method=method, path=path, cut=cut, aggregate=aggregate, draws=3, q=0.2)
    )
    wrong = set(result.flagged) - set(team.comparisons.annotators[team.is_biased])
    assert len(wrong) <= 1
    if method != "paper" and aggregate == "majority":
        assert len(result.flagged) >= 2
    assert result.parameters["path"] == path


def test_detect_finds_the_clickers_the_strongest_first(team):
    result = detect(team.comparisons)
    clickers = set(team.comparisons.annotators[team.is_biased])
    assert set(result.flagged) == clickers
    top = result.annotators.head(2)
    assert top["annotator"].tolist() == result.flagged
    assert top["draw_share"].is_monotonic_decreasing
    side = dict(zip(team.comparisons.annotators, team.side, strict=True))
    assert all(np.sign(row.bias) == side[row.annotator] for row in top.itertuples())
    assert set(top["verdict"]) == {"ugly"}
    assert result.smallest_list == 1
    assert "2 of 12 annotators flagged" in repr(result)
    assert result.guarantee.sentence in result._repr_html_()


def test_detect_with_the_same_seed_is_the_same_and_progress_is_told(team):
    seen = []
    first = detect(team.comparisons, draws=4, seed=3, progress=lambda *at: seen.append(at))
    again = detect(team.comparisons, draws=4, seed=3)
    pd.testing.assert_frame_equal(first.annotators, again.annotators)
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]


@pytest.mark.parametrize(
    ("make", "method"), [(simulate.small_team, "flip"), (simulate.small_team, "paper"), (simulate.unique_pairs, "flip")]
)
def test_detect_of_statistics_equals_detect_of_comparisons(make, method):
    truth = make(rng=np.random.default_rng(2))
    options = {"method": method, "draws": 3, "sides": "random" if method == "flip" else "audit"}
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


def renamed(comparisons):
    frame = comparisons.to_frame()
    return Comparisons.from_frame(
        frame.assign(
            annotator=[f"person {label}" for label in frame["annotator"]],
            left=[f"thing {label}" for label in frame["left"]],
            right=[f"thing {label}" for label in frame["right"]],
        )
    )


def swapped(comparisons):
    frame = comparisons.to_frame()
    return Comparisons.from_frame(frame.assign(left=frame["right"], right=frame["left"], outcome=-frame["outcome"]))


CROWDS = {
    "own coins": lambda: simulate.small_team(30, 5, 60, rng=np.random.default_rng(1)).comparisons,
    "graded": lambda: simulate.large_crowd("H5", rng=np.random.default_rng(1)).comparisons,
    "shared coins": lambda: simulate.unique_pairs(rng=np.random.default_rng(1)).comparisons,
}
METHODS = [
    ("flip", "own coins"),
    ("paper", "own coins"),
    ("flip", "graded"),
    ("paper", "graded"),
    ("flip", "shared coins"),
]


@pytest.mark.parametrize(("method", "kind"), METHODS)
@pytest.mark.parametrize("path", ["lbi", "iss", "marginal"])
def test_detect_after_relabelling_changes_nothing_but_names(method, kind, path):
    comparisons = CROWDS[kind]()
    options = {"method": method, "path": path, "draws": 3, "cut": "knockoff", "q": 0.2}
    before, after = detect(comparisons, **options), detect(renamed(comparisons), **options)
    assert after.flagged == [f"person {label}" for label in before.flagged]
    assert after.annotators["annotator"].tolist() == [f"person {label}" for label in before.annotators["annotator"]]
    pd.testing.assert_frame_equal(before.annotators.iloc[:, 1:], after.annotators.iloc[:, 1:])
    pd.testing.assert_frame_equal(before.ranking.iloc[:, 1:], after.ranking.iloc[:, 1:])


@pytest.mark.parametrize(("method", "kind"), METHODS)
@pytest.mark.parametrize("path", ["lbi", "iss", "marginal"])
def test_detect_after_swapping_left_and_right_changes_nothing_but_signs(method, kind, path):
    comparisons = CROWDS[kind]()
    options = {"method": method, "path": path, "draws": 3, "cut": "knockoff", "q": 0.2}
    before, after = detect(comparisons, **options), detect(swapped(comparisons), **options)
    assert set(after.flagged) == set(before.flagged)
    one, two = (
        result.annotators.set_index("annotator").loc[list(comparisons.annotators)] for result in (before, after)
    )
    for same in ("comparisons", "ties", "entry", "draw_share", "p_value", "match_ratio"):
        assert two[same].to_numpy(dtype=float) == pytest.approx(one[same].to_numpy(dtype=float), abs=1e-7), same
    assert two["left"].tolist() == one["right"].tolist()
    assert two["bias"].to_numpy() == pytest.approx(-one["bias"].to_numpy(), abs=1e-7)
    assert two["bias_low"].to_numpy() == pytest.approx(-one["bias_high"].to_numpy(), abs=1e-7)
    assert two["verdict"].tolist() == one["verdict"].tolist()
    ranks = [result.ranking.set_index("item").loc[list(comparisons.items)] for result in (before, after)]
    for same in ("score", "se", "raw_score"):
        assert ranks[1][same].to_numpy() == pytest.approx(ranks[0][same].to_numpy(), abs=1e-7)


@pytest.mark.parametrize(
    ("options", "statistic"),
    [
        ({"sides": "not random"}, "likelihood"),
        ({"sides": "not random", "draws": 1}, "path"),
        ({"sides": "not random", "statistic": "path"}, "path"),
        ({"method": "paper"}, "path"),
        ({"method": "paper", "statistic": "likelihood"}, "likelihood"),
    ],
)
def test_sides_held_fixed_are_judged_by_likelihood_unless_the_paper_is_asked_for(team, options, statistic):
    result = detect(team.comparisons, q=0.2, **{"draws": 5, **options})
    assert result.audit.construction == "paper"
    assert result.parameters["statistic"] == statistic
    assert ("model of judging" in result.guarantee) == (statistic == "likelihood")
    assert ("equal Gaussian noise" in result.guarantee) == (statistic == "path")
    again = detect(team.comparisons, q=0.2, **{"draws": 5, **options})
    assert again.annotators["draw_share"].tolist() == result.annotators["draw_share"].tolist()


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({"draws": 1}, "FDR"),
        ({"draws": 1, "cut": "knockoff"}, "modified FDR"),
        ({"draws": 5}, "none proven (counted on copies)"),
        ({"draws": 5, "statistic": "path"}, "none proven (majority of draws)"),
        ({"draws": 1, "statistic": "likelihood"}, "none proven (counted on copies)"),
        ({"draws": 5, "aggregate": "evalues"}, "FDR"),
        ({"draws": 5, "aggregate": "evalues", "cut": "knockoff"}, "FDR"),
        ({"draws": 1, "method": "paper"}, "FDR"),
    ],
)
def test_guarantee_names_what_is_proven(team, options, kind):
    guarantee = detect(team.comparisons, q=0.2, **options).guarantee
    assert guarantee.kind == kind
    assert guarantee == f"{kind}: {guarantee.sentence}"
    assert "20 %" in guarantee
    assert ("equal Gaussian noise" in guarantee) == (options.get("method") == "paper")
    assert pickle.loads(pickle.dumps(guarantee)).sentence == guarantee.sentence


def test_guarantee_of_flips_forced_or_with_shared_coins_says_so(team):
    shared = detect(simulate.unique_pairs(rng=np.random.default_rng(0)).comparisons, draws=1)
    assert "Annotators share coins" in shared.guarantee
    leaning = simulate.large_crowd("H8", rng=np.random.default_rng(0)).comparisons
    assert detect(leaning, method="flip", draws=1, path="marginal").guarantee.kind == "none proven (sides not random)"


def test_verdict_of_one_who_always_clicks_one_side_is_bad():
    rng = np.random.default_rng(4)
    truth = simulate.small_team(12, 2, 60, rng=rng, bias=1.0)
    table = detect(truth.comparisons).annotators
    assert table.loc[table["flagged"], "verdict"].tolist() == ["bad", "bad"]
    assert (table.loc[table["flagged"], ["left", "right"]].min(axis=1) == 0).all()


def test_flags_below_the_smallest_bias_of_interest_are_let_go():
    truth = simulate.small_team(12, 2, 2000, rng=np.random.default_rng(1), bias=0.15)
    found, kept = detect(truth.comparisons, min_bias=0.05, draws=5), detect(truth.comparisons, min_bias=0.5, draws=5)
    assert len(found.flagged) == 2
    assert kept.flagged == []
    assert (kept.annotators["draw_share"] > 0.5).sum() >= 2
    assert kept.order_changes.empty


def test_full_path_of_the_own_columns_is_recorded(team):
    for path in ("lbi", "iss", "lasso"):
        record = detect(team.comparisons, path=path, draws=1).path_record
        assert record.gamma.shape == (len(record.times), 12)
        assert (np.diff(record.times) >= 0).all()
        assert (record.gamma[-1] != 0).sum() >= 10


def test_timings_are_taken_from_the_clock_given(team):
    ticks = iter(range(100))
    result = detect(team.comparisons, draws=1, clock=lambda: float(next(ticks)))
    assert set(result.timings) >= {"statistics", "audit", "draws", "refit", "evidence"}
    assert all(seconds == 1.0 for seconds in result.timings.values())
    assert detect(team.comparisons, draws=1).timings == {}


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *(("q", value) for value in (0, 1, -0.1, 1.5, float("nan"), "0.1", None, True)),
        *(("draws", value) for value in (0, -1, 1.5, "many")),
        *(("copies", value) for value in (0, -2, 2.5)),
        *(("seed", value) for value in (-1, 0.5)),
        *(("min_bias", value) for value in (-0.1, 1.1, float("nan"))),
        *((name, "something") for name in ("path", "cut", "aggregate", "variance", "method", "sides", "slack_solver")),
    ],
)
def test_option_outside_its_range_raises_and_names_it(team, option, value):
    with pytest.raises(ConfigurationError, match=option.replace("_", ".")):
        detect(team.comparisons, **{option: value})


@pytest.mark.parametrize("data", [None, [], pd.DataFrame(), "file.csv"])
def test_detect_of_anything_but_comparisons_raises(data):
    with pytest.raises(InputError, match="expected Comparisons"):
        detect(data)


def test_detect_of_empty_statistics_raises():
    with pytest.raises(InputError, match="no answers"):
        detect(SufficientStatistics())
    emptied = SufficientStatistics().add("a", "x", "y", 1.0).remove("a", "x", "y", 1.0)
    with pytest.raises(InputError, match="no answers"):
        detect(emptied)


GOOD_ROW = {"annotator": "a", "left": "x", "right": "y", "outcome": 1.0}
BAD_ROWS = {
    "self-comparison": {"right": "x"},
    "NaN outcome": {"outcome": float("nan")},
    "infinite outcome": {"outcome": float("inf")},
    "outcome outside": {"outcome": 1.2},
}


@pytest.mark.parametrize("change", [*BAD_ROWS.values()], ids=[*BAD_ROWS])
def test_bad_row_raises_an_input_error(change):
    with pytest.raises(InputError):
        Comparisons.from_frame(pd.DataFrame([GOOD_ROW, {**GOOD_ROW, **change}]))


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame([{"annotator": "a", "left": "x", "right": "y", "choice": "middle"}]),
        pd.DataFrame([GOOD_ROW]).drop(columns="left"),
        pd.DataFrame([["a", "b", "x", "y", 1.0]], columns=["annotator", "annotator", "left", "right", "outcome"]),
        pd.DataFrame([GOOD_ROW]).iloc[:0],
        pd.DataFrame([{**GOOD_ROW, "right": "x"}]),  # one item only
    ],
    ids=["unknown choice", "missing column", "duplicate column", "empty", "one item"],
)
def test_bad_table_raises_an_input_error(frame):
    with pytest.raises(InputError):
        Comparisons.from_frame(frame)


def comparisons_of(rows):
    return Comparisons.from_frame(pd.DataFrame(rows, columns=["annotator", "left", "right", "outcome"]))


def spread(rng, n, m, size, outcome=None):
    left = rng.integers(n, size=size)
    right = (left + rng.integers(1, n, size=size)) % n
    y = rng.choice([-1.0, 1.0], size=size) if outcome is None else np.full(size, outcome)
    return Comparisons.from_arrays(rng.integers(m, size=size), left, right, y)


ODD_INPUT = {
    "one answer": lambda rng: comparisons_of([("a", "x", "y", 1.0)]),
    "one tie": lambda rng: comparisons_of([("a", "x", "y", 0.0)]),
    "one annotator": lambda rng: spread(rng, 6, 1, 40),
    "two items": lambda rng: spread(rng, 2, 10, 200),
    "an annotator with one answer": lambda rng: comparisons_of(
        [("once", 0, 1, 1.0), *((k % 5, *rng.choice(6, 2, replace=False).tolist(), (-1.0) ** k) for k in range(150))]
    ),
    "two groups": lambda rng: comparisons_of(
        [
            (k % 8, *(k % 2 * 10 + rng.choice(5, 2, replace=False)).tolist(), float(rng.choice([-1, 1])))
            for k in range(400)
        ]
    ),
    "all ties": lambda rng: spread(rng, 6, 8, 300, outcome=0.0),
    "one group all ties": lambda rng: comparisons_of(
        [
            (k % 2, *(k % 2 * 10 + rng.choice(5, 2, replace=False)).tolist(), float(k % 2 * rng.choice([-1, 1])))
            for k in range(300)
        ]
    ),
    "sides never swapped": lambda rng: comparisons_of(
        [(k % 6, int(rng.integers(4)), 4 + int(rng.integers(4)), float(rng.choice([-1, 1]))) for k in range(300)]
    ),
    "everybody alike": lambda rng: comparisons_of(
        [
            (who, *pair, 1.0 if pair[0] < pair[1] else -1.0)
            for who in range(8)
            for pair in [(0, 1), (1, 0), (1, 2), (2, 1)] * 5
        ]
    ),
}


@pytest.mark.parametrize("path", ["lbi", "iss", "lasso", "marginal"])
@pytest.mark.parametrize("make", [*ODD_INPUT.values()], ids=[*ODD_INPUT])
def test_odd_input_gives_a_sound_result_without_a_flag(make, path):
    result = numbers_are_sound(detect(make(np.random.default_rng(11)), path=path, draws=5))
    assert result.flagged == []
    assert result.audit.reasons


@pytest.mark.parametrize("make", [*ODD_INPUT.values()], ids=[*ODD_INPUT])
@pytest.mark.parametrize("variance", ["plain", "two-pass"])
def test_odd_input_with_the_papers_construction_gives_no_flag_or_a_design_error(make, variance):
    comparisons = make(np.random.default_rng(11))
    try:
        result = detect(comparisons, method="paper", draws=5, variance=variance)
    except DesignError as error:
        message = str(error)
    else:
        numbers_are_sound(result)
        message = "" if result.flagged else "nobody flagged"
    assert "needs at least 2 x annotators + items" in message or message == "nobody flagged"


def test_papers_construction_on_fewer_rows_than_it_needs_raises():
    chain = [(k % 10, k, k + 1, 1.0) for k in range(110)]
    with pytest.raises(DesignError, match=r"needs at least 2 x annotators \+ items = 131 answers; this design has 110"):
        detect(comparisons_of(chain), method="paper")


def test_annotator_with_few_answers_is_not_assessable_and_told_how_many_more():
    rows = [("once", 0, 1, 1.0)]
    rng = np.random.default_rng(0)
    rows += [(k % 5, *rng.choice(6, 2, replace=False).tolist(), float(rng.choice([-1, 1]))) for k in range(150)]
    table = detect(comparisons_of(rows)).annotators.set_index("annotator")
    assert table.loc["once", "verdict"] == "not assessable"
    assert table.loc["once", "more_needed"] == 2
    assert (table.drop(index="once")["more_needed"] == 0).all()


def test_exact_ties_in_entry_times_flag_nobody_on_balanced_data():
    # eight annotators, copies of each other's answers with honest votes: all correlations are equal
    rows = [
        (who, a, b, 1.0 if (a < b) == (vote % 3 > 0) else -1.0)
        for who in range(8)
        for vote, (a, b) in enumerate([(0, 1), (1, 0), (0, 2), (2, 0), (1, 2), (2, 1)] * 6)
    ]
    for path, method in product(["lbi", "iss", "lasso", "marginal"], ["flip", "paper"]):
        result = numbers_are_sound(detect(comparisons_of(rows), path=path, method=method, draws=5))
        assert result.flagged == []


@pytest.mark.slow
@pytest.mark.parametrize("path", ["lbi", "marginal"])
def test_detect_on_many_items_equals_the_dense_computation_on_the_same_answers(path, monkeypatch):
    truth = simulate.unique_pairs(rng=np.random.default_rng(3))
    dense = detect(truth.comparisons, path=path, draws=3)
    for module in ("design", "knockoffs.flip", "live", "ranking", "audit"):
        monkeypatch.setattr(f"fdr_core.{module}.DENSE_ITEMS", 100)
    sparse = detect(truth.comparisons, path=path, draws=3)
    assert set(sparse.flagged) == set(dense.flagged)
    one, two = (result.annotators.set_index("annotator").sort_index() for result in (dense, sparse))
    assert two["entry"].to_numpy() == pytest.approx(one["entry"].to_numpy(), rel=1e-5)
    assert two["draw_share"].to_numpy() == pytest.approx(one["draw_share"].to_numpy(), abs=1e-9)
    assert two["bias"].to_numpy() == pytest.approx(one["bias"].to_numpy(), abs=0.05)


def test_public_version_is_recorded_with_the_parameters(team):
    parameters = detect(team.comparisons, draws=1, seed=9).parameters
    assert parameters["version"] == fdr_core.__version__
    assert (parameters["seed"], parameters["copies"], parameters["ridge"]) == (9, 10, 5.0)
