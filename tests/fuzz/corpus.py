"""Nasty files for `evenhand analyze`, made by code, each with what has to happen: read, or refused with exit code 2."""

from __future__ import annotations

import gzip
import io
import json
import os
import struct
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

READ, REFUSED, EITHER = "read", "refused", "either"
HEADER = "annotator,left,right,choice\n"
SIDES = ("left", "right")


@dataclass(frozen=True)
class Nasty:
    """One file: its name, how it is made, and the outcome; `says` is part of the message."""

    name: str
    make: Callable[[Path], object]
    outcome: str = REFUSED
    says: str = ""


def rows(count: int = 40, name: Callable[[int], str] = lambda k: f"p{k % 4}") -> list[str]:
    """Plain rows of four people on five items."""
    return [f"{name(k)},i{k % 5},i{(k + 1 + k // 5 % 3) % 5},{SIDES[k % 2]}" for k in range(count)]


def table(*lines: str, header: str = HEADER, end: str = "\n") -> bytes:
    return (header.replace("\n", end) + "".join(line + end for line in lines)).encode()


GOOD = table(*rows())


def text(content: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(content)


def frame(**columns: object) -> Callable[[Path], object]:
    """A Parquet file with these columns."""

    def make(path: Path) -> None:
        n = 20
        plain = {
            "annotator": [f"p{k % 4}" for k in range(n)],
            "left": [f"i{k % 5}" for k in range(n)],
            "right": [f"i{(k + 1) % 5}" for k in range(n)],
            "outcome": [1.0 - 2.0 * (k % 2) for k in range(n)],
        }
        pq.write_table(pa.table({**plain, **columns}), path)

    return make


def lying_footer(path: Path) -> None:
    """A Parquet file that says its footer is larger than itself."""
    frame()(path)
    data = path.read_bytes()
    path.write_bytes(data[:-8] + struct.pack("<I", 2**31 - 1) + b"PAR1")


def broken_footer(path: Path) -> None:
    frame()(path)
    data = bytearray(path.read_bytes())
    length = struct.unpack("<I", data[-8:-4])[0]
    for place in range(len(data) - 8 - length, len(data) - 8, 7):
        data[place] ^= 0xFF
    path.write_bytes(bytes(data))


def broken_page(path: Path) -> None:
    frame()(path)
    data = bytearray(path.read_bytes())
    data[10:60] = os.urandom(50)
    path.write_bytes(bytes(data))


def bomb(path: Path, megabytes: int = 300) -> None:
    """A gzip file of a few hundred kB that unfolds to one endless line."""
    with gzip.open(path, "wb", compresslevel=9) as file:
        file.write(HEADER.encode())
        for _ in range(megabytes):
            file.write(b"a" * 1_000_000)


def zipped(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("answers.csv", GOOD)


def export(*annotations: object, **task: object) -> bytes:
    base = {"id": 1, "data": {"text1": "a", "text2": "b"}, "annotations": list(annotations)}
    return json.dumps([{**base, **task}]).encode()


def many_exports(**change: object) -> bytes:
    """A sound export of twelve answers, with one thing changed everywhere."""
    tasks = []
    for k in range(12):
        result = {"from_name": "pw", "type": "pairwise", "value": {"selected": SIDES[k % 2]}}
        answer = {"id": k + 1, "completed_by": k % 3 + 1, "result": [result], "lead_time": 1.0, **change}
        data = {"text1": f"i{k % 4}", "text2": f"i{(k + 1) % 4}"}
        tasks.append({"id": k + 1, "data": data, "annotations": [answer]})
    return json.dumps(tasks).encode()


def loop(path: Path) -> None:
    os.symlink(path.name, path)


def forbidden(path: Path) -> None:
    path.write_bytes(GOOD)
    path.chmod(0)


DEEP = 100_000
CORPUS = (
    Nasty("good.csv", text(GOOD), READ),
    Nasty("empty.csv", text(b""), says="empty"),
    Nasty("header-only.csv", text(HEADER.encode()), says="no answers"),
    Nasty("nul.csv", text(GOOD + b"p1\x00,i1,i2,left\n"), EITHER),
    Nasty("all-nul.csv", text(b"\x00" * 10_000)),
    Nasty("bom.csv", text(b"\xef\xbb\xbf" + GOOD), READ),
    Nasty("two-boms.csv", text(b"\xef\xbb\xbf\xef\xbb\xbf" + GOOD), EITHER),
    Nasty("utf-16.csv", text(GOOD.decode().encode("utf-16")), says="UTF-8"),
    Nasty("utf-32.csv", text(GOOD.decode().encode("utf-32"))),
    Nasty("latin-1.csv", text(GOOD + "pé,i1,i2,left\n".encode("latin-1")), says="UTF-8"),
    Nasty("surrogates.csv", text(GOOD + b"p\xed\xa0\x80,i1,i2,left\n"), says="UTF-8"),
    Nasty("one-line-10mb.csv", text(b"a" * 10_000_000)),
    Nasty("one-cell-10mb.csv", text(table(*rows(), "p1,i1,i2,left").replace(b"p0", b"p" * 10_000_000, 1)), EITHER),
    Nasty("open-quote.csv", text(GOOD + b'"p1,i1,i2,left\n' + b"x" * 100_000)),
    Nasty("quotes-only.csv", text(b'"' * 100_001)),
    Nasty("mixed-newlines.csv", text(table(*rows(20), end="\r\n") + table(*rows(20), header="")), EITHER),
    Nasty("old-mac-newlines.csv", text(table(*rows(), end="\r")), EITHER),
    Nasty("doubled-header.csv", text(table(*rows(), header="annotator,left,left,choice\n")), says="more than once"),
    Nasty("no-header.csv", text(table(*rows(), header="")), says="no known format"),
    Nasty("unknown-columns.csv", text(b"a,b,c,d\n1,2,3,4\n"), says="no known format"),
    Nasty("ragged.csv", text(GOOD + b"p1,i1,i2\n"), says="cannot be read"),
    Nasty("too-many-cells.csv", text(GOOD + b"p1,i1,i2,left,x,y\n"), says="cannot be read"),
    Nasty("self.csv", text(GOOD + b"p1,i1,i1,left\n"), says="itself"),
    Nasty("odd-choice.csv", text(GOOD + b"p1,i1,i2,upper\n"), says="upper"),
    Nasty("empty-cells.csv", text(GOOD + b",,,\n")),
    Nasty("both-outcomes.csv", text(b"annotator,left,right,choice,outcome\np,a,b,left,1\n"), says="one of them"),
    Nasty("nan.csv", text(table("p,a,b,nan", header="annotator,left,right,outcome\n"))),
    Nasty("inf.csv", text(table("p,a,b,inf", header="annotator,left,right,outcome\n"))),
    Nasty("huge-number.csv", text(table("p,a,b,1e400", header="annotator,left,right,outcome\n"))),
    Nasty("huge-int.csv", text(table("p,a,b," + "9" * 5000, header="annotator,left,right,outcome\n"))),
    Nasty("out-of-range.csv", text(table("p,a,b,1.0001", header="annotator,left,right,outcome\n"))),
    Nasty("many-columns.csv", text(("annotator,left,right,choice," + ",".join(f"x{k}" for k in range(100_000)) + "\n"
          + "p,a,b,left," + "," * 99_999 + "\n").encode()), EITHER),
    Nasty("terminal.csv", text(table(*rows(name=lambda k: f"\x1b[31m\x1b]0;owned\x07p{k % 4}\x9b2J\x08\x7f"))), READ),
    Nasty("terminal-header.csv", text(b"\x1b]0;owned\x07,b,c\n1,2,3\n")),
    Nasty("markup.csv", text(table(*rows(name=lambda k: f"[bold]p{k % 4}[/] <script>alert(1)</script> ={k % 4}+1"))),
          READ),
    Nasty("bidi.csv", text(table(*rows(name=lambda k: f"p{k % 4}\u202e\u2066gpj.exe"))), READ),
    Nasty("one-answer.csv", text(table("p,a,b,left")), READ),
    Nasty("truncated.csv.gz", text(gzip.compress(GOOD)[:-20])),
    Nasty("no-gzip.csv.gz", text(GOOD)),
    Nasty("bomb.csv.gz", bomb),
    Nasty("answers.zip", zipped),
    Nasty("answers-zip.csv", zipped),
    Nasty("good.parquet", frame(), READ),
    Nasty("empty.parquet", text(b"")),
    Nasty("magic-only.parquet", text(b"PAR1PAR1")),
    Nasty("csv.parquet", text(GOOD), READ),  # the content counts, not the name
    Nasty("lying-footer.parquet", lying_footer),
    Nasty("broken-footer.parquet", broken_footer),
    Nasty("broken-page.parquet", broken_page, EITHER),
    Nasty("nested.parquet", frame(left=[["i1", "i2"]] * 20)),
    Nasty("structs.parquet", frame(annotator=[{"a": 1}] * 20)),
    Nasty("dates.parquet", frame(annotator=pa.array([0] * 10 + [1] * 10, pa.date32())), EITHER),
    Nasty("binary.parquet", frame(left=[b"\xff\xfe" + bytes([k]) for k in range(20)]), EITHER),
    Nasty("decimals.parquet", frame(outcome=pa.array([1] * 20, pa.decimal128(38, 10))), EITHER),
    Nasty("nulls.parquet", frame(annotator=pa.nulls(20, pa.string()))),
    Nasty("null-type.parquet", frame(annotator=pa.nulls(20))),
    Nasty("nan.parquet", frame(outcome=[float("nan")] * 20)),
    Nasty("big-ints.parquet", frame(annotator=np.arange(2**64 - 20, 2**64 - 1, dtype="uint64").repeat(2)[:20]), EITHER),
    Nasty("huge-times.parquet", frame(time=np.array([2**62] * 20)), EITHER),
    Nasty("deep.json", text(b"[" * DEEP)),
    Nasty("deep-object.json", text(b'{"a":' * DEEP + b"1" + b"}" * DEEP)),
    Nasty("deep-data.json", text(export(data={"text1": json.loads("[" * 400 + "]" * 400), "text2": "b"}))),
    Nasty("huge-int.json", text(b'[{"id": ' + b"9" * 5000 + b', "annotations": []}]')),
    Nasty("nan.json", text(b'[{"id": NaN, "data": {}, "annotations": [{"result": Infinity}]}]')),
    Nasty("scalar.json", text(b"7")),
    Nasty("null.json", text(b"null")),
    Nasty("empty-list.json", text(b"[]")),
    Nasty("strings.json", text(b'["a", "b"]')),
    Nasty("wrong-types.json", text(export({"completed_by": [], "result": {"a": 1}}, 7, None, "x"))),
    Nasty("null-data.json", text(export({"completed_by": 1, "result": []}, data=None))),
    Nasty("good.json", text(many_exports()), READ),
    Nasty("odd-lead-times.json", text(many_exports(lead_time="long")), EITHER),
    Nasty("odd-people.json", text(many_exports(completed_by={"id": {"id": 1}})), EITHER),
    Nasty("odd-times.json", text(many_exports(created_at="9999999-99-99T99:99:99Z")), EITHER),
    Nasty("huge-lead-time.json", text(many_exports(lead_time=10**400)), EITHER),
    Nasty("bom.json", text(b"\xef\xbb\xbf" + many_exports()), READ),
    Nasty("utf-16.json", text(many_exports().decode().encode("utf-16")), says="UTF-8"),
    Nasty("truncated.json", text(many_exports()[:-10])),
    Nasty("surrogates.json", text(many_exports().replace(b'"i1"', b'"\\ud800"')), EITHER),
    Nasty("nul.json", text(many_exports().replace(b'"i1"', b'"a\\u0000b"')), EITHER),
    Nasty("no-suffix", text(os.urandom(5000) + b"\n")),
    Nasty("picture.png", text(b"\x89PNG\r\n\x1a\n" + bytes(2000))),
    Nasty("folder.csv", lambda path: path.mkdir()),
    Nasty("fifo.csv", lambda path: os.mkfifo(path), says="not a regular file"),
    Nasty("zero.csv", lambda path: os.symlink("/dev/zero", path), says="not a regular file"),
    Nasty("loop.csv", loop),
    Nasty("dangling.csv", lambda path: os.symlink("nowhere", path), says="no such file"),
    Nasty("not-there.csv", lambda path: None, says="no such file"),
    Nasty("forbidden.csv", forbidden, EITHER),  # root may read everything
    Nasty("long-name.csv/../../" + "x" * 300 + ".csv", lambda path: None),
)  # fmt: skip


def long_line_gzip(size: int) -> bytes:
    """Many equal bytes, compressed (for tests of limits)."""
    sink = io.BytesIO()
    with gzip.GzipFile(fileobj=sink, mode="wb") as file:
        file.write(b"a" * size)
    return sink.getvalue()
