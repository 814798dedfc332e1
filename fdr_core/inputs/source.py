"""One file of answers, whatever its kind: recognised by its first bytes, unpacked within limits, read once."""

import gzip
import io
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any, Literal

import pandas as pd

from fdr_core.errors import InputError
from fdr_core.inputs import csv_files, parquet_files
from fdr_core.inputs.columns import show
from fdr_core.inputs.reading import reading

Kind = Literal["csv", "json", "jsonl", "parquet"]
Record = Mapping[str, Any]

STANDARD_INPUT = "-"
_GZIP, _PARQUET = b"\x1f\x8b", b"PAR1"
_BLOCK = 1 << 20
#: Records whose keys are looked at to name the columns of a JSON file.
_SAMPLE = 50


@dataclass(frozen=True)
class Limits:
    """
    The largest data that is taken into memory.

    Attributes
    ----------
    most_bytes : int
        Of the unpacked file.
    most_rows : int
        Of the table.
    """

    most_bytes: int = 2_000_000_000
    most_rows: int = 20_000_000

    def check_bytes(self, n: int, where: str) -> None:
        """Refuse more bytes than allowed."""
        if n > self.most_bytes:
            raise InputError(
                f"{where}unpacked, the data has more than {self.most_bytes / 1e9:g} GB, the most that is read into "
                "memory; if that size is meant, raise the limit (--max-gigabytes), or sum the file with --engine duckdb"
            )

    def check_rows(self, n: int, where: str) -> None:
        """Refuse more rows than allowed."""
        if n > self.most_rows:
            raise InputError(
                f"{where}the data has more than {self.most_rows:,} rows, the most that is read into memory; "
                "if that number is meant, raise the limit (--max-rows), or sum the file with --engine duckdb"
            )


class Source:
    """
    A file, or standard input, that is read at most once.

    Parameters
    ----------
    path : str or Path
        `-` is standard input. Files packed with gzip are unpacked.
    kind : {"csv", "json", "jsonl", "parquet"}, optional
        Told by the first bytes where it is not given.
    limits : Limits, optional
        What is refused as too large.

    Raises
    ------
    InputError
        For files that cannot be read, and for those beyond the limits.
    """

    def __init__(self, path: str | Path, *, kind: Kind | None = None, limits: Limits | None = None) -> None:
        if kind is not None:
            self.__dict__["kind"] = kind  # what the cached property would work out
        self.path = path
        self.limits = limits or Limits()
        self.name = "standard input" if str(path) == STANDARD_INPUT else str(path)
        self.where = f"{self.name}: "

    @cached_property
    def _content(self) -> bytes | Path:
        """The unpacked bytes, or the path of a file that is not packed."""
        if str(self.path) == STANDARD_INPUT:
            return _bounded(sys.stdin.buffer, self.limits, self.where)
        with reading(self.path), Path(self.path).open("rb") as file:
            if not file.read(2).startswith(_GZIP):
                self.limits.check_bytes(Path(self.path).stat().st_size, self.where)
                return Path(self.path)
            file.seek(0)
            _count_unpacked(file, self.limits, self.where)
            file.seek(0)
            with gzip.open(file) as unpacked:
                return unpacked.read()

    @cached_property
    def kind(self) -> Kind:
        """What the first bytes say: Parquet, JSON, JSON lines, or else a table of text."""
        start = self._start()
        if start.startswith(_PARQUET):
            return "parquet"
        text = start.lstrip(b"\xef\xbb\xbf \t\r\n")
        if text.startswith(b"["):
            return "json"
        return _object_kind(text) if text.startswith(b"{") else "csv"

    @cached_property
    def names(self) -> list[str]:
        """The names of the columns; of JSON, all keys of the first records."""
        with reading(self.path, name=self.name):
            if self.kind == "parquet":
                return parquet_files.names(self._content)
            if self.kind == "csv":
                return [name.strip() for name in self._csv_header[1]]
        return list(dict.fromkeys(key for record in self.records[:_SAMPLE] for key in record))

    @cached_property
    def sample(self) -> list[Record]:
        """A few rows, to look at."""
        with reading(self.path, name=self.name):
            if self.kind == "parquet":
                self._check_parquet()
                return parquet_files.first_rows(self._content, _SAMPLE)
            if self.kind == "csv":
                return csv_files.first_rows(self._content, self._csv_header[0], _SAMPLE)
        return self.records[:_SAMPLE]

    @cached_property
    def document(self) -> Any:
        """The parsed JSON of a file that is one value."""
        with reading(self.path, name=self.name):
            return _parse_json(self._text())

    @cached_property
    def records(self) -> list[Record]:
        """Every row as a mapping; of JSON, the entries of the list, or the one object."""
        with reading(self.path, name=self.name):
            if self.kind == "jsonl":
                found: Any = [_parse_json(line) for line in self._text().split("\n") if line.strip()]
            elif self.kind == "json":
                found = self.document
            else:
                found = self.frame(self.names).to_dict("records")
        rows = [found] if isinstance(found, Mapping) else found
        return _checked_records(rows, self.limits, self.where)

    def frame(self, columns: Sequence[str], *, text: Sequence[str] = ()) -> pd.DataFrame:
        """Read some columns as a table; those in `text` are kept as they are written."""
        wanted = [name for name in self.names if name in set(columns)]
        with reading(self.path, name=self.name):
            if self.kind == "parquet":
                self._check_parquet()
                for n_bytes in parquet_files.nested_sizes(self._content, wanted):
                    self.limits.check_bytes(n_bytes, self.where)
                table = parquet_files.read(self._content, wanted)
            elif self.kind == "csv":
                separator, names = self._csv_header
                table = csv_files.read(self._content, separator, names, wanted=wanted, text=text)
                self.limits.check_rows(len(table), self.where)
            else:
                table = pd.DataFrame({name: [record.get(name) for record in self.records] for name in wanted})
        return table

    @cached_property
    def _csv_header(self) -> tuple[str, list[str]]:
        with reading(self.path, name=self.name):
            return csv_files.header(self._content, name=self.name)

    def _check_parquet(self) -> None:
        n_rows, n_bytes = parquet_files.size(self._content)
        self.limits.check_rows(n_rows, self.where)
        self.limits.check_bytes(n_bytes, self.where)

    def _start(self) -> bytes:
        if isinstance(self._content, bytes):
            return self._content[:_BLOCK]
        with reading(self.path), self._content.open("rb") as file:
            return file.read(_BLOCK)

    def _text(self) -> str:
        content = self._content if isinstance(self._content, bytes) else self._content.read_bytes()
        return content.decode("utf-8-sig")


def _object_kind(text: bytes) -> Kind:
    """Tell JSON lines from one JSON object: a whole object on the first line and something after it."""
    first, line_end, rest = text.partition(b"\n")
    try:
        json.loads(first)
    except (ValueError, RecursionError):
        return "json"
    return "jsonl" if line_end and rest.strip() else "json"


def _parse_json(text: str) -> Any:
    """Parse JSON; lone surrogates, which no table can hold, become question marks."""
    parsed = json.loads(text)
    if "\\ud" in text or "\\uD" in text:
        parsed = json.loads(json.dumps(parsed, ensure_ascii=False).encode("utf-8", "replace"))
    return parsed


def _checked_records(rows: Any, limits: Limits, where: str) -> list[Record]:
    """Refuse anything but a list of objects."""
    if not isinstance(rows, list):
        raise InputError(f"{where}found {type(rows).__name__}; expected a list of objects, one per answer or task")
    limits.check_rows(len(rows), where)
    for position, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise InputError(f"{where}entry {position + 1} is {show(row)}; expected an object with named fields")
    return rows


def _bounded(stream: IO[bytes], limits: Limits, where: str) -> bytes:
    """Read a stream that may be packed, within limits."""
    content = stream.read(limits.most_bytes + 1)
    limits.check_bytes(len(content), where)
    if not content.startswith(_GZIP):
        return content
    with reading(STANDARD_INPUT, name="standard input"):
        _count_unpacked(io.BytesIO(content), limits, where)
        return gzip.decompress(content)


def _count_unpacked(file: IO[bytes], limits: Limits, where: str) -> None:
    """Count what a packed file unpacks to, keeping nothing, and stop at the limit."""
    total = 0
    with gzip.open(file) as unpacked:
        while block := unpacked.read(_BLOCK):
            total += len(block)
            limits.check_bytes(total, where)
