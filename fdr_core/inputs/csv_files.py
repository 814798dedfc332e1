"""Tables of text: separator, header and rows, by Arrow where it is installed and by pandas otherwise."""

import codecs
import csv
import gzip
import io
import re
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, cast

import pandas as pd

from fdr_core.errors import InputError
from fdr_core.inputs.reading import EXPECTED

SEPARATORS = (",", ";", "\t")
LONGEST_HEADER = 4_000_000

Content = bytes | Path


def header(content: Content, *, name: str) -> tuple[str, list[str]]:
    """Read the first line that is not empty and tell the separator."""
    start = _start(content, name=name)
    names: list[str] = []
    for separator in SEPARATORS:
        names = next((row for row in csv.reader(io.StringIO(start), delimiter=separator) if row), [])
        if len(names) > 1:
            return separator, names
    if not names:
        raise InputError(f"{name} is empty; {EXPECTED}; check that the right file was given")
    return SEPARATORS[0], names


def first_rows(content: Content, separator: str, n: int) -> list[Mapping[str, Any]]:
    """A few rows as text, none where a field is too long to look at."""
    try:
        rows = csv.DictReader(io.StringIO(_start(content, name="")), delimiter=separator)
        found = [row for row, _ in zip(rows, range(n + 1), strict=False)]
    except csv.Error:
        return []
    return [{str(key).strip(): value for key, value in row.items()} for row in found[:n]]


def read(
    content: Content, separator: str, names: Sequence[str], *, wanted: Sequence[str], text: Sequence[str]
) -> pd.DataFrame:
    """Read some columns; those in `text` stay as they are written, so that 007 and 7 remain two people."""
    chosen = [name for name in names if name.strip() in set(wanted)]
    as_text = [name for name in chosen if name.strip() in set(text)]
    try:
        frame = _by_arrow(content, separator, chosen, as_text)
    except ImportError:
        frame = _by_pandas(content, separator, chosen, as_text)
    except ValueError:
        # One thread is slower but can tell the number of the row.
        frame = _by_arrow(content, separator, chosen, as_text, use_threads=False)
    return frame.rename(columns=str.strip)


def _by_arrow(
    content: Content, separator: str, chosen: list[str], as_text: list[str], *, use_threads: bool = True
) -> pd.DataFrame:
    """Arrow is strict about a row's number of fields, where pandas would shift the columns."""
    import pyarrow
    from pyarrow import csv as arrow_csv

    table = arrow_csv.read_csv(
        pyarrow.BufferReader(content) if isinstance(content, bytes) else str(content),
        read_options=arrow_csv.ReadOptions(use_threads=use_threads),
        parse_options=arrow_csv.ParseOptions(delimiter=separator, newlines_in_values=True),
        convert_options=arrow_csv.ConvertOptions(
            include_columns=chosen,
            column_types=dict.fromkeys(as_text, "string"),
            null_values=[""],
            strings_can_be_null=True,
        ),
    )
    frame: pd.DataFrame = table.to_pandas()
    return frame


def _by_pandas(content: Content, separator: str, chosen: list[str], as_text: list[str]) -> pd.DataFrame:
    """The same without Arrow; a row with too many fields is an error here too."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        table = pd.read_csv(
            io.BytesIO(content) if isinstance(content, bytes) else content,
            sep=separator,
            dtype=dict.fromkeys(as_text, object),
            index_col=False,
            encoding="utf-8-sig",
            keep_default_na=False,
            na_values=[""],
        )
    return table[chosen]  # all columns were read: pandas counts the fields of a row only then


def _start(content: Content, *, name: str) -> str:
    """Read as much of a file as a header may take."""
    if isinstance(content, bytes):
        data = content[: LONGEST_HEADER + 1]
    else:
        with content.open("rb") as packed, _unpacked(packed) as file:
            data = file.read(LONGEST_HEADER + 1)
    if len(data) > LONGEST_HEADER and not re.search(rb"[\r\n]", data):
        raise InputError(f"{name}: the first line has more than {LONGEST_HEADER:,} bytes; {EXPECTED}")
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    return decoder.decode(data, final=len(data) <= LONGEST_HEADER)


def _unpacked(file: IO[bytes]) -> IO[bytes]:
    """The content of a file that may be packed: engines unpack such files themselves and ask for the header only."""
    is_packed = file.read(2) == b"\x1f\x8b"
    file.seek(0)
    return cast(IO[bytes], gzip.open(file)) if is_packed else file
