"""The real service (`evenhand serve`) on a loopback port, and what Label Studio would send it."""

from __future__ import annotations

import base64
import contextlib
import http.client
import itertools
import json
import os
import random
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from evenhand.domain import Batch, plain_answer
from evenhand.settings import Settings
from evenhand.store import open_store

from harness.crowds import shaped
from harness.label_configs import PAIRWISE
from harness.opened import token_header
from harness.ports import free_port

EPOCH, CREATED = 1_700_000_000, "2023-11-14T22:13:20.000000Z"


class Service:
    """`evenhand serve` on a free loopback port with a folder of its own."""

    def __init__(self, folder: Path, variables: Mapping[str, str] | None = None, *, with_worker: bool = True) -> None:
        self._command = [sys.executable, "-m", "evenhand.cli", "serve", *([] if with_worker else ["--no-worker"])]
        self.port = free_port()
        keep = {key: os.environ[key] for key in ("PATH", "HOME", "DATABASE_URL") if key in os.environ}
        self.environment = {
            **keep,
            "MODEL_DIR": str(folder),
            "PORT": str(self.port),
            "LOG_LEVEL": "WARNING",
            "OMP_NUM_THREADS": "1",
            **(variables or {}),
        }
        self.settings = Settings.from_env(self.environment)
        self.log = (folder / "service.log").open("ab")
        self.process: psutil.Popen | None = None

    def start(self) -> float:
        """Start and wait until it answers; return the seconds that took."""
        begun = time.perf_counter()
        self.process = psutil.Popen(self._command, env=self.environment, stdout=self.log, stderr=self.log)
        try:
            self.wait_healthy()
        except BaseException:
            self.stop()
            raise
        return time.perf_counter() - begun

    def wait_healthy(self, limit: float = 180.0) -> float:
        begun = time.perf_counter()
        while time.perf_counter() - begun < limit:
            with contextlib.suppress(OSError, http.client.HTTPException):
                if self.call("GET", "/health")[0] == 200:
                    return time.perf_counter() - begun
            time.sleep(0.05)
        raise SystemExit("the service did not become healthy within three minutes")

    def stop(self) -> None:
        if self.process is not None and self.process.is_running():
            family = [self.process, *self.process.children(recursive=True)]
            self.process.terminate()
            for member in psutil.wait_procs(family, timeout=20)[1]:
                member.kill()

    def call(self, method: str, path: str, body: bytes | None = None, timeout: float = 5.0) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            headers = {"Content-Type": "application/json", **self.credentials()}
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def credentials(self) -> dict[str, str]:
        """Of the configured name, as Label Studio sends them; else the token of whoever started the service."""
        if not self.settings.has_credentials:
            return token_header(self.settings.model_dir)
        pair = f"{self.settings.basic_auth_user}:{self.settings.basic_auth_pass}"
        return {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}

    def api(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        text = json.dumps(body).encode() if body is not None else None
        status, answer = self.call(method, f"/api/v1{path}", text, timeout=30.0)
        if status >= 300:
            raise SystemExit(f"{method} {path} answered {status}: {answer[:300]!r}")
        told: dict[str, Any] = json.loads(answer)
        return told


def event(number: int, project: int, annotator: int) -> bytes:
    """An ANNOTATION_CREATED event as Label Studio sends it."""
    left, right = number % 50, (number * 7 + 1) % 50
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime()) + f".{number % 1_000_000:06d}Z"
    result = {"value": {"selected": random.choice(("left", "right"))}, "from_name": "pw", "to_name": "pw"}
    return json.dumps(
        {
            "action": "ANNOTATION_CREATED",
            "annotation": {
                "id": number,
                "task": number,
                "project": project,
                "completed_by": annotator,
                "result": [{**result, "type": "pairwise", "origin": "manual", "id": "x"}],
                "was_cancelled": False,
                "ground_truth": False,
                "lead_time": 3.5,
                "created_at": stamp,
                "updated_at": stamp,
            },
            "task": {
                "id": number,
                "data": {"text1": f"item {left}", "text2": f"item {right if right != left else 51}"},
                "created_at": stamp,
                "updated_at": stamp,
                "is_labeled": False,
            },
            "project": {"id": project, "title": "load", "label_config": PAIRWISE, "created_at": CREATED},
        }
    ).encode()


def register(service: Service, project: int) -> int:
    """Set the project up as Label Studio does; return our id."""
    body = {"project": f"{project}.{EPOCH}", "schema": PAIRWISE, "hostname": "", "extra_params": {}}
    status, answer = service.call("POST", "/setup", json.dumps(body).encode())
    assert status == 200, answer
    projects = service.api("GET", "/projects")
    rows = next(value for value in projects.values() if isinstance(value, list))
    return next(int(row["id"]) for row in rows if row["ls_project_id"] == project)


def fill(service: Service, project_id: int, m: int, n: int, N: int) -> None:
    """Write answers by the bulk path."""
    c = shaped(m, n, N, rng=np.random.default_rng(5)).comparisons
    store = open_store(service.settings)
    rows = (
        plain_answer(
            10_000_000 + i,
            str(1000 + c.annotator[i]),
            f"item {c.left[i]}",
            f"item {c.right[i]}",
            float(c.outcome[i]),
            at=1.7e9 + i,
        )
        for i in range(len(c))
    )
    while batch := list(itertools.islice(rows, 10_000)):
        store.comparisons.apply(project_id, Batch(comparisons=batch))
    store.close()


def stored_ids(service: Service, project_id: int) -> set[int]:
    store = open_store(service.settings)
    try:
        return {row["annotation_id"] for row in store.comparisons.rows(project_id)}
    finally:
        store.close()


def wait_for_run(service: Service, project_id: int, limit: float) -> str:
    """Wait until no run waits or runs; return the newest one's status."""
    begun = time.perf_counter()
    while time.perf_counter() - begun < limit:
        runs = service.api("GET", f"/projects/{project_id}/runs")
        newest = next(value for value in runs.values() if isinstance(value, list))[0]
        if newest["status"] in ("done", "failed"):
            return str(newest["status"])
        time.sleep(0.05)
    return "not finished"
