"""Rows of an archive against the columns they go into: SQLite would take a text where a number belongs."""

from collections.abc import Sequence
from functools import cache
from typing import Any

from sqlalchemy import JSON, Boolean, Integer, Numeric, String, Table
from sqlalchemy.types import TypeEngine

_KINDS: tuple[tuple[type[TypeEngine[Any]], tuple[type, ...]], ...] = (
    (Boolean, (bool, int)),
    (Integer, (int,)),
    (Numeric, (float, int)),
    (String, (str,)),
)


def checked_row(table: Table, columns: Sequence[str], values: Sequence[Any]) -> dict[str, Any]:
    """The row by column name; raises ValueError where a value is not of its column's kind."""
    row = dict(zip(columns, values, strict=True))
    for name, kinds in _kinds(table).items():
        value = row.get(name)
        if value is not None and type(value) not in kinds:
            raise ValueError(f"{name} is a {type(value).__name__}")
    return row


@cache
def _kinds(table: Table) -> dict[str, tuple[type, ...]]:
    """What each column takes, but for those that take anything."""
    return {
        column.name: kinds
        for column in table.columns
        for kind, kinds in _KINDS
        if isinstance(column.type, kind) and not isinstance(column.type, JSON)
    }
