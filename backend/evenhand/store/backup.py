"""Backups: one archive of the whole database, the same from SQLite and PostgreSQL, restored whole or not at all.

An archive is a ZIP file. `tables/<name>.jsonl` holds one JSON list per row, in the order of the columns;
`manifest.json`, written last, holds the version of the archive and of the schema, and for every table its columns,
number of rows, size and SHA-256. The file's last 64 characters are the SHA-256 of everything before them.
"""

import hashlib
import json
import time
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from sqlalchemy import JSON, Connection, Engine, MetaData, Table, inspect, select, text
from sqlalchemy.exc import DatabaseError, StatementError

from evenhand.errors import BackendError
from evenhand.project_config import ProjectConfig
from evenhand.store import backup_seals as seals
from evenhand.store.backup_rows import checked_row
from evenhand.store.decisions import check_chain
from evenhand.store.dialect import is_postgres, last_id, name_of, set_last_id, snapshot_options
from evenhand.store.engine import current_revision, database_errors, known_revisions, to_json, upgrade
from evenhand.store.schema import projects
from fdr_core._version import __version__

FORMAT, VERSION = "evenhand-backup", 2
#: Archives of version 1 have no seal over the whole file.
UNSEALED = 1
MANIFEST = "manifest.json"
BATCH = 2000
PIECE = 1 << 20
LONGEST_LINE = 64 << 20
LARGEST_MANIFEST = 4 << 20
# Leases, delays, and what is made from other tables; a restored service starts without them.
PASSING = frozenset({"leases", "login_failures", "statistics_parts", "alembic_version"})
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
        archive.comment = seals.PLACEHOLDER
    seals.seal(file)
    return manifest


def read_manifest(path: Path) -> Manifest:
    """Check that a file is a whole, undamaged archive of a version we know; raises BackupError."""
    with _opened(path) as archive:
        manifest = _manifest(path, archive)
        if manifest.version != UNSEALED and not seals.is_intact(path):
            raise BackupError(f"{path} is damaged: it is not what was written; use another backup")
        for part in manifest.parts:
            _check_part(path, archive, part)
    return manifest


def load(connection: Connection, path: Path, manifest: Manifest) -> list[str]:
    """Fill an empty database within the caller's transaction; returns what a person should know."""
    upgrade(connection, manifest.revision)
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
    upgrade(connection)
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
    if found.get("version") not in (UNSEALED, VERSION) or found.get("revision") not in known_revisions():
        raise BackupError(
            f"{path} was made by Evenhand {str(found.get('product'))[:40]} (archive version {found.get('version')!r}, "
            f"schema {found.get('revision')!r}), which this version {__version__} does not know; "
            "restore it with that version or a newer one"
        )
    try:
        parts = tuple(
            Part(str(p["name"]), tuple(map(str, p["columns"])), _size(p["rows"]), _size(p["bytes"]), str(p["sha256"]))
            for p in found["tables"]
        )
        last_ids = {name: _size(found["last_ids"].get(name, 0)) for name in NUMBERED}
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
        last = max(largest, last_ids.get(name, 0))
        if last:
            set_last_id(connection, name, last)
