"""Argilla's records: what each user answered to a ranking, or to a question whose labels name the two fields."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from fdr_core.errors import InputError
from fdr_core.inputs.formats import Format
from fdr_core.inputs.item_keys import item_key
from fdr_core.inputs.label_studio.words import paired_names
from fdr_core.inputs.rows import gathered, outcome_of
from fdr_core.inputs.source import Record, Source

_FLAT = ".responses"


def _is_nested(record: Record) -> bool:
    return isinstance(record.get("fields"), Mapping) and isinstance(record.get("responses"), Mapping)


def _is_flat(record: Record) -> bool:
    return any(name.endswith(_FLAT) and f"{name}.users" in record for name in record)


def _recognises(source: Source) -> bool:
    return any(_is_nested(record) or _is_flat(record) for record in source.sample)


def _answers(source: Source) -> Iterator[dict[str, Any]]:
    left, right = _item_fields(source)
    for position, record in enumerate(source.records):
        fields = record["fields"] if _is_nested(record) else record
        for user, value in _responses(record):
            yield {
                "annotator": None if user is None else str(user),
                "left": item_key(fields.get(left) or ""),
                "right": item_key(fields.get(right) or ""),
                "outcome": _outcome(value, left, right),
                "task": str(record.get("id") or record.get("_server_id") or position),
            }


def _item_fields(source: Source) -> tuple[str, str]:
    """The two fields that were compared: named alike but for the side."""
    names = list(dict.fromkeys(name for record in source.sample for name in record.get("fields", record)))
    pairs = paired_names(names)
    if not pairs:
        raise InputError(
            f"{source.where}cannot tell which fields were compared; found: {', '.join(names) or 'none'}; "
            "expected two that differ in the side only, such as response_1 and response_2"
        )
    return pairs[0]


def _responses(record: Record) -> Iterator[tuple[Any, Any]]:
    """User and value of every submitted response that names a side, of nested and of flattened exports."""
    if _is_nested(record):
        for answers in record["responses"].values():
            yield from ((one.get("user_id"), one.get("value")) for one in answers or [] if _is_submitted(one))
        return
    for name in record:
        if name.endswith(_FLAT) and f"{name}.users" in record:
            yield from zip(record[f"{name}.users"] or [], record[name] or [], strict=True)


def _is_submitted(response: Any) -> bool:
    return isinstance(response, Mapping) and response.get("status", "submitted") in ("submitted", None)


def _outcome(value: Any, left: str, right: str) -> float:
    """Which field the response puts first: an ordered list, a list of ranks, or one name."""
    if isinstance(value, str):
        return 1.0 if value == left else -1.0 if value == right else outcome_of(value)
    rank = _ranks(value)
    if left not in rank or right not in rank:
        return np.nan
    return float(np.sign(rank[right] - rank[left]))


def _ranks(value: Any) -> dict[str, float]:
    if not isinstance(value, Sequence):
        return {}
    if all(isinstance(entry, Mapping) for entry in value):
        return {str(entry.get("value")): entry["rank"] for entry in value if entry.get("rank") is not None}
    return {str(name): float(position) for position, name in enumerate(value)}


FORMAT = Format(
    name="argilla",
    title="Argilla records",
    recognises=_recognises,
    read=lambda source: gathered(_answers(source), where=source.where),
    uses={
        "fields": "items: the two that differ in the side only, such as response_1 and response_2",
        "responses": "annotator and answer: every user's ranking or choice",
        "id": "task: all its users saw one order",
    },
    supports=("Every user is named.",),
    lacks=(
        "Argilla shows the fields of a record in one order for everybody and does not say whether chance decided it: "
        "state --sides random if your import did.",
    ),
)
