"""Rows that belong to one stored run."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Table, select

from evenhand.store.database import chunks
from evenhand.store.engine import finite


def columns_of(table: Table) -> tuple[str, ...]:
    """The columns of a run's table without the run itself."""
    return tuple(column.name for column in table.columns if column.name != "run_id")


@dataclass(frozen=True)
class ReadyRows:
    """Rows of a run made before its transaction begins: only the table's columns, and finite numbers."""

    table: Table
    values: Sequence[dict[str, Any]]

    @classmethod
    def of(cls, table: Table, run_id: int, rows: Iterable[Mapping[str, Any]]) -> "ReadyRows":
        """Make them now, so that other writers do not wait for the making."""
        names = columns_of(table)
        return cls(table, [{"run_id": run_id, **{name: finite(row.get(name)) for name in names}} for row in rows])

    def store_in(self, connection: Connection) -> None:
        """Insert them."""
        for part in chunks(self.values):
            connection.execute(self.table.insert(), list(part))


def all_rows(connection: Connection, table: Table, run_id: int, *order: str) -> list[dict[str, Any]]:
    """All rows of a run's table."""
    query = select(table).where(table.c.run_id == run_id).order_by(*(table.c[name] for name in order))
    found = connection.execute(query)
    names = tuple(found.keys())
    return [dict(zip(names, row, strict=True)) for row in found]
