"""`evenhand serve`: web and worker as child processes, started again when they die, ended together."""

import ctypes
import logging
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from evenhand.errors import SettingsError
from evenhand.settings import Settings, is_loopback
from evenhand.store import Store

logger = logging.getLogger(__name__)
GRACE_SECONDS = 8.0
STEADY_SECONDS = 30.0
LONGEST_DELAY = 10.0
POLL_SECONDS = 0.2


@dataclass
class Child:
    """A process to keep alive."""

    name: str
    command: Sequence[str]
    last_signal: int = signal.SIGKILL
    sockets: Sequence[int] = ()
    process: "subprocess.Popen[bytes] | None" = None
    started: float = 0.0
    failures: int = 0
    not_before: float = field(default=0.0)


def refuse_open_doors(settings: Settings, store: Store) -> None:
    """Stop start-up if strangers could reach a service without credentials."""
    if is_loopback(settings.host) or settings.has_credentials or store.users.exist():
        return
    raise SettingsError(
        f"HOST is {settings.host!r}, which others can reach, and there are no credentials; set BASIC_AUTH_USER and "
        "BASIC_AUTH_PASS (and EVENHAND_WEBHOOK_SECRET), add an account with `evenhand users add`, or use 127.0.0.1"
    )


def refuse_taken_port(settings: Settings) -> None:
    """Stop start-up in one line if somebody else listens where we should."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((settings.host, settings.port))
        except OSError as error:
            raise SettingsError(
                f"{settings.host}:{settings.port} cannot be listened on ({error.strerror}); stop what listens there "
                "or choose another port with --port or PORT (and set EVENHAND_PUBLIC_URL to match)"
            ) from error


def at_socket(settings: Settings, fd: int) -> Settings:
    """The settings with the address that an open socket listens at."""
    try:
        with socket.socket(fileno=os.dup(fd)) as listener:
            is_ready = bool(listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
            address, family = listener.getsockname(), listener.family
    except OSError as error:
        raise SettingsError(f"--fd {fd} is no open socket ({error.strerror}); hand over one that listens") from error
    if family not in (socket.AF_INET, socket.AF_INET6) or not is_ready:
        raise SettingsError(f"--fd {fd} is no TCP socket that listens; bind one, let it listen, and hand it over")
    host, port = address[:2]
    return replace(settings, host=host, port=port)


# gunicorn puts the working folder before all that is installed: a clone or a data folder there called evenhand would be
# taken for the package, if that were not loaded by then. The worker looks into no working folder at all.
GUNICORN = "import evenhand, fdr_core; from gunicorn.app.wsgiapp import run; run(prog='gunicorn')"


def web_command(settings: Settings, fd: int | None = None) -> list[str]:
    """The command line of the web server; `fd` is an open socket to listen on instead of host and port."""
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return [
        *(sys.executable, "-P", "-c", GUNICORN, "evenhand._wsgi:app"),
        *("--config", "python:evenhand.server.gunicorn_settings"),
        *("--bind", f"{host}:{settings.port}" if fd is None else f"fd://{fd}"),
        *("--workers", str(settings.workers), "--threads", str(settings.threads)),
    ]


def worker_command() -> list[str]:
    """The command line of the worker."""
    return [sys.executable, "-P", "-m", "evenhand.cli", "worker"]


def serve(settings: Settings, *, with_worker: bool, stop: threading.Event, fd: int | None = None) -> None:
    """Run until `stop` is set; returns when all children have ended."""
    sockets = () if fd is None else (fd,)
    children = [Child("web", web_command(settings, fd), last_signal=signal.SIGQUIT, sockets=sockets)]
    if with_worker:
        children.append(Child("worker", worker_command()))
    with tempfile.TemporaryDirectory(prefix="evenhand-metrics-") as folder:
        environment = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": folder}
        try:
            while not stop.is_set():
                for child in children:
                    keep_alive(child, environment, time.monotonic())
                stop.wait(POLL_SECONDS)
        finally:
            end(children)


def keep_alive(child: Child, environment: Mapping[str, str], now: float) -> None:
    """Start a child that is not running; one that keeps dying waits a little longer each time."""
    if child.process is not None and child.process.poll() is not None:
        is_steady = now - child.started > STEADY_SECONDS
        child.failures = 1 if is_steady else child.failures + 1
        child.not_before = now + min(LONGEST_DELAY, 0.25 * 2.0 ** (child.failures - 1))
        logger.error("%s ended with code %s and is started again", child.name, child.process.returncode)
        child.process = None
    if child.process is None and now >= child.not_before:
        child.started = now
        child.process = subprocess.Popen(  # noqa: S603 - our own command line
            list(child.command),
            env=dict(environment),
            start_new_session=True,
            pass_fds=child.sockets,
            preexec_fn=partial(_die_with_parent, child.last_signal),
        )


def end(children: Sequence[Child]) -> None:
    """Ask all children to end, wait, and end those that do not."""
    running = [child.process for child in children if child.process is not None and child.process.poll() is None]
    for process in running:
        process.terminate()
    deadline = time.monotonic() + GRACE_SECONDS
    for process in running:
        try:
            process.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            logger.error("process %s did not end within %.0f s and is killed", process.pid, GRACE_SECONDS)
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def stop_on_signals() -> threading.Event:
    """An event that SIGTERM and Ctrl-C set."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    return stop


def _die_with_parent(last_signal: int) -> None:
    """On Linux, end a child at once whose supervisor was killed, so that the next one finds the port free.

    gunicorn needs a signal it can hand on to its processes; a worker may be killed at any time.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, last_signal)
