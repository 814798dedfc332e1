"""The way compose opens Label Studio's address block, tried on a live Label Studio with loopback addresses."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
import requests

from harness.block_list import BLOCKED, OPEN
from harness.label_studio import LabelStudioServer


class Backend(BaseHTTPRequestHandler):
    """The least that Label Studio accepts as an ML backend; it remembers the paths that were called."""

    called: list[str]

    def do_GET(self) -> None:
        self._answer({"status": "UP"})

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self._answer({"model_version": "1"})

    def _answer(self, body: dict[str, Any]) -> None:
        self.called.append(self.path)
        content = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@contextmanager
def backend_at(address: str) -> Iterator[tuple[str, list[str]]]:
    called: list[str] = []
    server = ThreadingHTTPServer((address, 0), type("Handler", (Backend,), {"called": called}))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://{address}:{server.server_address[1]}", called
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def post(label_studio: LabelStudioServer, path: str, body: dict[str, Any]) -> int:
    headers = {"Authorization": f"Token {label_studio.legacy_token}"}
    return requests.post(label_studio.url + path, json=body, headers=headers, timeout=30).status_code


@pytest.mark.labelstudio
def test_block_list_with_one_address_open_lets_backend_and_events_through(label_studio: LabelStudioServer) -> None:
    project = int(label_studio.create_project("Open address")["id"])
    with backend_at(OPEN) as (url, called):
        assert post(label_studio, "/api/ml", {"project": project, "url": url, "title": "Evenhand"}) == 201
        hook = {"project": project, "url": f"{url}/webhook", "send_for_all_actions": True}
        assert post(label_studio, "/api/webhooks/", hook) == 201
        label_studio.import_tasks(project, [{"data": {"text1": "a", "text2": "b"}}])
    assert "/setup" in called
    assert "/webhook" in called


@pytest.mark.labelstudio
def test_block_list_with_one_address_open_keeps_its_neighbour_closed(label_studio: LabelStudioServer) -> None:
    project = int(label_studio.create_project("Closed address")["id"])
    with backend_at(BLOCKED) as (url, called):
        assert post(label_studio, "/api/ml", {"project": project, "url": url, "title": "Other"}) == 403
        assert post(label_studio, "/api/webhooks/", {"project": project, "url": f"{url}/webhook"}) == 403
    assert called == []
