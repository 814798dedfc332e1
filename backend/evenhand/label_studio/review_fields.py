"""The data fields that hold a task's rank in the review tabs: one for each tab, never part of what is compared."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

PREFIX = "evenhand_review_"
#: A tab for each of so many annotators at most, and so many fields; beyond, one tab serves all.
MOST_TABS = 20
# Two digits: a lone 1 or 2 would read as the mark of a side, as in text1 and text2.
_PATTERN = re.compile(re.escape(PREFIX) + r"\d\d")


def review_field(slot: int) -> str:
    """The field of the tab with this number, counted from 1."""
    return f"{PREFIX}{slot:02}"


ALL_FIELDS = tuple(review_field(slot) for slot in range(1, MOST_TABS + 1))


def is_review_field(name: str) -> bool:
    """Whether a data field is one of ours."""
    return _PATTERN.fullmatch(name) is not None


def ranks_in(data: Mapping[str, Any]) -> dict[str, Any]:
    """The ranks that a task's data hold."""
    return {name: value for name, value in data.items() if is_review_field(name)}


def without_ranks(data: Mapping[str, Any]) -> dict[str, Any]:
    """A task's data as they were before we wrote into them."""
    return {name: value for name, value in data.items() if not is_review_field(name)}


def data_fields(tasks: Iterable[Mapping[str, Any]]) -> set[str]:
    """The data fields that tasks have, ours left out."""
    return {str(name) for task in tasks if isinstance(task.get("data"), dict) for name in without_ranks(task["data"])}
