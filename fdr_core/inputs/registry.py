"""Every format that can be read, in the order in which they are tried, and what a file is recognised as."""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fdr_core.errors import ConfigurationError, InputError
from fdr_core.inputs import MAPPABLE, argilla, eval_logs, recorded, rows, tables
from fdr_core.inputs.columns import RawAnswers
from fdr_core.inputs.formats import POOLED, Format, Recognised, recognised_as
from fdr_core.inputs.item_keys import item_key
from fdr_core.inputs.known_logs import LAYOUTS
from fdr_core.inputs.label_studio import formats as label_studio
from fdr_core.inputs.label_studio.words import answers_from, outcome_given
from fdr_core.inputs.layouts import formats_of, in_both_orders
from fdr_core.inputs.paths import at, is_nested
from fdr_core.inputs.reading import EXPECTED
from fdr_core.inputs.rows import OUTCOMES, outcomes_of
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
        argilla.FORMAT,
        eval_logs.INSPECT,
        eval_logs.PROMPTFOO,
        *formats_of(LAYOUTS),
    )
}
#: Formats that take all `fields`.
LABEL_STUDIO = (label_studio.JSON.name, label_studio.JSON_MIN.name, label_studio.CSV.name)
#: Names that stand in a header.
_KNOWN = {name for format in FORMATS.values() for name in format.uses}
#: Kinds of records that are looked at, and how many of each.
_MOST_KINDS, _FEW = 100, 5
#: Of a column in a message.
LONGEST_NAME = 60
#: Columns that name an answer and nothing else.
_IDS = ("annotation_id", "answer_id")
_ANSWERS = {"choice", "outcome", "label"}


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
    found, capitals = recognised_as(_find(source), source), _in_capitals(source)
    if not capitals:
        return found
    used = {theirs: OWN.uses.get(ours, ours) for ours, theirs in capitals.items()}
    return replace(found, columns=used, unused=tuple(name for name in source.names if name not in used))


def read(
    source: Source,
    *,
    format: str = "auto",
    mapping: Mapping[str, str] | None = None,
    features: bool = False,
    fields: Mapping[str, Any] | None = None,
    swapped: Source | None = None,
) -> RawAnswers:
    """Read a source as the format asked for, as the one recognised, or by a map from our columns to the file's."""
    mapping = _in_capitals(source) if format == "auto" and not mapping else mapping
    try:
        raw = _read(source, format, mapping, features, fields, swapped)
    except InputError:
        if not mapping:
            _refuse_mixture(source, format)  # which says more than its consequence
        raise
    if not mapping and (any(raw.excluded.values()) or "records" in source.__dict__):
        _refuse_mixture(source, format)
    found = _find(source) if format == "auto" and not mapping else FORMATS.get(format)
    for name in set(_IDS) & set(source.names):
        _refuse_repeated(source, name)
    used = {*MAPPABLE, *(mapping or {}).values(), *(found.uses if found else ())}
    return replace(raw, unused=tuple(name for name in source.names if name not in used))


def _refuse_repeated(source: Source, name: str) -> None:
    """One answer twice would be evidence twice; rows that only look alike may be answers to a pair asked again."""
    ids = source.frame([name], text=[name])[name]
    again = ids.notna() & ids.duplicated()
    if again.any():
        first = int(np.argmax(again.to_numpy()))
        raise InputError(
            f"{source.where}{int(again.sum()):,} answers come a second time, first {name} {ids.iloc[first]!r} in row "
            f"{first + 1}; remove the repeated rows"
        )


def _read(
    source: Source,
    format: str,
    mapping: Mapping[str, str] | None,
    features: bool,
    fields: Mapping[str, Any] | None,
    swapped: Source | None,
) -> RawAnswers:
    if format not in ("auto", *FORMATS):
        raise ConfigurationError(f"format was {format!r}; expected auto or one of {', '.join(FORMATS)}")
    found = None if mapping else _find(source) if format == "auto" else FORMATS[format]
    given = {name: value for name, value in (fields or {}).items() if value}
    if found is not None and found.name in LABEL_STUDIO and swapped is None:
        return found.read(source, **given)
    answers = given.pop("answers", None)
    words = {answer.strip().lower(): outcome_given(answer, said) for answer, said in answers_from(answers).items()}
    is_ours = found in (OWN, CROWD_KIT)
    if found is not None and not is_ours and not found.takes_words:
        given |= {name: value for name, value in (("answers", answers), ("swapped", swapped)) if value}
    if given:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        what = "the mapped columns" if found is None else found.title
        raise InputError(f"{source.where}{names} does not apply to {what}; leave it out")
    numbers = {word: np.nan if number is None else number for word, number in words.items()}
    if found is None or (is_ours and (swapped is not None or words)):
        return _read_mapped(source, mapping or {}, features=features, words=numbers, swapped=swapped)
    if is_ours:
        return tables.read_own_columns(source, features=features)
    return found.read(source, **({"swapped": swapped, "words": numbers} if found.takes_words else {}))


def _find(source: Source) -> Format:
    found = _recognised(source)
    if found is None and _in_capitals(source):
        return OWN
    if found is None:
        tables.check_names(source.names, where=source.where)
        raise InputError(source.where + _missing(source.names))
    return found


def _refuse_mixture(source: Source, format: str) -> None:
    """Raise where some rows are of another log than the first: leaving them out would read half a file."""
    found = _recognised(source) if format == "auto" else FORMATS.get(format)
    if found is None:
        return
    if source.kind == "csv":
        headers = source.frame(source.names[:1], text=source.names[:1])[source.names[0]].isin(_KNOWN)
        for row in np.flatnonzero(headers)[:_MOST_KINDS].tolist():
            cells = source.frame(source.names, text=source.names).iloc[row].dropna().tolist()
            if cells == source.names or _recognised(source.part(cells, [])):
                raise InputError(
                    f"{source.where}row {row + 1:,} is a header ({', '.join(map(_shortened, cells[:6]))}): these are "
                    "two tables one after the other, and nothing was read; save each in a file of its own"
                )
    kinds: dict[frozenset[str], list[int]] = {}
    for position, record in enumerate(source.records if source.kind in ("json", "jsonl") else ()):
        kinds.setdefault(frozenset(record), []).append(position)
    if kinds and format == "auto":  # the names of a file are those of all its first records
        first = next(iter(kinds))
        found = _recognised(source.part(list(first), [source.records[k] for k in kinds[first][:_FEW]])) or found
    for names, places in islice(kinds.items(), _MOST_KINDS):
        part = source.part(list(names), [source.records[place] for place in places[:_FEW]])
        other = None if found.recognises(part) else _recognised(part)
        is_kin = other is not None and {other.name, found.name} <= set(LABEL_STUDIO)
        if found.recognises(part) or is_kin or (other is None and names & {*found.uses, *_OWN_USES}):
            continue
        lines = ", ".join(f"{source.line(place):,}" for place in places[:3]) + (" …" if len(places) > 3 else "")
        raise InputError(
            f"{source.where}line {lines} ({len(places):,} in all) holds {', '.join(sorted(names)[:6]) or 'nothing'}"
            f"{f' ({other.title})' if other else ''}, where the file began as {found.title}: two logs in one file, and "
            "nothing was read; save each in a file of its own, or remove those lines"
        )


def _recognised(source: Source) -> Format | None:
    return next((format for format in FORMATS.values() if format.recognises(source)), None)


def _in_capitals(source: Source) -> dict[str, str]:
    """From our columns to the source's, where it has them in capital letters and no format knows it otherwise."""
    lower = {name.lower(): name for name in source.names if name.lower() in tables.KNOWN}
    is_ours = {"annotator", "left", "right"} <= set(lower) and bool(_ANSWERS & set(lower))
    if not is_ours or _recognised(source):
        return {}
    return {ours: theirs for ours, theirs in lower.items() if ours in MAPPABLE}


def _missing(names: Sequence[str]) -> str:
    """Every column of ours that is not there, with the nearest that is."""
    wanted = [name for name in ("annotator", "left", "right") if name not in names]
    wanted += [] if _ANSWERS & set(names) else ["choice"]
    free = {name.lower(): name for name in names if name not in tables.KNOWN and len(name) <= LONGEST_NAME}
    near = {name: free[like[0]] for name in wanted if (like := difflib.get_close_matches(name, free, n=1))}
    found = ", ".join(_shortened(name) for name in names[:20]) or "none"
    if not near and len(wanted) > 2:
        such = f", such as --map annotator={_shortened(names[0])}" if len(names) > 2 else ""
        return (
            f"no known format has these columns: {found}; {EXPECTED}; rename the columns, or name them by --map{such}"
        )
    said = ", ".join(f"{name} (is it {near[name]}?)" if name in near else name for name in wanted)
    maps = " ".join(f"--map {name}={near.get(name, '…')}" for name in wanted)
    return f"missing: {said}; found: {found}; {EXPECTED}; rename the columns, or say {maps}"


def _shortened(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"


def _read_mapped(
    source: Source,
    mapping: Mapping[str, str],
    *,
    features: bool,
    words: Mapping[str, float],
    swapped: Source | None,
) -> RawAnswers:
    """Rename the columns; answers may be any of the words for the first and the second shown."""
    unknown = [name for name in mapping if name not in MAPPABLE]
    if unknown:
        raise ConfigurationError(f"--map names {', '.join(unknown)}; expected one of {', '.join(MAPPABLE)}")
    frame = _mapped(source, mapping, features=features)
    if swapped is not None:
        frame = in_both_orders(frame, _mapped(swapped, mapping, features=features), where=swapped.where)
    if "annotator" not in frame:
        frame["annotator"] = POOLED
    if "choice" not in frame or not (words or "choice" in mapping):
        return tables.read_frame(frame, where=source.where)
    frame["outcome"] = outcomes_of(frame.pop("choice"), {**OUTCOMES, **words})
    if len(frame) and bool(np.isnan(frame["outcome"]).all()):
        raise InputError(
            f"{source.where}no answer says which side won; expected left/right, a/b, first/second or 1/2, and tie; say "
            "what the words mean with --answers; if the column names the item that won, use --map label=…"
        )
    return rows.from_frame(frame, where=source.where)


def own_columns(names: Sequence[str], mapping: Mapping[str, str]) -> dict[str, str]:
    """What the columns are taken for that stand under our names already, where a map names others."""
    taken = {*mapping, *mapping.values(), *(_ANSWERS if _ANSWERS & set(mapping) else ())}
    return {name: _OWN_USES.get(name, name) for name in MAPPABLE if name in names and name not in taken}


def _mapped(source: Source, mapping: Mapping[str, str], *, features: bool) -> pd.DataFrame:
    """The columns that a map names, under our names; a path leads below a record's fields."""
    kept = own_columns(source.names, mapping)
    told = tables.feature_columns(source.names) if features else []
    ours = {**{name: name for name in (*kept, *told)}, **mapping}
    many = {name: column.split(",") for name, column in ours.items() if "," in column and column not in source.names}
    if set(many) - {"choice"}:
        raise ConfigurationError(f"--map {next(iter(set(many) - {'choice'}))} names several columns; only choice may")
    ours |= {f"choice {column}": column for column in many.get("choice", ())}
    ours = {name: column for name, column in ours.items() if name not in many}
    frame = _columns(source, ours)
    missing = [name for name in ("left", "right") if name not in ours]
    if missing:
        raise InputError(f"{source.where}column {', '.join(missing)} is missing; add --map {missing[0]}=…")
    people = [name for name in ours if name.startswith("choice ")]
    if not people:
        return frame
    # One row a pair and a column a person: every person's answers below one another.
    return pd.concat(
        [
            frame.drop(columns=people).assign(annotator=name.removeprefix("choice "), choice=frame[name])
            for name in people
        ],
        ignore_index=True,
    )


def _columns(source: Source, ours: Mapping[str, str]) -> pd.DataFrame:
    """Columns of a table, or what stands at paths in records."""
    missing = [column for column in ours.values() if column not in source.names]
    if any(not is_nested(column) for column in missing):
        names = [name for name in missing if not is_nested(name)]
        near = difflib.get_close_matches(names[0], source.names, n=1)
        raise InputError(
            f"{source.where}column {', '.join(names)} is missing; found: {', '.join(source.names[:20])}; "
            + (f"did you mean {near[0]}?" if near else "name one of these after --map …=")
        )
    text = [column for name, column in ours.items() if name in (*tables.TEXT, *tables.TEXT_FEATURES)]
    if not missing:
        frame = source.frame(list(ours.values()), text=[*text, *(c for n, c in ours.items() if n.startswith("choice"))])
        return pd.DataFrame({name: frame[column] for name, column in ours.items()})
    records = source.records
    columns = {
        name: list(map(at(path) if path in missing else itemgetter(path), records)) for name, path in ours.items()
    }
    empty = [path for name, path in ours.items() if path in missing and not any(v is not None for v in columns[name])]
    if empty:
        raise InputError(
            f"{source.where}nothing stands at {', '.join(empty)}; expected names and positions as in a.b[0]"
        )
    for name in ("left", "right"):
        columns[name] = [value if value is None else item_key(value) for value in columns.get(name, [])]
    return pd.DataFrame({name: pd.Series(column, dtype=object) for name, column in columns.items() if column})
