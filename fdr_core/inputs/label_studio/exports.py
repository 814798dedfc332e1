"""Answers from a Label Studio export, JSON or JSON-MIN, and an account of what could not be read."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fdr_core.errors import ConfigurationError, InputError
from fdr_core.inputs.columns import RawAnswers, RawSkips, show
from fdr_core.inputs.item_keys import drawn_sides, item_key
from fdr_core.inputs.label_studio.account import Account
from fdr_core.inputs.label_studio.answers import Given, Pair, read_answer, shown_contents
from fdr_core.inputs.label_studio.reading import Reading, Wanted, candidates, resolve
from fdr_core.inputs.label_studio.results import (
    annotator_of,
    item_in,
    lead_time_of,
    results_of,
)
from fdr_core.inputs.label_studio.seen import (
    COIN_FIELDS,
    MIN_FIELDS,
    Record,
    annotations_of,
    choose_fields,
    data_of,
    features_of,
    setup_of,
)
from fdr_core.inputs.label_studio.setup import Setup, parse_label_config
from fdr_core.inputs.source import Source


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
    task: list[Any] = field(default_factory=list)


def read_export(
    source: str | Path | Sequence[Record] | Record,
    wanted: Wanted | None = None,
    label_config: str | Path | None = None,
    *,
    where: str = "",
) -> RawAnswers:
    """Read an export's answers, skips, and what has to be left out; see `Comparisons.from_label_studio`."""
    wanted = wanted or Wanted()
    where = where or (f"{source}: " if isinstance(source, (str, Path)) else "Label Studio export: ")
    tasks = load_tasks(source, where=where)
    reading = reading_of(tasks, wanted, label_config, where=where)
    rows, skips, account = _collect(tasks, reading, is_coin_required=wanted.coin is not None, where=where)
    account.check(where)
    has_all_coins = reading.coin is not None and all(reading.coin in data_of(task) for task in tasks)
    _refuse_moved(rows, where)
    return RawAnswers(
        annotator=_objects(rows.annotator),
        left=_objects(rows.left),
        right=_objects(rows.right),
        outcome=np.array(rows.outcome, dtype=np.float64),
        coin=_objects(rows.coin) if has_all_coins else None,
        task=None if has_all_coins else _objects(rows.coin),
        time=pd.Series(rows.time, dtype=object),
        lead_time=np.array(rows.lead_time, dtype=np.float64),
        stratum=_objects(rows.stratum) if wanted.stratum else None,
        excluded=account.excluded,
        skips=RawSkips(*(_objects(column) for column in (skips.annotator, skips.left, skips.right, skips.coin))),
        features=features_of(rows.data, rows.is_ground_truth, (reading.item_left, reading.item_right)),
        where=where,
    )


def shown_items(
    records: Sequence[Record], wanted: Wanted, label_config: str | Path | None = None, *, where: str
) -> Iterator[tuple[Record, list[Any]]]:
    """The data of every task, and the contents of the items that it shows."""
    tasks = load_tasks(records, where=where)
    reading = reading_of(tasks, wanted, label_config, where=where)
    for task in tasks:
        yield data_of(task), shown_contents(data_of(task), reading)


def load_tasks(source: str | Path | Sequence[Record] | Record, *, where: str) -> list[Record]:
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


def reading_of(
    tasks: Sequence[Record], wanted: Wanted, label_config: str | Path | None = None, *, where: str = ""
) -> Reading:
    """How an export is read: by its label config where that is given, else by what its answers look like."""
    seen = {str(name) for task in tasks for name in data_of(task)}
    if wanted.coin is None and (coin := next((name for name in COIN_FIELDS if name in seen), None)):
        wanted = replace(wanted, coin=coin)
    if label_config is not None:
        xml = label_config.read_text("utf-8") if isinstance(label_config, Path) else label_config
        return resolve(wanted, parse_label_config(xml), seen)
    setup = setup_of(tasks, {wanted.coin, wanted.stratum, *COIN_FIELDS}, (wanted.control or "").split("|"))
    _check_one_candidate(setup, wanted, tasks, where)
    try:
        reading = resolve(_with_fields(tasks, wanted, setup, where), setup, seen)
    except ConfigurationError as error:
        raise InputError(f"{where}{_in_an_export(str(error))}") from error
    return replace(reading, names=frozenset())  # an export does not tell which controls exist


def _in_an_export(message: str) -> str:
    """A message about a label config, where there is none."""
    return message.replace("the label config has no Pairwise control", "no Pairwise control has an answer").replace(
        "the label config", "the export"
    )


def _with_fields(tasks: Sequence[Record], wanted: Wanted, setup: Setup, where: str) -> Wanted:
    """Name the fields of a pair, where the form is one."""
    try:
        form = resolve(replace(wanted, item_left="left", item_right="right", coin=None, stratum=None), setup, ()).form
    except ConfigurationError:
        return wanted  # said by whoever resolves it next
    if form != "pair":
        return wanted
    ignored = {wanted.coin, wanted.stratum, *COIN_FIELDS}
    left, right = choose_fields(tasks, wanted.item_left, wanted.item_right, ignored=ignored, where=where)
    return replace(wanted, item_left=left, item_right=right)


def _check_one_candidate(setup: Setup, wanted: Wanted, tasks: Sequence[Record], where: str) -> None:
    """Refuse to choose among several controls that hold a preference each."""
    if wanted.control or wanted.controls:
        return
    found = candidates(setup)
    if len(found) < 2:
        return
    counts = Counter(
        str(name)
        for task in tasks
        for annotation in annotations_of(task)
        for name in {result.get("from_name") for result in results_of(annotation)}
    )
    listed = ", ".join(f"{c.name} ({c.type}, {counts[c.name]:,} answers)" for c in found)
    both = "|".join(control.name for control in found[:2])
    raise InputError(
        f"{where}several controls hold a comparison: {listed}; name the one to judge, such as --control "
        f"{found[0].name}; if one was renamed to the other, --control '{both}' reads them as one"
    )


def _from_min(row: Record) -> Record:
    """Write one JSON-MIN row as a task with one annotation."""
    results = [_min_result(name, value) for name, value in row.items() if name not in MIN_FIELDS]
    found = {result["from_name"] for result in results if result["type"] in ("pairwise", "rating", "ranker")}
    annotation = {
        "id": row.get("annotation_id"),
        "completed_by": row.get("annotator"),
        "result": results,
        "created_at": row.get("created_at"),
        "updated_at": row.get("updated_at"),
        "lead_time": row.get("lead_time"),
    }
    data = {name: value for name, value in row.items() if name not in MIN_FIELDS and name not in found}
    return {"id": row.get("id"), "data": data, "annotations": [annotation]}


def _min_result(name: str, value: Any) -> Record:
    """Guess a result from a JSON-MIN value; plain text may be data as well as a choice, so its type stays open."""
    inner = value[0] if isinstance(value, list) and len(value) == 1 and isinstance(value[0], Mapping) else value
    if isinstance(inner, Mapping):
        known = {"selected": "pairwise", "rating": "rating", "ranker": "ranker"}
        kind = next((kind for key, kind in known.items() if key in inner), "choices" if "choices" in inner else "")
        return {"from_name": name, "type": kind, "value": inner}
    return {"from_name": name, "type": "", "value": {"choices": inner if isinstance(inner, list) else [inner]}}


def _collect(
    tasks: Iterable[Record], reading: Reading, *, is_coin_required: bool, where: str
) -> tuple[_Rows, _Rows, Account]:
    """Sort every annotation into answers, skips, and what is left out."""
    answers, skips, account = _Rows(), _Rows(), Account(reading)
    tasks = list(tasks)
    names = _addresses(tasks)
    for task in tasks:  # the task's coin is named as in the service: what follows from names is then the same
        data = data_of(task)
        if is_coin_required and reading.coin not in data:
            raise InputError(
                f"{where}task {task.get('id')} has no field {reading.coin}; every task needs its coin; "
                "add it, or leave the coin out to use the tasks"
            )
        has_coin = reading.coin is not None and reading.coin in data
        coin = _label(data[reading.coin or ""]) if has_coin else f"task:{task.get('id')}"
        for annotation in annotations_of(task):
            person = annotator_of(annotation.get("completed_by"))
            given, pairs = _judge(annotation, data, reading, person)
            account.add(given, task)
            rows = answers if given.status == "answer" else skips if given.status == "skip" else None
            for pair in pairs if rows is not None else ():
                own = f"{coin} #{pair.question}" if pair.question else coin
                _append(rows, annotation, data, reading, names.get(person, person), pair, own)
                if rows is answers:
                    answers.task.append(task.get("id"))
    return answers, skips, account


def _refuse_moved(rows: _Rows, where: str) -> None:
    """Raise where a task does not show its items as the seed of its coin has it."""
    (coin, coins), (item, items) = pd.factorize(_objects(rows.coin)), pd.factorize(_objects(rows.left + rows.right))
    n = len(coin)
    moved = np.flatnonzero(drawn_sides(list(coins), list(items), coin, item[:n], item[n:]) < 0)
    tasks = list(dict.fromkeys(str(rows.task[row]) for row in moved.tolist()))
    if tasks:
        raise InputError(
            f"{where}{len(tasks)} tasks show their items on other sides than the seed in their coin does: "
            f"{', '.join(tasks[:10])}{' ...' if len(tasks) > 10 else ''}; items were moved after the coins were drawn: "
            "restore these tasks, or leave them out"
        )


def _judge(annotation: Record, data: Record, reading: Reading, person: object) -> tuple[Given, tuple[Pair, ...]]:
    """Say what an annotation is, and the pairs that it is about."""
    given = read_answer(annotation, reading, data)
    shown: tuple[Pair, ...] = given.pairs
    reason = "without annotator" if person is None else ""
    if reading.is_one_pair:
        left, right = item_in(data, reading.item_left), item_in(data, reading.item_right)
        if not reason and (left is None or right is None):
            reason = "without items"
        elif not reason and left == right:
            reason = "same item twice"
        shown = (Pair(left or "", right or "", given.outcome or 0.0),)
    elif not reason and given.status == "answer" and all(pair.left == pair.right for pair in shown):
        reason = "same item twice"
    if reason and given.status in ("answer", "prediction", "skip"):
        return Given("unreadable", reason), ()  # without the word: it was understood
    if given.status == "answer" and given.outcome is None and not given.pairs:
        return Given("empty", given.reason), ()
    return given, tuple(pair for pair in shown if pair.left != pair.right)


def _addresses(tasks: Sequence[Record]) -> dict[object, str]:
    """The e-mail addresses of people whom some annotation spells out, by id: one person keeps one name."""
    found: dict[object, str] = {}
    for task in tasks:
        for annotation in annotations_of(task):
            person = annotation.get("completed_by")
            if isinstance(person, Mapping) and isinstance(person.get("email"), str) and person.get("id"):
                found[person["id"]] = person["email"]
    return found


def _append(
    rows: _Rows | None, annotation: Record, data: Record, reading: Reading, person: Any, pair: Pair, coin: Any
) -> None:
    """Add one comparison to the columns."""
    assert rows is not None
    rows.annotator.append(person)
    rows.left.append(pair.left)
    rows.right.append(pair.right)
    rows.outcome.append(pair.outcome)
    rows.coin.append(coin)
    rows.stratum.append(item_key(data.get(reading.stratum, "")) if reading.stratum else "")
    rows.time.append(annotation.get("created_at") or annotation.get("updated_at"))
    lead_time = lead_time_of(annotation.get("lead_time"))
    rows.lead_time.append(np.nan if lead_time is None else lead_time)
    rows.data.append(data)
    rows.is_ground_truth.append(bool(annotation.get("ground_truth")))


def _label(coin: Any) -> str | int:
    return coin if isinstance(coin, (str, int)) else item_key(coin)


def _objects(values: Sequence[Any]) -> "pd.Series[Any]":
    """Keep labels as they are."""
    return pd.Series(values, dtype=object)
