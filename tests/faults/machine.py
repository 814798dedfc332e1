"""What the service stands on, in a form that can be broken: a database, a small disk, a clock, a wire."""

import contextlib
import os
import shutil
import socket
import struct
import subprocess
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

from harness import components
from harness.ports import free_port
from harness.postgres import PostgresServer


class NotHereError(RuntimeError):
    """This machine lacks what a fault needs."""


def new_postgres(folder: Path, variables: Mapping[str, str] | None = None) -> PostgresServer:
    """A PostgreSQL server that can be killed and started again on the same data."""
    programs = components.postgres()
    if programs is None:
        raise NotHereError("PostgreSQL is not installed")
    return PostgresServer(programs, folder, variables)


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


def remount(folder: Path, mode: str) -> None:
    """Let a small file system only be read ("ro"), or written again ("rw")."""
    subprocess.run(["mount", "-o", f"remount,{mode}", str(folder)], check=True)


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
