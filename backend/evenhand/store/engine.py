"""Opening the database, and its errors turned into ours; the only module that knows SQLite from PostgreSQL."""

import json
import math
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, Table, create_engine, event, inspect, text
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DataError, DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from evenhand.errors import PayloadError, StoreBusyError, StoreDamagedError, StoreError
from evenhand.private_files import FOLDER_MODE
from evenhand.store.schema import SCHEMA
from fdr_core._version import __version__

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


def damage(connection: Connection, tables: Iterable[Table], *, full: bool) -> str | None:
    """What a check of the whole database finds wrong, None if nothing; `full` also reads what indexes and values say.

    SQLite checks itself; of PostgreSQL every row is read, which its checksums and decoding then judge.
    """
    if not is_postgres(connection):
        found = [str(row[0]) for row in connection.execute(text(f"PRAGMA {'integrity' if full else 'quick'}_check(5)"))]
        if full and found == ["ok"]:
            found += [
                f"a row of {row[0]} belongs to none of {row[2]}"
                for row in connection.execute(text("PRAGMA foreign_key_check"))
            ]
        return "; ".join(line for line in found if line != "ok")[:1000] or None
    connection.execute(text("SET LOCAL enable_indexonlyscan = off"))
    for table in tables:
        rows = f"SELECT {'sum(length(t::text))' if full else 'count(*)'} FROM {table.name} AS t"  # noqa: S608 - our own tables
        connection.execute(text(rows)).all()
    return None


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


WRITE = "evenhand_write"
BUSY_SECONDS = 10.0
#: Types whose values JSON takes as they are.
PLAIN = frozenset({str, int, bool, type(None)})
DAMAGED = ("not a database", "malformed", "disk image")


def open_engine(url: str, *, pool_size: int = 16, patience: float = BUSY_SECONDS) -> Engine:
    """An engine with durable commits on SQLite (WAL, synchronous FULL) or PostgreSQL.

    `patience` is how many seconds a transaction waits for a lock, and a thread for its turn or a connection.
    """
    parsed = make_url(url)
    if parsed.get_backend_name() == "sqlite":
        return _sqlite(url, parsed.database, pool_size, patience)
    return create_engine(
        url,
        pool_size=pool_size,
        max_overflow=0,
        pool_timeout=patience,
        pool_pre_ping=True,
        json_serializer=to_json,
        connect_args={
            "connect_timeout": 5,
            "options": f"-c lock_timeout={patience * 1000:.0f}ms -c idle_in_transaction_session_timeout=60s",
        },
    )


def migrate(engine: Engine) -> None:
    """Make the schema where there is none; safe when several processes start at once."""
    with database_errors(), engine.connect().execution_options(**{WRITE: True}) as connection, connection.begin():
        upgrade(connection)


def upgrade(connection: Connection) -> None:
    """Make the schema within the caller's transaction; others who try wait for its end. Raises StoreError."""
    queue_for_migration(connection)
    found = current_revision(connection)
    if found == SCHEMA:
        return
    if found is not None:
        raise StoreError(
            f"the database has schema {found!r} and version {__version__} needs {SCHEMA!r}: it was made by another "
            "version of Evenhand; install that one, or move the database away and connect your projects again"
        )
    # Imported here: it takes as long as the rest of the store, and a service that starts again needs none of it.
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def current_revision(connection: Connection) -> str | None:
    """The version of a database's schema, None where there is none yet."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    found = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    return None if found is None else str(found)


@contextmanager
def database_errors() -> Iterator[None]:
    """Turn the driver's errors into StoreError, with what a person can do about it."""
    try:
        yield
    except PoolTimeoutError as error:
        raise StoreBusyError("all database connections are in use; try again, or raise THREADS") from error
    except (OperationalError, InterfaceError) as error:
        message = str(error.orig).splitlines()[0] if str(error.orig) else type(error.orig).__name__
        if any(word in message.lower() for word in ("locked", "busy", "lock timeout", "deadlock")):
            raise StoreBusyError(f"the database is locked ({message}); try again in a moment") from error
        raise StoreError(f"the database cannot answer ({message}); check DATABASE_URL, its server and disk") from error
    except DataError as error:
        raise PayloadError("a value does not fit the database (too large, or characters it cannot hold)") from error
    except DBAPIError as error:
        message = str(error.orig).splitlines()[0] if str(error.orig) else type(error.orig).__name__
        if any(word in message for word in DAMAGED):
            raise StoreDamagedError(
                f"the database is damaged ({message}); stop the service, move the file away and restore a backup"
            ) from error
        if "locked" in message or "lock timeout" in message or error.connection_invalidated:
            raise StoreBusyError(f"the database is locked or restarting ({message}); try again") from error
        raise


@dataclass(frozen=True)
class ReadyJson:
    """JSON made before its transaction begins, so that other writers do not wait for the making."""

    text: str

    @classmethod
    def of(cls, value: Any) -> "ReadyJson":
        """Make it now."""
        return cls(to_json(value))


def to_json(value: Any) -> str:
    """JSON for a column: numpy numbers become plain ones, NaN and infinities null (PostgreSQL refuses them)."""
    if isinstance(value, ReadyJson):
        return value.text
    try:
        return json.dumps(value, allow_nan=False, default=_plain, ensure_ascii=False)
    except ValueError:
        return json.dumps(finite(value), allow_nan=False, default=_plain, ensure_ascii=False)


def finite(value: Any) -> Any:
    """The same value with every number that is not finite replaced by None."""
    if type(value) in PLAIN:
        return value
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): finite(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [finite(part) for part in value]
    return value


def _plain(value: Any) -> Any:
    """What json cannot serialise by itself."""
    if hasattr(value, "tolist"):
        return finite(value)
    if isinstance(value, set | frozenset):
        return sorted(value)
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"{type(value).__name__} cannot be stored as JSON")


def _use_wal(cursor: Any, patience: float) -> None:
    """Switch to WAL; where several open a new file at once SQLite says "locked" at once instead of waiting."""
    until = time.monotonic() + patience
    while True:
        try:
            cursor.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > until:
                raise
            time.sleep(0.01)


def _sqlite(url: str, path: str | None, pool_size: int, patience: float) -> Engine:
    """SQLite with real transactions: the driver's own BEGIN handling is switched off."""
    if path and path != ":memory:":
        Path(path).parent.mkdir(parents=True, exist_ok=True, mode=FOLDER_MODE)
    engine = create_engine(
        url,
        pool_size=pool_size,
        max_overflow=0,
        pool_timeout=patience,
        json_serializer=to_json,
        connect_args={"timeout": patience, "check_same_thread": False},
    )

    @event.listens_for(engine, "connect")
    def _prepare(connection: Any, _record: Any) -> None:
        connection.isolation_level = None
        cursor = connection.cursor()
        _use_wal(cursor, patience)
        for pragma in ("synchronous=FULL", "foreign_keys=ON", "temp_store=MEMORY"):
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        # A writer takes its lock at once: upgrading from a read lock could fail without waiting.
        is_write = connection.get_execution_options().get(WRITE, False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if is_write else "BEGIN")

    return engine
