"""The real service under attack: slow and endless bodies, and logs that hold no secret."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from evenhand.settings import Settings
from evenhand.store import open_store

from tests.backend.test_supervisor import HEALTHY_SECONDS, is_healthy, running, wait_until

SECRETS = {
    "BASIC_AUTH_PASS": "basic-pass-Zq8",
    "EVENHAND_WEBHOOK_SECRET": "hook-secret-Zq8",
    "EVENHAND_SECRET_KEY": "session-key-Zq8",
    "EVENHAND_ALERT_WEBHOOK_SECRET": "alert-secret-Zq8",
    "LABEL_STUDIO_API_KEY": "label-studio-token-Zq8",
}
SENT = ("wrong-guess-Zq8", "wrong-hook-Zq8", "in-the-query-Zq8", "project-token-Zq8", "task-password-Zq8")
THREADS = 4
pytestmark = pytest.mark.slow


VARIABLES = {
    **SECRETS,
    "BASIC_AUTH_USER": "lead",
    "BASIC_AUTH_ROLE": "owner",
    "LOG_LEVEL": "DEBUG",
    "THREADS": str(THREADS),
    # Bounded by its threads the service refuses the events that would queue up behind those that hang.
    "EVENHAND_MAX_WAITING": str(THREADS),
    "EVENHAND_MAX_BODY_MB": "0.1",
    "LABEL_STUDIO_URL": "http://127.0.0.1:9",
    "EVENHAND_ALERT_WEBHOOK_URL": "http://127.0.0.1:9/hook",
}


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    folder = tmp_path_factory.mktemp("live")
    with running(folder, **VARIABLES) as (_, url):
        yield url, folder


def call(url: str, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=120)
    try:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode("utf-8", "replace")
    finally:
        connection.close()


def authorization(password: str) -> str:
    return "Basic " + base64.b64encode(f"lead:{password}".encode()).decode()


def test_clients_that_send_half_a_request_do_not_keep_others_waiting(live: tuple[str, Path]) -> None:
    url, _ = live
    with contextlib.ExitStack() as stack:
        host, port = urlsplit(url).hostname, urlsplit(url).port
        for number in range(3 * THREADS):
            slow = stack.enter_context(socket.create_connection((host, port), timeout=120))
            beginning = b"POST /webhook HTTP/1.1\r\nHost: x\r\nX-Evenhand-Secret: hook-secret-Zq8\r\n"
            slow.sendall(beginning if number % 2 else beginning + b"Content-Length: 1000\r\n\r\n{")
        wait_until(lambda: is_healthy(url), HEALTHY_SECONDS)  # unless the slow clients hold all threads


def test_body_without_an_end_is_cut_off_at_the_limit(live: tuple[str, Path]) -> None:
    url, _ = live

    def pieces() -> Iterator[bytes]:
        for _ in range(50):
            yield b"x" * 10_000

    # The service may hang up while the body is still coming: that is a refusal too.
    with contextlib.suppress(BrokenPipeError, ConnectionResetError, http.client.RemoteDisconnected):
        headers = {"X-Evenhand-Secret": SECRETS["EVENHAND_WEBHOOK_SECRET"], "Content-Type": "application/json"}
        status, text = call(url, "POST", "/webhook", pieces(), **headers)  # without a length: sent in chunks
        assert status in (400, 413)  # no more than the limit is read, which leaves no JSON
        assert json.loads(text)["error"]["code"] in ("bad_payload", "too_large")
    assert call(url, "GET", "/health")[0] == 200


def test_body_wrongly_divided_into_chunks_is_refused(live: tuple[str, Path]) -> None:
    url, _ = live
    headers = {"Transfer-Encoding": "chunked", "X-Evenhand-Secret": SECRETS["EVENHAND_WEBHOOK_SECRET"]}
    headers["Content-Type"] = "application/json"
    status, text = call(url, "POST", "/webhook", b"zz\r\n{}\r\n0\r\n\r\n", **headers)
    assert status == 400
    assert "Traceback" not in text
    # A body that never ends is waited for a while, without a thread; then the service hangs up.
    with contextlib.suppress(http.client.RemoteDisconnected):
        assert call(url, "POST", "/webhook", b"no size\r\n", **headers)[0] == 400
    assert call(url, "GET", "/health")[0] == 200


def test_logs_hold_no_secret_whatever_was_sent(live: tuple[str, Path], capfd: pytest.CaptureFixture[str]) -> None:
    url, folder = live
    project = {"id": 1, "created_at": "2026-11-16T00:00:00Z", "token": "project-token-Zq8"}
    event = {"action": "ANNOTATION_CREATED", "project": {**project, "task_data_password": "task-password-Zq8"}}
    right = authorization(SECRETS["BASIC_AUTH_PASS"])
    hook = SECRETS["EVENHAND_WEBHOOK_SECRET"]
    calls: tuple[tuple[str, str, Any, dict[str, str]], ...] = (
        ("GET", "/versions?token=in-the-query-Zq8", None, {"Authorization": right}),
        ("GET", "/versions", None, {"Authorization": authorization("wrong-guess-Zq8")}),
        ("GET", "/nothing?password=in-the-query-Zq8", None, {"Authorization": right}),
        ("POST", "/webhook", json.dumps(event), {"X-Evenhand-Secret": "wrong-hook-Zq8"}),
        ("POST", "/webhook", json.dumps(event), {"X-Evenhand-Secret": hook}),
        ("POST", "/webhook", "{broken", {"X-Evenhand-Secret": hook}),
        ("POST", "/setup", json.dumps({"project": "1.1", "schema": "", "access_token": "project-token-Zq8"}),
         {"Authorization": right}),
        ("POST", "/ui/login", "name=lead&password=wrong-guess-Zq8",
         {"Content-Type": "application/x-www-form-urlencoded"}),
    )  # fmt: skip
    for method, path, body, headers in calls:
        assert call(url, method, path, body, **headers)[0] < 500
    log = (folder / "log").read_text(errors="replace")
    assert '"path": "/versions"' in log
    assert [secret for secret in (*SECRETS.values(), *SENT) if secret in log] == []
    assert [line for line in log.splitlines() if "Basic " in line] == []
    assert "Traceback" not in log
    store = open_store(Settings(database_url=f"sqlite:///{folder / 'evenhand.db'}"))
    kept = b"".join(path.read_bytes() for path in folder.glob("evenhand.db*"))
    store.close()
    assert [secret for secret in SENT if secret.encode() in kept] == []
    capfd.readouterr()
