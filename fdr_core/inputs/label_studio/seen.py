"""The labelling setup as far as an export's answers and data show it; its label config is not part of an export."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from fdr_core.errors import InputError
from fdr_core.inputs.item_keys import item_key
from fdr_core.inputs.label_studio.reading import OWN_FIELDS, PREPARED_COIN
from fdr_core.inputs.label_studio.results import answer_text, chosen_in, entries_of, field_value, results_of
from fdr_core.inputs.label_studio.setup import TAGS, Control, ControlType, Setup
from fdr_core.inputs.label_studio.words import answer_map, paired_names

Record = Mapping[str, Any]
COIN_FIELDS = (PREPARED_COIN, "coin")
#: What JSON-MIN holds beside data and answers.
MIN_FIELDS = frozenset({"id", "annotator", "annotation_id", "created_at", "updated_at", "lead_time"})
_KINDS: Mapping[str, ControlType] = {kind: kind for kind in TAGS.values()}
#: Answers of a control that are collected, and tasks in which lists are looked for.
_MOST_TEXTS, _LOOKED_AT = 200, 50


@dataclass
class _Sight:
    """What is seen of one control."""

    kind: str = ""
    to_name: str = ""
    texts: dict[str, None] = field(default_factory=dict)
    highest: float = 0.0
    is_repeated: bool = False


def setup_of(tasks: Sequence[Record], ignored: set[str | None], named: Sequence[str]) -> Setup:
    """Controls and fields, from the results and the data; what has no type counts where it is named, or nothing has."""
    sights: dict[str, _Sight] = {}
    for task in tasks:
        for annotation in annotations_of(task):
            counts = Counter(str(result.get("from_name")) for result in results_of(annotation))
            for result in results_of(annotation):
                name = str(result.get("from_name"))
                _look(result, sights.setdefault(name, _Sight()), is_repeated=counts[name] > 1)
    fields = {name: name for name in _shared_fields(tasks, ignored)}
    lists: dict[str, str] = {}
    typed = {name for name, sight in sights.items() if sight.kind in _KINDS}
    controls = [_control(name, sights[name], tasks, lists) for name in sights if name in typed]
    controls += [
        Control(name, "choices", (), tuple(sight.texts), is_complete=name not in named)
        for name, sight in sights.items()
        if sight.kind == "" and (name in named or (not typed and answer_map(sight.texts).has_both_sides))
    ]
    return Setup(tuple(controls), fields, frozenset(sights), lists)


def _look(result: Record, sight: _Sight, *, is_repeated: bool) -> None:
    """Note what a result shows of its control."""
    sight.kind = sight.kind or str(result.get("type") or "")
    sight.to_name = sight.to_name or str(result.get("to_name") or "")
    sight.is_repeated |= is_repeated
    value = result.get("value")
    chosen = chosen_in(value) if isinstance(value, Mapping) else None
    for text in map(answer_text, chosen if isinstance(chosen, list) else [chosen]):
        if text is not None and len(sight.texts) < _MOST_TEXTS:
            sight.texts.setdefault(text.strip())
    if isinstance(chosen, (int, float)) and not isinstance(chosen, bool):
        sight.highest = max(sight.highest, float(chosen))


def _control(name: str, sight: _Sight, tasks: Sequence[Record], lists: dict[str, str]) -> Control:
    """A control as far as its answers tell."""
    texts = tuple(sight.texts)
    kind = _KINDS[sight.kind]
    if kind == "ranker":
        to_name = sight.to_name or name
        field_name = _list_field(name, "ranker", tasks)
        if field_name is not None:
            lists[to_name] = field_name
        return Control(name, kind, (to_name,))
    if kind == "pairwise":
        return Control(name, kind, (), ("left", "right"))
    if kind == "rating":
        highest = next(top for top in (5.0, 10.0, max(sight.highest, 10.0)) if top >= sight.highest)
        return Control(name, kind, (), tuple(str(k) for k in range(1, int(min(highest, 100)) + 1)), (1.0, highest))
    list_field = _list_field(name, "choices", tasks) if kind == "choices" else None
    is_repeated = kind == "choices" and sight.is_repeated
    return Control(name, kind, (), texts, None, list_field, per_region=is_repeated, is_complete=False)


def _list_field(control: str, kind: str, tasks: Sequence[Record]) -> str | None:
    """The data field whose entries the answers of a control name."""
    fitting: set[str] | None = None
    for task in tasks[:_LOOKED_AT]:
        named: set[str] = set()
        for annotation in annotations_of(task):
            for result in results_of(annotation):
                value = result.get("value")
                if result.get("from_name") == control and isinstance(value, Mapping):
                    named |= _names_in(value.get(kind))
        if named:
            fits = {
                str(name)
                for name, value in data_of(task).items()
                if isinstance(value, list) and named & {entry for entry, _ in entries_of(value)}
            }
            fitting = fits if fitting is None else fitting & fits
    return min(fitting) if fitting else None


def _names_in(value: Any) -> set[str]:
    """Every text in a value, whatever lists and objects it is wrapped in."""
    if isinstance(value, Mapping):
        return {name for inner in value.values() for name in _names_in(inner)}
    if isinstance(value, list):
        return {name for inner in value for name in _names_in(inner)}
    return {str(value)} if isinstance(value, (str, int)) else set()


def annotations_of(task: Record) -> Iterator[Record]:
    """Give a task's annotations, tolerating null."""
    annotations = task.get("annotations")
    if isinstance(annotations, Sequence):
        yield from (annotation for annotation in annotations if isinstance(annotation, Mapping))


def data_of(task: Record) -> Record:
    """Give a task's data, empty where it has none."""
    data = task.get("data")
    return data if isinstance(data, Mapping) else {}


def choose_fields(
    tasks: Sequence[Record], left: str | None, right: str | None, *, ignored: set[str | None], where: str
) -> tuple[str, str]:
    """Take the named fields, or guess them."""
    offered = _shared_fields(tasks, ignored)
    if left is not None and right is not None:
        missing = [name for name in (left, right) if all(field_value(data_of(task), name) is None for task in tasks)]
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
    ignored: set[str | None] = {*COIN_FIELDS, *MIN_FIELDS}
    return choose_fields([{"data": task} for task in data], None, None, ignored=ignored, where=where)


def _shared_fields(tasks: Sequence[Record], ignored: set[str | None]) -> list[str]:
    """List the fields that every task has, in the first task's order; those that Evenhand wrote name no items."""
    names = list(data_of(tasks[0])) if tasks else []
    shared = set(names).intersection(*(data_of(task) for task in tasks))
    return [name for name in names if name in shared - ignored and not name.startswith(OWN_FIELDS)]


def features_of(data: Sequence[Record], is_ground_truth: Sequence[bool], items: tuple[str, str]) -> pd.DataFrame:
    """Tell of every answer's items: the longest two paired texts of the task, gold, and what is marked ground truth."""
    told: dict[str, Any] = {"is_ground_truth": is_ground_truth}
    names, sample = list(data[0]) if data else [], data[:_LOOKED_AT]
    pairs = [pair for pair in (*paired_names(names), items) if _are_texts(sample, pair)]
    if pairs:
        longest = max(pairs, key=lambda pair: _total_length([{"data": task} for task in sample], pair))
        told |= {
            f"text_{side}": [task.get(name) for task in data]
            for side, name in zip(("left", "right"), longest, strict=True)
        }
    told |= {name: [task.get(name) for task in data] for name in names if name == "gold" or name[:2] == "x_"}
    return pd.DataFrame(told)


def _are_texts(sample: Sequence[Record], pair: tuple[str, str]) -> bool:
    return all(isinstance(task.get(name), str) for task in sample for name in pair)


def _same_items(tasks: Sequence[Record], one: tuple[str, str], two: tuple[str, str]) -> bool:
    """Tell whether two pairs of fields name the same items, one to one."""
    links = {
        (item_key(data_of(task)[first]), item_key(data_of(task)[second]))
        for task in tasks
        for first, second in zip(one, two, strict=True)
    }
    return len({first for first, _ in links}) == len(links) == len({second for _, second in links})


def _total_length(tasks: Sequence[Record], pair: tuple[str, str]) -> int:
    """Measure how wordy a pair of fields is: of two that say the same, the shorter is the name."""
    return sum(len(str(data_of(task)[name])) for task in tasks for name in pair)
