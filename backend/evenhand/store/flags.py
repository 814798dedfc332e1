"""Lasting flags of a project."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, delete, select

from evenhand.store.database import Aggregate
from evenhand.store.engine import finite
from evenhand.store.schema import flags


class FlagStore(Aggregate):
    """The lasting flags, which a run replaces as a whole."""

    def all(self, project_id: int) -> list[dict[str, Any]]:
        """The project's lasting flags: annotator_id, run_id, since, finding, evidence."""
        query = select(flags).where(flags.c.project_id == project_id).order_by(flags.c.since, flags.c.annotator_id)
        with self._database.read() as connection:
            return [dict(row) for row in connection.execute(query).mappings()]

    def replace_in(self, connection: Connection, project_id: int, run_id: int, rows: list[Mapping[str, Any]]) -> None:
        """Put new flags in place; one that stays keeps its `since`."""
        known = {
            row.annotator_id: row.since
            for row in connection.execute(select(flags).where(flags.c.project_id == project_id))
        }
        connection.execute(delete(flags).where(flags.c.project_id == project_id))
        values = [
            {
                "project_id": project_id,
                "run_id": run_id,
                "annotator_id": row["annotator_id"],
                "since": known.get(row["annotator_id"], self._database.clock()),
                "finding": row.get("finding"),
                "evidence": finite(dict(row.get("evidence", {}))),
            }
            for row in rows
        ]
        if values:
            connection.execute(flags.insert(), values)
