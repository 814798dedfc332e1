"""Every format of the registry: recognised by its columns, read as its project documents it, or refused with words."""

import gzip
import io
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from fdr_core import Comparisons, ConfigurationError, InputError
from fdr_core.inputs import alpaca_eval
from fdr_core.inputs.registry import FORMATS, detect_format
from fdr_core.inputs.source import Limits

SAMPLES = Path(__file__).resolve().parents[2] / "data" / "formats"

#: File, format, and the answers in it as (annotator, left, right, outcome).
READ: dict[str, tuple[str, list[tuple[Any, ...]]]] = {
    "columns.csv": ("columns", [("ann", "x", "y", 1), ("bob", "y", "x", -1), ("ann", "y", "x", 0)]),
    "columns.jsonl": ("columns", [("ann", "x", "y", 1), ("bob", "y", "x", -1), ("ann", "y", "x", 0)]),
    "columns.json": ("columns", [("ann", "x", "y", 1), ("bob", "y", "x", -1), ("ann", "y", "x", 0)]),
    "crowd_kit.csv": (
        "crowd-kit",
        [("w1", "apple", "pear", -1), ("w2", "pear", "apple", 1), ("w1", "pear", "plum", 0)],
    ),
    "recorder.jsonl": ("recorder", [("gpt-x", "m1", "m2", 1), ("gpt-x", "m2", "m1", -1), ("gpt-y", "m2", "m1", 0)]),
    "label_studio.json": (
        "label-studio",
        [(5, "long answer", "short answer", 1), (6, "short answer", "middling answer", -1)],
    ),
    "label_studio_min.json": (
        "label-studio-min",
        [(5, "long answer", "short answer", 1), (6, "short answer", "middling answer", -1)],
    ),
    "label_studio.csv": (
        "label-studio-csv",
        [(5, "long answer", "short answer", 1), (6, "short answer", "middling answer", -1)],
    ),
    "chatbot_arena_33k.jsonl": (
        "chatbot-arena",
        [
            ("arena_user_1", "koala", "alpaca", 1),
            ("arena_user_2", "alpaca", "vicuna", -1),
            ("arena_user_1", "vicuna", "koala", 0),
        ],
    ),
    "chatbot_arena_55k.csv": (
        "chatbot-arena",
        [
            ("everybody", "koala", "alpaca", 1),
            ("everybody", "alpaca", "vicuna", -1),
            ("everybody", "vicuna", "koala", 0),
        ],
    ),
    "chatbot_arena_140k.jsonl": (
        "chatbot-arena",
        [("s1", "koala", "alpaca", 1), ("s1", "alpaca", "vicuna", 0), ("s2", "vicuna", "koala", -1)],
    ),
    "mt_bench_human.jsonl": (
        "mt-bench",
        [("author_2", "alpaca-13b", "gpt-3.5-turbo", -1), ("expert_17", "gpt-3.5-turbo", "claude-v1", 0)],
    ),
    "fastchat_pairs.jsonl": (
        "fastchat-pairs",
        [
            ("gpt-4 (pair-v2)", "alpaca-13b", "vicuna-13b", 1),
            ("gpt-4 (pair-v2)", "vicuna-13b", "alpaca-13b", 1),
            ("gpt-4 (pair-v2)", "alpaca-13b", "vicuna-13b", -1),
            ("gpt-4 (pair-v2)", "vicuna-13b", "alpaca-13b", 1),
            ("gpt-4 (pair-v2)", "alpaca-13b", "vicuna-13b", 0),
        ],
    ),
    "alpaca_eval.json": (
        "alpaca-eval",
        [
            ("alpaca_eval_gpt4", "text_davinci_003", "koala", 1),
            ("alpaca_eval_gpt4", "koala", "text_davinci_003", -1),
            ("weighted_alpaca_eval_gpt4_turbo", "text_davinci_003", "koala", -0.5),
        ],
    ),
    "argilla.json": ("argilla", [("u1", "hello", "hey", 1), ("u2", "hello", "hey", -1), ("u1", "bye", "hello", 0)]),
    "argilla_flat.json": ("argilla", [("u1", "hello", "hey", 1), ("u2", "hello", "hey", -1)]),
    "multipref.jsonl": (
        "multipref",
        [("n-1", "tulu", "gpt", 0.5), ("n-2", "tulu", "gpt", 0), ("e-1", "tulu", "gpt", -1), ("n-1", "gpt", "tulu", 1)],
    ),
    "evalica.csv": (
        "evalica",
        [("everybody", "Pizza", "Sushi", 1), ("everybody", "Burger", "Pasta", -1), ("everybody", "Pizza", "Pasta", 0)],
    ),
    "pwcmp.csv": (
        "pwcmp",
        [
            (1, "Window: TMO_Camera", "Window: Ferwerda96", 1),
            (1, "Exhibition: Ronan12", "Exhibition: Irawan05", -1),
            (2, "Corridor: Irawan05", "Corridor: Ferwerda96", 1),
        ],
    ),
    "pwcmp_selected.csv": (
        "pwcmp",
        [(1, "Window: TMO_Camera", "Window: Ferwerda96", 1), (2, "Window: Ferwerda96", "Window: TMO_Camera", -1)],
    ),
    "inspect_ai.json": ("inspect-ai", [("openai/gpt-x", "m1", "m2", 1), ("openai/gpt-x", "m2", "m1", -1)]),
    "promptfoo.json": ("promptfoo", [("gpt-x", "m1", "m2", 1), ("gpt-x", "m2", "m1", -1)]),
    "inspect_ai.eval": ("inspect-ai", [("openai/gpt-x", "m1", "m2", 1), ("openai/gpt-x", "m2", "m1", -1)]),
    "llmbar.json": (
        "llmbar",
        [
            ("data/formats", "four", "five", 1),
            ("data/formats", "five", "four", -1),
            ("data/formats", "Nile", "Everest", 1),
            ("data/formats", "Everest", "Nile", 1),
            ("data/formats", "salt", "red", -1),
        ],
    ),
    "judgebench.jsonl": (
        "judgebench",
        [
            ("arena_hard openai/gpt-x", "yes", "no", 1),
            ("arena_hard openai/gpt-x", "no", "yes", -1),
            ("arena_hard openai/gpt-x", "up", "down", 1),
            ("arena_hard openai/gpt-x", "down", "up", 1),
            ("arena_hard openai/gpt-x", "in", "out", 0),
        ],
    ),
    "reife.jsonl": ("reife", [("reife", "good", "bad", 1), ("reife", "long", "short", -1)]),
    "position_bias_analyzer.tsv": (
        "position-bias-analyzer",
        [("claude-3-haiku", "m1", "m2", -1), ("claude-3-haiku", "m2", "m1", -1), ("claude-3-haiku", "m1", "m2", 0)],
    ),
    "evaluatorq.json": (
        "evaluatorq",
        [
            ("gpt-x", "Paris", "Rome", 1),
            ("gpt-x", "Rome", "Paris", -1),
            ("claude-y", "Paris", "Rome", 1),
            ("claude-y", "Rome", "Paris", 1),
            ("gpt-x", "4", "5", 0),
        ],
    ),
    "pandalm.json": (
        "pandalm",
        [
            ("annotator1", "bloom-7b", "llama-7b", -1),
            ("annotator2", "bloom-7b", "llama-7b", 0),
            ("annotator3", "bloom-7b", "llama-7b", 1),
            ("annotator1", "bloom-7b", "opt-7b", 1),
            ("annotator2", "bloom-7b", "opt-7b", 1),
            ("annotator3", "bloom-7b", "opt-7b", -1),
        ],
    ),
    "pandalm_judge.json": (
        "pandalm",
        [("gpt_result", "bloom-7b", "llama-7b", 1), ("gpt_result", "bloom-7b", "opt-7b", 0)],
    ),
    "lfqa.jsonl": (
        "lfqa",
        [("everybody", "because", "so", 1), ("everybody", "thus", "hence", 0), ("everybody", "he", "she", -1)],
    ),
    "helpsteer3.jsonl": (
        "helpsteer3",
        [("everybody", "hello", "bye", 1), ("everybody", "3", "2", -1), ("everybody", "x", "y", 0)],
    ),
    "helpsteer2.jsonl": ("helpsteer2", [("everybody", "hello", "bye", 1), ("everybody", "3", "2", -1)]),
    "auto_j_pairs.jsonl": (
        "auto-j-pairs",
        [("everybody", "short", "long", 1), ("everybody", "one", "two", 0), ("everybody", "three", "four", -1)],
    ),
    "auto_j_critiques.jsonl": (
        "auto-j-critiques",
        [
            ("auto_j_critiques", "first system", "second system", 1),
            ("auto_j_critiques", "second system", "first system", 1),
        ],
    ),
    "auto_j_outputs.jsonl": (
        "auto-j-outputs",
        [
            ("auto_j_outputs", "1 first", "1 second", 1),
            ("auto_j_outputs", "2 first", "2 second", -1),
            ("auto_j_outputs", "3 first", "3 second", 0),
        ],
    ),
    "mturk.csv": ("mturk", [("W1", "hello", "hey", 1), ("W2", "hello", "hey", -1), ("W1", "ciao", "adieu", 0)]),
    "prolific.csv": ("prolific", [("5f1", "cat", "dog", 1), ("5f2", "dog", "cat", -1), ("5f1", "dog", "cat", 1)]),
    "lm_eval.jsonl": ("lm-eval", [("data/formats", "a0", "b0", 1), ("data/formats", "a1", "b1", -1)]),
}
#: File, the format it is recognised as, and the words of the refusal.
REFUSED = {
    "trl_preferences.jsonl": ("chosen-rejected", "neither on which side it stood nor who judged"),
    "ultrafeedback_binarized.jsonl": ("chosen-rejected", "neither on which side it stood nor who judged"),
    "hh_rlhf.jsonl": ("chosen-rejected", "neither on which side it stood nor who judged"),
    "reward_bench.jsonl": ("chosen-rejected", "neither on which side it stood nor who judged"),
    "deepeval_arena.json": ("deepeval-arena", "order of the contestants inside the metric and does not keep it"),
    "langsmith.jsonl": ("langsmith", "does not keep which run was shown first"),
    "inspect_ai_no_order.json": ("inspect-ai", "does not record which of the two outputs the judge saw first"),
    "promptfoo_select_best.json": ("promptfoo", "does not record which of the two outputs the judge saw first"),
}


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
    assert [alpaca_eval.is_switched({"instruction": text}) for text in texts] == [True, True, False, True]
    many = [alpaca_eval.is_switched({"instruction": str(k)}) for k in range(400)]
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
