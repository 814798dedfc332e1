"""What every aggregate of the store shares: transactions, upserts, the clock."""

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Engine, Select, Table, select

from evenhand.store import dialect
from evenhand.store.engine import WRITE, database_errors
from evenhand.store.schema import projects

CHUNK = 5000
PATIENCE_SECONDS = 900


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

    def insert(self, table: Table) -> Any:
        """The dialect's INSERT, which knows ON CONFLICT."""
        return dialect.insert_into(table, on_postgres=self.on_postgres)

    def upsert(self, table: Table) -> Any:
        """INSERT that overwrites every other column of a row with the same primary key."""
        return dialect.upsert_into(table, on_postgres=self.on_postgres)

    def insert_new(self, table: Table) -> Any:
        """INSERT that leaves rows with a known primary key alone."""
        return dialect.insert_new_into(table, on_postgres=self.on_postgres)

    def probe(self) -> None:
        """Check that the tables can be read and the write lock can be had; raises StoreError."""
        with self.write() as connection:
            connection.execute(select(projects.c.id).limit(1))

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
