"""A real Label Studio and a real `evenhand serve`, each on a loopback port of its own."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
import requests
from evenhand.settings import TABLE, Settings
from evenhand.store import Store, open_store

from harness.label_studio import LabelStudioServer, Person
from harness.ports import free_port

ROOT = Path(__file__).resolve().parent.parent.parent
T = TypeVar("T")


SECRETS = {setting.name for setting in TABLE if setting.secret}


def wait_for(what: str, look: Callable[[], T], seconds: float = 30.0) -> T:
    """Look until something true is seen; the last error is shown if it never is."""
    deadline, error = time.monotonic() + seconds, None
    while time.monotonic() < deadline:
        try:
            seen = look()
            if seen:
                return seen
            error = None
        except AssertionError as failure:
            error = failure
        time.sleep(0.2)
    raise AssertionError(f"not seen within {seconds:g} s: {what}") from error


class Evenhand:
    """The service as its users run it: separate processes, configured by the environment."""

    def __init__(self, folder: Path, label_studio: LabelStudioServer, token: str) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.folder = folder
        self.environ = {
            **{key: value for key, value in os.environ.items() if key in ("PATH", "HOME", "LANG")},
            "OMP_NUM_THREADS": "1",
            "LABEL_STUDIO_URL": label_studio.url,
            "LABEL_STUDIO_API_KEY": token,
            "BASIC_AUTH_USER": "lead",
            "BASIC_AUTH_ROLE": "owner",
            "BASIC_AUTH_PASS": "l3ad-pass",
            "EVENHAND_WEBHOOK_SECRET": "w3bhook-secret",
            "EVENHAND_PUBLIC_URL": self.url,
            "EVENHAND_RECONCILE_MINUTES": "0",
            "MODEL_DIR": str(folder),
            "PORT": str(self.port),
        }
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start `evenhand serve` and wait until it answers."""
        with (self.folder / "serve.log").open("ab") as log:
            command = [sys.executable, "-m", "evenhand.cli", "serve"]
            self._process = subprocess.Popen(
                command, cwd=ROOT, env=self.environ, stdout=log, stderr=log, start_new_session=True
            )
        wait_for("a healthy service", self._is_healthy, 60)

    def _is_healthy(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self.log()
        with contextlib.suppress(requests.RequestException):
            return requests.get(f"{self.url}/health", timeout=1).ok
        return False

    def stop(self, *, kill: bool = False) -> None:
        """End the service and all it started, politely or not."""
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL if kill else signal.SIGTERM)
        try:
            self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(timeout=10)
        self._process = None

    def command(self, *arguments: str, ok: bool = True) -> str:
        """Run an `evenhand` command and return what it prints."""
        done = subprocess.run(
            [sys.executable, "-m", "evenhand.cli", *arguments],
            cwd=ROOT,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        assert (done.returncode == 0) == ok, f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr

    def get(self, path: str) -> Any:
        """Call our own API as the lead."""
        answer = requests.get(self.url + path, auth=("lead", "l3ad-pass"), timeout=10)
        assert answer.ok, f"{path}: {answer.status_code} {answer.text[:300]}"
        return answer.json()

    def log(self) -> str:
        """What the service wrote."""
        return (self.folder / "serve.log").read_text(errors="replace")

    @contextlib.contextmanager
    def store(self) -> Iterator[Store]:
        """The service's database, opened beside it."""
        store = open_store(Settings.from_env(self.environ))
        try:
            yield store
        finally:
            store.close()


@pytest.fixture(scope="session")
def label_studio(label_studio_program: Path) -> Iterator[LabelStudioServer]:
    """A Label Studio for all tests of this folder."""
    with LabelStudioServer() as server:
        yield server


@pytest.fixture(scope="session")
def crowd(label_studio: LabelStudioServer) -> list[Person]:
    """Sixteen annotators with accounts of their own."""
    return [label_studio.add_person(f"annotator{number:02}@example.com") for number in range(16)]


@pytest.fixture
def evenhand(label_studio: LabelStudioServer, tmp_path: Path) -> Iterator[Evenhand]:
    """A running service with an empty database, which speaks by a personal access token."""
    service = Evenhand(tmp_path, label_studio, label_studio.personal_access_token())
    try:
        service.start()
        yield service
    finally:
        service.stop()
    log = service.log()
    leaked = [name for name, value in service.environ.items() if name in SECRETS and value and value in log]
    assert leaked == [], "the service's log holds these secrets"
