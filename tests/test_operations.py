"""Backup and restore exactly as docs/operations.md tells people to type it."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import Engine, text

from backend.database import migrate, open_engine
from tests import components
from tests.postgres_server import PostgresServer

MANUAL = (Path(__file__).resolve().parent.parent / "docs" / "operations.md").read_text(encoding="utf-8")
COUNT = "SELECT count FROM event_counts WHERE kind = 'kept'"


def documented(beginning: str) -> str:
    """Return the one line of the manual's shell blocks that begins so, without its comment."""
    lines = [line for block in re.findall(r"```sh\n(.*?)```", MANUAL, re.DOTALL) for line in block.splitlines()]
    (line,) = [line for line in lines if line.startswith(beginning)]
    return line.split("   #")[0].rstrip()


def write(engine: Engine, count: int) -> None:
    """Leave a row behind, as a running service does."""
    with engine.begin() as connection:
        connection.execute(text("DELETE FROM event_counts WHERE kind = 'kept'"))
        connection.execute(
            text("INSERT INTO event_counts (kind, outcome, count, last_at) VALUES ('kept', 'accepted', :n, 0)"),
            {"n": count},
        )


def read(engine: Engine) -> int:
    with engine.connect() as connection:
        return int(connection.execute(text(COUNT)).scalar_one())


def test_sqlite_backup_of_a_running_database_holds_the_newest_commit(tmp_path: Path) -> None:
    engine = open_engine(f"sqlite:///{tmp_path}/data/evenhand.db")
    migrate(engine)
    write(engine, 7)
    assert (tmp_path / "data" / "evenhand.db-wal").stat().st_size > 0, "the commit is expected in the log, not the file"
    command = documented("python -c").replace("python ", f"{shlex.quote(sys.executable)} ", 1)
    subprocess.run(["sh", "-c", command], cwd=tmp_path, check=True)
    engine.dispose()
    restored = open_engine(f"sqlite:///{tmp_path}/evenhand-backup.db")
    migrate(restored)
    assert read(restored) == 7
    restored.dispose()


@pytest.mark.postgres
def test_postgres_dump_restored_into_a_changed_database_brings_back_the_old_state(
    postgres_server: PostgresServer, tmp_path: Path
) -> None:
    url = postgres_server.new_database()
    engine = open_engine(url)
    migrate(engine)
    write(engine, 3)
    environment = {
        **os.environ,
        "PATH": f"{components.postgres()}:{os.environ['PATH']}",
        "DATABASE_URL": url.replace("+psycopg", ""),
    }
    subprocess.run(["sh", "-c", documented("pg_dump")], cwd=tmp_path, env=environment, check=True)
    write(engine, 4)
    engine.dispose()
    subprocess.run(["sh", "-c", documented("pg_restore")], cwd=tmp_path, env=environment, check=True)
    migrate(engine)
    assert read(engine) == 3
    engine.dispose()
