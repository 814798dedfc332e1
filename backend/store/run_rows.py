"""Rows that belong to one stored run."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Table, select

from backend.store.database import chunks
from backend.store.engine import finite


def columns_of(table: Table) -> tuple[str, ...]:
    """The columns of a run's table without the run itself."""
    return tuple(column.name for column in table.columns if column.name != "run_id")


def store_rows(connection: Connection, table: Table, run_id: int, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert a run's rows, keeping only the table's columns and finite numbers."""
    names = columns_of(table)
    values = [{"run_id": run_id, **{name: finite(row.get(name)) for name in names}} for row in rows]
    for part in chunks(values):
        connection.execute(table.insert(), list(part))


def all_rows(connection: Connection, table: Table, run_id: int, *order: str) -> list[dict[str, Any]]:
    """All rows of a run's table."""
    query = select(table).where(table.c.run_id == run_id).order_by(*(table.c[name] for name in order))
    found = connection.execute(query)
    names = tuple(found.keys())
    return [dict(zip(names, row, strict=True)) for row in found]
