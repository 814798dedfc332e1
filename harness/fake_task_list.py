"""How Label Studio's task list filters and orders, as far as the service and its tests ask for it."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

Json = dict[str, Any]


def listed(tasks: Iterable[Json], query: Mapping[str, str], view: Json | None = None) -> list[Json]:
    """The tasks of one page: those that the query or the tab asks for, in its order."""
    asked = view or json.loads(query.get("query") or "{}")
    filters = asked.get("filters") or {}
    items = filters.get("items") or []
    meets = any if filters.get("conjunction") == "or" else all
    rows = [task for task in tasks if not items or meets(_fits(task, item) for item in items)]
    ordering = (asked.get("ordering") or ["tasks:id"])[0]
    column = ordering.lstrip("-").removeprefix("tasks:")
    rows.sort(key=lambda task: task["id"])
    rows.sort(key=lambda task: _sortable(_value(task, column), asked, column), reverse=ordering.startswith("-"))
    return rows[: int(query["page_size"])]


def _fits(task: Json, item: Json) -> bool:
    """Whether a task meets one condition."""
    column, value = item["filter"].removeprefix("filter:tasks:"), item["value"]
    seen = _value(task, column)
    match item["operator"]:
        case "empty":
            return (seen is None) == (str(value) == "True")
        case "equal":
            return bool(seen == value)
        case "greater":
            return bool(seen > value)
        case "greater_or_equal":
            return bool(seen >= value)
    raise NotImplementedError(item["operator"])


def _value(task: Json, column: str) -> Any:
    name = column.removeprefix("data.")
    return task.get(name) if name == column else task["data"].get(name)


def _sortable(value: Any, asked: Json, column: str) -> tuple[bool, Any]:
    """Empty values last; data as text, which puts 10 before 2, unless the tab says that they are numbers."""
    if not column.startswith("data.") or value is None:
        return value is None, value if value is not None else 0
    is_number = (asked.get("columnsDisplayType") or {}).get(f"tasks:{column}") == "Number"
    return False, float(value) if is_number else str(value)
