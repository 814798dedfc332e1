"""Under attack and load: metric labels, budgets for guesses, private files, a database that does not answer, sites."""

from __future__ import annotations

import json
import logging
import os
import sqlite3
import stat
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from evenhand.app import create_app
from evenhand.cli import main as program
from evenhand.domain import Batch, ProjectRef, Trigger
from evenhand.errors import StoreBusyError, StoreError, TooManyAttemptsError
from evenhand.ingest.events import handle_events
from evenhand.ingest.group_commit import GroupCommit
from evenhand.logs import JsonFormatter
from evenhand.runs import live
from evenhand.runs.live import LiveDesk
from evenhand.server import worker
from evenhand.server.worker import Runs
from evenhand.settings import Settings
from evenhand.store import Store, open_store, people
from evenhand.store.engine import open_engine
from evenhand.store.runs import SilentRuns
from evenhand.web import passwords
from evenhand.web.context import KEY
from evenhand.web.passwords import (
    ADDRESS_GUESSES,
    HASHES_AT_ONCE,
    MOST_ADDRESSES,
    MOST_WAITING,
    PasswordDesk,
    hash_password,
)
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import text

from harness.filled import answer, fill
from harness.label_configs import PAIRWISE
from harness.ports import free_port
from tests.backend.closed_service import CLOSED, SECRET, STRANGER, basic
from tests.backend.conftest import SLOW, FakeClock
from tests.backend.stored_crowd import crowd_rows

# -- metrics


def test_metrics_under_made_up_methods_paths_and_hosts_keep_their_number_of_series(closed: Flask) -> None:
    client = closed.test_client()

    def series() -> int:
        lines = client.get("/metrics", headers=basic()).text.splitlines()
        return sum(not line.startswith("#") for line in lines)

    client.open("/x", method="M", environ_base=STRANGER)
    before = series()
    for number in range(200):
        client.open(f"/x{number}", method=f"M{number}", environ_base=STRANGER, headers={"Host": f"h{number}"})
    assert series() <= before + 20


# -- passwords


def test_password_hash_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert hash_password("a long password").startswith(f"{SLOW}$")
    assert passwords._DUMMY_HASH.startswith(f"{SLOW}$"), "an unknown name is answered sooner than a known one"


def test_guesses_of_one_address_are_used_up_and_come_back() -> None:
    clock = FakeClock(0.0)
    desk = PasswordDesk(clock)
    for _ in range(int(ADDRESS_GUESSES)):
        assert not desk.check("192.0.2.1", "ana", "wrong", None)
    with pytest.raises(TooManyAttemptsError):
        desk.check("192.0.2.1", "ana", "wrong", None)
    clock.now += 60.0
    assert not desk.check("192.0.2.1", "ana", "wrong", None)


def test_guesses_of_many_addresses_share_a_budget_and_leave_newcomers_theirs() -> None:
    clock = FakeClock(0.0)
    desk = PasswordDesk(clock)

    def refused() -> int:
        count = 0
        for number in range(40):
            try:
                desk.check(f"192.0.2.{number}", "ana", "wrong", None)
            except TooManyAttemptsError:
                count += 1
        return count

    assert (refused(), refused()) == (20, 20)  # of newcomers, and of those who failed before
    clock.now += 5.0
    assert refused() == 30  # two come back a second
    assert len(desk._addresses) <= MOST_ADDRESSES


def test_right_password_is_known_for_a_while_and_costs_no_budget() -> None:
    desk, stored = PasswordDesk(FakeClock(0.0)), hash_password("a long password")
    for _ in range(30):
        assert desk.check("192.0.2.1", "ana", "a long password", stored)
    assert desk.knows("ana", "a long password", stored)
    assert not desk.knows("ana", "another", stored)


def test_hashes_are_made_one_at_a_time_and_few_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    going, most, lock = [0], [0], threading.Lock()
    refused, ends = threading.Semaphore(0), threading.Event()

    def slow(*_: object) -> bool:
        with lock:
            going[0] += 1
            most[0] = max(most[0], going[0])
        assert ends.wait(60)
        with lock:
            going[0] -= 1
        return False

    monkeypatch.setattr("evenhand.web.passwords.check_password_hash", slow)
    desk, outcomes = PasswordDesk(), list[str]()

    def guess(number: int) -> None:
        try:
            desk.check(f"192.0.2.{number}", "ana", "x", None)
            outcomes.append("checked")
        except TooManyAttemptsError:
            outcomes.append("refused")
            refused.release()

    threads = [threading.Thread(target=guess, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    turned_away = 12 - HASHES_AT_ONCE - MOST_WAITING  # while the first hash lasts
    assert all(refused.acquire(timeout=60) for _ in range(turned_away))
    ends.set()
    for thread in threads:
        thread.join()
    assert most[0] == HASHES_AT_ONCE == 1
    assert outcomes.count("refused") == turned_away


def test_wrong_password_of_label_studio_s_name_costs_as_much_as_any(
    closed: Flask, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []

    def wrong(stored: str, _password: str) -> bool:
        made.append(stored)
        return False

    monkeypatch.setattr("evenhand.web.passwords.check_password_hash", wrong)
    for name in ("lead", "nobody"):
        assert closed.test_client().get("/versions", headers=basic(name, "wrong")).status_code == 401
    assert len(made) == 2


# -- private files


def test_database_open_to_others_is_tightened_at_start_and_said(tmp_path: Path, caplog: Any) -> None:
    settings = Settings(model_dir=tmp_path / "data", database_url=f"sqlite:///{tmp_path / 'data' / 'evenhand.db'}")
    open_store(settings).close()
    files = [tmp_path / "data", tmp_path / "data" / "evenhand.db"]
    assert [stat.S_IMODE(path.stat().st_mode) for path in files] == [0o700, 0o600]
    files[0].chmod(0o755)
    files[1].chmod(0o644)
    with caplog.at_level(logging.WARNING):
        create_app(settings, open_store(settings))
    kept = [*files, tmp_path / "data" / "session.key"]
    assert [stat.S_IMODE(path.stat().st_mode) for path in kept] == [0o700, 0o600, 0o600]
    assert sum("open to others" in record.getMessage() for record in caplog.records) >= 2


def test_session_key_is_not_in_the_database_it_protects(sqlite_store: Store) -> None:
    sqlite_store.secrets.get("session")
    app = create_app(Settings(), sqlite_store)
    again = create_app(Settings(), sqlite_store)
    assert app.secret_key == again.secret_key
    with sqlite_store.engine.connect() as connection:
        rows = connection.execute(text("SELECT name, value FROM secrets")).all()
    assert "session" not in {name for name, _ in rows}
    assert app.secret_key not in {value for _, value in rows}


# -- a database that does not answer


def test_events_while_the_database_is_locked_are_all_refused_soon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def handled(store: Store, settings: Settings, events: Sequence[Any]) -> Any:
        asked.append(len(events))
        return handle_events(store, settings, events)

    monkeypatch.setattr("evenhand.app.handle_events", handled)
    settings = Settings(model_dir=tmp_path, database_url=f"sqlite:///{tmp_path / 'e.db'}", webhook_secret=SECRET)
    app = create_app(settings)
    app.extensions[KEY].events._clock = lambda: 0.0
    lock = sqlite3.connect(tmp_path / "e.db", isolation_level=None)
    lock.execute("BEGIN IMMEDIATE")
    answers: list[tuple[int, str | None]] = []
    body = {"action": "ANNOTATION_DELETED", "annotation": {"id": 1}, "project": {"id": 1, "created_at": "2026-01-01"}}

    def send() -> None:
        got = app.test_client().post("/webhook", json=body, headers={"X-Evenhand-Secret": SECRET})
        answers.append((got.status_code, got.headers.get("Retry-After")))

    threads = [threading.Thread(target=send) for _ in range(20)]
    for thread in threads:
        thread.start()
    assert app.test_client().get("/health").status_code == 200
    for thread in threads:
        thread.join()
    not_ready = app.test_client().get("/ready")
    lock.execute("ROLLBACK")
    assert answers == [(503, "1")] * 20
    assert len(asked) == 1  # nobody waited for the lock after the first group
    assert (not_ready.status_code, not_ready.get_json()["error"]["code"]) == (503, "store_busy")


@pytest.mark.parametrize("full", [False, True])
def test_database_that_is_whole_has_no_damage_and_keeps_its_signs(store: Store, full: bool) -> None:
    store.projects.register("http://studio", ProjectRef(1, 1))
    store.leases.sign("somebody", "here")
    assert store.database.damage(full=full) is None
    assert store.leases.signs()["somebody"][0] == "here"
    assert SilentRuns(store.database).end() == []


def test_health_answers_without_the_database(closed: Flask, monkeypatch: pytest.MonkeyPatch) -> None:
    client = closed.test_client()
    with client.session_transaction() as session:
        session["user"] = "lead"
    monkeypatch.setattr("evenhand.store.database.Database.read", lambda *_, **__: pytest.fail("health asked"))
    monkeypatch.setattr("evenhand.store.database.Database.write", lambda *_, **__: pytest.fail("health asked"))
    assert client.get("/health").status_code == 200


def test_group_that_fails_for_everybody_fails_at_once() -> None:
    calls: list[int] = []

    def away(items: Any) -> Any:
        calls.append(len(items))
        raise StoreBusyError("locked")

    group = GroupCommit[int, int](away, fatal=(StoreError,), clock=lambda: 0.0)
    failures: list[BaseException] = []

    def submit(number: int) -> None:
        try:
            group.submit(number)
        except StoreBusyError as error:
            failures.append(error)

    threads = [threading.Thread(target=submit, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(failures) == 20
    assert len(calls) == 1


@pytest.fixture
def unchanged_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process of the tests keeps its priority and its memory as they are, whatever command runs in it."""
    monkeypatch.setattr(os, "nice", lambda by: by)
    monkeypatch.setattr(worker, "give_large_blocks_back", lambda: None)


@pytest.mark.usefixtures("unchanged_process")
@pytest.mark.parametrize("command", [["status"], ["users", "list"], ["serve"], ["worker"]])
def test_database_damaged_or_of_another_version_is_a_message(tmp_path: Path, command: list[str]) -> None:
    variables = {"MODEL_DIR": str(tmp_path), "PORT": str(free_port())}  # another test may serve on the usual one
    open_store(Settings.from_env(variables)).close()
    engine = open_engine(f"sqlite:///{tmp_path / 'evenhand.db'}")
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    engine.dispose()
    newer = CliRunner().invoke(program, command, env=variables)
    assert (newer.exit_code, "made by another version of Evenhand; install that one" in newer.output) == (1, True)
    (tmp_path / "evenhand.db").write_bytes(b"no database at all, but long enough to be one" * 100)
    damaged = CliRunner().invoke(program, command, env=variables)
    assert damaged.exit_code == 1
    assert "database" in damaged.output
    assert "Traceback" not in newer.output + damaged.output


def test_erasing_somebody_with_many_rows_goes_in_slices(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    project = fill(store)
    given = [answer(100_000 + number, "77", outcome=1.0) for number in range(120)]
    store.comparisons.apply(project.id, Batch(comparisons=given))
    monkeypatch.setattr(people, "SLICE", 25)
    counts = store.people.erase(project.ls_url, ["77"])[project.id]
    assert (counts["comparisons"], counts["changes"]) == (120, 120)
    assert not store.people.find("77")
    kept = store.projects.get(project.id).counts
    rows = store.comparisons.rows(project.id)
    assert kept["erased"] == sum(row["status"] == "erased" for row in rows) == 120
    assert kept["judged"] == sum(row["status"] == "answer" for row in rows)


# -- catching up


def test_run_does_not_wait_for_live_evidence_that_lags_behind(
    sqlite_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = sqlite_store.projects.register("http://ls", ProjectRef(1, 100), label_config=PAIRWISE)
    rows, _ = crowd_rows()
    sqlite_store.comparisons.apply(project.id, Batch(comparisons=rows))
    monkeypatch.setattr(live, "BATCH", 50)
    monkeypatch.setattr(live.LiveDesk.advance, "__kwdefaults__", {"seconds": 0.0})
    run = sqlite_store.runs.request(project.id, Trigger.MANUAL)
    behind = sqlite_store.projects.get(project.id)
    assert behind.seq - behind.live_seq > 50
    worker = Runs(sqlite_store, "me")
    assert worker.once()
    assert sqlite_store.runs.get(run.id).status == "done"
    assert sqlite_store.projects.get(project.id).live_seq < behind.seq
    for _ in range(500):
        if not worker.once():
            break
    last = sqlite_store.projects.get(project.id)
    assert not sqlite_store.comparisons.changes_since(project.id, last.live_seq, limit=1)


def test_live_evidence_in_one_write_is_that_of_a_write_per_batch(
    sqlite_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "BATCH", 50)
    rows, _ = crowd_rows()
    found: list[Any] = []
    writes: list[int] = []
    put = sqlite_store.live.put

    def counted(*given: Any, **more: Any) -> None:
        writes.append(1)
        put(*given, **more)

    monkeypatch.setattr(sqlite_store.live, "put", counted)
    for number, seconds in ((1, 0.0), (2, 3600.0)):
        project = sqlite_store.projects.register("http://ls", ProjectRef(number, 100), label_config=PAIRWISE)
        sqlite_store.comparisons.apply(project.id, Batch(comparisons=rows))
        while (known := sqlite_store.projects.get(project.id)).live_seq < known.seq:
            before = known.live_seq
            LiveDesk(sqlite_store).advance(known, 1.0, seconds=seconds)
            if sqlite_store.projects.get(project.id).live_seq == before:
                break
        people = {row.annotator_id or "" for row in rows}
        evidence = sqlite_store.live.get(project.id, people)
        found.append(
            {key: (row.answers, pytest.approx(row.log_e), row.state["curve"]) for key, row in evidence.items()}
        )
        writes.append(0)
    assert found[0] == found[1]
    assert found[0]
    one_by_one, together = writes[: writes.index(0)], writes[writes.index(0) + 1 : -1]
    assert len(one_by_one) > 5
    assert len(together) == 1


def test_run_cut_off_by_the_end_of_the_worker_waits_for_the_next(sqlite_store: Store) -> None:
    project = sqlite_store.projects.register("http://ls", ProjectRef(1, 100), label_config=PAIRWISE)
    rows, _ = crowd_rows()
    sqlite_store.comparisons.apply(project.id, Batch(comparisons=rows))
    run = sqlite_store.runs.request(project.id, Trigger.MANUAL)
    stop = threading.Event()
    stop.set()
    Runs(sqlite_store, "first", stop).once()
    assert sqlite_store.runs.get(run.id).status == "queued"
    Runs(sqlite_store, "second").once()
    assert sqlite_store.runs.get(run.id).status == "done"


# -- other sites


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "null"},
        {"Origin": ""},
        {"Origin": "file://"},
        {"Origin": "https://evil.example"},
        {"Sec-Fetch-Site": "cross-site"},
        {"X-Forwarded-For": "192.0.2.1"},
        {"Forwarded": "for=192.0.2.1"},
        {"Host": "evil.example"},
    ],
)
def test_open_mode_refuses_what_does_not_come_from_this_machine(
    open_client: FlaskClient, sqlite_store: Store, headers: dict[str, str]
) -> None:
    body = {"project": "1.1700000000", "schema": "<View/>", "extra_params": {"q": 0.5}}
    assert open_client.post("/setup", json=body, headers=headers).status_code in (401, 403)
    assert sqlite_store.projects.all() == []


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
@pytest.mark.parametrize("path", ["/setup", "/webhook", "/predict", "/api/v1/projects/1/runs"])
def test_bodies_a_form_could_send_are_refused(open_client: FlaskClient, path: str, kind: str) -> None:
    refused = open_client.post(path, data=b'{"project": "1.1"}', content_type=kind)
    assert refused.status_code in (403, 415)


# -- lists, logs


def test_predictions_for_too_many_tasks_are_refused_and_for_many_streamed(open_client: FlaskClient) -> None:
    assert open_client.post("/predict", json={"tasks": [{}] * 10_001}).status_code == 413
    raw = b'{"tasks":[' + b"{}," * 1_000_000 + b"{}]}"
    begun = time.thread_time()
    assert open_client.post("/predict", data=raw, content_type="application/json").status_code == 413
    assert time.thread_time() - begun < 2.0
    answer = open_client.post("/predict", json={"tasks": [{"id": 1}] * 1000})
    assert answer.is_streamed
    assert len(json.loads(answer.get_data())["results"]) == 1000


def test_log_lines_hold_no_character_that_ends_or_turns_them() -> None:
    evil = "a\u2028b\u2029c\u202ed\x85e\x9bf\x7fg\nh\x1b[31m"
    record = logging.LogRecord("x", logging.INFO, "x", 1, evil, (), None)
    line = JsonFormatter().format(record)
    assert line.isprintable()
    assert json.loads(line)["message"] == evil


def test_alert_webhook_s_address_is_a_secret() -> None:
    url = "https://hooks.example/services/T0/B0/abcdef"
    settings = Settings.from_env({"EVENHAND_ALERT_WEBHOOK_URL": url})
    assert url not in repr(settings)
    record = logging.LogRecord("x", logging.INFO, "x", 1, f"posting to {url}", (), None)
    assert "abcdef" not in JsonFormatter(settings.secrets()).format(record)


def test_project_known_by_its_epoch_only_is_registered_once(sqlite_store: Store) -> None:
    app = create_app(replace(CLOSED, webhook_secret=SECRET), sqlite_store)
    body = {"action": "PROJECT_UPDATED", "project": {"id": 4, "created_at": "2026-01-01T00:00:00Z"}}
    for _ in range(2):
        app.test_client().post("/webhook", json=body, headers={"X-Evenhand-Secret": SECRET})
    assert [found.ls_project_id for found in sqlite_store.projects.all()] == [4]
    assert sqlite_store.projects.find("", ProjectRef(4, None)) is not None
