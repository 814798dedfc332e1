"""More events than the service can take: refused at once, counted, never lost silently."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPResponse
from pathlib import Path
from typing import Any

import pytest
import requests
from evenhand.app import create_app
from evenhand.errors import SettingsError, StoreError
from evenhand.server.bounded_worker import Arrival, State, refuse
from evenhand.settings import Settings
from evenhand.store import Store, open_store
from evenhand.web.context import KEY
from evenhand.web.errors import Refusals

from tests.backend.test_supervisor import running


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    """A server's and a client's end of a connection."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.settimeout(10)
    with ours, theirs:
        yield ours, theirs


def test_request_is_whole_when_its_body_is_there(ends: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = ends
    arrival = Arrival(1000)
    assert arrival.read(ours) is State.ARRIVING  # nothing has come in yet
    theirs.sendall(b"POST /webhook HTTP/1.1\r\nContent-Le")
    assert arrival.read(ours) is State.ARRIVING
    theirs.sendall(b"ngth: 5\r\n\r\n1234")
    assert arrival.read(ours) is State.ARRIVING
    theirs.sendall(b"5")
    assert arrival.read(ours) is State.WHOLE
    assert arrival.received.endswith(b"\r\n\r\n12345")


@pytest.mark.parametrize(
    ("sent", "state"),
    [
        (b"GET /health HTTP/1.1\r\n\r\n", State.WHOLE),
        (b"POST / HTTP/1.1\r\nContent-Length: 1001\r\n\r\n", State.WHOLE),  # refused unread
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", State.ARRIVING),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", State.WHOLE),
        (b"x" * 70_000, State.WHOLE),  # no beginning of ours: for the parser to refuse
    ],
)
def test_request_by_what_has_come_in(ends: tuple[socket.socket, socket.socket], sent: bytes, state: State) -> None:
    ours, theirs = ends
    theirs.sendall(sent)
    assert Arrival(1000).read(ours) is state


@pytest.mark.parametrize(
    ("sent", "is_cut"),
    [
        (b"POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", False),
        (b"POST / HTTP/1.1\r\nContent-Length: 1001\r\n\r\nabc", True),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", False),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + b"x" * 1001, True),
        (b"x" * 70_000, True),
    ],
)
def test_request_is_cut_where_its_client_sends_what_nobody_reads(
    ends: tuple[socket.socket, socket.socket], sent: bytes, is_cut: bool
) -> None:
    ours, theirs = ends
    theirs.sendall(sent)
    arrival = Arrival(1000)
    assert arrival.read(ours) is State.WHOLE
    assert arrival.is_cut is is_cut


def test_request_whose_client_expects_a_word_gets_it(ends: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = ends
    theirs.sendall(b"POST / HTTP/1.1\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n")
    assert Arrival(1000).read(ours) is State.ARRIVING
    assert theirs.recv(100).startswith(b"HTTP/1.1 100 ")


def test_request_of_a_client_that_left_is_gone(ends: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = ends
    theirs.sendall(b"POST / HT")
    theirs.close()
    assert Arrival(1000).read(ours) is State.GONE


def test_refusal_is_a_whole_answer_that_says_when_to_come_back(ends: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = ends
    refuse(ours)
    ours.close()
    answer = HTTPResponse(theirs)
    answer.begin()
    assert answer.status == 503
    assert answer.headers["Retry-After"] == "1"
    assert json.loads(answer.read())["error"]["code"] == "overloaded"


def test_refusing_a_client_that_left_is_harmless(ends: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = ends
    theirs.close()
    refuse(ours)


def test_refusals_are_stored_with_a_later_event_and_shown_as_metric(
    sqlite_store: Store, payload: Callable[[str], Any]
) -> None:
    app = create_app(Settings(), sqlite_store)
    for _ in range(3):
        app.extensions[KEY].refusals.add()
    assert app.test_client().post("/webhook", json=payload("req_webhook_ANNOTATION_CREATED")).status_code == 200
    app.extensions[KEY].refusals.add()
    assert app.test_client().post("/webhook", json=payload("req_webhook_ANNOTATION_UPDATED")).status_code == 200
    counted = {(row["kind"], row["outcome"]): row["count"] for row in sqlite_store.events.counts()}
    assert counted["OTHER", "refused"] == 3  # the fourth waits for its second
    metrics = app.test_client().get("/metrics").get_data(as_text=True)
    assert 'evenhand_events_total{kind="OTHER",outcome="refused"} 3.0' in metrics


def test_refusals_that_cannot_be_stored_are_kept(sqlite_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: object) -> None:
        raise StoreError("away")

    refusals = Refusals()
    refusals.add()
    with monkeypatch.context() as patch:
        patch.setattr(sqlite_store.events, "count", away)
        refusals.store(sqlite_store)
    refusals._stored_at = float("-inf")
    refusals.store(sqlite_store)
    assert [row["count"] for row in sqlite_store.events.counts()] == [1]


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
            answer = requests.post(f"{url}/webhook", json=body, timeout=120)
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
    stored = {row["annotation_id"] for row in store.comparisons.rows(1)}
    store.close()
    assert stored == taken
