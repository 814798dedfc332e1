"""Rows of an archive against the columns they go into: SQLite would take a text where a number belongs."""

import hashlib
import hmac
import json
import os
import sqlite3
import tempfile
import time
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Any

from sqlalchemy import (
    JSON,
    Boolean,
    Connection,
    Engine,
    Integer,
    MetaData,
    Numeric,
    String,
    Table,
    inspect,
    make_url,
    select,
    text,
)
from sqlalchemy.exc import DatabaseError, StatementError
from sqlalchemy.types import TypeEngine

from evenhand.errors import BackendError, ConflictError
from evenhand.project_config import ProjectConfig
from evenhand.store.decisions import check_chain
from evenhand.store.engine import (
    WRITE,
    current_revision,
    database_errors,
    is_postgres,
    last_id,
    name_of,
    open_engine,
    set_last_id,
    snapshot_options,
    to_json,
    upgrade,
)
from evenhand.store.schema import SCHEMA, metadata, projects
from fdr_core._version import __version__

_KINDS: tuple[tuple[type[TypeEngine[Any]], tuple[type, ...]], ...] = (
    (Boolean, (bool, int)),
    (Integer, (int,)),
    (Numeric, (float, int)),
    (String, (str,)),
)


def checked_row(table: Table, columns: Sequence[str], values: Sequence[Any]) -> dict[str, Any]:
    """The row by column name; raises ValueError where a value is not of its column's kind."""
    row = dict(zip(columns, values, strict=True))
    for name, kinds in _kinds(table).items():
        value = row.get(name)
        if value is not None and type(value) not in kinds:
            raise ValueError(f"{name} is a {type(value).__name__}")
    return row


@cache
def _kinds(table: Table) -> dict[str, tuple[type, ...]]:
    """What each column takes, but for those that take anything."""
    return {
        column.name: kinds
        for column in table.columns
        for kind, kinds in _KINDS
        if isinstance(column.type, kind) and not isinstance(column.type, JSON)
    }


DIGITS = 64
#: Stands in the archive's comment until the rest of the file is known.
PLACEHOLDER = b"sha256:" + b"0" * DIGITS
PIECE = 1 << 20


def seal(file: IO[bytes]) -> None:
    """Write the digest over the end of an archive whose comment is the placeholder."""
    size = file.seek(0, 2)
    digest = _digest(file, size - DIGITS)
    file.seek(size - DIGITS)
    file.write(digest)
    file.seek(0, 2)


def is_intact(path: Path) -> bool:
    """Whether a sealed file is what was written, to the last bit."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        if size < len(PLACEHOLDER):
            return False
        digest = _digest(file, size - DIGITS)
        return hmac.compare_digest(file.read(DIGITS), digest)


def _digest(file: IO[bytes], size: int) -> bytes:
    """The digest of the first bytes, in hexadecimal."""
    file.seek(0)
    digest = hashlib.sha256()
    while size > 0 and (piece := file.read(min(PIECE, size))):
        digest.update(piece)
        size -= len(piece)
    return digest.hexdigest().encode()


FORMAT, VERSION = "evenhand-backup", 2
MANIFEST = "manifest.json"
BATCH = 2000
LONGEST_LINE = 64 << 20
LARGEST_MANIFEST = 4 << 20
# Leases and delays; a restored service starts without them.
PASSING = frozenset({"leases", "login_failures", "alembic_version"})
NUMBERED = ("projects", "runs", "problems")
LARGEST_NUMBER = 10**11


class BackupError(BackendError):
    """An archive that cannot be restored."""

    code = "bad_backup"
    status = 422


@dataclass(frozen=True)
class Part:
    """One table of an archive."""

    name: str
    columns: tuple[str, ...]
    rows: int
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """What an archive says about itself."""

    version: int
    revision: str
    product: str
    database: str
    created_at: float
    parts: tuple[Part, ...]
    last_ids: dict[str, int]

    @property
    def rows(self) -> int:
        """Rows of all tables."""
        return sum(part.rows for part in self.parts)


def write_backup(engine: Engine, file: IO[bytes]) -> Manifest:
    """Write everything as of one moment; the service may go on writing meanwhile."""
    if not is_postgres(engine) and not Path(engine.url.database or "").exists():
        raise BackupError(f"there is no database at {engine.url.database}; check DATABASE_URL and MODEL_DIR")
    with (
        database_errors(),
        engine.connect().execution_options(**snapshot_options(engine)) as connection,
        connection.begin(),
        zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=3) as archive,
    ):
        revision = current_revision(connection)
        if revision is None:
            raise BackupError("the database is empty; check DATABASE_URL and MODEL_DIR, or start the service first")
        tables = _tables(connection)
        manifest = Manifest(
            version=VERSION,
            revision=revision,
            product=__version__,
            database=name_of(engine),
            created_at=time.time(),
            parts=tuple(_write_table(connection, archive, table) for table in tables),
            last_ids={name: last_id(connection, name) for name in NUMBERED},
        )
        archive.writestr(MANIFEST, _to_text(manifest))
        archive.comment = PLACEHOLDER
    seal(file)
    return manifest


def read_manifest(path: Path) -> Manifest:
    """Check that a file is a whole, undamaged archive of a version we know; raises BackupError."""
    with _opened(path) as archive:
        manifest = _manifest(path, archive)
        if not is_intact(path):
            raise BackupError(f"{path} is damaged: it is not what was written; use another backup")
        for part in manifest.parts:
            _check_part(path, archive, part)
    return manifest


def load(connection: Connection, path: Path, manifest: Manifest) -> list[str]:
    """Fill an empty database within the caller's transaction; returns what a person should know."""
    upgrade(connection)
    tables = {table.name: table for table in _tables(connection)}
    with _opened(path) as archive:
        for part in manifest.parts:
            if part.name not in tables or set(part.columns) != {column.name for column in tables[part.name].columns}:
                raise BackupError(
                    f"{path}: table {part.name!r} is not that of schema {manifest.revision}; see `--check`"
                )
        order = list(tables)
        for part in sorted(manifest.parts, key=lambda part: order.index(part.name)):
            _load_table(connection, path, archive, part, tables[part.name])
    _set_last_ids(connection, manifest.last_ids)
    _check_settings(connection, path)
    numbers = connection.execute(select(projects.c.id).order_by(projects.c.id)).scalars().all()
    checks = {number: check_chain(connection, number) for number in numbers}
    return [
        f"the decision log of project {number} is broken at line {check.broken_at}, as it was in the backup"
        for number, check in checks.items()
        if not check.intact
    ]


def _check_settings(connection: Connection, path: Path) -> None:
    """Refuse projects whose settings no version could have written."""
    for number, config, counts in connection.execute(select(projects.c.id, projects.c.config, projects.c.counts)):
        try:
            ProjectConfig.model_validate(config)
            if not isinstance(counts, dict) or not all(isinstance(count, int) for count in counts.values()):
                raise ValueError("its counts are not numbers")
        except ValueError as error:
            reason = " ".join(str(error).split())[:200]
            raise BackupError(
                f"{path}: the settings of project {number} do not fit ({reason}); nothing was restored"
            ) from error


def _tables(connection: Connection) -> list[Table]:
    """The tables as the database has them, referred ones first; rows of JSON null become SQL null."""
    metadata = MetaData()
    metadata.reflect(connection, only=[name for name in inspect(connection).get_table_names() if name not in PASSING])
    for table in metadata.tables.values():
        for column in table.columns:
            if isinstance(column.type, JSON):
                column.type.none_as_null = True
    return list(metadata.sorted_tables)


def _write_table(connection: Connection, archive: zipfile.ZipFile, table: Table) -> Part:
    """Stream one table into the archive."""
    digest, size, number = hashlib.sha256(), 0, 0
    rows = connection.execution_options(yield_per=BATCH).execute(select(table).order_by(*table.primary_key.columns))
    with archive.open(f"tables/{table.name}.jsonl", "w", force_zip64=True) as sink:
        for batch in rows.partitions():
            data = "".join(f"{json.dumps(list(row))}\n" for row in batch).encode()
            digest.update(data)
            size, number = size + len(data), number + len(batch)
            sink.write(data)
    return Part(table.name, tuple(column.name for column in table.columns), number, size, digest.hexdigest())


def _load_table(connection: Connection, path: Path, archive: zipfile.ZipFile, part: Part, table: Table) -> None:
    """Insert one table's rows."""
    batch: list[dict[str, Any]] = []
    try:
        for row in _lines(path, archive, part):
            batch.append(checked_row(table, part.columns, row))
            if len(batch) == BATCH:
                connection.execute(table.insert(), batch)
                batch = []
        if batch:
            connection.execute(table.insert(), batch)
    except (ValueError, OverflowError, RecursionError, StatementError, DatabaseError) as error:
        reason = str(error.orig if isinstance(error, DatabaseError) else error).splitlines()[0]
        raise BackupError(f"{path}: a row of {part.name!r} does not fit ({reason}); nothing was restored") from error


def _lines(path: Path, archive: zipfile.ZipFile, part: Part) -> Iterator[list[Any]]:
    with archive.open(f"tables/{part.name}.jsonl") as source:
        while line := source.readline(LONGEST_LINE):
            row = json.loads(line)
            if not isinstance(row, list):
                raise BackupError(f"{path}: a row of {part.name!r} is not a list; nothing was restored")
            yield row


def _check_part(path: Path, archive: zipfile.ZipFile, part: Part) -> None:
    """Compare one table with what the manifest says of it, reading no more than that."""
    digest, left, rows = hashlib.sha256(), part.bytes, 0
    try:
        with archive.open(f"tables/{part.name}.jsonl") as source:
            while left > 0 and (piece := source.read(min(PIECE, left))):
                digest.update(piece)
                left, rows = left - len(piece), rows + piece.count(b"\n")
            has_more = bool(source.read(1))
    except Exception as error:  # a missing entry, a wrong checksum, zlib.error: they have no common root
        raise BackupError(f"{path} is damaged at table {part.name!r} ({error}); use another backup") from error
    if left or has_more or rows != part.rows or digest.hexdigest() != part.sha256:
        raise BackupError(f"{path} is damaged: table {part.name!r} is not what was written; use another backup")


def _opened(path: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(path)
    except FileNotFoundError as error:
        raise BackupError(f"{path}: there is no such file; check the path") from error
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise BackupError(
            f"{path} is not a backup of Evenhand, or not a complete one ({error}); `evenhand backup FILE` makes one"
        ) from error


def _manifest(path: Path, archive: zipfile.ZipFile) -> Manifest:
    """Read and check the manifest."""
    try:
        with archive.open(MANIFEST) as file:
            found = json.loads(file.read(LARGEST_MANIFEST))
    except Exception as error:  # whatever the ZIP or JSON reader dislikes: it is not our file
        raise BackupError(f"{path} is not a backup of Evenhand, or damaged ({error}); use another file") from error
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise BackupError(f"{path} is not a backup of Evenhand: its manifest does not say {FORMAT!r}")
    if (found.get("version"), found.get("revision")) != (VERSION, SCHEMA):
        raise BackupError(
            f"{path} was made by Evenhand {str(found.get('product'))[:40]} (archive version {found.get('version')!r}, "
            f"schema {found.get('revision')!r}), which this version {__version__} does not know; "
            "restore it with that version"
        )
    try:
        parts = tuple(
            Part(str(p["name"]), tuple(map(str, p["columns"])), _size(p["rows"]), _size(p["bytes"]), str(p["sha256"]))
            for p in found["tables"]
        )
        last_ids = {name: _size(found["last_ids"][name]) for name in NUMBERED}
        revision, product, database = (str(found[name]) for name in ("revision", "product", "database"))
        created_at = float(_size(int(found["created_at"])))
        return Manifest(found["version"], revision, product, database, created_at, parts, last_ids)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise BackupError(f"{path}: the manifest is damaged ({error!r}); use another backup") from error


def _size(value: Any) -> int:
    """A whole number that a database and a calendar can hold."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < LARGEST_NUMBER:
        raise ValueError(f"{str(value)[:40]} is not a size")
    return value


def _to_text(manifest: Manifest) -> str:
    return to_json(
        {
            "format": FORMAT,
            "version": VERSION,
            "revision": manifest.revision,
            "product": manifest.product,
            "database": manifest.database,
            "created_at": manifest.created_at,
            "tables": [vars(part) for part in manifest.parts],
            "last_ids": manifest.last_ids,
        }
    )


def _set_last_ids(connection: Connection, last_ids: dict[str, int]) -> None:
    """Go on counting where the archive left off, so that numbers of deleted rows are not given out again."""
    for name in NUMBERED:
        largest = connection.execute(text(f"SELECT max(id) FROM {name}")).scalar() or 0  # noqa: S608 - one of NUMBERED
        last = max(largest, last_ids[name])
        if last:
            set_last_id(connection, name, last)


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
