"""Opening the database: engine, durability, migrations, and its errors turned into ours."""

import functools
import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DataError, DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from evenhand.errors import PayloadError, StoreBusyError, StoreError
from evenhand.private_files import FOLDER_MODE
from evenhand.store.dialect import queue_for_migration
from fdr_core._version import __version__

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
    """Bring the schema to the newest version; safe when several processes start at once."""
    with database_errors(), engine.connect().execution_options(**{WRITE: True}) as connection, connection.begin():
        upgrade(connection)


def upgrade(connection: Connection, revision: str = "head") -> None:
    """Bring the schema to a version within the caller's transaction; others who try wait for its end."""
    queue_for_migration(connection)
    found = current_revision(connection)
    if found is not None and found not in known_revisions():
        raise StoreError(
            f"the database has schema {found!r}, which version {__version__} does not know: it was used by a "
            "newer one; install that version, or restore a backup made before"
        )
    if found == (_head() if revision == "head" else revision):
        return
    config = _alembic()
    config.attributes["connection"] = connection
    command.upgrade(config, revision)


def current_revision(connection: Connection) -> str | None:
    """The version of a database's schema, None where there is none yet."""
    return MigrationContext.configure(connection).get_current_revision()


def known_revisions() -> frozenset[str]:
    """The versions of the schema this program knows."""
    return frozenset(script.revision for script in _scripts().walk_revisions())


def _head() -> str | None:
    return _scripts().get_current_head()


@functools.cache
def _scripts() -> ScriptDirectory:
    """The migrations, read once."""
    return ScriptDirectory.from_config(_alembic())


def _alembic() -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    return config


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
            raise StoreError(
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
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "temp_store=MEMORY"):
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        # A writer takes its lock at once: upgrading from a read lock could fail without waiting.
        is_write = connection.get_execution_options().get(WRITE, False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if is_write else "BEGIN")

    return engine
