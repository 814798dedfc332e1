"""Who may do what: default-deny, Basic, webhook secret, sessions, CSRF, brute force, the open mode on loopback."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from evenhand.app import create_app
from evenhand.errors import SettingsError
from evenhand.server.supervisor import refuse_open_doors
from evenhand.settings import Settings, is_loopback
from evenhand.store import Store
from evenhand.web import auth
from evenhand.web.auth import access_needed
from evenhand.web.passwords import hash_password
from flask import Flask
from flask.testing import FlaskClient

from tests.backend.closed_service import CLOSED, PUBLIC, SECRET, STRANGER, basic, every_route
from tests.backend.conftest import FakeClock


@pytest.fixture
def client(closed: Flask) -> FlaskClient:
    return closed.test_client()


def test_every_route_without_credentials_is_refused_except_the_public_ones(closed: Flask) -> None:
    client = closed.test_client()
    routes = every_route(closed)
    assert len(routes) > 15
    let_in = {
        endpoint
        for endpoint, method, path in routes
        if client.open(path, method=method, environ_base=STRANGER).status_code not in (401, 403)
    }
    assert let_in <= PUBLIC
    assert "ml_api.health" in let_in


def test_every_route_in_open_mode_is_refused_to_other_machines(sqlite_store: Store) -> None:
    app = create_app(Settings(), sqlite_store)
    client = app.test_client()
    for endpoint, method, path in every_route(app):
        if endpoint not in PUBLIC:
            assert client.open(path, method=method, environ_base=STRANGER).status_code in (401, 403), path


def test_every_public_route_is_marked_so_and_nothing_else(closed: Flask) -> None:
    public = {rule.endpoint for rule in closed.url_map.iter_rules() if access_needed(closed, rule.endpoint) == "public"}
    assert public <= PUBLIC


def test_unknown_path_tells_strangers_nothing(client: FlaskClient) -> None:
    assert client.get("/nothing-here", environ_base=STRANGER).status_code == 401
    assert client.get("/nothing-here", headers=basic()).status_code == 404


def test_basic_right_and_wrong_password(client: FlaskClient) -> None:
    assert client.get("/versions", headers=basic()).status_code == 200
    refused = client.get("/versions", headers=basic(password="wrong"))
    assert refused.status_code == 401
    assert refused.headers["WWW-Authenticate"].startswith("Basic")
    assert refused.get_json()["error"]["code"] == "unauthorized"


def test_basic_of_a_named_account_works_and_ends_with_the_account(client: FlaskClient, sqlite_store: Store) -> None:
    sqlite_store.users.put("ana", hash_password("a long password"))
    assert client.get("/api/v1/projects", headers=basic("ana", "a long password")).status_code == 200
    sqlite_store.users.delete("ana")
    assert client.get("/api/v1/projects", headers=basic("ana", "a long password")).status_code == 401


def test_health_with_wrong_credentials_still_answers(client: FlaskClient) -> None:
    assert client.get("/health", headers=basic(password="wrong")).status_code == 200


def test_webhook_takes_the_secret_or_basic_and_counts_what_it_refuses(
    client: FlaskClient, sqlite_store: Store, payload: Callable[[str], Any]
) -> None:
    body = payload("req_webhook_ANNOTATION_CREATED")
    assert client.post("/webhook", json=body).status_code == 401
    assert client.post("/webhook", json=body, headers={"X-Evenhand-Secret": "wrong"}).status_code == 401
    assert sqlite_store.projects.all() == []
    assert client.post("/webhook", json=body, headers={"X-Evenhand-Secret": SECRET}).status_code == 200
    assert client.post("/webhook", json=body, headers=basic()).status_code == 200
    refused = [row for row in sqlite_store.events.counts() if row["outcome"] == "unauthorized"]
    assert refused[0]["count"] >= 1
    assert "evenhand connect" in sqlite_store.problems.find()[0].remedy


@pytest.mark.parametrize("headers", [{}, {"X-Evenhand-Secret": "wrong"}, basic(password="wrong")])
def test_event_with_missing_or_wrong_credentials_is_counted_as_refused(
    client: FlaskClient, sqlite_store: Store, headers: dict[str, str]
) -> None:
    assert client.post("/webhook", json={}, headers=headers).status_code == 401
    assert [(row["outcome"], row["count"]) for row in sqlite_store.events.counts()] == [("unauthorized", 1)]


def test_refused_events_are_counted_one_by_one_and_written_once_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FakeClock(100.0)
    monkeypatch.setattr(auth, "time", SimpleNamespace(monotonic=clock))
    refused, written = auth._Refused(), []
    for clock.now in (100.0, 100.5, 100.9, 101.0, 101.9, 102.0, 110.0):
        written.append(refused.add())
    assert written == [1, 0, 0, 3, 0, 2, 1]


def test_secret_opens_nothing_but_the_webhook(client: FlaskClient) -> None:
    for path in ("/versions", "/metrics", "/api/v1/projects"):
        assert client.get(path, headers={"X-Evenhand-Secret": SECRET}).status_code == 401


def test_open_mode_with_a_webhook_secret_still_asks_for_it(sqlite_store: Store) -> None:
    client = create_app(Settings(webhook_secret=SECRET), sqlite_store).test_client()
    assert client.post("/webhook", json={}).status_code == 401
    assert client.get("/versions").status_code == 200


def test_brute_force_is_slowed_down_and_forgiven_in_time(
    client: FlaskClient, sqlite_store: Store, clock: FakeClock
) -> None:
    for _ in range(6):
        assert client.get("/versions", headers=basic(password="wrong")).status_code == 401
    blocked = client.get("/versions", headers=basic())
    assert blocked.status_code == 429
    assert int(blocked.headers["Retry-After"]) >= 1
    assert client.get("/versions", headers=basic(), environ_base={"REMOTE_ADDR": "127.0.0.9"}).status_code == 200
    clock.now += 120
    assert client.get("/versions", headers=basic()).status_code == 200


def test_open_mode_under_a_foreign_host_name_is_refused(open_client: FlaskClient) -> None:
    assert open_client.get("/api/v1/projects").status_code == 200
    assert open_client.get("/api/v1/projects", headers={"Host": "evil.example"}).status_code == 401


def test_open_mode_ends_with_the_first_account(sqlite_store: Store) -> None:
    sqlite_store.users.put("ana", hash_password("a long password"))
    client = create_app(Settings(), sqlite_store).test_client()
    assert client.get("/api/v1/projects").status_code == 401


@pytest.mark.parametrize("headers", [{"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}])
def test_changes_asked_for_by_another_site_are_refused(open_client: FlaskClient, headers: dict[str, str]) -> None:
    refused = open_client.post("/webhook", data=json.dumps({"action": "X"}), headers=headers)
    assert refused.status_code == 403


def test_session_needs_the_csrf_token_for_changes(closed: Flask, sqlite_store: Store) -> None:
    client = closed.test_client()
    token = log_in(client)
    assert client.get("/api/v1/projects").status_code == 200
    assert client.patch("/api/v1/projects/1/config", json={"q": 0.2}).status_code == 403
    sent = client.patch("/api/v1/projects/1/config", json={"q": 0.2}, headers={"X-CSRF-Token": token})
    assert sent.status_code == 404


def test_session_ends_when_the_password_changes(closed: Flask, sqlite_store: Store) -> None:
    sqlite_store.users.put("ana", hash_password("a long password"))
    client = closed.test_client()
    log_in(client, "ana", "a long password")
    assert client.get("/api/v1/projects").status_code == 200
    sqlite_store.users.put("ana", hash_password("another password"))
    assert client.get("/api/v1/projects").status_code == 401


def test_session_forged_with_another_key_is_refused(closed: Flask, sqlite_store: Store) -> None:
    other = create_app(replace(CLOSED, secret_key="x" * 32), sqlite_store)
    thief = other.test_client()
    log_in(thief)
    cookie = thief.get_cookie("evenhand_session")
    assert cookie is not None
    client = closed.test_client()
    client.set_cookie("evenhand_session", cookie.value)
    assert client.get("/api/v1/projects").status_code == 401


def log_in(client: FlaskClient, name: str = "lead", password: str = "right-horse") -> str:
    """Log in through the app's own function, as the login page does, and return the CSRF token."""
    from evenhand.web import auth

    with client.application.test_request_context("/ui/login", method="POST", environ_base={"REMOTE_ADDR": "127.0.0.1"}):
        auth.log_in(name, password)
        from flask import session

        values = dict(session)
    with client.session_transaction() as stored:
        stored.update(values)
    return str(values["csrf_token"])


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "evenhand.example"])
def test_listening_beyond_loopback_without_credentials_is_refused(sqlite_store: Store, host: str) -> None:
    with pytest.raises(SettingsError, match="BASIC_AUTH_USER"):
        refuse_open_doors(Settings(host=host), sqlite_store)
    refuse_open_doors(Settings(host=host, basic_auth_user="a", basic_auth_pass="b"), sqlite_store)


@pytest.mark.parametrize(
    ("host", "expected"), [("localhost", True), ("127.3.2.1", True), ("::1", True), ("10.0.0.1", False)]
)
def test_loopback_is_recognised(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


def test_answers_carry_a_request_id(client: FlaskClient) -> None:
    answer = client.get("/health", headers={"X-Request-Id": "abc-1"})
    assert answer.headers["X-Request-Id"] == "abc-1"
    evil = client.get("/health", headers={"X-Request-Id": "a b\u00e4"})
    assert re.fullmatch(r"[0-9a-f]{16}", evil.headers["X-Request-Id"])


@pytest.mark.parametrize(
    ("role", "reads", "runs", "settles"),
    [("protocol", 403, 403, 403), ("reader", 200, 403, 403), ("reviewer", 200, 404, 403), ("owner", 200, 404, 404)],
)
def test_role_opens_what_it_is_for_and_nothing_beyond(
    sqlite_store: Store, role: Any, reads: int, runs: int, settles: int
) -> None:
    """There is no project 1, so that whoever is let in is told so."""
    settings = Settings(basic_auth_user="lead", basic_auth_pass="right-horse", basic_auth_role=role)
    client = create_app(settings, sqlite_store).test_client()
    assert client.get("/api/v1/projects", headers=basic()).status_code == reads
    assert client.post("/api/v1/projects/1/runs", headers=basic()).status_code == runs
    settled = client.patch("/api/v1/projects/1/config", json={}, headers=basic())
    assert settled.status_code == settles
    if settles == 403:
        assert f"has the role {role}" in settled.json["error"]["message"]  # type: ignore[index]  # it is an object


@pytest.mark.parametrize("path", ["/webhook", "/setup"])
def test_label_studio_call_with_a_form_is_told_to_send_json(client: FlaskClient, path: str) -> None:
    answer = client.post(path, data={"csrf_token": "x"}, headers=basic())
    assert answer.status_code == 415


def test_service_with_an_account_stays_closed_request_after_request(sqlite_store: Store) -> None:
    client = create_app(Settings(), sqlite_store).test_client()
    assert client.get("/api/v1/projects").status_code == 200
    sqlite_store.users.put("ana", hash_password("a long password"))
    client = create_app(Settings(), sqlite_store).test_client()
    assert [client.get("/api/v1/projects").status_code for _ in range(3)] == [401] * 3


def test_probes_look_at_no_session_and_other_public_pages_do(
    client: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[str] = []
    monkeypatch.setattr(auth, "_session_user", lambda: looked.append("looked"))
    for path in ("/health", "/ready"):
        assert client.get(path).status_code == 200
    assert looked == []
    assert client.get("/ui/login").status_code == 200
    assert looked == ["looked"]
