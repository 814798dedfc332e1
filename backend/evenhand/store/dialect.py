"""Where SQLite and PostgreSQL differ: the only module that asks which of the two it speaks to."""

import threading
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

from sqlalchemy import Connection, Engine, Table, text
from sqlalchemy.dialects import postgresql, sqlite

from evenhand.errors import StoreBusyError

MIGRATION_LOCK = 7_225_108_041


def is_postgres(bind: Engine | Connection) -> bool:
    """Whether this is PostgreSQL; otherwise it is SQLite."""
    return bind.dialect.name == "postgresql"


def name_of(engine: Engine) -> str:
    """The database's name as people and archives read it: sqlite or postgresql."""
    return engine.dialect.name


class Turns:
    """A lock that is waited for no longer than the database itself would be."""

    def __init__(self, patience: float) -> None:
        self._lock, self._patience = threading.Lock(), patience

    def __enter__(self) -> None:
        """Wait for the turn; raises StoreBusyError."""
        if not self._lock.acquire(timeout=self._patience):
            raise StoreBusyError(f"other writers held the database for {self._patience:g} s; try again in a moment")

    def __exit__(self, *_error: object) -> None:
        """Let the next one in."""
        self._lock.release()


def turns(engine: Engine) -> AbstractContextManager[Any]:
    """What writing threads of one process queue at; SQLite itself would make them poll, with growing pauses."""
    return nullcontext() if is_postgres(engine) else Turns(engine.pool.timeout())  # type: ignore[attr-defined]  # QueuePool


def snapshot_options(engine: Engine) -> dict[str, str]:
    """Execution options under which several statements see one state; SQLite's transactions always do."""
    return {"isolation_level": "REPEATABLE READ"} if is_postgres(engine) else {}


def allow_idle(connection: Connection, seconds: int) -> None:
    """Let this transaction stand idle for so long; SQLite never ends one."""
    if is_postgres(connection):
        connection.execute(text(f"SET LOCAL idle_in_transaction_session_timeout = '{seconds}s'"))


def now(connection: Connection) -> float:
    """The database's clock in seconds since the epoch, the only clock all replicas share."""
    clock = (
        "EXTRACT(EPOCH FROM clock_timestamp())::double precision"
        if is_postgres(connection)
        else "((julianday('now') - 2440587.5) * 86400.0)"
    )
    return float(connection.execute(text(f"SELECT {clock}")).scalar_one())


def queue_for_migration(connection: Connection) -> None:
    """Wait until nobody else changes the schema; a writer of SQLite is alone anyway."""
    if is_postgres(connection):
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": MIGRATION_LOCK})


# Building a statement costs more than running it, and every event needs several: they are built once.
@cache
def insert_into(table: Table, *, on_postgres: bool) -> Any:
    """The dialect's INSERT, which knows ON CONFLICT."""
    return postgresql.insert(table) if on_postgres else sqlite.insert(table)


@cache
def insert_new_into(table: Table, *, on_postgres: bool) -> Any:
    """INSERT that leaves rows with a known primary key alone."""
    return insert_into(table, on_postgres=on_postgres).on_conflict_do_nothing()


@cache
def upsert_into(table: Table, *, on_postgres: bool) -> Any:
    """INSERT that overwrites every other column of a row with the same primary key."""
    insert = insert_into(table, on_postgres=on_postgres)
    keys = [column.name for column in table.primary_key]
    values = {column.name: insert.excluded[column.name] for column in table.columns if column.name not in keys}
    return insert.on_conflict_do_update(index_elements=keys, set_=values)


def last_id(connection: Connection, table: str) -> int:
    """The last number given out for a table's rows."""
    if not is_postgres(connection):
        query = text("SELECT seq FROM sqlite_sequence WHERE name = :name")
        return int(connection.execute(query, {"name": table}).scalar() or 0)
    sequence = connection.execute(text("SELECT pg_get_serial_sequence(:name, 'id')"), {"name": table}).scalar()
    if not sequence:
        return 0
    return int(connection.execute(text(f"SELECT last_value FROM {sequence}")).scalar() or 0)  # noqa: S608 - the database's own name


def set_last_id(connection: Connection, table: str, last: int) -> None:
    """Give out only larger numbers from now on, where the table keeps count of them."""
    if is_postgres(connection):
        connection.execute(text("SELECT setval(pg_get_serial_sequence(:t, 'id'), :last)"), {"t": table, "last": last})
    elif table != "problems":  # SQLite keeps a count only where numbers must never come twice
        connection.execute(text("DELETE FROM sqlite_sequence WHERE name = :t"), {"t": table})
        connection.execute(text("INSERT INTO sqlite_sequence VALUES (:t, :last)"), {"t": table, "last": last})


def compact(engine: Engine, tables: Iterable[Table]) -> None:
    """Give the space of deleted rows back, so that the files no longer hold them; raises StoreBusyError."""
    raw = engine.raw_connection()
    try:
        driver: Any = raw.driver_connection
        if is_postgres(engine):
            raw.rollback()
            driver.autocommit = True
            for table in tables:
                driver.execute(f"VACUUM {table.name}")
            return
        driver.execute("VACUUM")
        if driver.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
            raise StoreBusyError("the write-ahead log is being read; run the command again in a moment")
    except StoreBusyError:
        raise
    except Exception as error:  # each driver has errors of its own
        raise StoreBusyError(f"the database could not be compacted ({error}); run the command again") from error
    finally:
        raw.invalidate()  # its mode was changed: the pool makes a new one
        raw.close()
