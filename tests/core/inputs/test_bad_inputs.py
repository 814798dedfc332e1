"""Files and arguments that cannot be right: each gets a sentence that says what was seen and what to do next."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from evenhand.cli import main

HEADER = "annotator,left,right,choice\n"


def rows(*people: str, n: int = 12, choice: str = "") -> str:
    return "".join(
        f"{who},i{k % 5},j{k % 4},{choice or ('left' if (7 * k + 3 * len(who)) % 3 else 'right')}\n"
        for k in range(n)
        for who in people or ("ann", "bob")
    )


def lines(*records: object) -> str:
    return "".join(f"{json.dumps(record)}\n" for record in records)


GOOD = HEADER + rows()
ANSWER = {"annotator": "a", "left": "i", "right": "j", "choice": "left"}
EXPORT = [
    {
        "id": 1,
        "data": {"text": "x"},
        "annotations": [
            {
                "id": 1,
                "completed_by": 1,
                "result": [{"type": "choices", "from_name": "c", "to_name": "t", "value": {"choices": ["spam"]}}],
            }
        ],
    }
]
#: A file's name, what it holds, and the sentence that names what was seen or what to do.
FILES: tuple[tuple[str, str | bytes, str], ...] = (
    ("empty.csv", "", "empty.csv is empty; expected the columns annotator, left, right"),
    ("blank.csv", "\n\n\n", "blank.csv is empty"),
    ("header.csv", HEADER, "there are no answers; expected at least one comparison"),
    (
        "no-choice.csv",
        GOOD.replace("choice", "chioce", 1),
        "missing: choice (is it chioce?); found: annotator, left, right, chioce",
    ),
    (
        "two-missing.csv",
        GOOD.replace("choice", "verdict", 1).replace("annotator", "anotator", 1),
        "missing: annotator (is it anotator?), choice; found",
    ),
    ("strange.csv", "a,b,c\n1,2,3\n", "no known format has these columns: a, b, c"),
    ("web.csv", "<!doctype html><html><body>404</body></html>\n", "no known format has these columns: <!doctype html>"),
    (
        "unknown-word.csv",
        GOOD + "ann,i1,j1,maybe\n",
        "row 25 (index 24) has choice 'maybe'; expected left",
    ),
    ("two-files-in-one.csv", GOOD + GOOD, "row 25 is a header (annotator, left, right, choice): these are two tables"),
    (
        "item-names.csv",
        HEADER + "".join(f"{who},i{k},j{k},i{k}\n" for k in range(9) for who in "ab"),
        "the choices name items ('i0'), not sides; rename the column to `label`, or say --map label=choice",
    ),
    (
        "one-side.csv",
        HEADER + rows(*"abcdefgh", choice="right"),
        "none of 8 annotators ever chose the left side: 96 answers for the right, 0 ties; if that is meant, say "
        "--one-sided",
    ),
    (
        "one-answer.csv",
        HEADER + "".join(rows(who, choice="left" if who < "d" else "right") for who in "abcdef"),
        "each of 6 annotators has only one answer throughout",
    ),
    ("itself.csv", GOOD + "ann,i1,i1,left\n", "row 25 (index 24) compares item 'i1' with itself"),
    ("no-item.csv", GOOD + "ann,,j1,left\n", "row 25 (index 24) has no left item"),
    ("nobody.csv", GOOD + ",i1,j1,left\n", "row 25 (index 24) has no annotator"),
    ("no-answer.csv", GOOD + "ann,i1,j1,\n", "row 25 (index 24) has no choice"),
    ("short-row.csv", GOOD + "ann,i1\n", "Row #26: Expected 4 columns, got 2: ann,i1"),
    ("long-row.csv", GOOD + "ann,i1,j1,left,extra\n", "Row #26: Expected 4 columns, got 5"),
    ("open-quote.csv", HEADER + '"ann,i1,j1,left\n' + rows(), "Row #2: Expected 4 columns, got 1"),
    (
        "twice-a-column.csv",
        "annotator,left,right,choice,choice\nann,a,b,left,left\n",
        "column choice occurs more than once; rename or remove the others",
    ),
    (
        "both-answers.csv",
        "annotator,left,right,choice,outcome\nann,a,b,left,1\n",
        "found both choice and outcome; expected one of them",
    ),
    (
        "far.csv",
        "annotator,left,right,outcome\nann,a,b,3\n",
        "row 1 (index 0) has outcome 3; expected a number",
    ),
    ("words.csv", "annotator,left,right,outcome\nann,a,b,high\n", "row 1 (index 0) has outcome 'high'"),
    (
        "times.csv",
        "annotator,left,right,choice,time\nann,a,b,left,yesterday\n",
        "has time 'yesterday'; expected seconds since 1970 or an ISO 8601 time",
    ),
    (
        "answers-twice.csv",
        "answer_id," + HEADER + "".join(f"{k % 10},ann,i{k},j{k},left\n" for k in range(15)),
        "5 answers come a second time, first answer_id '0' in row 11; remove the repeated rows",
    ),
    ("wide.csv", GOOD.encode("utf-16"), "wide.csv is not UTF-8 text"),
    ("umlaut.csv", GOOD.replace("ann", "Zoë").encode("latin-1"), "save it again with the encoding UTF-8"),
    ("picture.png", b"\x89PNG\r\n\x1a\n" + b"0" * 50, "picture.png is not UTF-8 text"),
    (
        "line-1000.jsonl",
        lines(*[ANSWER] * 999) + '{"annotator": "a", \n' + lines(ANSWER),
        "line 1,000 is not JSON",
    ),
    ("cut.json", '[{"annotator": "a", ', "cut.json cannot be read: Expecting property name"),
    ("number.json", "42", "no known format has these columns: 42"),
    ("nothing.json", "[]", "no known format has these columns: none"),
    ("numbers.json", "[1, 2, 3]", "entry 1 is 1; expected an object with named fields"),
    (
        "two-logs.jsonl",
        lines({"judge": "j", "model_a": "a", "model_b": "b", "winner": "model_a"}, ANSWER),
        "line 2 (1 in all) holds annotator, choice, left, right (our own columns)",
    ),
    (
        "pairs.jsonl",
        lines(*({"prompt": "p", "chosen": f"a{k}", "rejected": f"b{k}"} for k in range(5))),
        "say which answer won, but neither on which side it stood nor who judged",
    ),
    (
        "export.json",
        json.dumps(EXPORT),
        "no Pairwise control has an answer, and no Choices with left and right (offered: c (choices))",
    ),
    ("cut.parquet", b"PAR1garbagePAR1", "cut.parquet cannot be read"),
    ("cut.xlsx", b"PK\x03\x04garbage", "starts as a zip archive and is none"),
    (
        "old.xls",
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"0" * 600,
        "old Excel workbook (.xls); save it as .xlsx or CSV",
    ),
    ("cut.csv.gz", gzip.compress(GOOD.encode() * 50)[:-20], "Compressed file ended before the end-of-stream marker"),
    ("plain.csv.gz", GOOD, "plain.csv.gz cannot be read"),
)
#: Arguments on a good file, and the sentence they get.
ARGUMENTS = (
    ("", "DATA is missing: give a file, a folder or a pattern"),
    ("absent.csv", "absent.csv: there is no such file; check the path"),
    (".", "holds no file with a name in .csv"),
    ("good.csv --map annotator", "'annotator' is not a pair; write ours=theirs"),
    ("good.csv --map wrong=choice", "--map names wrong; expected one of annotator, left, right"),
    ("good.csv --map choice=choise", "column choise is missing; found: annotator, left, right, choice; did you mean"),
    ("good.csv --q 2", "2.0 is not in the range 0<x<1"),
    ("good.csv --format nonsense", "'nonsense' is not one of 'auto'"),
    ("good.csv --answers good=better", "better"),
    ("good.csv --max-rows 3", "more than 3 rows"),
    ("good.csv --master local", "use it with --engine spark"),
    ("good.csv --lbi draws=none", "draws"),
)


def said(arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(main, ["analyze", *arguments.split(), "--json"])
    assert done.stdout == "" or done.exit_code == 0
    assert done.exception is None or isinstance(done.exception, SystemExit)
    return done.exit_code, done.stderr


@pytest.mark.parametrize(("name", "content", "sentence"), FILES, ids=[name for name, _, _ in FILES])
def test_bad_file_is_refused_with_its_sentence(
    name: str, content: str | bytes, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())
    code, message = said(name)
    assert code == 2
    assert sentence in message
    assert name in message
    assert "Traceback" not in message


@pytest.mark.parametrize(("arguments", "sentence"), ARGUMENTS)
def test_bad_arguments_are_refused_with_their_sentence(
    arguments: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("good.csv").write_text(GOOD)
    if arguments == ".":
        Path("good.csv").unlink()
    code, message = said(arguments)
    assert code == 2
    assert sentence in message


@pytest.mark.parametrize(
    ("content", "note"),
    [
        ("Annotator,LEFT,Right,Choice\n" + rows().upper(), ""),
        (GOOD + rows(), "24 of 48 rows say what an earlier row says"),
        (HEADER + rows("5", "5.0", " 5"), "annotators '5', '5.0', ' 5' differ by type or blanks only (1 such in all)"),
        (HEADER + rows("ann"), ""),
    ],
    ids=["capitals", "repeated rows", "ids of two types", "one judge alone"],
)
def test_odd_file_is_read_and_what_is_odd_is_said(
    content: str, note: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("odd.csv").write_text(content)
    code, message = said("odd.csv --lbi off --sides Audit")
    assert code == 0
    assert note in message


def test_doctor_names_columns_in_capitals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("odd.csv").write_text("Annotator,LEFT,Right,Choice\n" + rows())
    done = CliRunner().invoke(main, ["doctor", "odd.csv"])
    assert "  LEFT: left item" in done.output
    assert "Not used" not in done.output
