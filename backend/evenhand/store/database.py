"""What every part of the store shares: transactions, upserts, the clock, pages, and projects' rows to lock."""

import base64
import json
import shutil
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import (
    Boolean,
    ColumnElement,
    Connection,
    Engine,
    Select,
    Table,
    and_,
    bindparam,
    case,
    func,
    or_,
    select,
)

from evenhand.domain import Page
from evenhand.errors import NotFoundError, PayloadError, StoreBusyError, StoreError
from evenhand.store import engine as dialect
from evenhand.store.engine import WRITE, database_errors
from evenhand.store.schema import metadata, projects

CHUNK = 5000
PATIENCE_SECONDS = 900
#: Below the first nothing can be written for long; below the second somebody should make room.
NO_SPACE_BYTES, LITTLE_SPACE_BYTES = 1_000_000, 100_000_000


class Database:
    """An engine, a clock, and short transactions."""

    def __init__(self, engine: Engine, clock: Callable[[], float] = time.time) -> None:
        self.engine = engine
        self.clock = clock
        self.name = dialect.name_of(engine)
        self.on_postgres = dialect.is_postgres(engine)
        self._turn = dialect.turns(engine)

    def close(self) -> None:
        """Give back all database connections."""
        self.engine.dispose()

    @contextmanager
    def read(self, *, snapshot: bool = False, patient: bool = False) -> Iterator[Connection]:
        """A read transaction; `snapshot` makes several statements see one state on PostgreSQL too.

        `patient` is for reading many rows: PostgreSQL ends transactions that stand idle for a minute, and on a busy
        machine a reader may take longer than that over one part of them.
        """
        with database_errors(), self.engine.connect() as connection:
            if snapshot:
                connection = connection.execution_options(**dialect.snapshot_options(self.engine))
            with connection.begin():
                if patient:
                    dialect.allow_idle(connection, PATIENCE_SECONDS)
                yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A write transaction, durable when the block ends."""
        with (
            database_errors(),
            self._turn,
            self.engine.connect().execution_options(**{WRITE: True}) as connection,
            connection.begin(),
        ):
            yield connection

    def fetch(self, query: Any, values: Any = None) -> Any:
        """What one query finds, read whole in a transaction of its own."""
        with self.read() as connection:
            return connection.execute(query, values).freeze()()

    def change(self, statement: Any, values: Any = None) -> Any:
        """Execute one statement durably; its result, of which the rows are read."""
        with self.write() as connection:
            return connection.execute(statement, values)

    def insert(self, table: Table) -> Any:
        """The dialect's INSERT, which knows ON CONFLICT."""
        return dialect.insert_into(table, on_postgres=self.on_postgres)

    def upsert(self, table: Table) -> Any:
        """INSERT that overwrites every other column of a row with the same primary key."""
        return dialect.upsert_into(table, on_postgres=self.on_postgres)

    def insert_new(self, table: Table) -> Any:
        """INSERT that leaves rows with a known primary key alone."""
        return dialect.insert_new_into(table, on_postgres=self.on_postgres)

    def damage(self, *, full: bool) -> str | None:
        """What a check of everything stored finds wrong; None if nothing. Takes seconds per gigabyte."""
        try:
            with self.read(patient=True) as connection:
                return dialect.damage(connection, metadata.sorted_tables, full=full)
        except StoreBusyError:
            raise
        except StoreError as error:
            return str(error)

    def free_bytes(self) -> int | None:
        """Room left where the database lies; not known of a server or of memory."""
        path = self.engine.url.database
        if self.on_postgres or not path or path == ":memory:":
            return None
        return shutil.disk_usage(Path(path).absolute().parent).free

    def time(self) -> float:
        """The database's clock in seconds since the epoch; also proves that the database answers."""
        with self.read() as connection:
            return dialect.now(connection)


class Aggregate:
    """One kind of thing the store keeps; each public method is one transaction.

    Methods whose name ends in `_in` work within a transaction of another aggregate.
    """

    def __init__(self, database: Database) -> None:
        self._database = database


def chunks(values: Sequence[Any], size: int = CHUNK) -> Iterator[Sequence[Any]]:
    """Split a sequence into pieces a statement can take."""
    for start in range(0, len(values), size):
        yield values[start : start + size]


def select_in(connection: Connection, query: Select[Any], column: Any, wanted: Collection[Any] | None) -> Iterator[Any]:
    """Rows of a query whose `column` is one of `wanted`, in as many statements as that takes; all if None."""
    if wanted is None:
        yield from connection.execute(query)
        return
    for part in chunks(sorted(set(wanted))):
        yield from connection.execute(query.where(column.in_(part)))


def without_project(row: Any) -> dict[str, Any]:
    """A row's columns by name, without its project."""
    return {key: value for key, value in row._mapping.items() if key != "project_id"}


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


_PROJECT = select(projects.c.seq, projects.c.config, projects.c.counts).where(projects.c.id == bindparam("project"))
_LOCKED_PROJECT = _PROJECT.with_for_update()


def missing_project(project_id: int) -> NotFoundError:
    """The error that there is no such project."""
    return NotFoundError(f"project {project_id} does not exist; `evenhand status` lists the projects")


def project_row(connection: Connection, project_id: int, *, lock: bool = False) -> Mapping[str, Any]:
    """The project's sequence number, settings and counts; `lock` serialises writers of one project."""
    row = connection.execute(_LOCKED_PROJECT if lock else _PROJECT, {"project": project_id}).mappings().first()
    if row is None:
        raise missing_project(project_id)
    return dict(row)
