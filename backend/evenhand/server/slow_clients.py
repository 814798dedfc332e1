"""Connections on which nobody waits for ever for the bytes of a slow client."""

import errno
import socket
import time
from typing import Any

SILENCE_SECONDS = 10.0  # between two pieces
REQUEST_SECONDS = 60.0  # for one request, headers and body together
ANSWER_SECONDS = 300.0  # a large report may take a while over a thin line


class HurriedSocket(socket.socket):
    """A connection that counts as reset once its client has been silent, or dripping, for too long."""

    deadline = float("inf")
    received = b""

    def begin(self, received: bytes = b"") -> None:
        """Start the clock of one request, of which these bytes have come in."""
        self.received += received
        self.deadline = time.monotonic() + REQUEST_SECONDS

    def setblocking(self, flag: bool, /) -> None:
        """Wait, but not for ever, where a plain socket would wait."""
        self.settimeout(SILENCE_SECONDS if flag else 0.0)

    def recv(self, bufsize: int, flags: int = 0, /) -> bytes:
        """Read what came in already, or the next piece within both limits."""
        if self.received:
            piece, self.received = self.received[:bufsize], self.received[bufsize:]
            return piece
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


def hurried_accept(listener: socket.socket) -> tuple[HurriedSocket, Any]:
    """The next connection that waits, with the limits; raises BlockingIOError if there is none."""
    connection, address = listener.accept()
    family, kind, protocol = connection.family, connection.type, connection.proto
    return HurriedSocket(family, kind, protocol, fileno=connection.detach()), address
