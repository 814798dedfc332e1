"""What every part of the store shares: transactions, upserts, the clock, keyset paging."""

import base64
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from typing import Any

from sqlalchemy import Boolean, ColumnElement, Connection, Engine, Select, Table, and_, case, func, or_, select, text
from sqlalchemy.dialects import postgresql, sqlite

from backend.database import WRITE, database_errors, now_expression
from backend.domain import Page
from backend.errors import PayloadError

CHUNK = 5000
MAX_PAGE = 1000
PATIENCE_SECONDS = 900


class StoreBase:
    """An engine, a clock, and short transactions."""

    def __init__(self, engine: Engine, clock: Callable[[], float] = time.time) -> None:
        self.engine = engine
        self.clock = clock
        # Threads of one process queue here; SQLite itself would make them poll, with growing pauses.
        self._turn: AbstractContextManager[Any] = threading.Lock() if engine.dialect.name == "sqlite" else nullcontext()

    def close(self) -> None:
        """Give back all database connections."""
        self.engine.dispose()

    @contextmanager
    def _read(self, *, snapshot: bool = False, patient: bool = False) -> Iterator[Connection]:
        """A read transaction; `snapshot` makes several statements see one state on PostgreSQL too.

        `patient` is for reading many rows: PostgreSQL ends transactions that stand idle for a minute, and on a busy
        machine a reader may take longer than that over one part of them.
        """
        with database_errors(), self.engine.connect() as connection:
            if snapshot and self.engine.dialect.name == "postgresql":
                connection = connection.execution_options(isolation_level="REPEATABLE READ")
            with connection.begin():
                if patient and self.engine.dialect.name == "postgresql":
                    connection.execute(text(f"SET LOCAL idle_in_transaction_session_timeout = '{PATIENCE_SECONDS}s'"))
                yield connection

    @contextmanager
    def _write(self) -> Iterator[Connection]:
        """A write transaction, durable when the block ends."""
        with (
            database_errors(),
            self._turn,
            self.engine.connect().execution_options(**{WRITE: True}) as connection,
            connection.begin(),
        ):
            yield connection

    def _insert(self, table: Table) -> Any:
        """The dialect's INSERT, which knows ON CONFLICT."""
        return _insert_into(self.engine.dialect.name, table)

    def _upsert(self, table: Table) -> Any:
        """INSERT that overwrites every other column of a row with the same primary key."""
        return _upsert_into(self.engine.dialect.name, table)

    def _insert_new(self, table: Table) -> Any:
        """INSERT that leaves rows with a known primary key alone."""
        return _insert_new_into(self.engine.dialect.name, table)

    def _database_time(self, connection: Connection) -> float:
        """The database's clock, the only one all replicas share."""
        return float(connection.execute(text(f"SELECT {now_expression(self.engine)}")).scalar_one())

    def database_time(self) -> float:
        """The database's clock in seconds since the epoch; also proves that the database answers."""
        with self._read() as connection:
            return self._database_time(connection)


# Building a statement costs more than running it, and every event needs several: they are built once.
@cache
def _insert_into(dialect: str, table: Table) -> Any:
    return postgresql.insert(table) if dialect == "postgresql" else sqlite.insert(table)


@cache
def _insert_new_into(dialect: str, table: Table) -> Any:
    return _insert_into(dialect, table).on_conflict_do_nothing()


@cache
def _upsert_into(dialect: str, table: Table) -> Any:
    insert = _insert_into(dialect, table)
    keys = [column.name for column in table.primary_key]
    values = {column.name: insert.excluded[column.name] for column in table.columns if column.name not in keys}
    return insert.on_conflict_do_update(index_elements=keys, set_=values)


def chunks(values: Sequence[Any], size: int = CHUNK) -> Iterator[Sequence[Any]]:
    """Split a sequence into pieces a statement can take."""
    for start in range(0, len(values), size):
        yield values[start : start + size]


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


def as_mapping(row: Any) -> Mapping[str, Any]:
    """A row's columns by name."""
    return dict(row._mapping)
