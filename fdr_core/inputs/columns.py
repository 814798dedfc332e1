"""Columns of answers as they come in: checked, and coded by first appearance."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fdr_core.errors import InputError
from fdr_core.types import Floats

Codes = NDArray[np.int64]
Labels = NDArray[np.object_]

CHOICES = {"left": 1.0, "right": -1.0, "tie": 0.0}
TIE_MARKERS = frozenset({"tie", "draw", "equal"})
_SEEN_LENGTH = 60


@dataclass(frozen=True)
class RawSkips:
    """Presentations that were skipped, by label."""

    annotator: Any
    left: Any
    right: Any
    coin: Any = None


@dataclass(frozen=True)
class RawAnswers:
    """Answers by label, one entry per row, as a loader hands them over.

    `where` names the source in messages; `kept` tells which rows of a table are left, `unused` which columns of
    the source were not read.
    """

    annotator: Any
    left: Any
    right: Any
    outcome: Any
    coin: Any = None
    task: Any = None
    time: Any = None
    lead_time: Any = None
    stratum: Any = None
    excluded: Mapping[str, int] = field(default_factory=dict)
    skips: RawSkips | None = None
    features: pd.DataFrame | None = None
    where: str = ""
    kept: NDArray[np.bool_] | None = None
    unused: tuple[str, ...] = ()


def show(value: object) -> str:
    """Quote a value for a message, shortened."""
    text = repr(value.item() if isinstance(value, np.generic) else value)
    return text if len(text) <= _SEEN_LENGTH else text[: _SEEN_LENGTH - 1] + "…"


def row_name(where: str, position: int) -> str:
    """Name a row the way people count (from 1) and the way arrays do (index)."""
    return f"{where}row {position + 1} (index {position})"


def as_series(values: Any, *, name: str, where: str = "") -> "pd.Series[Any]":
    """Take any one-dimensional column without copying what need not be copied."""
    if isinstance(values, pd.Series):
        return values.reset_index(drop=True)
    if np.ndim(values) != 1 and not hasattr(values, "dtype") and not isinstance(values, (list, tuple)):
        raise InputError(f"{where}{name} is {show(values)}; expected one value per answer; pass a list or an array")
    if getattr(values, "ndim", 1) != 1:
        raise InputError(f"{where}{name} has {values.ndim} dimensions; expected one value per answer; pass one column")
    try:
        return pd.Series(values)
    except (ValueError, TypeError) as error:
        raise InputError(f"{where}{name} cannot be read as a column ({error}); pass one value per answer") from error


def first_of_each(codes: Codes) -> Codes:
    """Give the position where each code first appears, for codes numbered by first appearance."""
    return np.flatnonzero(np.diff(np.maximum.accumulate(codes), prepend=-1) > 0)


def code_column(values: Any, *, name: str, where: str = "") -> tuple[Codes, Labels]:
    """Code a column of labels by first appearance; a missing label is an error."""
    series = as_series(values, name=name, where=where)
    try:
        codes, uniques = pd.factorize(series)
    except TypeError as error:
        raise InputError(
            f"{where}column {name} holds values that cannot be labels ({error}); use text or numbers"
        ) from error
    if codes.size and codes.min() < 0:
        row = int(np.argmin(codes))
        raise InputError(f"{row_name(where, row)} has no {name}; every answer needs one: fill it in or remove the row")
    return codes.astype(np.int64, copy=False), pd.Index(uniques).to_numpy(dtype=object)


def code_items(left: Any, right: Any, *, where: str = "") -> tuple[Codes, Codes, Labels]:
    """Code both item columns together, in order of first appearance row by row, left before right."""
    left_codes, left_labels = code_column(left, name="left item", where=where)
    right_codes, right_labels = code_column(right, name="right item", where=where)
    # Positions 2k and 2k + 1 in the interleaved sequence; interleaving the rows themselves would double the memory.
    first = np.concatenate([2 * first_of_each(left_codes), 2 * first_of_each(right_codes) + 1])
    order = np.argsort(first, kind="stable")
    both = np.concatenate([left_labels, right_labels])
    merged, labels = pd.factorize(both[order])
    code_of = np.empty(both.size, dtype=np.int64)
    code_of[order] = merged
    left_codes = code_of[: left_labels.size][left_codes]
    right_codes = code_of[left_labels.size :][right_codes]
    same = np.flatnonzero(left_codes == right_codes)
    if same.size:
        row = int(same[0])
        raise InputError(
            f"{row_name(where, row)} compares item {show(labels[left_codes[row]])} with itself; "
            f"remove self-comparisons ({same.size} in all)"
        )
    return left_codes, right_codes, np.asarray(labels, dtype=object)


def read_outcomes(values: Any, *, where: str = "") -> Floats:
    """Read numbers in [-1, 1]: 1 left preferred, -1 right, 0 tie."""
    series = as_series(values, name="outcome", where=where)
    if pd.api.types.is_bool_dtype(series.dtype):
        raise InputError(
            f"{where}outcome holds true/false; expected numbers from -1 (right) to 1 (left); "
            "write 1 and -1, or use a column `choice` with left, right and tie"
        )
    numbers = outcome_numbers(series)
    bad = np.flatnonzero(np.isnan(numbers))
    if bad.size:
        row = int(bad[0])
        raise InputError(
            f"{row_name(where, row)} has outcome {show(series.iloc[row])}; expected a number from -1 (right preferred) "
            f"to 1 (left preferred), 0 for a tie; correct or remove such rows ({bad.size} in all), "
            "or use a column `choice` with left, right and tie"
        )
    return numbers


def outcome_numbers(series: "pd.Series[Any]") -> Floats:
    """Numbers in [-1, 1], NaN for everything else."""
    numbers = np.array(_numbers(series), dtype=np.float64)
    numbers[~(np.abs(numbers) <= 1)] = np.nan
    return numbers


def choice_numbers(labels: Labels) -> Floats:
    """The outcomes of left, right and tie, NaN for every other word."""
    return np.array([CHOICES.get(str(label).strip().lower(), np.nan) for label in labels], dtype=np.float64)


def is_tie_marker(label: object) -> bool:
    """Whether crowd-kit's `label` says that nobody won."""
    return str(label).strip().lower() in TIE_MARKERS


def read_choices(values: Any, *, where: str = "") -> Floats:
    """Read left, right or tie (upper or lower case)."""
    codes, labels = code_column(values, name="choice", where=where)
    outcomes = choice_numbers(labels)
    unknown = np.flatnonzero(np.isnan(outcomes[codes])) if np.isnan(outcomes).any() else np.empty(0, dtype=np.int64)
    if unknown.size:
        row = int(unknown[0])
        raise InputError(
            f"{row_name(where, row)} has choice {show(labels[codes[row]])}; expected left, right or tie; "
            f"rename the choices or remove such rows ({unknown.size} in all)"
        )
    return outcomes[codes]


def read_winners(values: Any, left: Any, right: Any, *, where: str = "") -> Floats:
    """Read crowd-kit's `label`: the item that won, one of the row's two, or a word for a tie."""
    codes, labels = code_column(values, name="label", where=where)
    winner = labels[codes]
    is_left = winner == as_series(left, name="left item", where=where).to_numpy(dtype=object)
    is_right = winner == as_series(right, name="right item", where=where).to_numpy(dtype=object)
    is_tie = np.array([is_tie_marker(label) for label in labels], dtype=bool)[codes]
    unknown = np.flatnonzero(~(is_left | is_right | is_tie))
    if unknown.size:
        row = int(unknown[0])
        raise InputError(
            f"{row_name(where, row)} has label {show(winner[row])}; expected the row's left or right item, or tie; "
            f"correct or remove such rows ({unknown.size} in all)"
        )
    outcomes: Floats = np.asarray(is_left, dtype=np.float64) - np.asarray(is_right, dtype=np.float64)
    return outcomes


def read_times(values: Any, *, name: str = "time", where: str = "") -> Floats | None:
    """Read seconds since the epoch from numbers, datetimes or ISO 8601 text; NaN where unknown, None if all are."""
    series = as_series(values, name="time", where=where)
    if series.isna().all():
        return None
    if pd.api.types.is_bool_dtype(series.dtype):
        seconds = np.full(len(series), np.nan)
    elif pd.api.types.is_numeric_dtype(series.dtype):
        seconds = np.array(_numbers(series), dtype=np.float64)
    else:
        seconds = _seconds_since_epoch(series)
    _refuse_unreadable(series, seconds, name=name, expected="seconds since 1970 or an ISO 8601 time", where=where)
    return seconds


def read_lead_times(values: Any, *, where: str = "") -> Floats | None:
    """Read durations in seconds, at least 0; NaN where unknown, None if all are."""
    series = as_series(values, name="lead_time", where=where)
    if series.isna().all():
        return None
    if pd.api.types.is_timedelta64_dtype(series.dtype):
        series = series.dt.total_seconds()
    seconds = np.array(_numbers(series), dtype=np.float64)
    seconds[seconds < 0] = np.inf
    _refuse_unreadable(series, seconds, name="lead_time", expected="seconds, at least 0", where=where)
    return seconds


def _refuse_unreadable(series: "pd.Series[Any]", seconds: Floats, *, name: str, expected: str, where: str) -> None:
    """Raise for values that are there but did not become finite numbers."""
    bad = np.flatnonzero(~np.isfinite(seconds) & series.notna().to_numpy())
    if bad.size:
        row = int(bad[0])
        raise InputError(
            f"{row_name(where, row)} has {name} {show(series.iloc[row])}; expected {expected}; "
            f"correct it, leave it empty, or drop the column `{name}`"
        )


def _numbers(series: "pd.Series[Any]") -> Floats:
    """Turn a column into floats, NaN where a value is not a number."""
    if pd.api.types.is_complex_dtype(series.dtype) or pd.api.types.is_datetime64_any_dtype(series.dtype):
        return np.full(len(series), np.nan)
    if series.dtype == object:
        # to_numeric would read True as 1.
        series = series.where(~series.map(lambda value: isinstance(value, (bool, np.bool_))), other=np.nan)
    return pd.to_numeric(series, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)


def _seconds_since_epoch(series: "pd.Series[Any]") -> Floats:
    """Convert datetimes, ISO 8601 text (UTC where no zone is given), and numbers among them."""
    is_number = np.zeros(len(series), dtype=bool)
    if series.dtype == object:
        is_number = series.map(lambda value: isinstance(value, (int, float, np.number))).to_numpy(dtype=bool)
    seconds = np.full(len(series), np.nan)
    seconds[is_number] = _numbers(series[is_number])
    text = series[~is_number]
    try:
        times = pd.to_datetime(text, utc=True, errors="coerce", format=None if _is_datetime(series) else "ISO8601")
    except (ValueError, TypeError, OverflowError):
        return seconds
    microseconds = times.to_numpy(dtype="datetime64[us]")
    seconds[~is_number] = np.where(np.isnat(microseconds), np.nan, microseconds.astype(np.int64) / 1e6)
    return seconds


def _is_datetime(series: "pd.Series[Any]") -> bool:
    """Tell columns that already hold datetimes."""
    return bool(pd.api.types.is_datetime64_any_dtype(series.dtype))
