"""How Label Studio writes an annotation's results, in exports and in events alike."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

LONGEST_LEAD_TIME = 1e9  # seconds; nobody takes longer over one answer
#: Where a result's value holds the answer, by the control's type.
ANSWER_KEYS: Mapping[str, str] = {"pairwise": "selected", "rating": "rating", "choices": "choices"}


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


def annotator_of(completed_by: object, keys: Sequence[str]) -> str | int | None:
    """Who answered: an id or text, or the first of these keys where the user is spelled out."""
    if isinstance(completed_by, Mapping):
        completed_by = next((completed_by[key] for key in keys if completed_by.get(key)), None)
    if isinstance(completed_by, bool) or not isinstance(completed_by, (str, int)) or completed_by == "":
        return None
    return completed_by


def lead_time_of(value: object) -> float | None:
    """Seconds spent; None where it cannot be a duration."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if 0 <= value <= LONGEST_LEAD_TIME else None
