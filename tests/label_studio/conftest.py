"""A real Label Studio for all tests of a run, and our service beside it: stepped in this process, or as processes."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
import requests
from click.testing import CliRunner
from evenhand.app import create_app
from evenhand.cli import main
from evenhand.label_studio.transport import Transport
from evenhand.logs import JsonFormatter
from evenhand.publish import notify
from evenhand.server.worker import CHORES_SIGN, RUNS_SIGN, Chores, Runs
from evenhand.settings import TABLE, Settings
from evenhand.store import Store, open_store
from flask import Flask
from requests.adapters import HTTPAdapter
from werkzeug.serving import WSGIRequestHandler, make_server

from harness.label_studio import LabelStudioServer, Person
from harness.ports import free_port, listening

ROOT = Path(__file__).resolve().parent.parent.parent
T = TypeVar("T")
SECRETS = {setting.name for setting in TABLE if setting.secret}
#: Of a worker, until what was asked for must be seen; and how far its clock moves in each: further than any pause.
ROUNDS, ROUND_SECONDS = 8, 6.0
#: Of waiting for real processes on a machine that may be busy.
LONGEST_WAIT = 180.0


class Evenhand:
    """The service with a folder of its own, configured by the environment."""

    def __init__(self, folder: Path, label_studio: LabelStudioServer, token: str, port: int) -> None:
        self.port = port
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

    def start(self) -> None:
        """Begin to serve."""
        raise NotImplementedError

    def stop(self, *, kill: bool = False) -> None:
        """End the service and all it started, politely or not."""
        raise NotImplementedError

    def command(self, *arguments: str, ok: bool = True) -> str:
        """Run an `evenhand` command and return what it prints."""
        raise NotImplementedError

    def wait_for(self, what: str, look: Callable[[], T]) -> T:
        """Look until something true is seen, and let the worker do its part in between."""
        raise NotImplementedError

    def get(self, path: str) -> Any:
        """Call our own API as the lead."""
        answer = requests.get(self.url + path, auth=("lead", "l3ad-pass"), timeout=60)
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


class Processes(Evenhand):
    """The service as its users run it: separate processes, of which nothing is known but what can be seen."""

    def __init__(self, folder: Path, label_studio: LabelStudioServer, token: str) -> None:
        super().__init__(folder, label_studio, token, free_port())
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start `evenhand serve` and wait until it answers."""
        with (self.folder / "serve.log").open("ab") as log:
            command = [sys.executable, "-m", "evenhand.cli", "serve"]
            self._process = subprocess.Popen(
                command, cwd=ROOT, env=self.environ, stdout=log, stderr=log, start_new_session=True
            )
        self.wait_for("a healthy service", self._is_healthy)

    def _is_healthy(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self.log()
        with contextlib.suppress(requests.RequestException):
            return requests.get(f"{self.url}/health", timeout=5).ok
        return False

    def stop(self, *, kill: bool = False) -> None:
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL if kill else signal.SIGTERM)
        try:
            self._process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(timeout=60)
        self._process = None

    def command(self, *arguments: str, ok: bool = True) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "evenhand.cli", *arguments],
            cwd=ROOT,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LONGEST_WAIT,
            check=False,
        )
        assert (done.returncode == 0) == ok, f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr

    def wait_for(self, what: str, look: Callable[[], T]) -> T:
        """Look until something true is seen; the last error is shown if it never is."""
        deadline, error = time.monotonic() + LONGEST_WAIT, None
        while time.monotonic() < deadline:
            try:
                seen = look()
                if seen:
                    return seen
                error = None
            except AssertionError as failure:
                error = failure
            time.sleep(0.2)
        raise AssertionError(f"not seen within {LONGEST_WAIT:g} s: {what}") from error


class _Quiet(WSGIRequestHandler):
    """Leaves what is logged of a request to the service."""

    def log(self, *_: Any, **__: Any) -> None:
        """Say nothing."""


class _Clock:
    """The true time, and what was skipped of it."""

    def __init__(self) -> None:
        self.skipped = 0.0

    def __call__(self) -> float:
        return time.time() + self.skipped


class _Wire(HTTPAdapter):
    """The worker's way to Label Studio, which can be cut."""

    is_cut = False

    def send(self, *arguments: Any, **options: Any) -> requests.Response:
        if self.is_cut:
            raise requests.ConnectionError("cut")
        return super().send(*arguments, **options)


@contextlib.contextmanager
def _logging_to(path: Path, settings: Settings) -> Iterator[None]:
    """What the service would write to its standard error."""
    handler, root = logging.FileHandler(path), logging.getLogger()
    handler.setFormatter(JsonFormatter(settings.secrets()))
    before = root.level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    try:
        yield
    finally:
        root.setLevel(before)
        root.removeHandler(handler)
        handler.close()


class Stepped(Evenhand):
    """The service in this process: threads answer requests, and the worker moves when it is told to.

    Label Studio sends an event before it answers whoever caused it, and waits for us: what was done there is known
    here at once, and after one round of the worker it is seen whether something comes of it.
    """

    def __init__(self, folder: Path, label_studio: LabelStudioServer, token: str) -> None:
        self._socket = listening()
        super().__init__(folder, label_studio, token, self._socket.getsockname()[1])
        self.wire = _Wire()
        self._clock = _Clock()
        self._app: Flask | None = None
        self._open = contextlib.ExitStack()
        self._server = make_server(
            "127.0.0.1", self.port, self._answer, threaded=True, request_handler=_Quiet, fd=self._socket.fileno()
        )
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def _answer(self, environ: Any, start_response: Any) -> Iterable[bytes]:
        """What the service says, or a refusal while there is none; its port stays ours meanwhile."""
        if self._app is None:
            start_response("503 Service Unavailable", [("Content-Length", "0")])
            return []
        return self._app.wsgi_app(environ, start_response)

    def start(self) -> None:
        settings = Settings.from_env(self.environ)
        self._open.enter_context(_logging_to(self.folder / "serve.log", settings))
        # The pause between two messages is kept by the database's own clock, which is true.
        patch = self._open.enter_context(pytest.MonkeyPatch.context())
        patch.setattr(notify, "PAUSE_SECONDS", 0.0)
        patch.setitem(Transport.__init__.__kwdefaults__ or {}, "sleep", lambda _seconds: None)
        web, worker = (Store(open_store(settings).engine, self._clock) for _ in range(2))
        self._open.callback(web.close)
        self._open.callback(worker.close)
        session = self._open.enter_context(requests.Session())
        session.mount("http://", self.wire)
        self._worker = worker
        self._chores, self._runs = Chores(worker, settings, "stepped", session), Runs(worker, "stepped")
        self._sign()
        self._app = create_app(settings, web)

    def stop(self, *, kill: bool = False) -> None:
        """Forget the service; what it has not committed by now is lost either way."""
        self._app = None
        self._open.close()

    def close(self) -> None:
        """Stop, and give the port back."""
        self.stop()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        self._socket.close()

    def command(self, *arguments: str, ok: bool = True) -> str:
        environ = {**dict.fromkeys((setting.name for setting in TABLE), None), **self.environ}
        done = CliRunner(env=environ).invoke(main, list(arguments), catch_exceptions=False)
        assert (done.exit_code == 0) == ok, f"{arguments}: {done.exit_code}\n{done.output}"
        return done.output

    def round(self) -> None:
        """Let the worker do all there is: evidence and runs, then what concerns Label Studio; time passes."""
        self._clock.skipped += ROUND_SECONDS
        while self._runs.once():
            pass
        self._chores.once()
        self._sign()

    def _sign(self) -> None:
        """What the worker's loop leaves for whoever asks whether it moves."""
        for name in (CHORES_SIGN, RUNS_SIGN):
            self._worker.leases.sign(name, "stepped")

    def wait_for(self, what: str, look: Callable[[], T]) -> T:
        for _ in range(ROUNDS):
            if seen := look():
                return seen
            self.round()
        seen = look()
        assert seen, f"not seen after {ROUNDS} rounds of the worker: {what}\n{self.log()[-3000:]}"
        return seen


def assert_no_secret_in_the_log(service: Evenhand) -> None:
    """Whatever was done, and by whom."""
    log = service.log()
    leaked = [name for name, value in service.environ.items() if name in SECRETS and value and value in log]
    assert leaked == [], "the service's log holds these secrets"


@contextlib.contextmanager
def started(service: Stepped) -> Iterator[Stepped]:
    """The service for the length of a with block."""
    try:
        service.start()
        yield service
    finally:
        service.close()
    assert_no_secret_in_the_log(service)


@pytest.fixture(scope="session")
def crowd(label_studio: LabelStudioServer) -> list[Person]:
    """Sixteen annotators with accounts of their own."""
    return [label_studio.add_person(f"annotator{number:02}@example.com") for number in range(16)]


@pytest.fixture
def evenhand(label_studio: LabelStudioServer, tmp_path: Path) -> Iterator[Stepped]:
    """A service with an empty database, which speaks by a personal access token; its worker is stepped."""
    with started(Stepped(tmp_path, label_studio, label_studio.personal_access_token())) as service:
        yield service


@pytest.fixture
def processes(label_studio: LabelStudioServer, tmp_path: Path) -> Iterator[Processes]:
    """The same as real processes: for what only those can show."""
    service = Processes(tmp_path, label_studio, label_studio.personal_access_token())
    try:
        service.start()
        yield service
    finally:
        service.stop()
    assert_no_secret_in_the_log(service)
