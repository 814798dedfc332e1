"""How Label Studio writes an annotation's results, in exports and in events alike."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from fdr_core.inputs.item_keys import item_key

LONGEST_LEAD_TIME = 1e9  # seconds; nobody takes longer over one answer
#: Where a result's value holds the answer, by the control's type.
ANSWER_KEYS: Mapping[str, str] = {
    "pairwise": "selected",
    "rating": "rating",
    "number": "number",
    "choices": "choices",
    "ranker": "ranker",
}
#: What of an entry of a list names the item, where nobody says it: its content before its title and its id.
CONTENT_KEYS = ("body", "html", "text", "content", "value", "title", "id")
_DEEPEST = 5


def results_of(annotation: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The results that are objects; null counts as none."""
    results = annotation.get("result")
    return [result for result in results if isinstance(result, Mapping)] if isinstance(results, list) else []


def chosen_in(value: Mapping[str, Any], kinds: Sequence[str] = tuple(ANSWER_KEYS)) -> Any:
    """What was selected, rated or chosen, by the first of these types that is there; several choices stay a list."""
    for kind in kinds:
        answer = value.get(ANSWER_KEYS[kind])
        if answer is not None:
            is_only_choice = kind == "choices" and isinstance(answer, list) and len(answer) == 1
            return answer[0] if is_only_choice else answer
    return None


def answer_text(answer: object) -> str | None:
    """An answer as text, 4.0 as 4; None for what is neither text nor a number."""
    if isinstance(answer, float):
        return str(int(answer) if answer.is_integer() else answer) if math.isfinite(answer) else None
    return str(answer) if isinstance(answer, (str, int)) and not isinstance(answer, bool) else None


def annotator_of(completed_by: object) -> str | int | None:
    """Who answered: an id or text; where the user is spelled out the id, else the e-mail address."""
    if isinstance(completed_by, Mapping):
        completed_by = next((completed_by[key] for key in ("id", "email") if completed_by.get(key)), None)
    if isinstance(completed_by, bool) or not isinstance(completed_by, (str, int)) or completed_by == "":
        return None
    return completed_by


def lead_time_of(value: object) -> float | None:
    """Seconds spent; None where it cannot be a duration."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if 0 <= value <= LONGEST_LEAD_TIME else None


def field_value(data: Mapping[str, Any], field: str) -> Any:
    """A data field; the path a.b or a[0] is tried where no field has that very name."""
    if field in data:
        return data[field]
    value: Any = data
    for part in re.findall(r"[^.\[\]]+", field):
        if isinstance(value, Mapping):
            value = value.get(part)
        elif isinstance(value, list) and part.isdecimal() and int(part[:9]) < len(value):
            value = value[int(part[:9])]
        else:
            return None
    return value


def item_in(data: Mapping[str, Any], field: str) -> str | None:
    """The short name of the item in a data field, None where there is none."""
    value = field_value(data, field)
    return None if value is None or (isinstance(value, str) and not value.strip()) else item_key(value)


def entries_of(value: Any, item_property: str | None = None) -> list[tuple[str, str]]:
    """The entries of a list in the order in which they stand: what results call each, and the item's short name."""
    return [(name, item_key(content)) for name, content in _entries(value, item_property)]


def contents_of(value: Any, item_property: str | None = None) -> list[Any]:
    """The contents of the entries of a list."""
    return [content for _, content in _entries(value, item_property)]


def _entries(value: Any, item_property: str | None) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    _add_entries(value, item_property, found, 0)
    return found


def _add_entries(value: Any, item_property: str | None, found: list[tuple[str, Any]], depth: int) -> None:
    for entry in value if isinstance(value, list) and depth < _DEEPEST else ():
        if isinstance(entry, Mapping):
            name = next((entry[key] for key in ("id", "value", "alias") if entry.get(key) is not None), None)
            content = entry.get(item_property) if item_property else None
            if content is None:
                content = next((entry[key] for key in CONTENT_KEYS if entry.get(key)), None)
            if name is not None and content is not None:
                found.append((answer_text(name) or str(name), content))
            _add_entries(entry.get("children"), item_property, found, depth + 1)
        elif (text := answer_text(entry)) is not None:
            found.append((text, entry))
