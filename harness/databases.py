"""Empty SQLite databases at the newest schema, without running the migrations for each test."""

import functools
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from evenhand.store import Store
from evenhand.store.engine import migrate, open_engine
from sqlalchemy import event


def new_store(path: Path, clock: Callable[[], float] | None = None) -> Store:
    """A store on a fresh database at this path; commits do not wait for the disk, which only a power cut could tell."""
    path.write_bytes(_migrated())
    engine = open_engine(f"sqlite:///{path}")

    @event.listens_for(engine, "connect")
    def _do_not_wait(connection: Any, _record: Any) -> None:
        connection.execute("PRAGMA synchronous=OFF")

    return Store(engine) if clock is None else Store(engine, clock)


@functools.cache
def _migrated() -> bytes:
    """The file that the migrations leave behind."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "empty.db"
        engine = open_engine(f"sqlite:///{path}")
        migrate(engine)
        engine.dispose()
        return path.read_bytes()
