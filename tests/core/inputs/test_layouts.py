"""Paths into nested logs, answers in two files or in several columns, words of one's own, and what is refused."""

import json
import re
import zipfile
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from click.testing import CliRunner

from fdr_core import Comparisons, ConfigurationError, InputError
from fdr_core.commands.analyze import analyze
from fdr_core.inputs.paths import at, each, is_nested
from fdr_core.inputs.source import Limits
from tests.core.inputs.samples import SAMPLES

LOGS = ("chatbot_arena_33k.jsonl", "recorder.jsonl", "columns.jsonl")
RECORD = {"a": {"b": [{"c": 1}, {"c": 2}]}, "swap = True": {"winner": "1"}, "none": None, "d.e": 5}


def lines(path: Path, records: list[Any]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def answers(found: Comparisons) -> list[tuple[Any, ...]]:
    frame = found.to_frame()
    return list(zip(frame["annotator"], frame["left"], frame["right"], frame["outcome"], strict=True))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("a.b[0].c", 1),
        ("a.b[-1].c", 2),
        ("a.b[2].c", None),
        ('"swap = True".winner', "1"),
        ("swap = True.winner", "1"),
        ("none || a.b[0].c", 1),
        ('"d.e"', 5),
        ("a.b.c", None),
    ],
)
def test_path_leads_to_the_value_or_to_none(path: str, value: object) -> None:
    assert at(path)(RECORD) == value


@pytest.mark.parametrize("path", ["", "a..b", "a[x]", "a.b[0", "a. ||"])
def test_path_that_is_none_is_refused_with_an_example(path: str) -> None:
    with pytest.raises(ConfigurationError, match=r"results\[0\]\.winner"):
        at(path)


def test_lists_along_a_path_keep_the_fields_above_them() -> None:
    record = {"run": "r", "entries": [{"q": 1, "votes": [{"m": "x"}, {"m": "y"}]}, {"q": 2, "votes": []}]}
    assert list(each(record, "entries[].votes[]")) == [
        {"run": "r", "q": 1, "m": "x"},
        {"run": "r", "q": 1, "m": "y"},
    ]
    assert is_nested("a.b")
    assert not is_nested("a b")


def test_map_takes_paths_into_nested_values(tmp_path: Path) -> None:
    path = lines(
        tmp_path / "log.jsonl",
        [
            {"who": {"name": "j1"}, "shown": ["m1", "m2"], "results": [{"winner": "A"}]},
            {"who": {"name": "j2"}, "shown": ["m2", "m1"], "results": [{"winner": "B"}]},
        ],
    )
    mapping = {"annotator": "who.name", "left": "shown[0]", "right": "shown[1]", "choice": "results[0].winner"}
    assert answers(Comparisons.from_file(path, mapping=mapping)) == [("j1", "m1", "m2", 1), ("j2", "m2", "m1", -1)]
    with pytest.raises(InputError, match=r"nothing stands at results\[1\]\.winner"):
        Comparisons.from_file(path, mapping={**mapping, "choice": "results[1].winner"})


def test_map_of_several_columns_is_several_people(tmp_path: Path) -> None:
    path = tmp_path / "wide.csv"
    path.write_text("option_a,option_b,ann,bob\nx,y,A,B\ny,x,B,C\n")
    mapping = {"left": "option_a", "right": "option_b", "choice": "ann,bob"}
    assert answers(Comparisons.from_file(path, mapping=mapping)) == [
        ("ann", "x", "y", 1),
        ("ann", "y", "x", -1),
        ("bob", "x", "y", -1),
        ("bob", "y", "x", 0),
    ]
    with pytest.raises(ConfigurationError, match="only choice may"):
        Comparisons.from_file(path, mapping={**mapping, "left": "option_a,option_b"})


def test_answers_map_the_words_of_any_table(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    path.write_text("judge,one,two,said\nj,x,y,oben\nj,y,x,unten\nj,x,z,egal\n")
    mapping = {"annotator": "judge", "left": "one", "right": "two", "choice": "said"}
    fields = {"answers": "oben=left,unten=right,egal=tie"}
    found = Comparisons.from_file(path, mapping=mapping, fields=fields)
    assert found.outcome.tolist() == [1, -1, 0]
    with pytest.raises(InputError, match="--control does not apply to the mapped columns"):
        Comparisons.from_file(path, mapping=mapping, fields={"control": "x"})


@pytest.mark.parametrize("is_written_turned", [True, False])
def test_second_file_in_the_other_order_shares_the_coins(tmp_path: Path, is_written_turned: bool) -> None:
    """An evaluator that takes the first of both orders, as ReIFE writes it, whatever the second file's fields."""
    names = [("good", "bad"), ("old", "new")]
    one = [{"instruction": "i", "output_1": a, "output_2": b, "result": {"winner": 1}} for a, b in names]
    two = [{**r, "output_1": r["output_2"], "output_2": r["output_1"]} if is_written_turned else r for r in one]
    first, second = lines(tmp_path / "mt.gpt.jsonl", one), lines(tmp_path / "mt.gpt_swap.jsonl", two)
    found = Comparisons.from_file(first, swapped=second)
    assert answers(found) == [
        ("mt.gpt", "good", "bad", 1),
        ("mt.gpt", "old", "new", 1),
        ("mt.gpt", "bad", "good", 1),
        ("mt.gpt", "new", "old", 1),
    ]
    assert found.coin.tolist() == [0, 1, 0, 1]


def test_second_file_of_own_columns_is_turned_too(tmp_path: Path) -> None:
    first, second = tmp_path / "a.csv", tmp_path / "b.csv"
    first.write_text("annotator,left,right,choice\nj,x,y,left\nj,u,v,right\n")
    second.write_text("annotator,left,right,choice\nj,x,y,left\nj,u,v,left\n")
    assert answers(Comparisons.from_file(first, swapped=second))[2:] == [("j", "y", "x", 1), ("j", "v", "u", 1)]
    second.write_text("annotator,left,right,choice\nj,x,y,left\n")
    with pytest.raises(InputError, match=r"b\.csv: holds 1 answers and the first file 2"):
        Comparisons.from_file(first, swapped=second)
    second.write_text("annotator,left,right,choice\nj,x,y,left\nj,u,w,left\n")
    with pytest.raises(InputError, match=r"row 2 compares u with w.*u with v"):
        Comparisons.from_file(first, swapped=second)
    second.write_text("annotator,left,right,choice\nj,x,y,left\nk,u,v,left\n")
    with pytest.raises(InputError, match=r"row 2 is of k.*of j"):
        Comparisons.from_file(first, swapped=second)


def test_second_file_does_not_go_with_a_format_that_holds_both_orders() -> None:
    path = SAMPLES / "inspect_ai.json"
    with pytest.raises(InputError, match="--swapped does not apply to Inspect evaluation log"):
        Comparisons.from_file(path, swapped=path)


def test_misspelt_column_of_a_map_is_answered_with_the_nearest(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("judge,first,second,verdict\nj,x,y,A\n")
    with pytest.raises(InputError, match=r"column judges is missing.*did you mean judge\?"):
        Comparisons.from_file(path, mapping={"annotator": "judges", "left": "first", "right": "second"})


def test_broken_line_of_json_lines_is_named(tmp_path: Path) -> None:
    path = tmp_path / "broken.jsonl"
    good = json.dumps({"annotator": "a", "left": "x", "right": "y", "choice": "left"})
    path.write_bytes("\n".join([*[good] * 999, good[:-5], good]).encode())
    with pytest.raises(InputError, match=r"broken\.jsonl: line 1,000 is not JSON"):
        Comparisons.from_file(path)
    path.write_bytes("\n".join([*[good] * 99, ""]).encode() + b'{"annotator": "\xff"}')
    with pytest.raises(InputError, match="line 100 is not UTF-8"):
        Comparisons.from_file(path)


def test_numbers_of_json_lines_stay_numbers(tmp_path: Path) -> None:
    rows = [{"annotator": k, "left": "x", "right": "y", "outcome": 0.5, "time": 1700000000 + k} for k in (7, 8)]
    found = Comparisons.from_file(lines(tmp_path / "n.jsonl", rows))
    assert found.annotators.tolist() == [7, 8]
    assert found.outcome.tolist() == [0.5, 0.5]


@pytest.mark.parametrize(
    ("name", "entries", "message"),
    [
        ("other.zip", {"readme.txt": "x"}, "expected a workbook"),
        ("log.eval", {"header.json": "{", "samples/1.json": "{}"}, "cannot be read"),
    ],
)
def test_archive_that_is_no_log_is_refused(tmp_path: Path, name: str, entries: dict[str, str], message: str) -> None:
    with zipfile.ZipFile(tmp_path / name, "w") as archive:
        for entry, text in entries.items():
            archive.writestr(entry, text)
    with pytest.raises(InputError, match=message):
        Comparisons.from_file(tmp_path / name)


def test_archive_that_is_cut_or_unpacks_to_too_much_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "cut.eval"
    path.write_bytes((SAMPLES / "inspect_ai.eval").read_bytes()[:300])
    with pytest.raises(InputError, match="starts as a zip archive and is none"):
        Comparisons.from_file(path)
    with zipfile.ZipFile(tmp_path / "bomb.eval", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("samples/1.json", " " * 5_000_000)
    with pytest.raises(InputError, match="--max-gigabytes"):
        Comparisons.from_file(tmp_path / "bomb.eval", limits=Limits(most_bytes=1_000_000))


def test_workbook_is_read_as_its_csv(tmp_path: Path) -> None:
    frame = pd.DataFrame({"annotator": [7, 8], "left": ["x", "y"], "right": ["y", "x"], "choice": ["left", "tie"]})
    frame.to_excel(tmp_path / "answers.xlsx", index=False)
    found = Comparisons.from_file(tmp_path / "answers.xlsx")
    assert answers(found) == [("7", "x", "y", 1), ("8", "y", "x", 0)]


def test_saved_data_set_and_tables_are_read(tmp_path: Path) -> None:
    """The files that `datasets` writes with save_to_disk: an Arrow stream and state.json."""
    import pyarrow

    table = pyarrow.table({"annotator": ["a", "b"], "left": ["x", "y"], "right": ["y", "x"], "choice": ["left", "tie"]})
    path = tmp_path / "data-00000-of-00001.arrow"
    with pyarrow.OSFile(str(path), "wb") as sink, pyarrow.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    (tmp_path / "state.json").write_text(json.dumps({"_data_files": [{"filename": "data-00000-of-00001.arrow"}]}))
    expected = [("a", "x", "y", 1), ("b", "y", "x", 0)]
    assert answers(Comparisons.from_file(tmp_path)) == expected
    assert answers(Comparisons.from_frame(table)) == expected
    (tmp_path / "state.json").write_text(json.dumps({"_data_files": [{"filename": "../secret"}]}))
    with pytest.raises(InputError, match="files outside its folder"):
        Comparisons.from_file(tmp_path)
    (tmp_path / "dataset_dict.json").write_text(json.dumps({"splits": ["train", "test"]}))
    with pytest.raises(InputError, match="give the folder of one of them: train, test"):
        Comparisons.from_file(tmp_path)


def test_guess_that_cannot_be_made_names_the_fields_and_the_way_out(tmp_path: Path) -> None:
    path = tmp_path / "batch.csv"
    path.write_text("HITId,WorkerId,Input.response_a,Input.response_b,Answer.q1,Answer.q2\nh,w,x,y,A,B\n")
    with pytest.raises(InputError, match=r"Answer\.q1, Answer\.q2 all do.*--map choice="):
        Comparisons.from_file(path)
    path.write_text("HITId,WorkerId,Input.prompt,Answer.q1\nh,w,x,A\n")
    with pytest.raises(InputError, match=r"cannot tell which fields were compared.*Input\.prompt"):
        Comparisons.from_file(path)
    with pytest.raises(InputError, match="cannot tell which fields were compared"):
        Comparisons.from_file(lines(tmp_path / "s.jsonl", [{"doc_id": 0, "doc": {"q": "?"}, "filtered_resps": ["A"]}]))


def test_log_without_observations_says_what_lacks(tmp_path: Path) -> None:
    log = json.loads((SAMPLES / "evaluatorq.json").read_text())
    for entry in log["entries"]:
        for vote in entry["comparison"]["votes"]:
            vote["observations"] = []
    path = tmp_path / "old.json"
    path.write_text(json.dumps(log))
    with pytest.raises(InputError, match="reconciled votes only"):
        Comparisons.from_file(path)


def test_commands_take_path_answers_and_second_file(tmp_path: Path) -> None:
    one = [{"judge": "j", "shown": {"a": f"x{k}", "b": f"y{k}"}, "said": "eins"} for k in range(30)]
    path = lines(tmp_path / "log.jsonl", one)
    call = [str(path), "--swapped", str(path), "--map", "annotator=judge", "--map", "left=shown.a"]
    call += ["--map", "right=shown.b", "--map", "choice=said", "--answers", "eins=left,zwei=right"]
    ran = CliRunner().invoke(analyze, [*call, "--json"])
    assert ran.exit_code == 0, ran.output
    (judge,) = json.loads(ran.stdout)["annotators"]
    assert judge["annotator"] == "j"


def test_two_logs_in_one_file_are_refused_by_line(tmp_path: Path) -> None:
    arena, recorder, own = ((SAMPLES / name).read_text() for name in LOGS)
    path = tmp_path / "mixed.jsonl"
    for text, line, seen, began in (
        (f"{arena}\n{recorder}", 5, "answer, coin, judge", "Chatbot Arena"),
        (recorder + own, 5, "our own columns", "log of the Evenhand recorder"),
        (own + arena, 4, "Chatbot Arena battles", "our own columns"),
        (own + '{"error": "timeout"}\n', 4, "error", "our own columns"),
    ):
        path.write_text(text)
        with pytest.raises(InputError) as told:
            Comparisons.from_file(path)
        assert re.search(
            rf"mixed\.jsonl: line {line}[, ].*holds .*{seen}.*began as {began}.*nothing was read; save each",
            str(told.value),
        )
        assert CliRunner().invoke(analyze, [str(path), "--json"]).exit_code == 2
    whole = tmp_path / "mixed.json"
    whole.write_text(json.dumps([*map(json.loads, recorder.splitlines()), *map(json.loads, own.splitlines())]))
    with pytest.raises(InputError, match=r"line 5, 6, 7 \(3 in all\) holds annotator, choice"):
        Comparisons.from_file(whole)


@pytest.mark.parametrize("name", ["evalica.csv", "mturk.csv", "columns.csv", "pwcmp.csv"])
def test_two_tables_one_after_the_other_are_refused_by_row(tmp_path: Path, name: str) -> None:
    text = (SAMPLES / name).read_text()
    path = tmp_path / name
    path.write_text(text + text)
    with pytest.raises(InputError, match=r"row 4 is a header .*two tables"):
        Comparisons.from_file(path)
    path.write_text(text + "a line of another kind\n")
    with pytest.raises(InputError, match=name):
        Comparisons.from_file(path)


def test_fields_that_some_records_lack_are_no_other_log(tmp_path: Path) -> None:
    records = [json.loads(line) for line in (SAMPLES / "recorder.jsonl").read_text().splitlines()]
    for record, missing in zip(records, ("answer", "seed", "seed", "time"), strict=True):
        del record[missing]
    found = Comparisons.from_file(lines(tmp_path / "log.jsonl", records))
    assert len(found) == 2
    assert found.excluded == {"unreadable": 2}
