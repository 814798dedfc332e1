"""What the service stands on, in a form that can be broken: a PostgreSQL, a small disk, a clock, a wire."""

import contextlib
import os
import shutil
import signal
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests import components
from tests.postgres_server import _unprivileged, free_port


class NotHereError(RuntimeError):
    """This machine lacks what a fault needs."""


class Postgres:
    """A PostgreSQL server that can be killed and started again on the same data."""

    def __init__(self, folder: Path, variables: Mapping[str, str] | None = None) -> None:
        programs = components.postgres()
        if programs is None:
            raise NotHereError("PostgreSQL is not installed")
        self._folder, self._data, self._programs = folder, folder / "data", programs
        self._environment = {**os.environ, **(variables or {})}
        self.port = free_port()
        folder.mkdir(parents=True)
        if os.geteuid() == 0:
            shutil.chown(folder, user="nobody")
        initdb = [str(programs / "initdb"), "-D", str(self._data), "-U", "evenhand", "-A", "trust", "-E", "UTF8"]
        subprocess.run(_unprivileged([*initdb, "--locale=C", "--no-sync"]), check=True, capture_output=True, cwd=folder)
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def url(self) -> str:
        """The address for DATABASE_URL."""
        return f"postgresql://evenhand@127.0.0.1:{self.port}/postgres"

    def start(self, limit: float = 30.0) -> None:
        """Start and wait until it takes connections; after a kill the old one's children may hold it up a little."""
        import psycopg

        command = [str(self._programs / "postgres"), "-D", str(self._data), "-p", str(self.port)]
        command = _unprivileged([*command, "-k", str(self._folder), "-h", "127.0.0.1"])
        deadline = time.monotonic() + limit
        while time.monotonic() < deadline:
            if self._process is None or self._process.poll() is not None:
                with (self._folder / "log").open("ab") as log:
                    self._process = subprocess.Popen(
                        command, stdout=log, stderr=log, cwd=self._folder, env=self._environment
                    )
            with contextlib.suppress(psycopg.OperationalError):
                psycopg.connect(f"host=127.0.0.1 port={self.port} user=evenhand dbname=postgres").close()
                return
            time.sleep(0.1)
        raise RuntimeError(f"PostgreSQL did not start: {(self._folder / 'log').read_text()[-2000:]}")

    def kill(self) -> None:
        """kill -9 of the server's first process."""
        self._signal(signal.SIGKILL)

    def stop(self) -> None:
        """Stop without waiting for its clients (pg_ctl's fast mode)."""
        self._signal(signal.SIGINT)

    def _signal(self, number: int) -> None:
        pid_file = self._data / "postmaster.pid"
        if self._process is not None and pid_file.exists():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid_file.read_text().split()[0]), number)
            self._process.wait(30)


class Clock:
    """The wall clock of the processes that are started with `variables`."""

    def __init__(self, folder: Path) -> None:
        compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
        if compiler is None:
            raise NotHereError("moving a clock needs a C compiler (cc)")
        self._file, library = folder / "clock", folder / "clock.so"
        source = Path(__file__).with_name("clock.c")
        subprocess.run([compiler, "-shared", "-fPIC", "-O2", "-o", str(library), str(source)], check=True)
        self.set(0)
        self._file.chmod(0o644)
        self.variables = {"LD_PRELOAD": str(library), "FAULTS_CLOCK": str(self._file)}

    def set(self, seconds: int) -> None:
        """Let the clock differ from the true one by so many seconds, from now on."""
        with self._file.open("r+b" if self._file.exists() else "w+b") as file:
            file.write(struct.pack("q", seconds))


@contextlib.contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[Path]:
    """A file system of a few megabytes, in memory."""
    folder.mkdir(parents=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(folder)]
    if not hasattr(os, "geteuid") or subprocess.run(command, capture_output=True, check=False).returncode != 0:
        raise NotHereError("mounting a small file system needs root on Linux")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """Use up every byte of a file system; remove the file to give them back."""
    path = folder / "filler"
    with path.open("wb", buffering=0) as file:
        for size in (1 << 16, 1 << 12, 1):
            with contextlib.suppress(OSError):
                while True:
                    file.write(b"\0" * size)
    return path


class Wire:
    """A TCP proxy on a loopback port; cut, it refuses and drops connections."""

    def __init__(self, target: int) -> None:
        self._target = target
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._open: set[socket.socket] = set()
        self._listener: socket.socket | None = None
        self.join()

    def join(self) -> None:
        """Carry connections."""
        self._listener = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def cut(self) -> None:
        """Drop everything."""
        if self._listener is not None:
            with contextlib.suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            self._listener = None
        for end in list(self._open):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                near = listener.accept()[0]
                try:
                    far = socket.create_connection(("127.0.0.1", self._target), 5)
                except OSError:
                    near.close()
                    continue
                for source, sink in ((near, far), (far, near)):
                    self._open.add(source)
                    threading.Thread(target=self._carry, args=(source, sink), daemon=True).start()

    def _carry(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)
        self._open.discard(source)
