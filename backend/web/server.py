"""The web server's worker with a bound on what waits: beyond it events are refused at once instead of queueing up.

The bound stands in front of the thread pool, because there the queue grows. Only events are refused: people and
health checks wait their turn. Label Studio gives up on an event after a second, so an answer that comes later is
worth no more than a refusal; the pull brings what was refused.
"""

import contextlib
import json
import socket
import sys
import threading
from typing import Any

from backend.web.context import KEY
from backend.web.refusals import Refusals
from backend.web.slow_clients import Worker

EVENT = b"POST /webhook"
RETRY_AFTER_SECONDS = 1
MESSAGE = "too many events are under way; this one was not taken: send it again, or let the next pull bring it"
BODY = json.dumps({"ok": False, "error": {"code": "overloaded", "message": MESSAGE}}).encode()
REFUSAL = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nConnection: close\r\n"
    + f"Retry-After: {RETRY_AFTER_SECONDS}\r\nContent-Length: {len(BODY)}\r\n\r\n".encode()
    + BODY
)
READS = 8
MOST_AT_ONCE = 100
#: The thread that accepts and refuses must not wait five milliseconds for each of its turns.
SWITCH_SECONDS = 0.0005


class BoundedWorker(Worker):
    """Counts the requests between accept and answer; an event beyond the bound is answered 503 by the main thread."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._lock = threading.Lock()
        self._under_way = 0
        self._arrivals = 0
        self._limit = 0
        self._refusals = Refusals()

    def load_wsgi(self) -> None:
        """Load the app, which knows the bound and stores the count of refusals."""
        super().load_wsgi()
        services = self.wsgi.extensions[KEY]
        self._limit, self._refusals = services.settings.max_waiting, services.refusals
        sys.setswitchinterval(SWITCH_SECONDS)

    def accept(self, listener: Any) -> None:
        """Take all connections that wait, not one a round: under load they would wait in front of the bound."""
        for _ in range(MOST_AT_ONCE):
            before = self._arrivals
            super().accept(listener)
            if self._arrivals == before:
                return

    def enqueue_req(self, conn: Any) -> None:
        """Hand a connection to the thread pool, or refuse it."""
        self._arrivals += 1
        if self._under_way >= self._limit and is_event(conn.sock):
            self._refusals.add()
            self.nr_conns -= 1
            refuse(conn.sock)
            conn.close()
            return
        with self._lock:
            self._under_way += 1
        super().enqueue_req(conn)

    def handle(self, conn: Any) -> Any:
        """Serve a connection in a thread."""
        try:
            return super().handle(conn)
        finally:
            with self._lock:
                self._under_way -= 1


def is_event(connection: socket.socket) -> bool:
    """Whether the request that waits on a connection is an event; one that has not arrived yet is not refused."""
    try:
        return connection.recv(len(EVENT), socket.MSG_PEEK) == EVENT
    except OSError:
        return False


def refuse(connection: socket.socket) -> None:
    """Answer without waiting; what was sent is read first: closing over unread data would take the answer back."""
    with contextlib.suppress(OSError):
        for _ in range(READS):
            if not connection.recv(65536, socket.MSG_DONTWAIT):
                break
    with contextlib.suppress(OSError):
        connection.send(REFUSAL, socket.MSG_DONTWAIT)
        connection.shutdown(socket.SHUT_WR)


def wait_for_requests(server: Any) -> None:
    """Let Linux hand over a connection when its request is there, so that it can be told what it is."""
    if hasattr(socket, "TCP_DEFER_ACCEPT"):
        for listener in server.LISTENERS:
            listener.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT, 1)
