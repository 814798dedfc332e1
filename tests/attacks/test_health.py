"""A service that cannot keep events, or whose worker stands still, says so; a hung run ends with its reason."""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from evenhand.administer.doctor import examine
from evenhand.app import create_app
from evenhand.commands.operate import worker
from evenhand.domain import ProjectRef, Trigger
from evenhand.errors import StoreDamagedError
from evenhand.server import worker as working
from evenhand.server.worker import Chores, Runs
from evenhand.settings import Settings
from evenhand.store import Store
from evenhand.store.database import Database
from evenhand.store.runs import INTEGRITY, SILENT_SECONDS, WHOLE, WORKER_SIGNS, SilentRuns
from requests import Session
from sqlalchemy import text

from harness.databases import new_store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with closing(new_store(tmp_path / "evenhand.db")) as opened:
        yield opened


@pytest.fixture
def working_store(store: Store) -> Store:
    """A store that a worker signed, and looked through, a moment ago."""
    for name in WORKER_SIGNS:
        store.leases.sign(name, "a worker")
    store.leases.sign(INTEGRITY, WHOLE)
    return store


def ready(store: Store) -> tuple[int, dict[str, Any]]:
    answer = create_app(Settings(), store).test_client().get("/ready")
    return answer.status_code, dict(answer.get_json())


def chores(store: Store) -> Chores:
    return Chores(store, Settings(), "a worker", Session())


def test_ready_says_what_it_looked_at(working_store: Store) -> None:
    checks = {"database": "written and read back", "space": "enough", "integrity": "whole", "worker": "moves"}
    assert ready(working_store) == (200, {"status": "READY", "checks": checks})


def test_ready_without_a_worker_that_moves_is_degraded(working_store: Store) -> None:
    with working_store.database.write() as connection:
        connection.execute(text("UPDATE leases SET expires_at = expires_at - 61 WHERE name = 'sign:worker runs'"))
    status, answer = ready(working_store)
    assert (status, answer["status"], answer["checks"]["worker"]) == (200, "DEGRADED", "stands still")


@pytest.mark.parametrize(
    ("free", "expected"), [(999_999, (503, "NOT READY")), (99_999_999, (200, "DEGRADED")), (10**9, (200, "READY"))]
)
def test_ready_knows_the_space_that_is_left(
    working_store: Store, monkeypatch: pytest.MonkeyPatch, free: int, expected: tuple[int, str]
) -> None:
    monkeypatch.setattr(Database, "free_bytes", lambda _: free)
    status, answer = ready(working_store)
    assert (status, answer["status"]) == expected


def test_ready_writes_and_does_not_only_read(working_store: Store) -> None:
    client = create_app(Settings(), working_store).test_client()
    for held in [working_store.engine.connect() for _ in range(2)]:
        held.execute(text("PRAGMA query_only = 1"))  # as on a folder that may only be read
        held.close()
    answer = client.get("/ready")
    assert (answer.status_code, answer.get_json()["error"]["code"]) == (503, "store_unavailable")


def test_ready_is_asked_at_most_once_a_second(working_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    monkeypatch.setattr(working_store.leases, "sign", lambda name, _: written.append(name))
    client = create_app(Settings(), working_store).test_client()
    monkeypatch.setattr("evenhand.web.context.time.monotonic", lambda: 1000.0)
    assert {client.get("/ready").status_code for _ in range(50)} == {200}
    assert written == ["ready"]


def damage(store: Store) -> None:
    """Overwrite pages in the middle of the file, behind SQLite's back."""
    with store.database.write() as connection:
        connection.execute(
            text("CREATE TABLE filler AS SELECT randomblob(900) AS x FROM pragma_function_list LIMIT 200")
        )
    with store.engine.connect() as connection:
        connection.execute(text("PRAGMA wal_checkpoint(TRUNCATE)"))
        (root,) = connection.execute(text("SELECT rootpage FROM sqlite_master WHERE name = 'filler'")).one()
    store.engine.dispose()
    with Path(str(store.engine.url.database)).open("r+b") as file:
        file.seek((root - 1) * 4096)
        file.write(b"\xff" * 4096)


def test_damaged_page_is_found_within_the_hour_and_said_everywhere(working_store: Store) -> None:
    damage(working_store)
    assert ready(working_store)[1]["status"] == "READY"  # nobody read that page yet
    working_store.leases.sign(INTEGRITY, WHOLE)
    chores(working_store).once()
    assert ready(working_store)[1]["status"] == "READY"  # looked through a moment ago
    with working_store.database.write() as connection:
        connection.execute(text("UPDATE leases SET expires_at = expires_at - 3601 WHERE name = 'sign:integrity'"))
    chores(working_store).once()
    status, answer = ready(working_store)
    assert (status, answer["error"]["code"]) == (503, "store_damaged")
    assert "database_damaged" in {problem.code for problem in working_store.problems.find()}
    (check,) = [check for check in examine(Settings(), working_store, None) if check.check == "integrity"]
    assert not check.ok
    assert "restore a backup" in check.fix


def test_doctor_reads_everything_and_finds_what_points_nowhere(working_store: Store) -> None:
    def integrity() -> bool:
        return next(check.ok for check in examine(Settings(), working_store, None) if check.check == "integrity")

    assert integrity()
    with closing(sqlite3.connect(str(working_store.engine.url.database))) as raw, raw:
        raw.execute("INSERT INTO items (project_id, item, label) VALUES (77, 'a', 'b')")
    assert not integrity()


def test_doctor_finds_a_log_that_somebody_rewrote(working_store: Store) -> None:
    project = working_store.projects.register("http://studio", ProjectRef(1, 1))
    working_store.decisions.add(project.id, "1", "confirm", author="ana")
    with closing(sqlite3.connect(str(working_store.engine.url.database))) as raw, raw:
        for (name,) in raw.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            raw.execute(f"DROP TRIGGER {name}")
        raw.execute("UPDATE decisions SET author = 'bob'")
    (check,) = [check for check in examine(Settings(), working_store, None) if check.check == "log"]
    assert (check.ok, f"project {project.id} " in check.seen) == (False, True)


def test_run_without_a_sign_of_life_for_a_minute_ends_with_its_reason(store: Store) -> None:
    project = store.projects.register("http://studio", ProjectRef(1, 1))
    run = store.runs.request(project.id, Trigger.MANUAL)
    claimed = store.runs.claim("a worker", 10.0)
    assert claimed is not None
    now = 0.0
    silent = SilentRuns(store.database, lambda: now)
    assert silent.end() == []
    now = SILENT_SECONDS - 1
    store.runs.progress(run.id, claimed[1], 0.5, "draw 3 of 9")
    assert silent.end() == []
    now += SILENT_SECONDS - 1
    assert silent.end() == []
    now += 1
    assert silent.end() == [run.id]
    ended = store.runs.get(run.id)
    assert (ended.status, "draw 3 of 9" in str(ended.error)) == ("failed", True)
    assert silent.end() == []


def test_run_on_a_damaged_database_fails_with_the_damage_as_its_reason(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise StoreDamagedError("the database is damaged (malformed)")

    project = store.projects.register("http://studio", ProjectRef(1, 1))
    run = store.runs.request(project.id, Trigger.MANUAL)
    monkeypatch.setattr(working, "analyse", broken)
    with pytest.raises(StoreDamagedError):
        Runs(store, "a worker", threading.Event()).once()
    assert (store.runs.get(run.id).status, store.runs.get(run.id).error) == (
        "failed",
        "the database is damaged (malformed)",
    )


def test_refused_event_is_one_line_of_log(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    client = create_app(Settings(), store).test_client()
    with store.database.write() as connection:
        connection.execute(text("ALTER TABLE event_counts RENAME TO elsewhere"))
    body = {"action": "ANNOTATION_DELETED", "annotation": {"id": 1}, "project": {"id": 1, "created_at": "2026-01-01"}}
    caplog.set_level(logging.WARNING)
    assert client.post("/webhook", json=body).status_code == 503
    (line,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert (line.exc_info, "\n" in line.getMessage()) == (None, False)


def test_worker_check_tells_by_its_exit_code(working_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", f"sqlite:///{working_store.engine.url.database}")
    assert CliRunner().invoke(worker, ["--check"]).exit_code == 0
    with working_store.database.write() as connection:
        connection.execute(text("DELETE FROM leases"))
    assert CliRunner().invoke(worker, ["--check"]).exit_code == 1
