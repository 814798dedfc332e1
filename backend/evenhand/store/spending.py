"""What each annotator has spent of its error over all runs, changed together with the run that spent it."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, select

from evenhand.store.database import Aggregate
from evenhand.store.erased import Erased
from evenhand.store.schema import spending


class SpendingStore(Aggregate):
    """The spending of a project's annotators, by id."""

    def all(self, project_id: int) -> dict[str, dict[str, Any]]:
        """Everybody's state, fit for `fdr_core.spending.Spending.from_dict`."""
        query = select(spending).where(spending.c.project_id == project_id)
        with self._database.read() as connection:
            return {row.annotator_id: dict(row._mapping) for row in connection.execute(query)}

    def store_in(self, connection: Connection, project_id: int, states: Mapping[str, Mapping[str, Any]]) -> None:
        """Keep the states that a run changed, except of people who were erased meanwhile."""
        erased = Erased.of(connection, project_id)
        rows = [
            {"project_id": project_id, "annotator_id": annotator, **state}
            for annotator, state in states.items()
            if annotator not in erased
        ]
        if rows:
            connection.execute(self._database.upsert(spending), rows)
