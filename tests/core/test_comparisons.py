"""Comparisons: coding, checks, and the way back to a table."""

from typing import Any

import hypothesis.strategies as st
import numpy as np
import pandas as pd
import pytest
from hypothesis import given

from fdr_core.comparisons import Comparisons
from fdr_core.errors import FdrCoreError, InputError
from fdr_core.inputs.item_keys import item_key


def frame(**changes: object) -> pd.DataFrame:
    """Three good rows, with columns replaced (or dropped, where None)."""
    columns: dict[str, object] = {
        "annotator": ["ann", "bob", "ann"],
        "left": ["x", "y", "z"],
        "right": ["y", "x", "y"],
        "choice": ["left", "right", "tie"],
    }
    columns.update(changes)
    return pd.DataFrame({name: values for name, values in columns.items() if values is not None})


def test_from_frame_choices_are_coded_by_first_appearance() -> None:
    c = Comparisons.from_frame(frame())
    assert list(c.annotators) == ["ann", "bob"]
    assert list(c.items) == ["x", "y", "z"]
    assert c.annotator.tolist() == [0, 1, 0]
    assert c.left.tolist() == [0, 1, 2]
    assert c.right.tolist() == [1, 0, 1]
    assert c.outcome.tolist() == [1.0, -1.0, 0.0]
    assert c.coin.tolist() == [0, 1, 2]
    assert c.coin_source == "own"
    kinds = [str(values.dtype) for values in (c.annotator, c.left, c.coin, c.outcome)]
    assert kinds == ["int32", "int32", "int64", "float64"]
    assert (len(c), c.n_annotators, c.n_items) == (3, 2, 3)


def test_items_first_seen_on_the_right_come_after_the_left_of_their_row() -> None:
    c = Comparisons.from_arrays([1, 1, 1], ["b", "a", "d"], ["a", "c", "b"], [1, 1, 1])
    assert list(c.items) == ["b", "a", "c", "d"]
    assert c.left.tolist() == [0, 1, 3]
    assert c.right.tolist() == [1, 2, 0]


def test_from_frame_crowd_kit_names_read_the_winning_item() -> None:
    df = pd.DataFrame({"worker": [7, 7, 8], "left": [1, 2, 3], "right": [2, 3, 1], "label": [1, 3, "tie"]})
    c = Comparisons.from_frame(df)
    assert c.outcome.tolist() == [1.0, -1.0, 0.0]
    assert list(c.annotators) == [7, 8]


def test_from_frame_crowd_kit_label_of_a_third_item_is_refused() -> None:
    df = pd.DataFrame({"worker": [7, 7], "left": ["a", "b"], "right": ["b", "c"], "label": ["a", "a"]})
    with pytest.raises(InputError, match=r"row 2 \(index 1\) has label 'a'; expected the row's left or right item"):
        Comparisons.from_frame(df)


def test_from_frame_upper_case_and_spaces_in_choices_are_understood() -> None:
    assert Comparisons.from_frame(frame(choice=[" Left", "RIGHT", "Tie "])).outcome.tolist() == [1.0, -1.0, 0.0]


def test_from_frame_coin_wins_over_task_and_task_over_own() -> None:
    both = frame(coin=["c", "c", "d"], task=[1, 2, 3])
    assert Comparisons.from_frame(both).coin.tolist() == [0, 0, 1]
    assert Comparisons.from_frame(both).coin_source == "coin"
    assert Comparisons.from_frame(both.drop(columns="coin")).coin_source == "task"
    assert Comparisons.from_frame(frame(coin=[None, None, None])).coin_source == "own"


@pytest.mark.parametrize(
    "times",
    [
        [0, 1.5, 86400],
        ["1970-01-01T00:00:00Z", "1970-01-01T00:00:01.500Z", "1970-01-02"],
        pd.to_datetime(["1970-01-01", "1970-01-01 00:00:01.5", "1970-01-02"], format="ISO8601"),
        pd.to_datetime(
            ["1970-01-01 01:00+01:00", "1970-01-01 01:00:01.5+01:00", "1970-01-02 01:00+01:00"], format="ISO8601"
        ),
    ],
    ids=["numbers", "iso text", "datetimes", "zoned datetimes"],
)
def test_from_frame_time_in_any_form_becomes_seconds(times: Any) -> None:
    c = Comparisons.from_frame(frame(time=times))
    assert c.time is not None
    assert c.time.tolist() == [0.0, 1.5, 86400.0]


def test_from_frame_some_times_missing_are_nan_and_all_missing_is_none() -> None:
    c = Comparisons.from_frame(frame(time=["2024-01-01", None, None], lead_time=[None, None, None]))
    assert c.time is not None
    assert np.isnan(c.time).tolist() == [False, True, True]
    assert c.lead_time is None


def test_from_frame_stratum_is_coded() -> None:
    c = Comparisons.from_frame(frame(stratum=["p", "q", "p"]))
    assert c.stratum is not None
    assert (c.stratum.tolist(), list(c.strata)) == ([0, 1, 0], ["p", "q"])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"right": ["y", "y", "y"]}, r"row 2 \(index 1\) compares item 'y' with itself; remove self-comparisons"),
        ({"choice": ["left", "middle", "tie"]}, r"row 2 .* choice 'middle'; expected left, right or tie"),
        ({"choice": ["left", None, "tie"]}, r"row 2 .* has no choice"),
        ({"choice": None, "outcome": [1, np.nan, 0]}, r"row 2 .* outcome nan; expected a number from -1"),
        ({"choice": None, "outcome": [1, 0, np.inf]}, r"row 3 .* outcome inf"),
        ({"choice": None, "outcome": [1, 0, -1.01]}, r"row 3 .* outcome -1.01"),
        ({"choice": None, "outcome": [1, "left", 0]}, r"row 2 .* outcome 'left'.*column `choice`"),
        ({"choice": None, "outcome": [True, False, True]}, "outcome holds true/false"),
        ({"choice": None, "outcome": [1, True, 0.5]}, "row 2 .* outcome True"),
        ({"outcome": [1, 0, 0]}, "both choice and outcome"),
        ({"choice": None}, "no column choice, outcome or label; expected .* found: annotator, left, right"),
        ({"annotator": None}, "column annotator is missing"),
        ({"left": None, "right": None}, "column left, right is missing"),
        ({"annotator": ["ann", None, "ann"]}, r"row 2 .* has no annotator"),
        ({"left": [None, "y", "z"]}, r"row 1 .* has no left item"),
        ({"right": ["y", "x", np.nan]}, r"row 3 .* has no right item"),
        ({"annotator": [["ann"], ["bob"], ["ann"]]}, "cannot be labels"),
        ({"coin": ["c", None, "d"]}, r"row 2 .* has no coin"),
        ({"time": ["2024-01-01", "noon", None]}, "row 2 .* time 'noon'; expected"),
        ({"time": [True, False, True]}, "row 1 .* time True"),
        ({"time": [1.0, np.inf, 2.0]}, "row 2 .* time inf"),
        ({"lead_time": [1.0, -2.0, 2.0]}, "row 2 .* lead_time -2.0; expected seconds, at least 0"),
    ],
)
def test_from_frame_bad_data_is_an_error_that_names_the_row(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Comparisons.from_frame(frame(**changes))


def test_from_frame_doubled_column_is_refused() -> None:
    df = frame()
    df.columns = pd.Index(["annotator", "left", "left", "choice"])
    with pytest.raises(InputError, match="column left occurs more than once"):
        Comparisons.from_frame(df)


def test_from_frame_without_rows_is_refused() -> None:
    with pytest.raises(InputError, match="there are no answers"):
        Comparisons.from_frame(frame().iloc[:0])


def test_from_frame_something_else_is_refused() -> None:
    with pytest.raises(InputError, match="got list; expected a pandas DataFrame"):
        Comparisons.from_frame([1, 2])  # type: ignore[arg-type]  # what a caller without types may do


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1, 1], ["a"], ["b"], [1]), "annotator has 2 values and outcome 1"),
        ((3, ["a"], ["b"], [1]), "annotator is 3; expected one value per answer"),
        (([1], [["a", "b"]], ["b"], [1]), "cannot be labels"),
        ((np.ones((2, 2)), ["a", "a"], ["b", "b"], [1, 1]), "annotator has 2 dimensions"),
        (([], [], [], []), "there are no answers"),
    ],
)
def test_from_arrays_bad_shapes_are_refused(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Comparisons.from_arrays(*arguments)


def test_input_errors_are_value_errors_of_one_tree() -> None:
    assert issubclass(InputError, ValueError)
    assert issubclass(InputError, FdrCoreError)


def test_one_answer_is_valid() -> None:
    c = Comparisons.from_arrays([1], ["a"], ["b"], [0.25])
    assert repr(c) == "Comparisons(1 answers, 1 annotators, 2 items, coins: own)"


def test_outcome_is_a_copy_of_the_callers_array() -> None:
    outcome = np.array([1.0, -1.0])
    c = Comparisons.from_arrays([1, 2], ["a", "a"], ["b", "b"], outcome)
    outcome[0] = 0.0
    assert c.outcome.tolist() == [1.0, -1.0]


def test_categorical_columns_equal_plain_ones() -> None:
    df = frame()
    c = Comparisons.from_frame(df.astype("category"))
    pd.testing.assert_frame_equal(c.to_frame(), Comparisons.from_frame(df).to_frame())


def test_take_codes_labels_anew_and_keeps_what_goes_with_the_rows() -> None:
    c = Comparisons.from_frame(frame(task=[5, 6, 5], stratum=["p", "q", "r"], time=[1, 2, 3]))
    part = c.take(np.array([False, True, True]))
    assert (list(part.annotators), list(part.items), list(part.strata)) == (["bob", "ann"], ["y", "x", "z"], ["q", "r"])
    assert part.coin.tolist() == [0, 1]
    assert part.coin_source == "task"
    assert part.time is not None
    assert part.time.tolist() == [2.0, 3.0]
    pd.testing.assert_frame_equal(
        part.to_frame().drop(columns="task"), c.to_frame().iloc[1:].reset_index(drop=True).drop(columns="task")
    )


def test_take_of_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="no answer is left"):
        Comparisons.from_frame(frame()).take(np.zeros(3, dtype=bool))


def test_skips_share_the_codes_of_the_answers() -> None:
    skips = pd.DataFrame({"annotator": ["bob", "eve", "ann"], "left": ["y", "x", "new"], "right": ["x", "z", "x"]})
    skips["task"] = [5, 9, 9]
    c = Comparisons.from_frame(frame(task=[5, 6, 5]), skips=skips)
    assert c.skips is not None
    assert len(c.skips) == 2  # the third skip shows an item nobody answered about
    assert c.skips.annotator.tolist() == [1, -1]
    assert (c.skips.left.tolist(), c.skips.right.tolist()) == ([1, 0], [0, 2])
    assert c.skips.coin.tolist() == [0, 2]
    assert c.excluded == {"skipped": 3}


LABELS = st.one_of(st.integers(-5, 5), st.text(max_size=3))


@st.composite
def tables(draw: st.DrawFn) -> pd.DataFrame:
    """Any valid table with any of the optional columns."""
    pairs = draw(st.lists(st.tuples(LABELS, LABELS).filter(lambda pair: pair[0] != pair[1]), min_size=1, max_size=12))
    n = len(pairs)

    def column(values: st.SearchStrategy[object]) -> "pd.Series[Any]":
        return pd.Series(draw(st.lists(values, min_size=n, max_size=n)), dtype=object)

    df = pd.DataFrame({"annotator": column(LABELS)})
    df["left"] = pd.Series([left for left, _ in pairs], dtype=object)
    df["right"] = pd.Series([right for _, right in pairs], dtype=object)
    df["outcome"] = column(st.floats(-1, 1))
    for name, values in (("coin", LABELS), ("task", LABELS), ("stratum", LABELS), ("time", st.floats(0, 1e9))):
        if draw(st.booleans()):
            df[name] = column(values)
    return df


@pytest.mark.slow
@given(tables())
def test_to_frame_and_back_changes_nothing(df: Any) -> None:
    once = Comparisons.from_frame(df)
    twice = Comparisons.from_frame(once.to_frame())
    for name in ("annotators", "items", "annotator", "left", "right", "outcome", "coin", "strata"):
        np.testing.assert_array_equal(getattr(once, name), getattr(twice, name))
    assert once.coin_source == twice.coin_source
    assert list(once.to_frame()["annotator"]) == list(df["annotator"])
    assert list(once.to_frame()["left"]) == list(df["left"])
    assert list(once.to_frame()["right"]) == list(df["right"])
    assert (once.time is None) == (twice.time is None)


def test_item_key_short_text_is_itself() -> None:
    assert item_key("GPT-4 ") == "GPT-4"
    assert item_key(17) == "17"


def test_item_key_long_text_and_urls_become_short_and_stay_distinct() -> None:
    long_one, long_two = "word " * 100 + "a", "word " * 100 + "b"
    url = "https://example.org/images/cat.png?signature=abc"
    keys = [item_key(value) for value in (long_one, long_two, url, url + "d")]
    assert len(set(keys)) == 4
    assert all(len(key) <= 80 for key in keys)
    assert keys[0].startswith("word word")
    assert keys[2].startswith("cat.png #")
    assert "signature" not in keys[2]
