"""More events than the service can take: refused at once, counted, never lost silently."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import requests
from flask import Flask

from backend.app import create_app
from backend.combine import Combiner
from backend.errors import SettingsError, StoreError
from backend.serve import web_command
from backend.settings import Settings
from backend.store import Store, open_store
from backend.web.context import KEY
from backend.web.gate import Gate
from tests.backend.test_serve import running

Answer = tuple[str, dict[str, str], bytes]


class SlowApp:
    """Answers when told to, and knows how many wait in it."""

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.inside = threading.Semaphore(0)

    def __call__(self, environ: Any, start_response: Any) -> list[bytes]:
        self.inside.release()
        assert self.go_on.wait(20)
        start_response("200 OK", [])
        return [b"taken"]


def call(gate: Gate, path: str = "/webhook") -> Answer:
    seen: list[Any] = []
    body = b"".join(gate({"PATH_INFO": path}, lambda status, headers, *_: seen.extend((status, dict(headers)))))
    return seen[0], seen[1], body


@pytest.fixture
def slow() -> Iterator[SlowApp]:
    app = SlowApp()
    yield app
    app.go_on.set()


def fill_up(gate: Gate, slow: SlowApp, count: int, pool: ThreadPoolExecutor) -> list[Any]:
    waiting = [pool.submit(call, gate) for _ in range(count)]
    for _ in range(count):
        assert slow.inside.acquire(timeout=20)
    return waiting


def test_gate_that_is_full_refuses_events_with_retry_after_and_lets_others_pass(slow: SlowApp) -> None:
    gate = Gate(slow, 3, lambda count: None)
    with ThreadPoolExecutor(4) as pool:
        waiting = fill_up(gate, slow, 3, pool)
        status, headers, body = call(gate)
        assert status.startswith("503")
        assert headers["Retry-After"] == "1"
        assert b'"code": "overloaded"' in body
        assert int(headers["Content-Length"]) == len(body)
        page = pool.submit(call, gate, "/health")
        assert slow.inside.acquire(timeout=20)
        slow.go_on.set()
        assert page.result(20)[0] == "200 OK"
        assert [each.result(20)[2] for each in waiting] == [b"taken"] * 3
    assert call(gate)[0] == "200 OK"


def test_gate_gives_the_place_back_when_the_app_fails() -> None:
    def failing(environ: Any, start_response: Any) -> list[bytes]:
        raise ValueError("broken")

    gate = Gate(failing, 1, lambda count: None)
    for _ in range(3):
        with pytest.raises(ValueError, match="broken"):
            call(gate)


def test_gate_reports_refusals_with_a_later_event_and_keeps_those_it_could_not_store(slow: SlowApp) -> None:
    reports: list[int] = []

    def report(count: int) -> None:
        reports.append(count)
        if len(reports) == 1:
            raise StoreError("away")

    gate = Gate(slow, 1, report)
    with ThreadPoolExecutor(1) as pool:
        waiting = fill_up(gate, slow, 1, pool)
        assert [call(gate)[0][:3] for _ in range(5)] == ["503"] * 5
        assert reports == []
        slow.go_on.set()
        waiting[0].result(20)
    gate._reported_at = float("-inf")
    call(gate)
    assert reports == [5, 5]
    gate._reported_at = float("-inf")
    call(gate)
    assert reports == [5, 5]


def test_webhook_of_a_full_service_is_refused_and_counted_while_health_answers(
    sqlite_store: Store, payload: Callable[[str], Any]
) -> None:
    app: Flask = create_app(Settings(max_waiting=1), sqlite_store)
    services = app.extensions[KEY]
    inside, go_on = threading.Event(), threading.Event()

    def apply(events: Any) -> list[dict[str, Any]]:
        inside.set()
        assert go_on.wait(20)
        return [{"ok": True} for _ in events]

    app.extensions[KEY] = replace(services, events=Combiner(apply))
    event = payload("req_webhook_ANNOTATION_CREATED")
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(lambda: app.test_client().post("/webhook", json=event).status_code)
        assert inside.wait(20)
        refused = app.test_client().post("/webhook", json=event)
        assert refused.status_code == 503
        assert refused.headers["Retry-After"] == "1"
        assert refused.get_json()["error"]["code"] == "overloaded"
        assert app.test_client().get("/health").status_code == 200
        go_on.set()
        assert first.result(20) == 200
    counted = {(row["kind"], row["outcome"]): row["count"] for row in sqlite_store.event_counts()}
    assert counted["OTHER", "refused"] == 1
    metrics = app.test_client().get("/metrics").get_data(as_text=True)
    assert 'evenhand_events_total{kind="OTHER",outcome="refused"} 1.0' in metrics


def test_web_server_has_more_threads_than_events_under_way() -> None:
    command = web_command(Settings(threads=5, max_waiting=7))
    assert command[command.index("--threads") + 1] == "12"


@pytest.mark.parametrize("value", ["0", "1.5", "many"])
def test_bound_that_is_no_bound_is_refused(value: str) -> None:
    with pytest.raises(SettingsError, match="EVENHAND_MAX_WAITING"):
        Settings.from_env({"EVENHAND_MAX_WAITING": value})


@pytest.mark.slow
def test_serve_beyond_its_bound_refuses_with_503_and_keeps_all_it_took(
    tmp_path: Path, payload: Callable[[str], Any]
) -> None:
    event = payload("req_webhook_ANNOTATION_CREATED")
    with running(tmp_path, "--no-worker", EVENHAND_MAX_WAITING="1", LOG_LEVEL="WARNING") as (_, url):

        def send(number: int) -> tuple[int, int, str | None]:
            body = {**event, "annotation": {**event["annotation"], "id": number}}
            answer = requests.post(f"{url}/webhook", json=body, timeout=20)
            return number, answer.status_code, answer.headers.get("Retry-After")

        with ThreadPoolExecutor(16) as pool:
            answers = list(pool.map(send, range(1, 301)))
    taken = {number for number, status, _ in answers if status == 200}
    refused = [retry for _, status, retry in answers if status == 503]
    assert len(taken) + len(refused) == 300
    assert taken
    assert refused
    assert set(refused) == {"1"}
    store = open_store(Settings.from_env({"MODEL_DIR": str(tmp_path)}))
    stored = {row["annotation_id"] for row in store.comparison_rows(1)}
    store.close()
    assert stored == taken
