"""A throw-away PostgreSQL server for tests: own data folder, free port, gone at the end."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

START_SECONDS = 30.0


@dataclass
class PostgresServer:
    """A running server and the databases made on it."""

    port: int
    process: subprocess.Popen[bytes]
    _numbers: Iterator[int] = field(default_factory=count)

    def url(self, database: str) -> str:
        """Return the SQLAlchemy address of one database."""
        return f"postgresql+psycopg://evenhand@127.0.0.1:{self.port}/{database}"

    def new_database(self) -> str:
        """Create an empty database and return its SQLAlchemy address."""
        import psycopg

        name = f"test_{os.getpid()}_{next(self._numbers)}"
        with psycopg.connect(self._admin(), autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}"')
        return self.url(name)

    def _admin(self) -> str:
        return f"host=127.0.0.1 port={self.port} user=evenhand dbname=postgres"


def _unprivileged(command: list[str]) -> list[str]:
    """Run as nobody when root, since PostgreSQL refuses to run as root."""
    return ["runuser", "-u", "nobody", "--", *command] if os.geteuid() == 0 else command


def free_port() -> int:
    """Return a loopback port nobody listens on at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_until_ready(server: PostgresServer, log: Path) -> None:
    import psycopg

    give_up = time.monotonic() + START_SECONDS
    while time.monotonic() < give_up and server.process.poll() is None:
        try:
            psycopg.connect(server._admin()).close()
            return
        except psycopg.OperationalError:
            time.sleep(0.05)
    raise RuntimeError(
        f"PostgreSQL did not accept connections within {START_SECONDS:.0f} s; its log: {log.read_text()}"
    )


@contextmanager
def running_postgres(programs: Path) -> Iterator[PostgresServer]:
    """Start a server from the folder of PostgreSQL's programs; stop it and remove its data afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="evenhand-pg-"))
    data, log = folder / "data", folder / "log"
    if os.geteuid() == 0:
        shutil.chown(folder, user="nobody")
    try:
        initdb = [
            programs / "initdb",
            "-D",
            data,
            "-U",
            "evenhand",
            "-A",
            "trust",
            "-E",
            "UTF8",
            "--locale=C",
            "--no-sync",
        ]
        subprocess.run(_unprivileged([str(part) for part in initdb]), check=True, capture_output=True, cwd=folder)
        port = free_port()
        serve = [str(programs / "postgres"), "-D", str(data), "-p", str(port), "-k", str(folder), "-h", "127.0.0.1"]
        with log.open("wb") as sink:
            process = subprocess.Popen(_unprivileged(serve), stdout=sink, stderr=sink, cwd=folder)
        server = PostgresServer(port, process)
        try:
            _wait_until_ready(server, log)
            yield server
        finally:
            _stop(server, data)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _stop(server: PostgresServer, data: Path) -> None:
    """Ask the server itself to stop: the process started here may be runuser, which does not pass every signal on."""
    pid_file = data / "postmaster.pid"
    if pid_file.exists():
        os.kill(int(pid_file.read_text().split()[0]), 2)
    try:
        server.process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        server.process.kill()
        server.process.wait(timeout=10)
