"""A Label Studio on a loopback port that can be slow, down, wrong or overloaded at will, and counts what it is sent."""

import contextlib
import itertools
import json
import re
import socket
import sys
import threading
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from evenhand.label_studio.payloads import ALERT_ANNOTATOR

from harness.fake_label_studio import LEGACY_TOKEN, FakeLabelStudio

Json = dict[str, Any]
ALERT_PATH = "/alert-webhook"
RETRY_AFTER_SECONDS = 2
#: What a proxy, a captive portal or a broken disk makes of an answer: (status, content type, body).
GARBAGE = (
    (200, "text/html", b"<html><body>Please log in</body></html>"),
    (200, "application/json", b'{"tasks": [{"id": 1, "data": {"te'),
    (200, "application/json", b"null"),
    (200, "application/json", b'{"tasks": [7, {"id": "x"}], "id": [], "created_at": "yesterday", "results": 3}'),
    (200, "application/json", b'[{"id": null}, [], "x"]'),
    (200, "application/octet-stream", bytes(range(256))),
    (302, "text/html", b""),
)
BROKEN = (500, 502, 503, 504)


class _Server(ThreadingHTTPServer):
    """Broken connections are not reported, since killing clients in mid-call is what this harness is for."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class Studio(FakeLabelStudio):
    """The fake on real time, with the tasks' annotations indexed and every creation counted by its key."""

    def __init__(self) -> None:
        super().__init__()
        self.created: Counter[tuple[Any, ...]] = Counter()
        self.duplicates: list[tuple[Any, ...]] = []
        self.last_facts: dict[str, Json] = {}
        self._by_task: dict[int, list[Json]] = {}
        self._shift = timedelta()

    def tick(self, seconds: float = 1.0) -> None:
        """Follow the machine's clock; two moments are never the same."""
        self.now = max(datetime.now(UTC) + self._shift, self.now + timedelta(microseconds=1))

    def set_clock(self, seconds: float) -> None:
        """Run ahead of or behind the machine's clock from now on."""
        self._shift = timedelta(seconds=seconds)
        self.now = datetime.now(UTC) + self._shift

    @property
    def time(self) -> float:
        """Its clock in seconds since the epoch."""
        return (datetime.now(UTC) + self._shift).timestamp()

    def note(self, key: tuple[Any, ...], *, is_there: bool) -> None:
        """Count a creation; a second one with the same key is a duplicate."""
        self.created[key] += 1
        if is_there:
            self.duplicates.append(key)

    def take_alert(self, body: Json) -> tuple[int, Any]:
        """The alert webhook's receiver: the same fact twice in a row about one person is a duplicate."""
        for fact in body["facts"]:
            key = ("notification", fact["kind"], fact["annotator"])
            self.note(key, is_there=self.last_facts.get(fact["annotator"]) == fact)
            self.last_facts[fact["annotator"]] = fact
        return 200, {}

    def _import_predictions(self, project: int, *, query: Json, body: Any) -> tuple[int, Any]:
        there = {(row["task"], row["model_version"]) for row in self.predictions.values()}
        for entry in body:
            key = (entry["task"], entry["model_version"])
            self.note(("prediction", *key), is_there=key in there)
            there.add(key)
        return super()._import_predictions(project, query=query, body=body)

    def _import_tasks(self, project: int, *, query: Json, body: Any) -> tuple[int, Any]:
        there = {row["data"].get(ALERT_ANNOTATOR) for row in self.tasks.values() if row["project"] == project}
        for entry in body:
            name = entry["data"].get(ALERT_ANNOTATOR)
            self.note(("card", project, name), is_there=name in there)
        return super()._import_tasks(project, query=query, body=body)

    def _create_view(self, *, query: Json, body: Any) -> tuple[int, Any]:
        key = (int(query["project"]), body["data"]["title"])
        there = {(row["project"], row["data"]["title"]) for row in self.views.values()}
        self.note(("tab", *key), is_there=key in there)
        return super()._create_view(query=query, body=body)

    def _create_project(self, *, query: Json, body: Any) -> tuple[int, Any]:
        there = {row["description"] for row in self.projects.values()}
        self.note(("project", body["description"]), is_there=body["description"] in there)
        return super()._create_project(query=query, body=body)

    def _create_webhook(self, *, query: Json, body: Any) -> tuple[int, Any]:
        key = (body["project"], body["url"])
        there = {(row["project"], row["url"]) for row in self.webhooks.values()}
        self.note(("webhook", *key), is_there=key in there)
        return super()._create_webhook(query=query, body=body)

    def _with_annotations(self, task: Json) -> Json:
        return {**task, "annotations": self._by_task.get(task["id"], []), "drafts": [], "predictions": []}

    def _list_tasks(self, *, query: Json, body: Any) -> tuple[int, Any]:
        # Once per page: looking through all annotations for each task would make the stand-in the slow part.
        self._by_task = {}
        for row in self.annotations.values():
            self._by_task.setdefault(row["task"], []).append(row)
        return super()._list_tasks(query=query, body=body)


class StandIn:
    """Serves a Studio over HTTP; `mood` says how."""

    def __init__(self) -> None:
        self.studio = Studio()
        self.lock = threading.RLock()
        self.mood = "well"
        self.delay = 0.0
        self.answered: Counter[str] = Counter()
        self._turns = itertools.count()
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.token = LEGACY_TOKEN
        self._server: ThreadingHTTPServer | None = None
        self.up()

    def up(self) -> None:
        """Listen."""
        if self._server is None:
            handler = type("Handler", (_Handler,), {"stand_in": self})
            self._server = _Server(("127.0.0.1", self.port), handler)
            self._server.daemon_threads = True
            threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def down(self) -> None:
        """Refuse connections."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def answer(self, method: str, target: str, body: Any, authorization: str) -> tuple[int, Json, bytes] | None:
        """Status, headers and body in the present mood; None: cut the connection."""
        is_alert = urlsplit(target).path == ALERT_PATH  # another service, which has no moods
        mood, turn = "well" if is_alert else self.mood, next(self._turns)
        self.answered[mood] += 1
        plain: Json = {"Content-Type": "application/json"}
        if mood == "slow":
            time.sleep(self.delay)
        if mood == "rate-limited":
            return 429, {**plain, "Retry-After": str(RETRY_AFTER_SECONDS)}, b'{"detail": "Request was throttled."}'
        if mood == "broken":
            return BROKEN[turn % len(BROKEN)], {"Content-Type": "text/html"}, b"<h1>Server Error</h1>"
        if mood == "garbage":
            status, kind, text = GARBAGE[turn % len(GARBAGE)]
            return status, {"Content-Type": kind, "Location": "http://127.0.0.1:9/login"}, text
        parts = urlsplit(target)
        query = {key: values[-1] for key, values in parse_qs(parts.query).items()}
        with self.lock:
            self.studio.calls.append((method, parts.path, None))
            if is_alert:
                status, found = self.studio.take_alert(body)
            else:
                status, found = self.studio._route(method, parts.path, query, body, authorization)
            text = b"" if found is None else json.dumps(found).encode()
        # The call was carried out; whether the caller hears of it is another matter.
        is_lost = mood == "answers lost" and method != "GET"
        return None if is_lost else (status, plain, text)

    def calls(self, pattern: str) -> int:
        """How many calls of a path were carried out."""
        return sum(1 for _, path, _ in self.studio.calls if re.search(pattern, path))


class _Handler(BaseHTTPRequestHandler):
    """One request; the stand-in decides."""

    stand_in: StandIn
    protocol_version = "HTTP/1.1"

    def _serve(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else None
        answer = self.stand_in.answer(self.command, self.path, body, self.headers.get("Authorization", ""))
        if answer is None or self.stand_in._server is None:
            self.close_connection = True
            with contextlib.suppress(OSError):
                self.connection.shutdown(socket.SHUT_RDWR)
            return
        status, headers, text = answer
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(text))}.items():
            self.send_header(name, value)
        with contextlib.suppress(OSError):
            self.end_headers()
            self.wfile.write(text)

    do_GET = do_POST = do_PATCH = do_DELETE = _serve  # noqa: N815 — http.server looks the methods up by these names

    def date_time_string(self, timestamp: float | None = None) -> str:
        """The Date header: Label Studio's own clock."""
        return super().date_time_string(int(self.stand_in.studio.time if timestamp is None else timestamp))

    def log_message(self, *_: Any) -> None:
        """Say nothing."""
