"""The items that are compared."""

from collections.abc import Collection

from sqlalchemy import select

from evenhand.store.database import Aggregate, select_in
from evenhand.store.schema import items


class ItemStore(Aggregate):
    """What items are called."""

    def labels(self, project_id: int, ids: Collection[str] | None = None) -> dict[str, str]:
        """Readable labels by item id."""
        query = select(items.c.item, items.c.label).where(items.c.project_id == project_id)
        with self._database.read() as connection:
            return {row.item: row.label for row in select_in(connection, query, items.c.item, ids)}
