"""Requests arrive whole before a thread touches them: clients that drip wait in a list, not in threads."""

import contextlib
import re
import socket
import time
from enum import Enum

HEADERS_END = b"\r\n\r\n"
#: Longer beginnings are handed on as they are; the parser refuses them.
LONGEST_BEGINNING = 65_536
PIECE = 65_536
LAST_CHUNK = b"0\r\n\r\n"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length[ \t]*:[ \t]*(\d{1,15})[ \t]*\r\n", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding[ \t]*:", re.IGNORECASE)
_EXPECTS = re.compile(rb"\r\nexpect[ \t]*:[ \t]*100-continue", re.IGNORECASE)


class State(Enum):
    """How far a request is."""

    WHOLE = "whole"
    ARRIVING = "arriving"
    GONE = "gone"


class Arrival:
    """The bytes of one request that have come in so far; it `is_cut` where more will come than anybody reads."""

    def __init__(self, longest_body: int) -> None:
        self.received = bytearray()
        self.begun_at = self.heard_at = time.monotonic()
        self._longest_body = longest_body
        self.is_cut = False
        self._needed: int | None = None
        self._is_chunked = False

    def read(self, connection: socket.socket) -> State:
        """Take what is there without waiting."""
        while True:
            try:
                piece = connection.recv(PIECE, socket.MSG_DONTWAIT)
            except (BlockingIOError, InterruptedError):
                return State.ARRIVING
            except OSError:
                return State.GONE
            if not piece:
                return State.GONE
            self.received += piece
            if self._is_whole(connection):
                return State.WHOLE

    def _is_whole(self, connection: socket.socket) -> bool:
        """Whether headers and body are there, or nothing is gained by waiting for them."""
        if self._needed is None and not self._is_chunked:
            self._read_headers(connection)
        if self._is_chunked:
            self.is_cut = len(self.received) > self._longest_body
            return self.is_cut or self.received.endswith(LAST_CHUNK)
        if self._needed is None:
            self.is_cut = len(self.received) > LONGEST_BEGINNING
            return self.is_cut
        return len(self.received) >= self._needed

    def _read_headers(self, connection: socket.socket) -> None:
        """Learn from complete headers how much is to come; a body beyond the limit is refused without it."""
        end = self.received.find(HEADERS_END)
        if end < 0:
            return
        headers = bytes(self.received[: end + 2])
        length = _LENGTH.search(headers)
        body = int(length.group(1)) if length else 0
        self._is_chunked = bool(_CHUNKED.search(headers))
        self.is_cut = body > self._longest_body
        self._needed = end + len(HEADERS_END) + (0 if self.is_cut else body)
        if (body or self._is_chunked) and _EXPECTS.search(headers):
            with contextlib.suppress(OSError):
                connection.send(CONTINUE, socket.MSG_DONTWAIT)
