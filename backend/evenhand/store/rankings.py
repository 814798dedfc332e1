"""What runs said about items."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import select

from evenhand.domain import Page
from evenhand.errors import PayloadError
from evenhand.store.database import Aggregate, select_in
from evenhand.store.paging import page
from evenhand.store.run_rows import ReadyRows, all_rows, columns_of
from evenhand.store.schema import run_items, run_order_changes

ITEM_COLUMNS: tuple[str, ...] = columns_of(run_items)


class RankingStore(Aggregate):
    """The items of stored runs."""

    def all(self, run_id: int) -> list[dict[str, Any]]:
        """Every item of a run, best first."""
        with self._database.read() as connection:
            return all_rows(connection, run_items, run_id, "rank", "item")

    def page(
        self,
        run_id: int,
        *,
        sort: str = "rank",
        descending: bool = False,
        limit: int = 100,
        cursor: str | None = None,
        offset: int = 0,
    ) -> Page:
        """A page of a run's ranking."""
        if sort not in ITEM_COLUMNS:
            raise PayloadError(f"sort is {sort[:60]!r}; expected one of {', '.join(ITEM_COLUMNS)}")
        query = select(run_items).where(run_items.c.run_id == run_id)
        order = [(run_items.c[sort], descending), (run_items.c.item, False)]
        with self._database.read() as connection:
            return page(connection, query, order, limit=limit, cursor=cursor, offset=offset)

    def scores(self, run_id: int, wanted: Collection[str]) -> dict[str, float]:
        """Scores of these items in a run."""
        query = select(run_items.c.item, run_items.c.score).where(run_items.c.run_id == run_id)
        with self._database.read() as connection:
            rows = select_in(connection, query, run_items.c.item, wanted)
            return {row.item: row.score for row in rows if row.score is not None}

    def order_changes(self, run_id: int, *, limit: int = 1000) -> list[dict[str, Any]]:
        """Pairs that changed order by the correction, strongest first."""
        query = select(run_order_changes).where(run_order_changes.c.run_id == run_id)
        with self._database.read() as connection:
            rows = connection.execute(query.order_by(run_order_changes.c.position).limit(limit)).mappings()
            return [dict(row) for row in rows]

    def ready(
        self, run_id: int, items: Sequence[Mapping[str, Any]], order_changes: Sequence[Mapping[str, Any]]
    ) -> tuple[ReadyRows, ReadyRows]:
        """A run's items, and the pairs the correction put the other way round, in their order, ready to be stored."""
        placed = [{**row, "position": place} for place, row in enumerate(order_changes, start=1)]
        return ReadyRows.of(run_items, run_id, items), ReadyRows.of(run_order_changes, run_id, placed)
