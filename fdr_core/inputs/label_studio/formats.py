"""Label Studio's exports as formats of the registry: JSON, JSON_MIN and CSV."""

import json
from collections.abc import Mapping
from typing import Any

from fdr_core.inputs.columns import RawAnswers
from fdr_core.inputs.formats import Format
from fdr_core.inputs.label_studio.exports import read_export
from fdr_core.inputs.label_studio.reading import Wanted
from fdr_core.inputs.label_studio.words import answers_from
from fdr_core.inputs.source import Record, Source

_SHARED_LACKS = (
    "Label Studio shows every annotator of a task the same order: the coin is the task's, and shared, unless "
    "`evenhand prepare` recorded another.",
)


def _is_json(source: Source) -> bool:
    return source.kind in ("json", "jsonl") and any(
        "annotations" in record and "data" in record for record in source.sample
    )


def _is_min(source: Source) -> bool:
    return source.kind in ("json", "jsonl") and "annotation_id" in source.names and "annotations" not in source.names


def _is_csv(source: Source) -> bool:
    return source.kind == "csv" and {"annotation_id", "annotator"} <= set(source.names)


def wanted_of(fields: Mapping[str, Any]) -> tuple[Wanted, Any]:
    """What options say of an export's reading, and its label config."""
    others = {name: value for name, value in fields.items() if name not in ("answers", "label_config")}
    return Wanted(**others, answers=answers_from(fields.get("answers"))), fields.get("label_config")


def _read_json(source: Source, **fields: Any) -> RawAnswers:
    return read_export(source.records, *wanted_of(fields), where=source.where)


def _read_csv(source: Source, **fields: Any) -> RawAnswers:
    """A CSV export is JSON_MIN with every value written as text; what is JSON in it is parsed."""
    frame = source.frame(source.names, text=source.names)
    tasks = [{str(name): _parsed(value) for name, value in row.items()} for row in frame.to_dict("records")]
    return read_export([_numbered(task) for task in tasks], *wanted_of(fields), where=source.where)


def _parsed(value: Any) -> Any:
    if not isinstance(value, str):
        return None
    if not value.startswith(("[", "{")):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value


def _numbered(task: Record) -> Record:
    """Ids and durations are numbers in every export but this."""
    numbers = {name: _number(task.get(name)) for name in ("id", "annotator", "annotation_id", "lead_time")}
    return {**task, **numbers}


def _number(value: Any) -> Any:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return value
    return int(number) if number.is_integer() else number


JSON = Format(
    name="label-studio",
    title="Label Studio export (JSON)",
    recognises=_is_json,
    read=_read_json,
    uses={
        "annotations": "annotator, answer, time and lead time of each annotation",
        "data": "items: the two fields that differ in the side only; coin: evenhand_coin where present",
        "id": "task: the coin where none is recorded",
    },
    supports=("Annotators, skips and answers that came from a shown prediction are told apart.",),
    lacks=_SHARED_LACKS,
)
JSON_MIN = Format(
    name="label-studio-min",
    title="Label Studio export (JSON_MIN)",
    recognises=_is_min,
    read=_read_json,
    uses={
        "annotator": "annotator",
        "id": "task: the coin where none is recorded",
        "created_at": "time",
        "lead_time": "lead time",
        "evenhand_coin": "coin",
    },
    supports=("Annotators are named.",),
    lacks=(
        *_SHARED_LACKS,
        "Skips, and answers that came from a shown prediction, cannot be told apart: export as JSON.",
    ),
)
CSV = Format(
    name="label-studio-csv",
    title="Label Studio export (CSV)",
    recognises=_is_csv,
    read=_read_csv,
    uses=JSON_MIN.uses,
    supports=JSON_MIN.supports,
    lacks=JSON_MIN.lacks,
)
