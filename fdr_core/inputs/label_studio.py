"""Answers from a Label Studio export, JSON or JSON-MIN."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fdr_core.errors import ConfigurationError, InputError
from fdr_core.inputs.columns import CHOICES, RawAnswers, RawSkips, show
from fdr_core.inputs.item_keys import item_key
from fdr_core.inputs.label_studio_results import annotator_of, answer_text, chosen_in, lead_time_of, results_of
from fdr_core.inputs.source import Source

Record = Mapping[str, Any]
COIN_FIELDS = ("evenhand_coin", "coin")
#: Fields that Evenhand itself writes into tasks begin so.
OWN_FIELDS = "evenhand_"
#: Tasks that are looked at to tell which fields hold texts.
_SAMPLE = 50
_MIN_FIELDS = frozenset({"id", "annotator", "annotation_id", "created_at", "updated_at", "lead_time"})
_SIDES = (("left", "right"), ("1", "2"), ("a", "b"), ("first", "second"), ("one", "two"), ("0", "1"))
_PARTS = re.compile(r"left|right|first|second|one|two|[0-9]+|(?<![a-z])[ab](?![a-z])", re.IGNORECASE)


@dataclass
class _Rows:
    """Columns being filled, answer by answer."""

    annotator: list[Any] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    right: list[str] = field(default_factory=list)
    outcome: list[float] = field(default_factory=list)
    coin: list[Any] = field(default_factory=list)
    stratum: list[Any] = field(default_factory=list)
    time: list[Any] = field(default_factory=list)
    lead_time: list[float] = field(default_factory=list)
    data: list[Record] = field(default_factory=list)
    is_ground_truth: list[bool] = field(default_factory=list)


@dataclass(frozen=True)
class _Fields:
    """Which control and which fields of the data hold what."""

    control: str
    left: str
    right: str
    coin: str | None
    stratum: str | None
    outcomes: Mapping[str, float]


def read_export(
    source: str | Path | Sequence[Record] | Record,
    *,
    control: str | None = None,
    item_left: str | None = None,
    item_right: str | None = None,
    coin: str | None = None,
    stratum: str | None = None,
    outcomes: Mapping[str, float] | None = None,
    where: str = "",
) -> RawAnswers:
    """Read an export's answers, skips, and what has to be left out; parameters as `Comparisons.from_label_studio`."""
    where = where or (f"{source}: " if isinstance(source, (str, Path)) else "Label Studio export: ")
    tasks = _tasks(source, where=where)
    answer_map = _answer_map(outcomes)
    chosen = control or _find_control(tasks, answer_map, is_given=outcomes is not None, where=where)
    left, right = _item_fields(tasks, item_left, item_right, ignored={coin, stratum, *COIN_FIELDS}, where=where)
    coin_field = coin or _coin_field(tasks)
    fields = _Fields(chosen, left, right, coin_field, stratum, answer_map)
    answers, skips, excluded = _collect(tasks, fields, is_coin_required=coin is not None, where=where)
    has_all_coins = coin_field is not None and all(coin_field in _data(task) for task in tasks)
    return RawAnswers(
        annotator=_objects(answers.annotator),
        left=_objects(answers.left),
        right=_objects(answers.right),
        outcome=np.array(answers.outcome, dtype=np.float64),
        coin=_objects(answers.coin) if has_all_coins else None,
        task=None if has_all_coins else _objects(answers.coin),
        time=pd.Series(answers.time, dtype=object),
        lead_time=np.array(answers.lead_time, dtype=np.float64),
        stratum=_objects(answers.stratum) if stratum else None,
        excluded=dict(excluded),
        skips=RawSkips(*(_objects(column) for column in (skips.annotator, skips.left, skips.right, skips.coin))),
        features=_features(answers, (left, right)),
        where=where,
    )


def _features(answers: _Rows, items: tuple[str, str]) -> pd.DataFrame:
    """Tell of every answer's items: the longest two paired texts of the task, gold, and what is marked ground truth."""
    told: dict[str, Any] = {"is_ground_truth": answers.is_ground_truth}
    names = list(answers.data[0]) if answers.data else []
    sample = [{"data": data} for data in answers.data[:_SAMPLE]]
    pairs = [pair for pair in (*paired_names(names), items) if _are_texts(answers.data[:_SAMPLE], pair)]
    if pairs:
        longest = max(pairs, key=lambda pair: _total_length(sample, pair))
        told |= {
            f"text_{side}": [data.get(name) for data in answers.data]
            for side, name in zip(("left", "right"), longest, strict=True)
        }
    told |= {name: [data.get(name) for data in answers.data] for name in names if name == "gold" or name[:2] == "x_"}
    return pd.DataFrame(told)


def _are_texts(sample: Sequence[Record], pair: tuple[str, str]) -> bool:
    return all(isinstance(data.get(name), str) for data in sample for name in pair)


def _tasks(source: str | Path | Sequence[Record] | Record, *, where: str) -> list[Record]:
    """Load the export and bring JSON-MIN into the shape of JSON."""
    content: Any = Source(source, kind="json").document if isinstance(source, (str, Path)) else source
    tasks = [content] if isinstance(content, Mapping) else content
    if not isinstance(tasks, Sequence) or isinstance(tasks, str):
        raise InputError(f"{where}found {type(content).__name__}; expected a list of tasks; export the project as JSON")
    if not tasks:
        raise InputError(f"{where}there are no tasks; expected at least one; export the project once it has answers")
    for position, task in enumerate(tasks):
        if not isinstance(task, Mapping) or not ("annotations" in task or "annotation_id" in task):
            raise InputError(
                f"{where}entry {position + 1} is {show(task)}; expected a task with annotations; "
                "export the project as JSON or JSON-MIN"
            )
    return [task if "annotations" in task else _from_min(task) for task in tasks]


def _from_min(row: Record) -> Record:
    """Write one JSON-MIN row as a task with one annotation."""
    results = [_min_result(name, value) for name, value in row.items() if name not in _MIN_FIELDS]
    found = {result["from_name"] for result in results if result["type"] in ("pairwise", "rating")}
    annotation = {
        "id": row.get("annotation_id"),
        "completed_by": row.get("annotator"),
        "result": results,
        "created_at": row.get("created_at"),
        "updated_at": row.get("updated_at"),
        "lead_time": row.get("lead_time"),
    }
    data = {name: value for name, value in row.items() if name not in _MIN_FIELDS and name not in found}
    return {"id": row.get("id"), "data": data, "annotations": [annotation]}


def _min_result(name: str, value: Any) -> Record:
    """Guess a result from a JSON-MIN value; plain text may be data as well as a choice, so its type stays open."""
    inner = value[0] if isinstance(value, list) and len(value) == 1 and isinstance(value[0], Mapping) else value
    if isinstance(inner, Mapping):
        kind = "pairwise" if "selected" in inner else "rating" if "rating" in inner else "choices"
        return {"from_name": name, "type": kind, "value": inner}
    return {"from_name": name, "type": "", "value": {"choices": inner if isinstance(inner, list) else [inner]}}


def _answer_map(outcomes: Mapping[str, float] | None) -> Mapping[str, float]:
    """Check the map from answers to outcomes; without one, left, right and tie are understood."""
    if outcomes is None:
        return CHOICES
    for answer, outcome in outcomes.items():
        is_number = isinstance(outcome, (int, float)) and not isinstance(outcome, bool)
        if not is_number or not -1 <= outcome <= 1:
            raise ConfigurationError(
                f"outcomes maps {show(answer)} to {show(outcome)}; expected a number from -1 (right) to 1 (left)"
            )
    return {text: float(outcome) for answer, outcome in outcomes.items() if (text := _answer_text(answer)) is not None}


def _answer_text(value: object) -> str | None:
    """Compare answers as lower-case text."""
    text = answer_text(value)
    return None if text is None else text.strip().lower()


def _data(task: Record) -> Record:
    """Give a task's data, empty where it has none."""
    data = task.get("data")
    return data if isinstance(data, Mapping) else {}


def _annotations(task: Record) -> Iterator[Record]:
    """Give a task's annotations, tolerating null."""
    annotations = task.get("annotations")
    if isinstance(annotations, Sequence):
        yield from (annotation for annotation in annotations if isinstance(annotation, Mapping))


def _find_control(tasks: Iterable[Record], answer_map: Mapping[str, float], *, is_given: bool, where: str) -> str:
    """Take the first Pairwise, else the first control whose answers the map explains."""
    kinds: dict[str, str] = {}
    fitting: list[str] = []
    for task in tasks:
        for annotation in _annotations(task):
            for result in results_of(annotation):
                name, kind = str(result.get("from_name")), str(result.get("type"))
                if kind == "pairwise" and not is_given:
                    return name
                kinds.setdefault(name, kind)
                if _answer(result) in answer_map:
                    fitting.append(name)
    if fitting:
        return fitting[0]
    offered = ", ".join(f"{name} ({kind})" for name, kind in kinds.items() if kind) or "none"
    raise InputError(
        f"{where}no Pairwise control has an answer; controls found: {offered}; "
        "for Choices or Rating name the control and give outcomes, a map from each answer to a number from -1 to 1"
    )


def _answer(result: Record) -> str | None:
    """Give the answer a result holds as text, None where it holds none."""
    value = result.get("value")
    return _answer_text(chosen_in(value)) if isinstance(value, Mapping) else None


def _item_fields(
    tasks: Sequence[Record], left: str | None, right: str | None, *, ignored: set[str | None], where: str
) -> tuple[str, str]:
    """Take the named fields, or guess them."""
    offered = _shared_fields(tasks, ignored)
    if left is not None and right is not None:
        known = {name for task in tasks for name in _data(task)}
        missing = [name for name in (left, right) if name not in known]
        if missing:
            raise InputError(
                f"{where}no task has the field {', '.join(missing)}; offered: {', '.join(offered) or 'none'}; "
                "name two of these as item_left and item_right"
            )
        return left, right
    pairs = [pair for pair in paired_names(offered) if left in (None, pair[0]) and right in (None, pair[1])]
    if not pairs and len(offered) == 2:
        pairs = [(offered[0], offered[1])]
    if ("left", "right") in pairs:
        return "left", "right"
    if pairs and all(_same_items(tasks, pairs[0], pair) for pair in pairs[1:]):
        return min(pairs, key=lambda pair: _total_length(tasks, pair))
    raise InputError(
        f"{where}cannot tell which fields name the left and the right item; offered: {', '.join(offered) or 'none'}; "
        "name two of these as item_left and item_right"
    )


def item_fields(data: Sequence[Record], *, where: str) -> tuple[str, str]:
    """Guess which two fields of the tasks' data name the left and the right item."""
    ignored: set[str | None] = {*COIN_FIELDS, *_MIN_FIELDS}
    return _item_fields([{"data": task} for task in data], None, None, ignored=ignored, where=where)


def _shared_fields(tasks: Sequence[Record], ignored: set[str | None]) -> list[str]:
    """List the fields that every task has, in the first task's order; those that Evenhand wrote name no items."""
    names = list(_data(tasks[0])) if tasks else []
    shared = set(names).intersection(*(_data(task) for task in tasks))
    return [name for name in names if name in shared - ignored and not name.startswith(OWN_FIELDS)]


def paired_names(names: Sequence[str]) -> list[tuple[str, str]]:
    """Find names that differ only in the mark of their side: text1/text2, left/right, answer_a/answer_b."""
    opposite = dict(_SIDES[:-1]) | {"0": "1"} if not any("2" in name for name in names) else dict(_SIDES[:-1])
    found = []
    for name in names:
        for part in _PARTS.finditer(name):
            other = opposite.get(part.group().lower())
            partner = None if other is None else _match_case(name, part, other, names)
            if partner is not None:
                found.append((name, partner))
    return found


def _match_case(name: str, part: re.Match[str], other: str, names: Sequence[str]) -> str | None:
    """Look for the partner's name, whatever its case."""
    wanted = (name[: part.start()] + other + name[part.end() :]).lower()
    return next((candidate for candidate in names if candidate.lower() == wanted), None)


def _same_items(tasks: Sequence[Record], one: tuple[str, str], two: tuple[str, str]) -> bool:
    """Tell whether two pairs of fields name the same items, one to one."""
    links = {
        (item_key(_data(task)[first]), item_key(_data(task)[second]))
        for task in tasks
        for first, second in zip(one, two, strict=True)
    }
    return len({first for first, _ in links}) == len(links) == len({second for _, second in links})


def _total_length(tasks: Sequence[Record], pair: tuple[str, str]) -> int:
    """Measure how wordy a pair of fields is: of two that say the same, the shorter is the name."""
    return sum(len(str(_data(task)[name])) for task in tasks for name in pair)


def _coin_field(tasks: Sequence[Record]) -> str | None:
    """Find a recorded coin."""
    return next((name for name in COIN_FIELDS if any(name in _data(task) for task in tasks)), None)


def _collect(
    tasks: Iterable[Record], fields: _Fields, *, is_coin_required: bool, where: str
) -> tuple[_Rows, _Rows, Counter[str]]:
    """Sort every annotation into answers, skips, and what is left out."""
    answers, skips, excluded = _Rows(), _Rows(), Counter[str]()
    for task in tasks:
        data = _data(task)
        if is_coin_required and fields.coin not in data:
            raise InputError(
                f"{where}task {task.get('id')} has no field {fields.coin}; every task needs its coin; "
                "add it, or leave the coin out to use the tasks"
            )
        coin = data[fields.coin] if fields.coin is not None and fields.coin in data else f"task {task.get('id')}"
        for annotation in _annotations(task):
            status, outcome = _judge(annotation, data, fields)
            if status not in ("answer", "skipped"):
                excluded[status] += 1
                continue
            excluded["skipped"] += status == "skipped"
            _append(answers if status == "answer" else skips, annotation, data, fields, coin, outcome)
    return answers, skips, +excluded


def _judge(annotation: Record, data: Record, fields: _Fields) -> tuple[str, float]:
    """Say what an annotation is: answer, skipped, or the reason why it is left out."""
    if _annotator(annotation) is None:
        return "without annotator", 0.0
    left, right = data.get(fields.left), data.get(fields.right)
    if left in (None, "") or right in (None, ""):
        return "without items", 0.0
    if item_key(left) == item_key(right):
        return "same item twice", 0.0
    if annotation.get("was_cancelled"):
        return "skipped", 0.0
    results = [result for result in results_of(annotation) if result.get("from_name") == fields.control]
    if not results:
        return "empty", 0.0
    if results[0].get("origin") == "prediction":
        return "prediction", 0.0
    outcome = fields.outcomes.get(_answer(results[0]) or "")
    return ("unreadable", 0.0) if outcome is None else ("answer", outcome)


def _append(rows: _Rows, annotation: Record, data: Record, fields: _Fields, coin: object, outcome: float) -> None:
    """Add one annotation to the columns."""
    rows.annotator.append(_annotator(annotation))
    rows.left.append(item_key(data[fields.left]))
    rows.right.append(item_key(data[fields.right]))
    rows.outcome.append(outcome)
    rows.coin.append(coin if isinstance(coin, (str, int)) else item_key(coin))
    rows.stratum.append(item_key(data.get(fields.stratum, "")) if fields.stratum else "")
    rows.time.append(annotation.get("created_at") or annotation.get("updated_at"))
    rows.lead_time.append(_known(lead_time_of(annotation.get("lead_time"))))
    rows.data.append(data)
    rows.is_ground_truth.append(bool(annotation.get("ground_truth")))


def _annotator(annotation: Record) -> object:
    """Name the annotator by id, or by e-mail where the export spells people out."""
    return annotator_of(annotation.get("completed_by"), ("email", "id"))


def _known(seconds: float | None) -> float:
    """A number for a column, NaN where nothing is known."""
    return np.nan if seconds is None else seconds


def _objects(values: Sequence[Any]) -> "pd.Series[Any]":
    """Keep labels as they are."""
    return pd.Series(values, dtype=object)
