"""A gunicorn worker whose threads do not wait for ever for the bytes of a slow client."""

import errno
import socket
import time
from typing import Any

from gunicorn.workers.gthread import ThreadWorker

SILENCE_SECONDS = 10.0  # between two pieces
REQUEST_SECONDS = 60.0  # for one request, headers and body together
ANSWER_SECONDS = 300.0  # a large report may take a while over a thin line


class HurriedSocket(socket.socket):
    """A connection that counts as reset once its client has been silent, or dripping, for too long."""

    deadline = float("inf")

    def begin(self) -> None:
        """Start the clock of one request."""
        self.deadline = time.monotonic() + REQUEST_SECONDS

    def setblocking(self, flag: bool, /) -> None:
        """Wait, but not for ever, where a plain socket would wait."""
        self.settimeout(SILENCE_SECONDS if flag else 0.0)

    def recv(self, bufsize: int, flags: int = 0, /) -> bytes:
        """Read the next piece within both limits."""
        if self.gettimeout():
            left = self.deadline - time.monotonic()
            if left <= 0:
                raise ConnectionResetError(errno.ECONNRESET, "the request took too long to arrive")
            self.settimeout(min(SILENCE_SECONDS, left))
        try:
            return super().recv(bufsize, flags)
        except TimeoutError as error:
            raise ConnectionResetError(errno.ECONNRESET, "the client fell silent") from error

    def sendall(self, data: Any, flags: int = 0, /) -> None:
        """Send an answer within a limit of its own: Python counts the whole of it, not the pause between pieces."""
        former = self.gettimeout()
        self.settimeout(ANSWER_SECONDS if former else former)
        try:
            super().sendall(data, flags)
        finally:
            self.settimeout(former)


class Worker(ThreadWorker):  # type: ignore[misc]
    """gunicorn's thread worker on hurried connections."""

    def handle(self, conn: Any) -> Any:
        """Handle a request within the limits."""
        if not isinstance(conn.sock, HurriedSocket):
            timeout = conn.sock.gettimeout()
            conn.sock = HurriedSocket(fileno=conn.sock.detach())
            conn.sock.settimeout(timeout)
        conn.sock.begin()
        return super().handle(conn)
