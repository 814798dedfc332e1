"""Keyset pages: one slice of a query, and an opaque cursor to the next."""

import base64
import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Boolean, ColumnElement, Connection, Select, and_, case, func, or_, select

from evenhand.domain import Page
from evenhand.errors import PayloadError

MAX_PAGE = 1000


def page(
    connection: Connection,
    query: Select[Any],
    sort: Sequence[tuple[ColumnElement[Any], bool]],
    *,
    limit: int,
    cursor: str | None = None,
    offset: int = 0,
) -> Page:
    """One keyset page of `query`; `sort` is (column, descending) with the last one unique; nulls come last."""
    limit = max(1, min(limit, MAX_PAGE))
    total = connection.execute(select(func.count()).select_from(query.order_by(None).subquery())).scalar_one()
    keys: list[tuple[ColumnElement[Any], bool]] = []
    for column, descending in sort:
        # Databases differ in where nulls sort and in comparing truth values: both become numbers.
        value = case((column, 1), else_=0) if isinstance(column.type, Boolean) else column
        keys += [(case((column.is_(None), 1), else_=0), False), (value, descending)]
    labelled = query.add_columns(*[column.label(f"_key{index}") for index, (column, _) in enumerate(keys)])
    if cursor is not None:
        labelled = labelled.where(_after(keys, _decode(cursor, len(keys))))
    labelled = labelled.order_by(*[column.desc() if descending else column.asc() for column, descending in keys])
    rows = connection.execute(labelled.limit(limit + 1).offset(offset)).mappings().all()
    names = [f"_key{index}" for index in range(len(keys))]
    plain = [{key: value for key, value in row.items() if key not in names} for row in rows[:limit]]
    following = _encode([rows[limit - 1][name] for name in names]) if len(rows) > limit else None
    return Page(plain, following, total)


def _after(keys: Sequence[tuple[ColumnElement[Any], bool]], values: Sequence[Any]) -> ColumnElement[bool]:
    """Rows that sort behind the given key values."""
    options: list[ColumnElement[bool]] = []
    equal: list[ColumnElement[bool]] = []
    for (column, descending), value in zip(keys, values, strict=True):
        if value is not None:
            options.append(and_(*equal, column < value if descending else column > value))
        equal.append(column.is_(None) if value is None else column == value)
    return or_(*options)


def _encode(values: list[Any]) -> str:
    """Key values as an opaque text."""
    return base64.urlsafe_b64encode(json.dumps(values).encode()).decode().rstrip("=")


def _decode(cursor: str, length: int) -> list[Any]:
    """Key values of a cursor we gave out."""
    try:
        values = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, list) or len(values) != length or any(isinstance(v, list | dict) for v in values):
        raise PayloadError("cursor is not one this service gave out; start again without it")
    return values
