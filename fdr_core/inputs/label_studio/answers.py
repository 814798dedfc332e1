"""What one annotation says under a reading: an outcome, pairs of a list, or why it cannot be read."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import Any, Literal

from fdr_core.inputs.label_studio.reading import MOST_ITEMS, ReadControl, Reading
from fdr_core.inputs.label_studio.results import (
    ANSWER_KEYS,
    answer_text,
    chosen_in,
    contents_of,
    entries_of,
    field_value,
    item_in,
    results_of,
)
from fdr_core.inputs.label_studio.words import option_for

Result = Mapping[str, Any]
GivenStatus = Literal["answer", "skip", "empty", "prediction", "unreadable"]
#: Why an annotation with results holds none for what is judged.
ELSEWHERE = "it answers other controls only"
_LONGEST_WORD = 80


@dataclass(frozen=True)
class Pair:
    """One comparison within an annotation; `question` tells those of a Repeater apart."""

    left: str
    right: str
    outcome: float
    question: str = ""


@dataclass(frozen=True)
class Given:
    """
    What an annotation holds.

    Attributes
    ----------
    status, reason : what it is, and why where that needs words.
    outcome : of the one pair of its task; None where nothing is judged.
    answers : outcome by control, where several are read.
    pairs : comparisons where a task holds more than one pair.
    word : the answer as text, where it is one; of an unreadable annotation the one that was not understood.
    """

    status: GivenStatus
    reason: str | None = None
    outcome: float | None = None
    answers: Mapping[str, float] | None = None
    pairs: tuple[Pair, ...] = ()
    word: str | None = None


def read_answer(annotation: Mapping[str, Any], reading: Reading, data: Mapping[str, Any] | None = None) -> Given:
    """Read an annotation's results; `data` are the task's, needed where it shows more than one pair."""
    if annotation.get("was_cancelled") is True:
        return Given("skip")
    raw = annotation.get("result")
    if raw is None or raw == []:
        return Given("empty")
    if not isinstance(raw, list):
        return Given("unreadable", f"result is a {type(raw).__name__}; expected a list")
    results = results_of(annotation)
    if reading.is_one_pair and reading.form == "pair":
        return _one_pair(results, reading)
    if reading.is_one_pair:
        return _scored_pair(results, reading)
    if data is None:
        return Given("unreadable", "the task's data are not known yet")
    return _many(results, reading, data)


def _one_pair(results: Sequence[Result], reading: Reading) -> Given:
    """The answer about a task's only pair, by one control or several."""
    parts = {control.name: _given_to(results, control, reading) for control in reading.controls}
    if len(parts) == 1:
        return next(iter(parts.values()))
    answers = {
        name: part.outcome for name, part in parts.items() if part.status == "answer" and part.outcome is not None
    }
    judged = parts[reading.decides.name] if reading.decides else _together(list(parts.values()))
    if judged.status == "empty" and answers:
        judged = Given("answer", ELSEWHERE)  # something was answered, but nothing that is judged
    return replace(judged, answers=answers or None)


def _together(parts: Sequence[Given]) -> Given:
    """One answer of several: the mean, since what one person says of one pair at a time stands under one coin."""
    unreadable = [part for part in parts if part.status == "unreadable"]
    outcomes = [part.outcome for part in parts if part.outcome is not None]
    if unreadable or not outcomes:
        return unreadable[0] if unreadable else parts[0]
    status: GivenStatus = "prediction" if any(part.status == "prediction" for part in parts) else "answer"
    return Given(status, None, sum(outcomes) / len(outcomes))


def _given_to(results: Sequence[Result], control: ReadControl, reading: Reading) -> Given:
    """What the results say to one control."""
    own = _own(results, control, reading)
    if len(own) > 1:
        return Given("unreadable", f"{len(own)} results for control {control.name!r}; expected one")
    return _read_result(own[0], control) if own else _nothing(results)


def _nothing(results: Sequence[Result]) -> Given:
    """No result for what is judged: empty, with a word if there are answers to other controls."""
    return Given("empty", ELSEWHERE if any(result.get("type") in ANSWER_KEYS for result in results) else None)


def _own(results: Sequence[Result], control: ReadControl, reading: Reading) -> list[Result]:
    """The results of a control; a lone one of its type from a control that no longer exists was renamed."""
    named = {control.name, *control.names}
    own = [result for result in results if result.get("from_name") in named]
    if not own and len(reading.controls) == 1 and reading.names:
        own = [r for r in results if r.get("type") == control.type and r.get("from_name") not in reading.names]
    return own


def _read_result(result: Result, control: ReadControl) -> Given:
    """The outcome of a result that holds one answer."""
    text, reason = _chosen(result, control)
    if text is None:
        return Given("unreadable", reason)
    word = text[:_LONGEST_WORD]
    if control.answers.is_skip(text):
        return Given("skip", f"answered {word!r}", word=word)
    outcome = control.answers.read(text)
    if outcome is None:
        reason = f"answer {word!r} is not understood; {option_for([word])} says what it means"
        return Given("unreadable", reason, word=word)
    return Given(_status(result), None, outcome, word=word)


def _status(result: Result) -> GivenStatus:
    return "prediction" if result.get("origin") == "prediction" else "answer"


def _chosen(result: Result, control: ReadControl) -> tuple[str | None, str | None]:
    """The answer as text, or why it cannot be read."""
    value = result.get("value")
    if not isinstance(value, Mapping):
        return None, f"value is {_seen(value)}; expected an object"
    chosen = chosen_in(value, (control.type,))
    text = answer_text(chosen) if control.type in ("rating", "number") or isinstance(chosen, str) else None
    if text is not None and text.strip():
        return text, None
    expected = ", ".join(list(control.outcomes)[:8])
    return None, f"the {control.type} answer is {_seen(chosen)}; expected one of {expected}"


def _seen(value: Any) -> str:
    """What was found, in a few words."""
    if isinstance(value, (list, Mapping)):
        return f"a {'list' if isinstance(value, list) else 'dict'} of {len(value)}"
    return "missing" if value is None else repr(value)[:60]


# -- more than one pair per task


def _scored_pair(results: Sequence[Result], reading: Reading) -> Given:
    """Two ratings, one per response: their difference."""
    found = _scores(results, reading)
    if isinstance(found, Given):
        return found
    status, scores = found
    return Given(status, None, _difference(scores[0], scores[1], reading))


def _many(results: Sequence[Result], reading: Reading, data: Mapping[str, Any]) -> Given:
    """Every question of a task, each with its pairs."""
    read = _READERS[reading.form]
    parts = [(question, read(own, at, data)) for question, own, at in _questions(results, reading)]
    if not parts:
        return _nothing(results)
    if (bad := next((part for _, part in parts if part.status == "unreadable"), None)) is not None:
        return bad
    pairs = tuple(replace(pair, question=question or pair.question) for question, part in parts for pair in part.pairs)
    if not pairs:
        return parts[0][1]
    statuses = {part.status for _, part in parts}
    return Given("prediction" if "prediction" in statuses else "answer", pairs=pairs)


def _questions(results: Sequence[Result], reading: Reading) -> list[tuple[str, list[Result], Reading]]:
    """The results by question: those of a Repeater by its index, in whose reading the index stands."""
    if reading.repeat is None:
        named = {name for control in reading.controls for name in (control.name, *control.names)}
        own = [result for result in results if result.get("from_name") in named]
        if not own and len(reading.controls) == 1 and not reading.controls[0].per_region:
            own = _own(results, reading.controls[0], reading)
        return [("", own, reading)] if own else []
    flag = re.escape(reading.repeat.flag)
    shapes = [re.compile(re.escape(c.name).replace(flag, r"(\d{1,6})")) for c in reading.controls]
    by_index: dict[str, list[Result]] = {}
    for result in results:
        name = str(result.get("from_name"))
        found = next((match for shape in shapes if (match := shape.fullmatch(name))), None)
        if found is not None and found.groups():
            by_index.setdefault(found.group(1), []).append(result)
    return [(index, own, _at_index(reading, index)) for index, own in sorted(by_index.items(), key=lambda e: int(e[0]))]


def _at_index(reading: Reading, index: str) -> Reading:
    """The reading of one entry of a Repeater."""
    flag = reading.repeat.flag if reading.repeat else ""

    def put(text: str) -> str:
        return text.replace(flag, index)

    controls = tuple(replace(control, name=put(control.name)) for control in reading.controls)
    return replace(
        reading,
        controls=controls,
        decides=controls[reading.controls.index(reading.decides)] if reading.decides else None,
        item_left=put(reading.item_left),
        item_right=put(reading.item_right),
        items=tuple(put(field) for field in reading.items),
        list_field=put(reading.list_field) if reading.list_field else None,
    )


def _pairs_of_regions(results: Sequence[Result], reading: Reading, data: Mapping[str, Any]) -> Given:
    """Answers about the same pair: one per region of a task, or one under a Repeater's index."""
    items = _items(data, (reading.item_left, reading.item_right))
    if isinstance(items, Given):
        return items
    control = reading.decides or reading.controls[0]
    given = [
        _read_result(result, control) for result in results if result.get("from_name") in (control.name, *control.names)
    ]
    if len(given) > 1 and not control.per_region:
        return Given("unreadable", f"{len(given)} results for control {control.name!r}; expected one")
    if (bad := next((part for part in given if part.status == "unreadable"), None)) is not None:
        return bad
    pairs = tuple(Pair(items[0], items[1], part.outcome) for part in given if part.outcome is not None)
    return replace(given[0], pairs=pairs) if given else Given("empty")


def _pairs_of_scores(results: Sequence[Result], reading: Reading, data: Mapping[str, Any]) -> Given:
    """One rating per response: every pair of responses with the difference as its grade."""
    found = _scores(results, reading)
    if isinstance(found, Given):
        return found
    items = _items(data, reading.items)
    if isinstance(items, Given):
        return items
    status, scores = found
    return Given(status, pairs=_in_order(items, lambda a, b: _difference(scores[a], scores[b], reading)))


def _scores(results: Sequence[Result], reading: Reading) -> tuple[GivenStatus, list[float]] | Given:
    """The rating of every response, or why one is missing or no rating."""
    scores: list[float] = []
    status: GivenStatus = "answer"
    for control in reading.controls:
        own = [result for result in results if result.get("from_name") == control.name]
        if not own:
            continue
        text, reason = _chosen(own[0], control)
        try:
            score = float(text or "")
        except ValueError:
            return Given("unreadable", reason or f"the {control.type} answer is {text!r}; expected a number")
        if control.scale and not control.scale[0] <= score <= control.scale[1]:
            low, high = control.scale
            return Given("unreadable", f"the {control.type} {score:g} lies outside its scale, {low:g} to {high:g}")
        status = "prediction" if _status(own[0]) == "prediction" else status
        scores.append(score)
    if not scores:
        return _nothing(results)
    if len(scores) < len(reading.controls):
        return Given("unreadable", f"{len(scores)} of {len(reading.controls)} responses are rated")
    return status, scores


def _difference(one: float, other: float, reading: Reading) -> float:
    """The difference as a share of the scale, where it is known; else only which is higher."""
    scale = reading.controls[0].scale
    if scale is None or any(control.scale != scale for control in reading.controls):
        return float((one > other) - (one < other))
    return (one - other) / (scale[1] - scale[0])


def _pairs_of_ranking(results: Sequence[Result], reading: Reading, data: Mapping[str, Any]) -> Given:
    """A ranking: every pair in the order in which the items stood, won by the one that was placed higher."""
    entries = _entries(data, reading)
    if isinstance(entries, Given):
        return entries
    value = results[0].get("value")
    ranker = value.get("ranker") if isinstance(value, Mapping) else None
    groups = [ranker] if isinstance(ranker, list) else list(ranker.values()) if isinstance(ranker, Mapping) else None
    if isinstance(ranker, Mapping) and len(ranker) > 1:
        groups = [group for name, group in ranker.items() if name != "_"]  # what was left where it stood
    if groups is None or not all(isinstance(group, list) for group in groups):
        return Given("unreadable", f"the ranking is {_seen(ranker)}; expected lists of the items' ids")
    place_of = {name: place for place, (name, _) in enumerate(entries)}
    pairs: list[Pair] = []
    named: set[str] = set()
    for group in groups:
        rank: dict[int, int] = {}
        for level, entry in enumerate(group):
            for name in map(str, entry if isinstance(entry, list) else [entry]):  # a list within: a tie
                if name not in place_of:
                    return Given(
                        "unreadable", f"the ranking names {name[:_LONGEST_WORD]!r}, which the task's list lacks"
                    )
                if name in named:
                    return Given("unreadable", f"the ranking names {name[:_LONGEST_WORD]!r} twice")
                named.add(name)
                rank[place_of[name]] = level
        standing = sorted(rank)
        items = [entries[place][1] for place in standing]
        levels = [rank[place] for place in standing]
        pairs += _in_order(items, partial(_higher, levels))
    return (
        Given(_status(results[0]), pairs=tuple(pairs)) if pairs else Given("empty", "fewer than two items are ranked")
    )


def _higher(levels: Sequence[int], one: int, other: int) -> float:
    """Which of two stands higher in a ranking."""
    return float((levels[one] < levels[other]) - (levels[one] > levels[other]))


def _pairs_of_choice(results: Sequence[Result], reading: Reading, data: Mapping[str, Any]) -> Given:
    """Some chosen among several: each stands above each that was not."""
    control = reading.controls[0]
    value = results[0].get("value")
    chosen = value.get("choices") if isinstance(value, Mapping) else None
    if not isinstance(chosen, list):
        return Given("unreadable", f"the choices answer is {_seen(chosen)}; expected a list")
    if reading.list_field:
        entries = _entries(data, reading)
        if isinstance(entries, Given):
            return entries
        names, items = [name for name, _ in entries], [item for _, item in entries]
    else:
        found = _items(data, reading.items)
        if isinstance(found, Given):
            return found
        names, items = list(control.texts), found
    picked = {text for answer in chosen for text in ([*answer][-1:] if isinstance(answer, list) else [answer])}
    unknown = [str(name) for name in picked if name not in names]
    if unknown:
        word = unknown[0][:_LONGEST_WORD]
        return Given("unreadable", f"answer {word!r} is none of the task's choices", word=word)
    is_chosen = [name in picked for name in names]
    pairs = [
        Pair(items[a], items[b], 1.0 if is_chosen[a] else -1.0)
        for a, b in combinations(range(len(items)), 2)
        if is_chosen[a] != is_chosen[b] and items[a] != items[b]
    ]
    return Given(_status(results[0]), pairs=tuple(pairs)) if pairs else Given("empty", "all or none were chosen")


def _in_order(items: Sequence[str], outcome: Callable[[int, int], float]) -> tuple[Pair, ...]:
    """Every pair of different items, the one that stood earlier on the left."""
    return tuple(
        Pair(items[a], items[b], outcome(a, b)) for a, b in combinations(range(len(items)), 2) if items[a] != items[b]
    )


def shown_contents(data: Mapping[str, Any], reading: Reading) -> list[Any]:
    """The contents of the items that a task shows."""
    if reading.list_field:
        return contents_of(field_value(data, reading.list_field), reading.item_property)
    return [field_value(data, field) for field in reading.items or (reading.item_left, reading.item_right)]


def _items(data: Mapping[str, Any], fields: Sequence[str]) -> list[str] | Given:
    """The items in these fields, or which are missing."""
    items = [item_in(data, field) for field in fields]
    missing = [field for field, item in zip(fields, items, strict=True) if item is None]
    if missing:
        return Given("unreadable", f"the task's data have no {' and no '.join(map(repr, missing))}")
    return [item for item in items if item is not None]


def _entries(data: Mapping[str, Any], reading: Reading) -> list[tuple[str, str]] | Given:
    """The entries of the task's list, or why it cannot be taken apart."""
    value = field_value(data, reading.list_field or "")
    entries = entries_of(value, reading.item_property)
    if len(entries) < 2:
        return Given("unreadable", f"the task's data have no list {reading.list_field!r} of at least two items")
    if len(entries) > MOST_ITEMS:
        return Given(
            "unreadable",
            f"the list {reading.list_field!r} has {len(entries):,} items; at most {MOST_ITEMS} are compared",
        )
    if len({name for name, _ in entries}) < len(entries):
        return Given("unreadable", f"the list {reading.list_field!r} names one item twice")
    return entries


_READERS: Mapping[str, Callable[[Sequence[Result], Reading, Mapping[str, Any]], Given]] = {
    "pair": _pairs_of_regions,
    "scores": _pairs_of_scores,
    "ranking": _pairs_of_ranking,
    "choice": _pairs_of_choice,
}
