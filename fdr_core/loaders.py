"""Tables and files of answers: which column is which, and what is wrong with a file that cannot be read."""

import codecs
import csv
import io
import re
import stat
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fdr_core._columns import RawAnswers, RawSkips, read_choices, read_outcomes, read_winners
from fdr_core.errors import InputError

if TYPE_CHECKING:
    from fdr_core.comparisons import Comparisons

    C = TypeVar("C", bound=Comparisons)

OPTIONAL = ("coin", "task", "time", "lead_time", "stratum")
KNOWN = ("annotator", "worker", "left", "right", "choice", "outcome", "label", *OPTIONAL)
_EXPECTED = (
    "expected the columns annotator, left, right and either choice (left, right, tie) or outcome (-1 to 1), "
    "or crowd-kit's worker, left, right, label"
)
_TEXT = frozenset({"annotator", "worker", "left", "right", "label", "choice", "coin", "task", "stratum"})
_SEPARATORS = (",", ";", "\t")
LONGEST_HEADER = 4_000_000


def read_frame(df: pd.DataFrame, *, skips: pd.DataFrame | None = None, where: str = "") -> RawAnswers:
    """Pick the columns of a table by name."""
    if not isinstance(df, pd.DataFrame):
        raise InputError(f"{where}got {type(df).__name__}; expected a pandas DataFrame; or use Comparisons.from_arrays")
    check_names([str(name) for name in df.columns], where=where)
    annotator, left, right = _identity_columns(df, where=where)
    optional = {name: df[name] for name in OPTIONAL if name in df.columns and not df[name].isna().all()}
    raw_skips = None if skips is None else _read_skips(skips, coin="coin" if "coin" in optional else "task")
    return RawAnswers(
        annotator=annotator,
        left=left,
        right=right,
        outcome=_outcome(df, where=where),
        excluded={} if skips is None else {"skipped": len(skips)},
        skips=raw_skips,
        where=where,
        **optional,
    )


def read_csv(path: str | Path) -> RawAnswers:
    """Read a CSV file; labels stay text here, so that 007 and 7 remain two people."""
    where = f"{path}: "
    with reading(path):
        separator, names = csv_header(path)
        check_names(names, where=where)
        shown = [name.strip() for name in names]
        shown = [*shown[:20], *(name for name in shown[20:] if name in KNOWN)]
        read_frame(pd.DataFrame(columns=shown), where=where)  # names first, then rows
        try:
            frame = _parse_csv(path, separator, names)
        except ValueError:
            # One thread is slower but can tell the number of the row.
            frame = _parse_csv(path, separator, names, use_threads=False)
    return read_frame(frame.rename(columns=str.strip), where=where)


def _parse_csv(path: str | Path, separator: str, names: list[str], *, use_threads: bool = True) -> pd.DataFrame:
    """Parse the known columns; Arrow is strict about a row's number of fields, where pandas would shift the columns."""
    from pyarrow import csv as arrow_csv

    table = arrow_csv.read_csv(
        str(path),
        read_options=arrow_csv.ReadOptions(use_threads=use_threads),
        parse_options=arrow_csv.ParseOptions(delimiter=separator, newlines_in_values=True),
        convert_options=arrow_csv.ConvertOptions(
            include_columns=[name for name in names if name.strip() in KNOWN],
            column_types={name: "string" for name in names if name.strip() in _TEXT},
            null_values=[""],
            strings_can_be_null=True,
        ),
    )
    frame: pd.DataFrame = table.to_pandas()
    return frame


def read_parquet(path: str | Path) -> RawAnswers:
    """Read the known columns of a Parquet file."""
    import pyarrow.parquet  # heavy, and needed for this format only

    where = f"{path}: "
    with reading(path):
        names = [str(name) for name in pyarrow.parquet.read_schema(path).names]
        check_names(names, where=where)
        table = pyarrow.parquet.read_table(path, columns=[name for name in names if name in KNOWN])
        table.validate(full=True)  # texts that are no UTF-8 would else be found much later
        frame: pd.DataFrame = table.to_pandas()
    return read_frame(frame, where=where)


def restore_integers(comparisons: "C") -> "C":
    """Turn labels read as text back into integers where all of a kind are plainly written ones."""
    return replace(
        comparisons,
        annotators=as_integers(comparisons.annotators),
        items=as_integers(comparisons.items),
        strata=as_integers(comparisons.strata),
    )


def check_names(names: list[str], *, where: str = "") -> None:
    """Refuse a known column that occurs twice."""
    counts = Counter(name.strip() for name in names)
    doubled = sorted(name for name in KNOWN if counts[name] > 1)
    if doubled:
        raise InputError(f"{where}column {', '.join(doubled)} occurs more than once; rename or remove the others")


def _identity_columns(df: pd.DataFrame, *, where: str) -> tuple[Any, Any, Any]:
    """Find who compared what."""
    who = "annotator" if "annotator" in df.columns else "worker"
    missing = [name for name in (who, "left", "right") if name not in df.columns]
    if missing:
        wanted = ", ".join("annotator" if name == "worker" else name for name in missing)
        raise InputError(f"{where}column {wanted} is missing; {_EXPECTED}; found: {_names(df)}; rename the columns")
    return df[who], df["left"], df["right"]


def _outcome(df: pd.DataFrame, *, where: str) -> NDArray[np.float64]:
    """Find what was answered, in whichever of the three ways it is written."""
    has_choice, has_outcome = "choice" in df.columns, "outcome" in df.columns
    if has_choice and has_outcome:
        raise InputError(f"{where}found both choice and outcome; expected one of them; drop the other column")
    if has_outcome:
        return read_outcomes(df["outcome"], where=where)
    if has_choice:
        return read_choices(df["choice"], where=where)
    if "label" in df.columns:
        return read_winners(df["label"], df["left"], df["right"], where=where)
    raise InputError(f"{where}there is no column choice, outcome or label; {_EXPECTED}; found: {_names(df)}")


def _read_skips(skips: pd.DataFrame, *, coin: str) -> RawSkips:
    """Pick the columns of the skipped presentations."""
    annotator, left, right = _identity_columns(skips, where="skips: ")
    return RawSkips(annotator, left, right, skips[coin] if coin in skips.columns else None)


def _names(df: pd.DataFrame) -> str:
    """List a table's columns for a message."""
    return ", ".join(_short(str(name)) for name in df.columns[:20]) or "no columns"


def _short(name: str, most: int = 60) -> str:
    """Cut a name that fills pages: a file that is no table can have one."""
    return name if len(name) <= most else f"{name[:most]}… ({len(name):,} characters)"


def csv_header(path: str | Path) -> tuple[str, list[str]]:
    """Read the first line that is not empty and tell the separator."""
    start = _csv_start(path)
    names: list[str] = []
    for separator in _SEPARATORS:
        names = next((row for row in csv.reader(io.StringIO(start), delimiter=separator) if row), [])
        if len(names) > 1:
            return separator, names
    if not names:
        raise InputError(f"{path} is empty; {_EXPECTED}; check that the right file was given")
    return _SEPARATORS[0], names


def _csv_start(path: str | Path) -> str:
    """Read as much of a file, unpacked if its name says so, as a header may take."""
    import pyarrow

    with pyarrow.input_stream(str(path), compression="detect") as stream:
        data: bytes = stream.read(LONGEST_HEADER + 1)
    if len(data) > LONGEST_HEADER and not re.search(rb"[\r\n]", data):
        raise InputError(f"{path}: the first line has more than {LONGEST_HEADER:,} bytes; {_EXPECTED}")
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    return decoder.decode(data, final=len(data) <= LONGEST_HEADER)


def as_integers(labels: NDArray[np.object_]) -> NDArray[np.object_]:
    """Convert all labels or none, so that types never mix."""
    if not all(isinstance(label, str) and label.removeprefix("-").isdecimal() for label in labels):
        return labels
    numbers = [int(label) for label in labels]
    if any(str(number) != label for number, label in zip(numbers, labels, strict=True)):
        return labels
    return np.array([*numbers, None], dtype=object)[:-1]


def _refuse_devices(path: str | Path) -> None:
    """Refuse what has no end or gives its content only once."""
    mode = Path(path).stat().st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise InputError(f"{path} is no regular file but a pipe or a device; save its content to a file first")


@contextmanager
def reading(path: str | Path) -> Iterator[None]:
    """Turn what the file system and the parsers raise into InputError that names the file and the way out."""
    try:
        _refuse_devices(path)
        yield
    except InputError:
        raise
    except FileNotFoundError as error:
        raise InputError(f"{path}: there is no such file; check the path") from error
    except IsADirectoryError as error:
        raise InputError(f"{path} is a folder; expected a file; give the path of one file") from error
    except PermissionError as error:
        raise InputError(f"{path} may not be read; check its permissions") from error
    except UnicodeError as error:
        raise InputError(f"{path} is not UTF-8 text ({error}); save it again with the encoding UTF-8") from error
    except pd.errors.EmptyDataError as error:
        raise InputError(f"{path} is empty; {_EXPECTED}; check that the right file was given") from error
    except Exception as error:  # only parsers run under this, and what Arrow, pandas and JSON raise has no common root
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        if "UTF8" in reason:
            raise InputError(f"{path} is not UTF-8 text ({reason}); save it again with the encoding UTF-8") from error
        raise InputError(
            f"{path} cannot be read: {reason}; check that the file is complete and of that kind"
        ) from error
