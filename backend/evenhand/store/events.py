"""Counters of the events that came in."""

from functools import cache
from typing import Any

from sqlalchemy import Connection, select

from evenhand.store.database import Aggregate
from evenhand.store.dialect import insert_into
from evenhand.store.schema import event_counts


class EventStore(Aggregate):
    """Events counted by kind and outcome."""

    def count(self, kind: str, outcome: str, number: int = 1) -> None:
        """Count an event that changed nothing in the store (rejected, ignored)."""
        with self._database.write() as connection:
            self.count_in(connection, kind, outcome, number)

    def counts(self) -> list[dict[str, Any]]:
        """Counters by kind and outcome, with the time of the last one."""
        query = select(event_counts).order_by(event_counts.c.kind, event_counts.c.outcome)
        with self._database.read() as connection:
            return [dict(row) for row in connection.execute(query).mappings()]

    def count_in(self, connection: Connection, kind: str, outcome: str, number: int) -> None:
        """Add to an event counter."""
        values = {"kind": kind, "outcome": outcome, "count": number, "last_at": self._database.clock()}
        connection.execute(_count_statement(self._database.on_postgres), values)


@cache
def _count_statement(on_postgres: bool) -> Any:
    """The statement that adds to an event counter."""
    insert = insert_into(event_counts, on_postgres=on_postgres)
    raised = {"count": event_counts.c.count + insert.excluded["count"], "last_at": insert.excluded["last_at"]}
    return insert.on_conflict_do_update(index_elements=["kind", "outcome"], set_=raised)
