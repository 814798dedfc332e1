"""One file of answers, whatever its kind: recognised by its first bytes, unpacked within limits, read once."""

import gzip
import io
import itertools
import json
import sys
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any, Literal

import pandas as pd

from fdr_core.errors import InputError, MissingExtraError
from fdr_core.inputs import MOST_BYTES, MOST_ROWS, csv_files, parquet_files
from fdr_core.inputs.columns import show
from fdr_core.inputs.reading import reading

Kind = Literal["csv", "json", "jsonl", "parquet", "arrow", "xlsx"]
Record = Mapping[str, Any]

STANDARD_INPUT = "-"
_GZIP, _PARQUET, _ZIP = b"\x1f\x8b", b"PAR1", b"PK\x03\x04"
_OLD_EXCEL = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
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

    most_bytes: int = MOST_BYTES
    most_rows: int = MOST_ROWS

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
    kind : {"csv", "json", "jsonl", "parquet", "arrow", "xlsx"}, optional
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
        if self._is_folder:
            return Path(self.path)
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
        if self._is_folder:
            return "arrow"
        start = self._start()
        if start.startswith(_PARQUET):
            return "parquet"
        if start.startswith(_ZIP):
            return _zip_kind(self._bytes(), self.where)
        if start.startswith(_OLD_EXCEL):
            raise InputError(f"{self.where}this is an old Excel workbook (.xls); save it as .xlsx or CSV")
        text = start.lstrip(b"\xef\xbb\xbf \t\r\n")
        if text.startswith(b"["):
            return "json"
        return _object_kind(text) if text.startswith(b"{") else "csv"

    @cached_property
    def names(self) -> list[str]:
        """The names of the columns; of JSON, all keys of the first records."""
        with reading(self.path, name=self.name):
            if self.kind in ("parquet", "arrow"):
                return parquet_files.names(self._content)
            if self.kind == "xlsx":
                return [str(name).strip() for name in self._sheet.columns]
            if self.kind == "csv":
                return [name.strip() for name in self._csv_header[1]]
        return list(dict.fromkeys(key for record in self.sample for key in record))

    @cached_property
    def sample(self) -> list[Record]:
        """A few rows, to look at."""
        with reading(self.path, name=self.name):
            if self.kind in ("parquet", "arrow"):
                self._check_parquet()
                return parquet_files.first_rows(self._content, _SAMPLE)
            if self.kind == "csv":
                return csv_files.first_rows(self._content, self._csv_header[0], _SAMPLE)
            if self.kind == "jsonl":
                return _checked_records(list(itertools.islice(self._lines(), _SAMPLE)), self.limits, self.where)
        return self.records[:_SAMPLE]

    @cached_property
    def document(self) -> Any:
        """The parsed JSON of a file that is one value."""
        with reading(self.path, name=self.name):
            content = self._bytes()
            if content.startswith(_ZIP):
                return _evaluation_log(content, self.limits, self.where)
            return _parse_json(content.decode("utf-8-sig"))

    @cached_property
    def records(self) -> list[Record]:
        """Every row as a mapping; of JSON, the entries of the list, or the one object."""
        with reading(self.path, name=self.name):
            if self.kind == "jsonl":
                found: Any = list(self._lines())
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
            if self.kind in ("parquet", "arrow"):
                self._check_parquet()
                for n_bytes in parquet_files.nested_sizes(self._content, wanted):
                    self.limits.check_bytes(n_bytes, self.where)
                table = parquet_files.read(self._content, wanted)
            elif self.kind == "csv":
                separator, names = self._csv_header
                table = csv_files.read(self._content, separator, names, wanted=wanted, text=text)
                self.limits.check_rows(len(table), self.where)
            elif self.kind == "xlsx":
                table = self._sheet[wanted]
                table = table.assign(**{name: _as_text(table[name]) for name in wanted if name in set(text)})
            elif self.kind == "jsonl" and (flat := parquet_files.flat_lines(self._content, wanted)) is not None:
                self.limits.check_rows(len(flat), self.where)
                table = flat
            else:
                table = pd.DataFrame({name: [record.get(name) for record in self.records] for name in wanted})
        return table

    def part(self, names: Sequence[str], records: list[Record]) -> "Source":
        """Some records as if they were the file."""
        found = Source(self.path, kind="jsonl", limits=self.limits)
        found.__dict__ |= {"names": list(names), "sample": records, "records": records, "document": records}
        return found

    def line(self, position: int) -> int:
        """The line of a record, counted from 1; of JSON that is one value, its number."""
        if self.kind != "jsonl":
            return position + 1
        lines = enumerate(io.BytesIO(self._bytes()), start=1)
        return next(itertools.islice((number for number, line in lines if line.strip()), position, None))

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

    @property
    def _is_folder(self) -> bool:
        return str(self.path) != STANDARD_INPUT and Path(self.path).is_dir()

    def _bytes(self) -> bytes:
        return self._content if isinstance(self._content, bytes) else self._content.read_bytes()

    def _lines(self) -> Iterator[Any]:
        """The values of a file of JSON lines; what is none is named by its line."""
        for number, line in enumerate(io.BytesIO(self._bytes().removeprefix(b"\xef\xbb\xbf")), start=1):
            if not line.strip():
                continue
            try:
                yield _parse_json(line.decode("utf-8"))
            except ValueError as error:
                reason = "is not UTF-8 text" if isinstance(error, UnicodeError) else f"is not JSON ({error})"
                raise InputError(f"{self.where}line {number:,} {reason}; correct or remove that line") from error

    @cached_property
    def _sheet(self) -> pd.DataFrame:
        """The first sheet of a workbook."""
        with reading(self.path, name=self.name):
            try:
                sheet = pd.read_excel(io.BytesIO(self._bytes()), engine="openpyxl")
            except ImportError as error:
                raise MissingExtraError(
                    f"{self.where}workbooks (.xlsx) need openpyxl; install it with `pip install 'evenhand[files]'`, or "
                    "save the sheet as CSV UTF-8"
                ) from error
        self.limits.check_rows(len(sheet), self.where)
        return sheet.rename(columns=lambda name: str(name).strip())


def _as_text(column: "pd.Series[Any]") -> "pd.Series[Any]":
    """Labels as they are written: 7 and not 7.0."""
    is_whole = pd.api.types.is_float_dtype(column.dtype) and bool((column.dropna() % 1 == 0).all())
    return (column.astype("Int64") if is_whole else column).astype(object).map(str, na_action="ignore")


def _zip_kind(content: bytes, where: str) -> Kind:
    """Tell workbooks and evaluation logs, both of them zip archives."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            names = set(archive.namelist())
    except zipfile.BadZipFile as error:
        raise InputError(f"{where}starts as a zip archive and is none ({error}); check that it is complete") from error
    if "xl/workbook.xml" in names:
        return "xlsx"
    if any(name.startswith("samples/") for name in names):
        return "json"
    raise InputError(f"{where}is a zip archive; expected a workbook (.xlsx) or an Inspect log (.eval); unpack it first")


def _evaluation_log(content: bytes, limits: Limits, where: str) -> Any:
    """Inspect's .eval: an archive of the log's head and one file a sample."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        limits.check_bytes(sum(entry.file_size for entry in archive.infolist()), where)
        names = archive.namelist()
        head = next((name for name in ("header.json", "_journal/start.json") if name in names), None)
        try:
            log = _parse_json(archive.read(head).decode()) if head else {"eval": {}}
            samples = [_parse_json(archive.read(name).decode()) for name in names if name.startswith("samples/")]
        except NotImplementedError as error:
            raise InputError(
                f"{where}is packed in a way not read here ({error}); convert it with `inspect log convert --to json`"
            ) from error
    return {**log, "samples": samples}


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
