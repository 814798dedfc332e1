"""A PostgreSQL server of our own: a data folder and a socket in it; it can be killed and started again on its data."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path

START_SECONDS = 60.0
STOP_SECONDS = 60.0
#: For data that end with the tests: nothing waits for the disk.
HURRIED = ("-F", "-c", "synchronous_commit=off", "-c", "full_page_writes=off")
MEMORY, ROOM = Path("/dev/shm"), 4_000_000_000


class PostgresServer:
    """
    A server on a Unix socket, which nobody else can take as they could a port, and the databases made on it.

    Attributes
    ----------
    folder : where its data, socket and log are; made here, and to be entered by whoever runs the server.
    variables : environment variables of the server besides ours.
    options : of the server's command line.
    """

    def __init__(
        self, programs: Path, folder: Path, variables: Mapping[str, str] | None = None, *, options: Sequence[str] = ()
    ) -> None:
        self._programs, self.folder, self._data, self._options = programs, folder, folder / "data", options
        self._environment = {**os.environ, **(variables or {})}
        self._process: subprocess.Popen[bytes] | None = None
        self._numbers = count()
        folder.mkdir(parents=True, exist_ok=True)
        if os.geteuid() == 0:
            shutil.chown(folder, user="nobody")
        initdb = [str(programs / "initdb"), "-D", str(self._data), "-U", "evenhand", "-A", "trust", "-E", "UTF8"]
        subprocess.run(_unprivileged([*initdb, "--locale=C", "--no-sync"]), check=True, capture_output=True, cwd=folder)
        self.start()

    def url(self, database: str = "postgres") -> str:
        """Return the SQLAlchemy address of one database."""
        return f"postgresql+psycopg://evenhand@/{database}?host={self.folder}"

    def new_database(self, template: str = "template1") -> str:
        """Create a database, empty without a template, and return its SQLAlchemy address."""
        import psycopg

        name = f"test_{os.getpid()}_{next(self._numbers)}"
        with psycopg.connect(self._admin(), autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
        return self.url(name)

    def migrated_database(self) -> str:
        """Create a database at the newest schema and return its SQLAlchemy address."""
        return self.new_database(self._migrated)

    @functools.cached_property
    def _migrated(self) -> str:
        """The name of a database that the migrations were run on, once for all copies of it."""
        from evenhand.store.engine import migrate, open_engine

        url = self.new_database()
        engine = open_engine(url)
        migrate(engine)
        name = str(engine.url.database)
        engine.dispose()
        return name

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
        log = (self.folder / "log").read_text()[-2000:]
        raise RuntimeError(f"PostgreSQL did not accept connections within {START_SECONDS:.0f} s; its log: {log}")

    def kill(self) -> None:
        """kill -9 of the server's first process."""
        self._signal(signal.SIGKILL)

    def stop(self) -> None:
        """Stop without waiting for its clients (pg_ctl's fast mode)."""
        self._signal(signal.SIGINT)

    def drop(self) -> None:
        """Stop at once and for good (pg_ctl's immediate mode): no last checkpoint of data that nobody needs."""
        self._signal(signal.SIGQUIT)

    def _launched(self) -> subprocess.Popen[bytes]:
        serve = [str(self._programs / "postgres"), "-D", str(self._data), *self._options]
        command = _unprivileged([*serve, "-k", str(self.folder), "-h", ""])
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder, env=self._environment)

    def _signal(self, number: int) -> None:
        """Signal the server itself: the process started here may be runuser, which does not pass every signal on."""
        pid_file = self._data / "postmaster.pid"
        if self._process is None or not pid_file.exists():
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid_file.read_text().split()[0]), number)
        self._process.wait(STOP_SECONDS)

    def _admin(self) -> str:
        return f"host={self.folder} user=evenhand dbname=postgres"


def _unprivileged(command: list[str]) -> list[str]:
    """Run as nobody when root, since PostgreSQL refuses to run as root."""
    return ["runuser", "-u", "nobody", "--", *command] if os.geteuid() == 0 else command


def _roomy_memory() -> str | None:
    """A file system in memory with room for the databases of a run of the tests, where there is one."""
    return str(MEMORY) if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > ROOM else None


@contextmanager
def running_postgres(programs: Path, *, hurried: bool = True) -> Iterator[PostgresServer]:
    """Start a server from the folder of PostgreSQL's programs; stop it and remove its data afterwards.

    A hurried one keeps its data in memory if it can, and never waits for the disk.
    """
    folder = Path(tempfile.mkdtemp(prefix="evenhand-pg-", dir=_roomy_memory() if hurried else None))
    try:
        server = PostgresServer(programs, folder, options=HURRIED if hurried else ())
        try:
            yield server
        finally:
            server.drop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
