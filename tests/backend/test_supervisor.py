"""The service as people run it: one command, children that come back, a clean end; and its small commands."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
from click.testing import CliRunner
from evenhand.cli import COMMANDS, main
from evenhand.domain import ProjectRef
from evenhand.server.supervisor import Child, at_socket, end, keep_alive, web_command
from evenhand.settings import Settings
from evenhand.store import Store, open_store

from harness.ports import free_port, listening
from harness.serving import serving

# The service promises 10 s, which benchmarks measure on a quiet machine; here others may be working beside us.
HEALTHY_SECONDS = 180.0


@contextmanager
def running(folder: Path, *options: str, **variables: str) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    known = {"PATH", "HOME", "LANG", "PYTHONPATH"}
    environment = {key: value for key, value in os.environ.items() if key in known}
    environment |= {"MODEL_DIR": str(folder), "OMP_NUM_THREADS": "1", **variables}
    (folder / "evenhand").mkdir(exist_ok=True)  # such as a clone, or data: nobody takes it for the package
    command = [sys.executable, "-P", "-m", "evenhand.cli", "serve", *options]
    with serving(command, folder=folder, environment=environment, log=folder / "log") as served:
        yield served


def wait_until(condition: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "not within the time promised"
        time.sleep(0.05)


def wait_for_more(acknowledged: list[int]) -> None:
    """Wait until some more events were taken."""
    before = len(acknowledged)
    wait_until(lambda: len(acknowledged) > before + 5, HEALTHY_SECONDS)


def is_healthy(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=2) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def post(url: str, body: Any) -> int:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


def is_replaced(process: subprocess.Popen[bytes], word: str, former: int) -> bool:
    """Whether another process runs in the place of one that was killed."""
    found = child(process, word)
    return found is not None and found.pid != former


def child(process: subprocess.Popen[bytes], word: str) -> psutil.Process | None:
    for found in psutil.Process(process.pid).children():
        # One that was just killed is a zombie until its supervisor looks again.
        with contextlib.suppress(psutil.NoSuchProcess):
            if any(word in part for part in found.cmdline()):
                return found
    return None


@pytest.mark.slow
def test_serve_acknowledged_events_survive_kill_9_and_web_and_worker_come_back(
    tmp_path: Path, payload: Callable[[str], Any]
) -> None:
    event = payload("req_webhook_ANNOTATION_CREATED")
    acknowledged: list[int] = []
    stop = threading.Event()

    def send(url: str) -> None:
        number = 1000
        while not stop.is_set():
            number += 1
            body = {**event, "annotation": {**event["annotation"], "id": number}}
            if post(f"{url}/webhook", body) == 200:
                acknowledged.append(number)

    with running(tmp_path) as (process, url):
        sender = threading.Thread(target=send, args=(url,))
        sender.start()
        for word in ("gunicorn", "worker"):
            wait_for_more(acknowledged)
            victim = child(process, word)
            assert victim is not None
            for part in (*victim.children(recursive=True), victim):
                part.kill()
            wait_until(lambda: is_healthy(url), HEALTHY_SECONDS)
            wait_until(partial(is_replaced, process, word, victim.pid), HEALTHY_SECONDS)
        wait_for_more(acknowledged)
        stop.set()
        sender.join()
        left = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGTERM)
        assert process.wait(HEALTHY_SECONDS) == 0
        assert not [part for part in left if part.is_running() and part.status() != psutil.STATUS_ZOMBIE]
    store = open_store(Settings.from_env({"MODEL_DIR": str(tmp_path)}))
    stored = {row["annotation_id"] for row in store.comparisons.rows(1)}
    store.close()
    assert len(acknowledged) > 10
    assert set(acknowledged) <= stored


@pytest.mark.slow
def test_serve_supervisor_killed_leaves_nobody_behind(tmp_path: Path) -> None:
    with running(tmp_path, "--no-worker") as (process, url):
        left = psutil.Process(process.pid).children(recursive=True)
        assert left
        process.kill()
        process.wait()
        wait_until(lambda: not is_healthy(url), HEALTHY_SECONDS)
        gone, alive = psutil.wait_procs(left, timeout=HEALTHY_SECONDS)
        assert alive == []
        assert gone


def test_serve_beyond_loopback_without_credentials_does_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MODEL_DIR", str(tmp_path))
    done = CliRunner().invoke(main, ["serve", "--host", "0.0.0.0", "--port", str(free_port())])
    assert done.exit_code == 2
    assert "BASIC_AUTH_USER" in done.output


def test_serve_where_somebody_else_listens_says_so_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODEL_DIR", str(tmp_path))
    with listening() as other:
        port = other.getsockname()[1]
        done = CliRunner().invoke(main, ["serve", "--port", str(port)])
    assert done.exit_code == 2
    assert f"127.0.0.1:{port} cannot be listened on (Address already in use)" in done.output
    assert "--port" in done.output
    assert len(done.output.strip().splitlines()) == 1


def test_serve_on_what_is_no_listening_socket_says_what_to_hand_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MODEL_DIR", str(tmp_path))
    with socket.socket() as silent, (tmp_path / "file").open("w") as file:
        for fd in (silent.fileno(), file.fileno()):
            done = CliRunner().invoke(main, ["serve", "--fd", str(fd)])
            assert done.exit_code == 2
            assert f"--fd {fd} is no" in done.output


def test_web_server_listens_on_the_socket_that_is_handed_over() -> None:
    with listening() as handed:
        settings = at_socket(Settings(), handed.fileno())
        assert (settings.host, settings.port) == handed.getsockname()
        command = web_command(settings, handed.fileno())
    assert command[command.index("--bind") + 1].startswith("fd://")


def test_supervisor_child_that_keeps_dying_waits_longer_each_time() -> None:
    dying = Child("dying", [sys.executable, "-c", "raise SystemExit(3)"])
    delays: list[float] = []
    for _ in range(3):
        dying.not_before = 0.0
        keep_alive(dying, os.environ, now=100.0)
        assert dying.process is not None
        dying.process.wait(60)
        keep_alive(dying, os.environ, now=100.0)
        assert dying.process is None
        delays.append(dying.not_before - 100.0)
    assert delays == [0.25, 0.5, 1.0]


def test_supervisor_ends_its_children() -> None:
    sleeping = Child("sleeping", [sys.executable, "-c", "import time; time.sleep(60)"])
    keep_alive(sleeping, os.environ, now=0.0)
    end([sleeping])
    assert sleeping.process is not None
    assert sleeping.process.returncode == -signal.SIGTERM


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.setenv("MODEL_DIR", str(tmp_path))
    for name in ("BASIC_AUTH_USER", "BASIC_AUTH_PASS", "DATABASE_URL"):
        monkeypatch.delenv(name, raising=False)
    store = open_store(Settings.from_env({"MODEL_DIR": str(tmp_path)}))
    yield store
    store.close()


def test_cli_lists_only_commands_that_are_there() -> None:
    done = CliRunner().invoke(main, ["--help"])
    assert done.exit_code == 0
    assert {"serve", "worker", "run", "status", "users", "settings"} <= set(COMMANDS)
    assert CliRunner().invoke(main, ["nonsense"]).exit_code == 2


def test_cli_users_are_added_listed_and_removed(home: Store) -> None:
    added = CliRunner().invoke(main, ["users", "add", "ana", "--password-stdin"], input="a long password\n")
    assert added.exit_code == 0, added.output
    assert CliRunner().invoke(main, ["users", "list"]).output == "ana: reader\n"
    again = ["users", "add", "ana", "--role", "owner", "--password-stdin"]
    assert CliRunner().invoke(main, again, input="a long password\n").exit_code == 0
    assert CliRunner().invoke(main, ["users", "list"]).output == "ana: owner\n"
    account = home.users.get("ana")
    assert account is not None
    assert account.password_hash != "a long password"
    assert CliRunner().invoke(main, ["users", "remove", "ana"]).exit_code == 0
    assert CliRunner().invoke(main, ["users", "remove", "ana"]).exit_code == 1


@pytest.mark.parametrize(("name", "password"), [("ana", "short"), ("a:b", "long enough pw"), (" ", "long enough pw")])
def test_cli_users_with_weak_passwords_or_odd_names_are_refused(home: Store, name: str, password: str) -> None:
    done = CliRunner().invoke(main, ["users", "add", name, "--password-stdin"], input=f"{password}\n")
    assert done.exit_code == 2
    assert home.users.names() == []


def test_cli_status_says_what_to_do_first_and_then_what_is_wrong(home: Store) -> None:
    assert "evenhand connect" in CliRunner().invoke(main, ["status"]).output
    project = home.projects.register("http://ls", ProjectRef(4, 1), title="Pairs")
    home.problems.open(project.id, "token", "the token expired", "make a new one")
    shown = CliRunner().invoke(main, ["status"]).output
    assert "Pairs" in shown
    assert "make a new one" in shown
    assert json.loads(CliRunner().invoke(main, ["status", "--json"]).output)["problems"][0]["code"] == "token"


def test_cli_run_queues_a_run_and_names_the_worker_when_nobody_takes_it(home: Store) -> None:
    project = home.projects.register("http://ls", ProjectRef(4, 1))
    assert "queued" in CliRunner().invoke(main, ["run", str(project.ls_project_id)]).output
    waited = CliRunner().invoke(main, ["run", str(project.ls_project_id), "--wait", "--timeout", "0.3"])
    assert waited.exit_code == 1
    assert "evenhand worker" in waited.output
    assert CliRunner().invoke(main, ["run", "99"]).exit_code == 1
