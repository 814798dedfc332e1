"""Paths into nested values: `results[0].winner`, `"swap = True".winner`, `output || text`."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from fdr_core.errors import ConfigurationError
from fdr_core.inputs.source import Record

_STEP = re.compile(r'\.?(?:"(?P<quoted>[^"]+)"|(?P<name>[^."\[\]]+)|\[(?P<index>-?\d+)\])')
_NESTED = re.compile(r'[.\["]|\|\|')


def is_nested(path: str) -> bool:
    """Whether the path leads below a record's own fields."""
    return _NESTED.search(path) is not None


def alternatives(path: str) -> list[str]:
    """The paths to try one after the other."""
    return [part.strip() for part in path.split("||")]


def at(path: str) -> Callable[[Record], Any]:
    """
    What gives the value at a path, None where there is none.

    Parameters
    ----------
    path : str
        Names divided by dots (in double quotes where they hold dots, brackets or blanks at the end), positions in
        square brackets (negative from the end), and other paths to try after `||`.
    """
    ways = [_steps(part) for part in alternatives(path)]

    def value(record: Record) -> Any:
        for steps in ways:
            found: Any = record
            for step in steps:
                found = _inside(found, step)
            if found is not None:
                return found
        return None

    return value


def _steps(path: str) -> list[str | int]:
    steps: list[str | int] = []
    end = 0
    while match := _STEP.match(path, end):
        steps.append(int(match["index"]) if match["index"] else match["quoted"] or match["name"])
        end = match.end()
    if not steps or end != len(path):
        raise ConfigurationError(
            f'{path!r} is no path; expected names and positions such as results[0].winner or "a b".c'
        )
    return steps


def _inside(value: Any, step: str | int) -> Any:
    if isinstance(step, str):
        return value.get(step) if isinstance(value, Mapping) else None
    value = value.tolist() if hasattr(value, "tolist") else value
    if not isinstance(value, list) or not -len(value) <= step < len(value):
        return None
    return value[step]


def each(record: Record, path: str) -> Iterator[dict[str, Any]]:
    """Every entry of the lists along a path such as `entries[].votes[]`, with the fields of what it lies in."""
    head, has_list, rest = path.partition("[]")
    rest = rest.removeprefix(".")
    inner = at(head)(record) if head else record
    inner = inner.tolist() if hasattr(inner, "tolist") else inner
    if not has_list:
        yield {**record, **inner} if isinstance(inner, Mapping) else dict(record)
        return
    for entry in inner if isinstance(inner, list) else ():
        if isinstance(entry, Mapping):
            outer = {name: value for name, value in record.items() if value is not inner}
            yield from each({**outer, **entry}, rest) if rest else iter([{**outer, **entry}])
