"""Tables of answers with our own columns: which column is which."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fdr_core.errors import InputError
from fdr_core.inputs import OPTIONAL
from fdr_core.inputs.columns import RawAnswers, RawSkips, read_choices, read_outcomes, read_winners, show
from fdr_core.inputs.reading import EXPECTED
from fdr_core.inputs.source import Source

if TYPE_CHECKING:
    from fdr_core.comparisons import Comparisons

    C = TypeVar("C", bound=Comparisons)

KNOWN = ("annotator", "worker", "left", "right", "choice", "outcome", "label", *OPTIONAL)
TEXT_FEATURES = ("text_left", "text_right", "gold")
TEXT = ("annotator", "worker", "left", "right", "label", "choice", "coin", "task", "stratum")


def feature_columns(names: Sequence[str]) -> list[str]:
    """Name the columns on items or their quality: gold, is_ground_truth, x_<feature>, <what>_left with <what>_right."""
    offered = set(names)
    sided = {name for name in offered if name.endswith("_left") and f"{name.removesuffix('_left')}_right" in offered}
    sided |= {f"{name.removesuffix('_left')}_right" for name in sided}
    own = ("gold", "is_ground_truth")
    return [name for name in names if name in sided or name in own or name.startswith("x_")]


def read_frame(df: pd.DataFrame, *, skips: pd.DataFrame | None = None, where: str = "") -> RawAnswers:
    """Pick the columns of a table by name."""
    if not isinstance(df, pd.DataFrame):
        raise InputError(f"{where}got {type(df).__name__}; expected a pandas DataFrame; or use Comparisons.from_arrays")
    check_names([str(name) for name in df.columns], where=where)
    annotator, left, right = _identity_columns(df, where=where)
    optional: dict[str, Any] = {name: df[name] for name in OPTIONAL if name in df.columns and not df[name].isna().all()}
    told = feature_columns([name for name in df.columns if isinstance(name, str)])
    raw_skips = None if skips is None else _read_skips(skips, coin="coin" if "coin" in optional else "task")
    return RawAnswers(
        annotator=annotator,
        left=left,
        right=right,
        outcome=_outcome(df, where=where),
        excluded={} if skips is None else {"skipped": len(skips)},
        skips=raw_skips,
        features=df[told].reset_index(drop=True) if told else None,
        where=where,
        **optional,
    )


def read_own_columns(source: Source, *, features: bool = False) -> RawAnswers:
    """Read a file with our own columns; labels of CSV stay text here, so that 007 and 7 remain two people.

    ``features`` : whether to read what the file tells of its items too: texts can be much longer than answers.
    """
    names, where = source.names, source.where
    check_names(names, where=where)
    shown = [*names[:20], *(name for name in names[20:] if name in KNOWN)]
    read_frame(pd.DataFrame(columns=shown), where=where)  # names first, then rows
    told = feature_columns(names) if features else []
    return read_frame(source.frame([*KNOWN, *told], text=[*TEXT, *TEXT_FEATURES]), where=where)


def restore_integers(comparisons: "C") -> "C":
    """Turn labels read as text back into integers where all of a kind are plainly written ones."""
    return replace(
        comparisons,
        annotators=as_integers(comparisons.annotators),
        items=as_integers(comparisons.items),
        strata=as_integers(comparisons.strata),
    )


def read_items(source: Source, labels: NDArray[np.object_]) -> pd.DataFrame:
    """A table with a row per item, whose names are read as the answers have them."""
    if "item" not in source.names:
        raise InputError(f"{source.where}columns {', '.join(source.names)}; expected item, and class; rename them")
    as_named = {str(label): label for label in labels}
    table = source.frame(source.names, text=["item", "class"])
    return table.assign(item=[as_named.get(str(name), name) for name in table["item"]])


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
        raise InputError(f"{where}column {wanted} is missing; {EXPECTED}; found: {_names(df)}; rename the columns")
    return df[who], df["left"], df["right"]


def _outcome(df: pd.DataFrame, *, where: str) -> NDArray[np.float64]:
    """Find what was answered, in whichever of the three ways it is written."""
    has_choice, has_outcome = "choice" in df.columns, "outcome" in df.columns
    if has_choice and has_outcome:
        raise InputError(f"{where}found both choice and outcome; expected one of them; drop the other column")
    if has_outcome:
        return read_outcomes(df["outcome"], where=where)
    if has_choice:
        choice, left, right = (df[name].astype(object) for name in ("choice", "left", "right"))
        if len(df) and ((choice == left) | (choice == right)).all():
            raise InputError(
                f"{where}the choices name items ({show(df['choice'].iloc[0])}), not sides; rename the column to "
                "`label`, or say --map label=choice"
            )
        return read_choices(df["choice"], where=where)
    if "label" in df.columns:
        return read_winners(df["label"], df["left"], df["right"], where=where)
    raise InputError(f"{where}there is no column choice, outcome or label; {EXPECTED}; found: {_names(df)}")


def _read_skips(skips: pd.DataFrame, *, coin: str) -> RawSkips:
    """Pick the columns of the skipped presentations."""
    annotator, left, right = _identity_columns(skips, where="skips: ")
    return RawSkips(annotator, left, right, skips[coin] if coin in skips.columns else None)


def _names(df: pd.DataFrame) -> str:
    """List a table's columns for a message."""
    return ", ".join(_short(str(name)) for name in df.columns[:20]) or "no columns"


def _short(name: str, most: int = 60) -> str:
    """Cut a name that fills pages: a file that is not a table can have one."""
    return name if len(name) <= most else f"{name[:most]}… ({len(name):,} characters)"


def as_integers(labels: NDArray[np.object_]) -> NDArray[np.object_]:
    """Convert all labels or none, so that types never mix."""
    if not all(isinstance(label, str) and label.removeprefix("-").isdecimal() for label in labels):
        return labels
    numbers = [int(label) for label in labels]
    if any(str(number) != label for number, label in zip(numbers, labels, strict=True)):
        return labels
    return np.array([*numbers, None], dtype=object)[:-1]
