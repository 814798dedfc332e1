"""Files and Label Studio exports: what is read, what is left out, and what is refused."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fdr_core.comparisons import Comparisons
from fdr_core.errors import ConfigurationError, InputError

ROWS = "annotator,left,right,choice\nann,x,y,left\nbob,y,x,right\n"


def write(path: Path, content: str | bytes) -> Path:
    """Write a file and give its path."""
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_from_csv_any_common_separator_is_read(tmp_path: Path, separator: str) -> None:
    c = Comparisons.from_csv(write(tmp_path / "a.csv", ROWS.replace(",", separator)))
    assert (list(c.annotators), c.outcome.tolist()) == (["ann", "bob"], [1.0, -1.0])


def test_from_csv_byte_order_mark_and_spaces_in_the_header_do_not_matter(tmp_path: Path) -> None:
    content = b"\xef\xbb\xbf" + ROWS.replace("left,right,choice", "left, right ,choice", 1).encode()
    assert len(Comparisons.from_csv(write(tmp_path / "a.csv", content))) == 2


def test_from_csv_integers_stay_integers_and_leading_zeros_stay_people(tmp_path: Path) -> None:
    plain = Comparisons.from_csv(write(tmp_path / "a.csv", "annotator,left,right,outcome\n7,1,2,1\n8,2,1,0.5\n"))
    assert (list(plain.annotators), list(plain.items)) == ([7, 8], [1, 2])
    zeros = Comparisons.from_csv(write(tmp_path / "b.csv", "annotator,left,right,outcome\n7,1,2,1\n007,2,1,0.5\n"))
    assert list(zeros.annotators) == ["7", "007"]


def test_from_csv_people_called_na_and_null_are_people(tmp_path: Path) -> None:
    c = Comparisons.from_csv(write(tmp_path / "a.csv", "annotator,left,right,choice\nNA,x,y,left\nnull,x,y,tie\n"))
    assert list(c.annotators) == ["NA", "null"]


def test_from_csv_crowd_kit_columns_are_read(tmp_path: Path) -> None:
    c = Comparisons.from_csv(write(tmp_path / "a.csv", "worker,left,right,label\n1,3,4,4\n1,4,5,4\n"))
    assert c.outcome.tolist() == [-1.0, 1.0]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty"),
        ("annotator,left,right,choice\n", "there are no answers"),
        ("annotator,left,right,choice,choice\na,x,y,left,left\n", "column choice occurs more than once"),
        ("annotator,left,right,choice\na,x,y,left,1,2\n", "Row #2: Expected 4 columns, got 6"),
        ("annotator,left,right,choice\na,x,y,left\na,x\n", "Row #3: Expected 4 columns, got 2"),
        ("annotator,left,right,choice\na,x,,left\n", r"row 1 \(index 0\) has no right item"),
        ("annotator,left,right,outcome\na,x,y,1\nb,x,y,2\n", r"row 2 \(index 1\) has outcome 2"),
        ("annotator,left,right,outcome\na,x,y,1\nb,x,y,nan\n", r"row 2 \(index 1\) has outcome"),
        ("one line of text", "column annotator, left, right is missing"),
        (ROWS.encode("utf-16"), "not UTF-8 text"),
        (ROWS.encode() + b"a,x,y,left\n" * 200_000 + b"\xff,x,y,left\n", "not UTF-8 text"),
        ("annotator,left,right,choice\nJos\xe9,x,y,left\n".encode("latin-1"), "not UTF-8 text"),
    ],
)
def test_from_csv_bad_file_is_an_error_that_names_the_file(tmp_path: Path, content: bytes | str, message: str) -> None:
    path = write(tmp_path / "answers.csv", content)
    with pytest.raises(InputError, match=message) as caught:
        Comparisons.from_csv(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("load", [Comparisons.from_csv, Comparisons.from_parquet, Comparisons.from_label_studio])
def test_missing_file_and_folder_are_input_errors(tmp_path: Path, load: Callable[..., Any]) -> None:
    with pytest.raises(InputError, match="no such file"):
        load(tmp_path / "nowhere")
    with pytest.raises(InputError, match=r"is a folder|cannot be read"):
        load(tmp_path)


def test_from_parquet_equals_from_frame(tmp_path: Path) -> None:
    df = pd.DataFrame({"annotator": [1, 2], "left": ["x", "y"], "right": ["y", "x"], "outcome": [1.0, -0.5]})
    df["time"] = pd.to_datetime(["2024-01-01T00:00:00Z", "2024-01-01T00:00:01Z"])
    df["unrelated"] = [object.__name__, "b"]
    df.to_parquet(tmp_path / "a.parquet")
    c = Comparisons.from_parquet(tmp_path / "a.parquet")
    pd.testing.assert_frame_equal(c.to_frame(), Comparisons.from_frame(df).to_frame())


def test_from_parquet_damaged_file_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        Comparisons.from_parquet(write(tmp_path / "a.parquet", b"PAR1 not really"))


def annotation(who: object = 3, selected: object = "left", **changes: object) -> dict[str, Any]:
    """One Pairwise annotation as the export writes it."""
    result = {"from_name": "pw", "to_name": "pw", "type": "pairwise", "value": {"selected": selected}}
    return {
        "completed_by": who,
        "result": [result],
        "was_cancelled": False,
        "created_at": "2026-11-16T04:33:19.688250Z",
        "lead_time": 4.0,
        "parent_prediction": None,
        **changes,
    }


def task(number: int, *annotations: dict[str, object], **data: object) -> dict[str, object]:
    """One task of an export."""
    return {
        "id": number,
        "data": data or {"text1": f"m{number}", "text2": f"m{number + 1}"},
        "annotations": annotations,
    }


def with_origin(origin: str, **changes: object) -> dict[str, object]:
    """An annotation whose result says where it came from."""
    given = annotation(**changes)
    given["result"][0]["origin"] = origin
    return given


def test_label_studio_answers_carry_task_time_and_annotator(tmp_path: Path) -> None:
    tasks = [task(1, annotation(3), annotation({"id": 9, "email": "eve@example.org"}, "right")), task(2, annotation(3))]
    path = write(tmp_path / "export.json", json.dumps(tasks))
    c = Comparisons.from_label_studio(path)
    assert list(c.annotators) == [3, "eve@example.org"]
    assert list(c.items) == ["m1", "m2", "m3"]
    assert c.outcome.tolist() == [1.0, -1.0, 1.0]
    assert (c.coin.tolist(), c.coin_source) == ([0, 0, 1], "task")
    assert c.time is not None
    assert c.time[0] == pytest.approx(1794803599.68825)
    assert c.lead_time is not None
    assert c.lead_time.tolist() == [4.0, 4.0, 4.0]


def test_label_studio_what_is_no_answer_is_counted_by_reason() -> None:
    tasks = [
        task(
            1,
            annotation(1),
            annotation(2, was_cancelled=True, result=[]),
            annotation(3, result=[]),
            annotation(4, result=None),
            with_origin("prediction", who=5),
            with_origin("manual", who=6, parent_prediction=12),
            annotation(7, "both"),
            annotation(8, None),
            annotation(None),
        ),
        task(2, annotation(1), text1="same", text2="same"),
        task(3, annotation(1), text1="a", text2=None),
        {"id": 4, "data": {"text1": "a", "text2": "b"}, "annotations": None},
    ]
    enough = [task(number, annotation(1)) for number in range(10, 60)]
    c = Comparisons.from_label_studio([*tasks, *enough])
    assert list(c.annotators) == [1, 6, 7]
    missing = "the pairwise answer is missing; expected one of left, right"
    expected = {"skipped": 1, "empty": 2, "prediction": 1, "without annotator": 1, "same item twice": 1}
    assert c.excluded == {**expected, "without items": 1, missing: 1}
    assert c.skips is not None
    assert (c.skips.annotator.tolist(), c.skips.coin.tolist()) == ([-1], [0])


def test_label_studio_only_skips_is_an_error_that_says_so() -> None:
    with pytest.raises(InputError, match=r"no answers \(left out: 1 skipped"):
        Comparisons.from_label_studio([task(1, annotation(was_cancelled=True))])


@pytest.mark.parametrize(
    ("data", "left", "right"),
    [
        ({"right": "b", "left": "a", "prompt": "?"}, "a", "b"),
        ({"pairText1": "a", "pairText2": "b"}, "a", "b"),
        ({"prompt": "?", "answer1": "a", "answer2": "b"}, "a", "b"),
        ({"response_a": "a", "response_b": "b", "question": "?"}, "a", "b"),
        ({"Left_Image": "a", "right_image": "b"}, "a", "b"),
        ({"img0": "a", "img1": "b", "prompt": "?"}, "a", "b"),
        ({"this": "a", "that": "b"}, "a", "b"),
        ({"text1": "long text one", "text2": "long text two", "id1": "a", "id2": "b"}, "a", "b"),
    ],
)
def test_label_studio_item_fields_are_guessed(data: dict[str, Any], left: str, right: str) -> None:
    c = Comparisons.from_label_studio([task(1, annotation(), **data)])
    assert (c.items[c.left[0]], c.items[c.right[0]]) == (left, right)


def test_label_studio_fields_that_evenhand_wrote_name_no_items() -> None:
    ranked = task(1, annotation(), good="x", bad="y", evenhand_coin=1, evenhand_swapped=2)
    c = Comparisons.from_label_studio([ranked])
    assert (c.items[c.left[0]], c.items[c.right[0]]) == ("x", "y")


def test_label_studio_ambiguous_item_fields_are_named() -> None:
    tasks = [
        task(1, annotation(), text1="t", text2="u", model1="a", model2="b"),
        task(2, annotation(), text1="v", text2="w", model1="a", model2="b"),
    ]
    with pytest.raises(InputError, match="offered: text1, text2, model1, model2; name two of these as item_left"):
        Comparisons.from_label_studio(tasks)
    c = Comparisons.from_label_studio(tasks, item_left="model1", item_right="model2")
    assert list(c.items) == ["a", "b"]
    assert list(Comparisons.from_label_studio(tasks, item_left="text1").items) == ["t", "u", "v", "w"]


def test_label_studio_unknown_item_field_is_refused() -> None:
    with pytest.raises(InputError, match="no task has the field model1; offered: text1, text2"):
        Comparisons.from_label_studio([task(1, annotation())], item_left="model1", item_right="text2")


def test_label_studio_recorded_coins_win_over_tasks() -> None:
    tasks = [task(n, annotation(), left="a", right="b", evenhand_coin="c1") for n in (1, 2)]
    c = Comparisons.from_label_studio(tasks)
    assert (c.coin.tolist(), c.coin_source) == ([0, 0], "coin")


def test_label_studio_coins_on_some_tasks_only_count_as_tasks() -> None:
    tasks = [task(1, annotation(), left="a", right="b", coin="c1"), task(2, annotation(), left="a", right="b")]
    c = Comparisons.from_label_studio(tasks)
    assert (c.coin.tolist(), c.coin_source) == ([0, 1], "task")
    with pytest.raises(InputError, match="task 2 has no field coin"):
        Comparisons.from_label_studio(tasks, coin="coin")


def test_label_studio_stratum_field_is_coded() -> None:
    tasks = [task(n, annotation(), left="a", right="b", prompt=p) for n, p in ((1, "p"), (2, "q"), (3, "p"))]
    c = Comparisons.from_label_studio(tasks, stratum="prompt")
    assert c.stratum is not None
    assert c.stratum.tolist() == [0, 1, 0]


def rated(value: dict[str, object], kind: str) -> dict[str, object]:
    """An annotation by Choices or Rating."""
    return annotation(result=[{"from_name": "pref", "type": kind, "value": value}])


def test_label_studio_choices_and_ratings_follow_the_map() -> None:
    choices = [task(1, rated({"choices": ["Much better A"]}, "choices"), rated({"choices": ["Same"]}, "choices"))]
    c = Comparisons.from_label_studio(choices, answers={"Much better A": 1, "same": 0})
    assert c.outcome.tolist() == [1.0, 0.0]
    ratings = [task(1, rated({"rating": 1}, "rating"), rated({"rating": 5}, "rating"))]
    c = Comparisons.from_label_studio(ratings, control="pref", answers={"1": "left", "5": "right"})
    assert c.outcome.tolist() == [1.0, -1.0]


def test_label_studio_choices_that_nobody_understands_are_named_with_the_option() -> None:
    answers = [rated({"choices": [word]}, "choices") for word in ("Ez a jobb", "Az a jobb")]
    with pytest.raises(InputError, match=r"--control pref --answers 'Ez a jobb=left,Az a jobb=right'"):
        Comparisons.from_label_studio([task(1, *answers)])


@pytest.mark.parametrize("outcome", [2, float("nan"), "up", True])
def test_label_studio_map_outside_the_range_is_a_configuration_error(outcome: Any) -> None:
    with pytest.raises(ConfigurationError, match="expected left, right, tie"):
        Comparisons.from_label_studio([task(1, annotation())], answers={"left": outcome})


def test_label_studio_json_min_equals_json() -> None:
    rows = [
        {"text1": "a", "text2": "b", "id": 1, "pw": [{"selected": "right"}], "annotator": 5, "annotation_id": 41}
        | {"created_at": "2026-11-16T04:33:19Z", "lead_time": 4.0},
        {"text1": "a", "text2": "b", "id": 1, "annotator": 6, "annotation_id": 42},
    ]
    c = Comparisons.from_label_studio(rows)
    assert (list(c.annotators), list(c.items), c.outcome.tolist()) == ([5], ["a", "b"], [-1.0])
    assert c.excluded == {"empty": 1}


def test_label_studio_json_min_choice_as_text_needs_the_control() -> None:
    row = {"left": "a", "right": "b", "id": 1, "pref": "tie", "annotator": 5, "annotation_id": 41}
    assert Comparisons.from_label_studio([row], control="pref").outcome.tolist() == [0.0]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("not json", "cannot be read"),
        ('"text"', "expected a list of tasks"),
        ("[1]", "entry 1 is 1; expected a task with annotations"),
        ('[{"id": 1}]', "expected a task with annotations"),
        ("[]", "there are no tasks"),
        ('[{"id": 1, "data": null, "annotations": 5}]', "no Pairwise control has an answer"),
    ],
)
def test_label_studio_file_that_is_no_export_is_refused(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Comparisons.from_label_studio(write(tmp_path / "export.json", content))


def test_label_studio_long_texts_become_short_labels() -> None:
    c = Comparisons.from_label_studio([task(1, annotation(), left="long " * 50, right="https://example.org/a/b.png")])
    assert all(len(label) <= 80 for label in c.items)
    assert c.items[0].startswith("long long")
    assert c.items[1].startswith("b.png #")


def test_label_studio_impossible_lead_times_are_unknown() -> None:
    c = Comparisons.from_label_studio([task(1, annotation(lead_time=-1), annotation(lead_time=None), annotation())])
    assert c.lead_time is not None
    assert np.isnan(c.lead_time).tolist() == [True, True, False]
