"""Preferences with the annotations of several people nested in each comparison, as in MultiPref."""

from collections.abc import Iterator, Mapping
from typing import Any

from fdr_core.inputs.columns import RawAnswers
from fdr_core.inputs.formats import Format
from fdr_core.inputs.rows import OUTCOMES, Rows, outcome_of
from fdr_core.inputs.source import Record, Source

_ANSWERS = ("overall_pref", "preference", "pref", "choice")
_PEOPLE = ("evaluator", "annotator", "worker", "annotator_id", "worker_id")
_SCALE = {
    **OUTCOMES,
    "a-is-clearly-better": 1.0,
    "a-is-slightly-better": 0.5,
    "b-is-slightly-better": -0.5,
    "b-is-clearly-better": -1.0,
}


def _recognises(source: Source) -> bool:
    if not {"model_a", "model_b"} <= set(source.names):
        return False
    return any(_first(inner, _ANSWERS) is not None for record in source.sample for inner in _annotations(record))


def _annotations(record: Record) -> Iterator[Record]:
    """The nested annotations, whatever the lists that hold them are called."""
    for name, value in record.items():
        inner = value.tolist() if hasattr(value, "tolist") else value
        if "annotation" in name and isinstance(inner, list):
            yield from (entry for entry in inner if isinstance(entry, Mapping))


def _first(record: Record, names: tuple[str, ...]) -> Any:
    return next((record[name] for name in names if record.get(name) is not None), None)


def _read(source: Source) -> RawAnswers:
    rows = Rows()
    for position, record in enumerate(source.records):
        task = record.get("comparison_id") or record.get("id") or position
        for annotation in _annotations(record):
            rows.add(
                annotator=_first(annotation, _PEOPLE),
                left=record.get("model_a"),
                right=record.get("model_b"),
                outcome=outcome_of(_first(annotation, _ANSWERS), _SCALE),
                task=str(task),
                time=annotation.get("timestamp"),
                lead_time=annotation.get("time_spent"),
            )
    return rows.answers(source.where)


FORMAT = Format(
    name="multipref",
    title="comparisons with nested annotations (MultiPref)",
    recognises=_recognises,
    read=_read,
    uses={
        "model_a": "left item: shown first",
        "model_b": "right item: shown second",
        "comparison_id": "task: all its annotators saw one order",
        "normal_worker_annotations": "annotator, answer, time and lead time of each",
        "expert_worker_annotations": "annotator, answer, time and lead time of each",
        "annotations": "annotator, answer, time and lead time of each",
    },
    supports=("Every annotator is named; graded answers keep their strength.",),
    lacks=("Several people answered under one order of a task: the coin is shared between them.",),
)
