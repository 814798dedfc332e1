"""Every format of the registry: recognised by its columns, read as its project documents it, or refused with words."""

import gzip
import io
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from fdr_core import Comparisons, ConfigurationError, InputError
from fdr_core.inputs.known_logs import is_switched
from fdr_core.inputs.registry import FORMATS, detect_format
from fdr_core.inputs.source import Limits
from tests.core.inputs.samples import READ, REFUSED, SAMPLES


def answers(comparisons: Comparisons) -> list[tuple[Any, ...]]:
    """Every answer by label."""
    frame = comparisons.to_frame()
    return list(zip(frame["annotator"], frame["left"], frame["right"], frame["outcome"], strict=True))


@pytest.mark.parametrize("name", READ)
def test_sample_of_a_format_is_recognised_and_read(name: str) -> None:
    format, expected = READ[name]
    assert detect_format(SAMPLES / name).format == format
    assert answers(Comparisons.from_file(SAMPLES / name)) == expected
    assert answers(Comparisons.from_file(SAMPLES / name, format=format)) == expected


@pytest.mark.parametrize("name", REFUSED)
def test_sample_without_side_or_order_is_refused_with_the_reason(name: str) -> None:
    format, message = REFUSED[name]
    assert detect_format(SAMPLES / name).format == format
    with pytest.raises(InputError, match=message):
        Comparisons.from_file(SAMPLES / name)


def test_every_format_of_the_registry_has_a_sample_and_every_sample_a_case() -> None:
    assert {format for format, _ in [*READ.values(), *REFUSED.values()]} == set(FORMATS)
    assert {path.name for path in SAMPLES.iterdir()} == {*READ, *REFUSED, "unknown.csv"}
    assert all(expected for _, expected in READ.values())


@pytest.mark.parametrize("name", [*READ, *REFUSED])
def test_recognised_file_says_what_each_column_is_used_for(name: str) -> None:
    found = detect_format(SAMPLES / name)
    assert found.columns
    assert found.title
    assert found.supports or found.lacks
    assert bool(found.refusal) == (found.format in {"chosen-rejected", "deepeval-arena", "langsmith"})


@pytest.mark.parametrize("name", ["columns.csv", "chatbot_arena_33k.jsonl", "fastchat_pairs.jsonl", "alpaca_eval.json"])
def test_packed_file_is_read_as_the_plain_one(tmp_path: Path, name: str) -> None:
    packed = tmp_path / f"{name}.gz"
    packed.write_bytes(gzip.compress((SAMPLES / name).read_bytes()))
    assert answers(Comparisons.from_file(packed)) == answers(Comparisons.from_file(SAMPLES / name))


@pytest.mark.parametrize("name", ["columns.csv", "recorder.jsonl", "label_studio.json"])
def test_standard_input_is_read_as_the_file(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    expected = answers(Comparisons.from_file(SAMPLES / name))
    for content in ((SAMPLES / name).read_bytes(), gzip.compress((SAMPLES / name).read_bytes())):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))
        assert answers(Comparisons.from_file("-")) == expected


@pytest.mark.parametrize(
    "name", ["columns.jsonl", "chatbot_arena_33k.jsonl", "multipref.jsonl", "mt_bench_human.jsonl"]
)
def test_parquet_of_a_format_is_read_as_its_lines(tmp_path: Path, name: str) -> None:
    lines = [json.loads(line) for line in (SAMPLES / name).read_text().splitlines()]
    path = tmp_path / "data.parquet"
    pd.DataFrame(lines).to_parquet(path)
    assert detect_format(path).kind == "parquet"
    assert answers(Comparisons.from_file(path)) == answers(Comparisons.from_file(SAMPLES / name))


def test_fastchat_swapped_game_is_told_in_the_frame_of_the_models() -> None:
    """Question 81: the judge said [[A]] both times, so it clicked the first shown; both games share one coin."""
    c = Comparisons.from_file(SAMPLES / "fastchat_pairs.jsonl")
    assert c.outcome[:2].tolist() == [1.0, 1.0]
    assert c.outcome[2:4].tolist() == [-1.0, 1.0], "question 82: vicuna won in both orders"
    assert c.coin.tolist() == [0, 0, 1, 1, 2]
    assert c.coin_source == "coin"
    assert c.excluded == {"unreadable": 1}


def test_alpaca_eval_without_recorded_side_follows_the_rule_of_the_project() -> None:
    """Frozen values of the rule, which agreed with 57,741 raw completions."""
    texts = ("a", "b", "c", "Name three rivers.")
    assert [is_switched({"instruction": text}) for text in texts] == [True, True, False, True]
    many = [is_switched({"instruction": str(k)}) for k in range(400)]
    assert 150 < sum(many) < 250


def test_label_studio_file_keeps_skips_and_tasks_as_coins() -> None:
    c = Comparisons.from_file(SAMPLES / "label_studio.json")
    assert c.excluded == {"skipped": 1}
    assert c.coin_source == "task"


def test_mt_bench_verdicts_summed_over_both_orders_are_left_out() -> None:
    assert Comparisons.from_file(SAMPLES / "mt_bench_human.jsonl").excluded == {"summed over both orders": 1}


def test_data_without_annotators_is_one_crowd_and_says_so() -> None:
    assert any("one crowd" in sentence for sentence in detect_format(SAMPLES / "evalica.csv").lacks)
    assert not any("one crowd" in sentence for sentence in detect_format(SAMPLES / "chatbot_arena_33k.jsonl").lacks)
    assert any("one crowd" in sentence for sentence in detect_format(SAMPLES / "chatbot_arena_55k.csv").lacks)


def test_unknown_columns_are_refused_with_the_way_out_and_read_with_a_map() -> None:
    with pytest.raises(InputError, match=r"judge, first, second, verdict.*--map annotator=judge"):
        Comparisons.from_file(SAMPLES / "unknown.csv")
    mapping = {"annotator": "judge", "left": "first", "right": "second", "choice": "verdict"}
    found = Comparisons.from_file(SAMPLES / "unknown.csv", mapping=mapping)
    assert answers(found) == [("gpt-x", "m1", "m2", 1), ("gpt-x", "m2", "m1", -1), ("gpt-y", "m1", "m2", 0)]


@pytest.mark.parametrize(
    ("mapping", "error", "message"),
    [
        ({"who": "judge"}, ConfigurationError, "--map names who"),
        ({"annotator": "nobody"}, InputError, "column nobody is missing"),
        ({"choice": "verdict"}, InputError, "column left, right is missing"),
        ({"left": "first", "right": "second", "choice": "judge"}, InputError, "no answer says which side won"),
    ],
)
def test_map_that_does_not_fit_is_refused_with_the_value(
    mapping: dict[str, str], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        Comparisons.from_file(SAMPLES / "unknown.csv", mapping=mapping)


def test_format_that_does_not_exist_is_refused_with_the_list() -> None:
    with pytest.raises(ConfigurationError, match="expected auto or one of label-studio"):
        Comparisons.from_file(SAMPLES / "columns.csv", format="excel")


@pytest.mark.parametrize("name", ["bomb.csv.gz", "bomb.jsonl.gz"])
def test_packed_bomb_is_refused_before_it_fills_memory(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    with gzip.open(path, "wb", compresslevel=9) as file:
        for _ in range(100):
            file.write(b"annotator,left,right,choice\n" * 40_000)
    with pytest.raises(InputError, match=r"more than 0\.05 GB.*--max-gigabytes"):
        Comparisons.from_file(path, limits=Limits(most_bytes=50_000_000))


def test_parquet_bomb_is_refused_by_its_footer(tmp_path: Path) -> None:
    """A million rows of one word take a few kB on disk."""
    path = tmp_path / "bomb.parquet"
    word = pd.Series(["x"]).repeat(1_000_000)
    pd.DataFrame({"annotator": word, "left": word, "right": word, "choice": word}).to_parquet(path, index=False)
    assert path.stat().st_size < 100_000
    with pytest.raises(InputError, match=r"more than 10,000 rows.*--max-rows"):
        Comparisons.from_file(path, limits=Limits(most_rows=10_000))


def test_parquet_bomb_inside_lists_is_refused_while_it_unfolds(tmp_path: Path) -> None:
    path = tmp_path / "nested.parquet"
    annotation = [{"evaluator": "x" * 100_000, "overall_pref": "Tie"}]
    frame = pd.DataFrame({"model_a": ["a"] * 2000, "model_b": ["b"] * 2000, "annotations": [annotation] * 2000})
    frame.to_parquet(path, index=False)
    assert path.stat().st_size < 1_000_000
    with pytest.raises(InputError, match=r"more than 0\.05 GB"):
        Comparisons.from_file(path, limits=Limits(most_bytes=50_000_000))


def test_parquet_with_one_long_text_many_times_stays_small_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "long.parquet"
    n = 200
    frame = pd.DataFrame(
        {"annotator": ["ann"] * n, "left": ["x" * 1_000_000] * n, "right": ["y"] * n, "choice": ["left"] * n}
    )
    frame.to_parquet(path, index=False)
    found = Comparisons.from_file(path)
    assert len(found) == n
    assert len({id(label) for label in found.items}) == 2


@pytest.mark.parametrize("content", ["{}", "[]", "3", '"text"', "[1, 2]", '{"a": 1}\n{"a": ', "[" * 5000])
def test_json_that_is_no_preference_data_is_refused_with_the_file_name(tmp_path: Path, content: str) -> None:
    path = tmp_path / "odd.json"
    path.write_text(content)
    with pytest.raises(InputError, match=r"odd\.json"):
        Comparisons.from_file(path)
