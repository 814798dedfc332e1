"""A PostgreSQL server of our own: a data folder, a free port; it can be killed and started again on the same data."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from harness.ports import free_port

START_SECONDS = 30.0
STOP_SECONDS = 30.0


class PostgresServer:
    """
    A server on loopback, started by the constructor, and the databases made on it.

    Attributes
    ----------
    folder : where its data, socket and log are; made here, and to be entered by whoever runs the server.
    variables : environment variables of the server besides ours.
    """

    def __init__(self, programs: Path, folder: Path, variables: Mapping[str, str] | None = None) -> None:
        self._programs, self._folder, self._data = programs, folder, folder / "data"
        self._environment = {**os.environ, **(variables or {})}
        self._process: subprocess.Popen[bytes] | None = None
        self._numbers = count()
        self.port = free_port()
        folder.mkdir(parents=True, exist_ok=True)
        if os.geteuid() == 0:
            shutil.chown(folder, user="nobody")
        initdb = [str(programs / "initdb"), "-D", str(self._data), "-U", "evenhand", "-A", "trust", "-E", "UTF8"]
        subprocess.run(_unprivileged([*initdb, "--locale=C", "--no-sync"]), check=True, capture_output=True, cwd=folder)
        self.start()

    def url(self, database: str = "postgres") -> str:
        """Return the SQLAlchemy address of one database."""
        return f"postgresql+psycopg://evenhand@127.0.0.1:{self.port}/{database}"

    def new_database(self) -> str:
        """Create an empty database and return its SQLAlchemy address."""
        import psycopg

        name = f"test_{os.getpid()}_{next(self._numbers)}"
        with psycopg.connect(self._admin(), autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}"')
        return self.url(name)

    def start(self) -> None:
        """Start and wait until it takes connections; after a kill the old one's children may hold it up a little."""
        import psycopg

        give_up = time.monotonic() + START_SECONDS
        while time.monotonic() < give_up:
            if self._process is None or self._process.poll() is not None:
                self._process = self._launched()
            with contextlib.suppress(psycopg.OperationalError):
                psycopg.connect(self._admin()).close()
                return
            time.sleep(0.05)
        log = (self._folder / "log").read_text()[-2000:]
        raise RuntimeError(f"PostgreSQL did not accept connections within {START_SECONDS:.0f} s; its log: {log}")

    def kill(self) -> None:
        """kill -9 of the server's first process."""
        self._signal(signal.SIGKILL)

    def stop(self) -> None:
        """Stop without waiting for its clients (pg_ctl's fast mode)."""
        self._signal(signal.SIGINT)

    def _launched(self) -> subprocess.Popen[bytes]:
        serve = [str(self._programs / "postgres"), "-D", str(self._data), "-p", str(self.port)]
        command = _unprivileged([*serve, "-k", str(self._folder), "-h", "127.0.0.1"])
        with (self._folder / "log").open("ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, cwd=self._folder, env=self._environment)

    def _signal(self, number: int) -> None:
        """Signal the server itself: the process started here may be runuser, which does not pass every signal on."""
        pid_file = self._data / "postmaster.pid"
        if self._process is None or not pid_file.exists():
            return
        pid = int(pid_file.read_text().split()[0])
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:  # a busy disk holds up the last checkpoint, which nobody needs here
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGQUIT)
            self._process.wait(STOP_SECONDS)

    def _admin(self) -> str:
        return f"host=127.0.0.1 port={self.port} user=evenhand dbname=postgres"


def _unprivileged(command: list[str]) -> list[str]:
    """Run as nobody when root, since PostgreSQL refuses to run as root."""
    return ["runuser", "-u", "nobody", "--", *command] if os.geteuid() == 0 else command


@contextmanager
def running_postgres(programs: Path) -> Iterator[PostgresServer]:
    """Start a server from the folder of PostgreSQL's programs; stop it and remove its data afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="evenhand-pg-"))
    try:
        server = PostgresServer(programs, folder)
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
