"""Restoring a backup: checked first, then put in place in one step, and only while nobody is working."""

import os
import sqlite3
import tempfile
from pathlib import Path

from sqlalchemy import Connection, Engine, inspect, make_url, select, text

from evenhand.errors import ConflictError
from evenhand.store.backup import BackupError, Manifest, load, read_manifest
from evenhand.store.engine import WRITE, database_errors, open_engine
from evenhand.store.schema import metadata

#: A database with rows in one of these holds somebody's work.
WORK = ("projects", "users")
REPLACE = "add --replace to overwrite it with the backup"


def restore(database_url: str, path: Path, *, replace: bool) -> tuple[Manifest, list[str]]:
    """Put an archive in the place of the database; on any error the database is as it was before."""
    manifest = read_manifest(path)
    if database_url.startswith("sqlite"):
        return manifest, _restore_file(Path(make_url(database_url).database or ""), path, manifest, replace=replace)
    engine = open_engine(database_url, pool_size=1)
    try:
        return manifest, _restore_server(engine, path, manifest, replace=replace)
    finally:
        engine.dispose()


def _restore_file(target: Path, path: Path, manifest: Manifest, *, replace: bool) -> list[str]:
    """Build the new database beside the old one and give it its name."""
    target.parent.mkdir(parents=True, exist_ok=True)
    is_there = target.exists() and target.stat().st_size > 0
    if is_there:
        _refuse_open_file(target)
        _refuse_work_in(target, replace=replace)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.restoring-")
    os.close(handle)
    fresh = Path(name)
    try:
        engine = open_engine(f"sqlite:///{fresh}", pool_size=1)
        try:
            with (
                database_errors(),
                engine.connect().execution_options(**{WRITE: True}) as connection,
                connection.begin(),
            ):
                notes = load(connection, path, manifest)
        finally:
            engine.dispose()  # the last connection folds the log into the file
        _same_owner(fresh, target if is_there else target.parent)
        os.replace(fresh, target)
        return notes
    finally:
        for leftover in (fresh, *(fresh.with_name(fresh.name + end) for end in ("-wal", "-shm"))):
            leftover.unlink(missing_ok=True)


def _refuse_open_file(target: Path) -> None:
    """SQLite leaves its write-ahead log only if no other process has the file open: that is the test."""
    connection = sqlite3.connect(target, timeout=1.0)
    try:
        mode = connection.execute("PRAGMA journal_mode=DELETE").fetchone()[0]
    except sqlite3.OperationalError as error:
        if "locked" not in str(error):
            raise BackupError(f"{target} cannot be opened ({error}); move it away and restore again") from error
        mode = "locked"
    except sqlite3.DatabaseError as error:
        raise BackupError(f"{target} is not a database ({error}); move it away and restore again") from error
    finally:
        connection.close()
    if mode != "delete":
        raise ConflictError(f"{target} is in use by another process; stop the service, then restore")


def _refuse_work_in(target: Path, *, replace: bool) -> None:
    engine = open_engine(f"sqlite:///{target}", pool_size=1)
    try:
        with database_errors(), engine.connect() as connection, connection.begin():
            if not replace and _holds_work(connection):
                raise ConflictError(f"{target} holds projects or accounts; {REPLACE}")
    finally:
        engine.dispose()


def _restore_server(engine: Engine, path: Path, manifest: Manifest, *, replace: bool) -> list[str]:
    """Drop and fill all tables in one transaction; PostgreSQL undoes all of it if anything fails."""
    with database_errors(), engine.connect() as connection, connection.begin():
        others = connection.execute(
            text(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
                "AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
            )
        ).scalar_one()
        if others:
            raise ConflictError(f"the database is in use by {others} other connections; stop the service, then restore")
        if not replace and _holds_work(connection):
            raise ConflictError(f"the database holds projects or accounts; {REPLACE}")
        known = set(inspect(connection).get_table_names())
        for name in (*(table.name for table in reversed(metadata.sorted_tables)), "alembic_version"):
            if name in known:
                connection.execute(text(f"DROP TABLE {name} CASCADE"))
        connection.execute(text("DROP FUNCTION IF EXISTS decisions_refuse() CASCADE"))
        return load(connection, path, manifest)


def _holds_work(connection: Connection) -> bool:
    known = set(inspect(connection).get_table_names())
    tables = (metadata.tables[name] for name in WORK if name in known)
    return any(connection.execute(select(text("1")).select_from(table).limit(1)).first() for table in tables)


def _same_owner(path: Path, model: Path) -> None:
    """Let the service's user read a file that an administrator restored."""
    status = model.stat()
    if os.geteuid() == 0:
        os.chown(path, status.st_uid, status.st_gid)
