"""What stored runs said of annotators and items."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import (
    Connection,
    FromClause,
    Table,
    and_,
    or_,
    select,
)

from evenhand.domain import Page
from evenhand.errors import PayloadError
from evenhand.store.database import Aggregate, chunks, page, select_in
from evenhand.store.engine import finite
from evenhand.store.schema import annotators, run_annotators, run_items, run_order_changes, runs


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


#: Columns that a page can be sorted by; what other controls say has no order.
ANNOTATOR_COLUMNS: tuple[str, ...] = tuple(
    name for name in columns_of(run_annotators) if name not in ("controls", "leans", "trend")
)

#: Longer lists are not reviewed one by one.
MOST_FLAGGED = 10_000


class Mark(NamedTuple):
    """One annotator in a drawing."""

    annotator: str
    name: str | None
    team: str | None
    finding: str | None
    flagged: bool
    comparisons: int
    left: int
    right: int
    ties: int
    bias: float | None
    bias_low: float | None
    bias_high: float | None
    entry: float | None
    p_value: float | None
    match_ratio: float | None
    median_lead_time: float | None
    more_needed: int | None
    position: int


class FindingStore(Aggregate):
    """The annotators of stored runs."""

    def page(
        self,
        run_id: int,
        *,
        sort: str = "position",
        descending: bool = False,
        flagged: bool | None = None,
        persistent: bool | None = None,
        finding: str | None = None,
        differ: bool = False,
        search: str | None = None,
        team: str | None = None,
        among: Collection[str] | None = None,
        limit: int = 50,
        cursor: str | None = None,
        offset: int = 0,
    ) -> Page:
        """A page of a run's annotators with their names, sorted and filtered by the database."""
        if sort not in (*ANNOTATOR_COLUMNS, "name"):
            raise PayloadError(f"sort is {sort[:60]!r}; expected one of {', '.join(ANNOTATOR_COLUMNS)}, name")
        column = annotators.c.name if sort == "name" else run_annotators.c[sort]
        told = [annotators.c[name] for name in ("name", "email", "team")]
        query = select(run_annotators, *told).select_from(_with_names(run_id)).where(run_annotators.c.run_id == run_id)
        for name, wanted in (("flagged", flagged), ("persistent", persistent), ("finding", finding)):
            if wanted is not None:
                query = query.where(run_annotators.c[name] == wanted)
        if team:
            query = query.where(annotators.c.team == team)
        if differ:
            query = query.where(run_annotators.c.difference != "")
        if among is not None:
            query = query.where(run_annotators.c.annotator.in_(list(among)))
        if search:
            fields = (run_annotators.c.annotator, annotators.c.name, annotators.c.email)
            query = query.where(or_(*[field.icontains(search, autoescape=True) for field in fields]))
        order = [(column, descending), (run_annotators.c.annotator, False)]
        with self._database.read() as connection:
            return page(connection, query, order, limit=limit, cursor=cursor, offset=offset)

    def get(self, run_id: int, annotator_id: str) -> dict[str, Any] | None:
        """One annotator's row of a run."""
        query = select(run_annotators).where(
            run_annotators.c.run_id == run_id, run_annotators.c.annotator == annotator_id
        )
        row = self._database.fetch(query).mappings().first()
        return dict(row) if row else None

    def rows(self, run_id: int, annotator_ids: Collection[str]) -> dict[str, dict[str, Any]]:
        """The rows of these annotators in a run, by annotator."""
        query = select(run_annotators).where(run_annotators.c.run_id == run_id)
        with self._database.read() as connection:
            found = select_in(connection, query, run_annotators.c.annotator, annotator_ids)
            return {row.annotator: dict(row._mapping) for row in found}

    def known(self, run_id: int, annotator_ids: Collection[str]) -> set[str]:
        """Those of these annotators whom a run speaks of."""
        query = select(run_annotators.c.annotator).where(run_annotators.c.run_id == run_id)
        with self._database.read() as connection:
            return {row.annotator for row in select_in(connection, query, run_annotators.c.annotator, annotator_ids)}

    def marks(self, run_id: int, *, every: int = 1, team: str = "") -> list[Mark]:
        """What a drawing needs of everybody in a run, the strongest evidence first: few columns of many rows.

        Of those who are not flagged one in `every` is given; of a team, all.
        """
        columns = [(annotators if name in ("name", "team") else run_annotators).c[name] for name in Mark._fields]
        query = select(*columns).select_from(_with_names(run_id))
        query = query.where(run_annotators.c.run_id == run_id)
        if team:
            query = query.where(annotators.c.team == team)
        elif every > 1:
            query = query.where(or_(run_annotators.c.flagged, run_annotators.c.position % every == 0))
        rows = self._database.fetch(query.order_by(run_annotators.c.position, run_annotators.c.annotator))
        return [Mark(*row) for row in rows]

    def flagged(self, run_id: int) -> list[str]:
        """Who is on a run's list, worst first, at most MOST_FLAGGED."""
        query = select(run_annotators.c.annotator).where(run_annotators.c.run_id == run_id, run_annotators.c.flagged)
        order = (run_annotators.c.position, run_annotators.c.annotator)
        return list(self._database.fetch(query.order_by(*order).limit(MOST_FLAGGED)).scalars())

    def all(self, run_id: int) -> list[dict[str, Any]]:
        """Every annotator of a run, worst first (reports, comparison of runs, plots)."""
        with self._database.read() as connection:
            return all_rows(connection, run_annotators, run_id, "position", "annotator")

    def ready(self, run_id: int, rows: Sequence[Mapping[str, Any]]) -> ReadyRows:
        """A run's annotators, in their order, ready to be stored."""
        fallback = {"persistent": False, "warned": False, "flagged": False, "sup_e": None}
        placed = [{"position": place, **fallback, **row} for place, row in enumerate(rows, start=1)]
        return ReadyRows.of(run_annotators, run_id, placed)


def _with_names(run_id: int) -> FromClause:
    """A run's annotators beside the names of the people."""
    project = select(runs.c.project_id).where(runs.c.id == run_id).scalar_subquery()
    return run_annotators.outerjoin(
        annotators,
        and_(annotators.c.annotator_id == run_annotators.c.annotator, annotators.c.project_id == project),
    )


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
        rows = self._database.fetch(query.order_by(run_order_changes.c.position).limit(limit)).mappings()
        return [dict(row) for row in rows]

    def ready(
        self, run_id: int, items: Sequence[Mapping[str, Any]], order_changes: Sequence[Mapping[str, Any]]
    ) -> tuple[ReadyRows, ReadyRows]:
        """A run's items, and the pairs the correction put the other way round, in their order, ready to be stored."""
        placed = [{**row, "position": place} for place, row in enumerate(order_changes, start=1)]
        return ReadyRows.of(run_items, run_id, items), ReadyRows.of(run_order_changes, run_id, placed)
