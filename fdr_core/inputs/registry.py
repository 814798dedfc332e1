"""Every format that can be read, in the order in which they are tried, and what a file is recognised as."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fdr_core.errors import ConfigurationError, InputError
from fdr_core.inputs import (
    alpaca_eval,
    arena,
    argilla,
    chosen_rejected,
    eval_logs,
    fastchat,
    multipref,
    pwcmp,
    recorded,
    rows,
    tables,
)
from fdr_core.inputs.columns import RawAnswers
from fdr_core.inputs.formats import POOLED, Format, Recognised, recognised_as
from fdr_core.inputs.label_studio import formats as label_studio
from fdr_core.inputs.reading import EXPECTED
from fdr_core.inputs.side_words import outcomes_of
from fdr_core.inputs.source import Limits, Source

_OWN_USES = {
    "annotator": "annotator",
    "left": "left item",
    "right": "right item",
    "choice": "answer: left, right or tie",
    "outcome": "answer: -1 (right) to 1 (left)",
    "coin": "coin that decided the sides",
    "task": "task: the coin where none is recorded",
    "time": "time",
    "lead_time": "lead time",
    "stratum": "stratum",
}


def _is_own(source: Source) -> bool:
    names = set(source.names)
    return {"annotator", "left", "right"} <= names and bool({"choice", "outcome", "label"} & names)


def _is_crowd_kit(source: Source) -> bool:
    return {"worker", "left", "right", "label"} <= set(source.names)


OWN = Format(
    name="columns",
    title="our own columns",
    recognises=_is_own,
    read=tables.read_own_columns,
    uses={**_OWN_USES, "label": "answer: the item that won"},
    supports=("Every annotator is named.",),
)
CROWD_KIT = Format(
    name="crowd-kit",
    title="crowd-kit comparisons",
    recognises=_is_crowd_kit,
    read=tables.read_own_columns,
    uses={**_OWN_USES, "worker": "annotator", "label": "answer: the item that won"},
    supports=("Every worker is named.",),
)
#: Tried in this order; formats with more columns of their own come before those with fewer.
FORMATS: Mapping[str, Format] = {
    format.name: format
    for format in (
        label_studio.JSON,
        label_studio.JSON_MIN,
        label_studio.CSV,
        recorded.FORMAT,
        OWN,
        CROWD_KIT,
        fastchat.FORMAT,
        alpaca_eval.FORMAT,
        multipref.FORMAT,
        arena.MT_BENCH,
        arena.ARENA,
        argilla.FORMAT,
        pwcmp.FORMAT,
        arena.EVALICA,
        eval_logs.INSPECT,
        eval_logs.PROMPTFOO,
        chosen_rejected.FORMAT,
    )
}
#: Formats that take `fields`.
LABEL_STUDIO = (label_studio.JSON.name, label_studio.JSON_MIN.name, label_studio.CSV.name)
#: Of a column in a message.
LONGEST_NAME = 60
MAPPABLE = ("annotator", "left", "right", "choice", "outcome", "label", *tables.OPTIONAL)


def detect_format(path: str | Path | Source, *, limits: Limits | None = None) -> Recognised:
    """
    Say what a file was recognised as, by its columns.

    Parameters
    ----------
    path : str, Path or Source
        `-` is standard input.
    limits : Limits, optional
        The largest data to take into memory.

    Raises
    ------
    InputError
        Where the file cannot be read, or no format has these columns.
    """
    source = path if isinstance(path, Source) else Source(path, limits=limits)
    return recognised_as(_find(source), source)


def read(
    source: Source,
    *,
    format: str = "auto",
    mapping: Mapping[str, str] | None = None,
    features: bool = False,
    fields: Mapping[str, Any] | None = None,
) -> RawAnswers:
    """Read a source as the format asked for, as the one recognised, or by a map from our columns to the file's."""
    if format not in ("auto", *FORMATS):
        raise ConfigurationError(f"format was {format!r}; expected auto or one of {', '.join(FORMATS)}")
    found = None if mapping else _find(source) if format == "auto" else FORMATS[format]
    given = {name: value for name, value in (fields or {}).items() if value}
    if given and (found is None or found.name not in LABEL_STUDIO):
        names = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise InputError(f"{source.where}{names} applies to Label Studio exports only, and this is none; leave it out")
    if found is None:
        return _read_mapped(source, mapping or {}, features=features)
    if found in (OWN, CROWD_KIT):
        return tables.read_own_columns(source, features=features)
    return found.read(source, **given)


def _find(source: Source) -> Format:
    found = next((format for format in FORMATS.values() if format.recognises(source)), None)
    if found is None:
        tables.check_names(source.names, where=source.where)
        names = [_shortened(name) for name in source.names[:20]]
        raise InputError(
            f"{source.where}no known format has these columns: {', '.join(names) or 'none'}; {EXPECTED}; rename the "
            f"columns, or say which is which with --map, such as --map annotator={names[0] if names else 'judge'}"
        )
    return found


def _shortened(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"


def _read_mapped(source: Source, mapping: Mapping[str, str], *, features: bool) -> RawAnswers:
    """Rename the columns; answers may be any of the words for the first and the second shown."""
    unknown = [name for name in mapping if name not in MAPPABLE]
    if unknown:
        raise ConfigurationError(f"--map names {', '.join(unknown)}; expected one of {', '.join(MAPPABLE)}")
    missing = [column for column in mapping.values() if column not in source.names]
    if missing:
        raise InputError(
            f"{source.where}column {', '.join(missing)} is missing; found: {', '.join(source.names[:20])}; "
            "name one of these after --map …="
        )
    kept = [name for name in MAPPABLE if name in source.names and name not in mapping]
    told = tables.feature_columns(source.names) if features else []
    ours = {**{name: name for name in (*kept, *told)}, **mapping}
    text = [column for name, column in ours.items() if name in (*tables.TEXT, *tables.TEXT_FEATURES)]
    frame = source.frame(list(ours.values()), text=text)
    frame = pd.DataFrame({name: frame[column] for name, column in ours.items()})
    if "annotator" not in frame:
        frame["annotator"] = POOLED
    if "choice" in mapping:
        frame["outcome"] = outcomes_of(frame.pop("choice"))
        return rows.from_frame(_complete(frame, source), where=source.where)
    return tables.read_frame(frame, where=source.where)


def _complete(frame: pd.DataFrame, source: Source) -> pd.DataFrame:
    """Refuse a map without items, and answers of which none can be read."""
    missing = [name for name in ("left", "right") if name not in frame]
    if missing:
        raise InputError(f"{source.where}column {', '.join(missing)} is missing; add --map {missing[0]}=…")
    if len(frame) and bool(np.isnan(frame["outcome"]).all()):
        raise InputError(
            f"{source.where}no answer says which side won; expected left/right, a/b, first/second or 1/2, and tie; "
            "if the column names the item that won, use --map label=…"
        )
    return frame
