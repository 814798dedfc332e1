"""The web server's worker: requests arrive whole, some threads are kept for what is urgent, and what waits is bounded.

Three things stand in front of the thread pools. A request is received by the main thread and handed on when it is
whole, so that slow clients hold no thread. Events and health checks have threads of their own, so that slow pages and
password hashes do not hold them up. Beyond a bound events are refused at once instead of queueing up: Label Studio
gives up on an event after a second, so an answer that comes later is worth no more than a refusal; the pull brings
what was refused.
"""

import contextlib
import errno
import json
import re
import selectors
import socket
import sys
import threading
import time
from collections import OrderedDict
from concurrent.futures import Future, ThreadPoolExecutor
from enum import Enum
from functools import partial
from typing import Any

from gunicorn.workers.gthread import TConn, ThreadWorker

from evenhand.web.context import KEY
from evenhand.web.errors import Refusals

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


EVENT = b"POST /webhook"
PROBES = (b"GET /health ",)
#: Threads kept for events, beside one for health checks and THREADS for everything else. They wait for a common write
#: most of the time, so their number is how many events share one; more of them would keep health checks waiting.
EVENT_THREADS = 16
RETRY_AFTER_SECONDS = 1
MESSAGE = "too many events are under way; this one was not taken: send it again, or let the next pull bring it"
BODY = json.dumps({"ok": False, "error": {"code": "overloaded", "message": MESSAGE}}).encode()
REFUSAL = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nConnection: close\r\n"
    + f"Retry-After: {RETRY_AFTER_SECONDS}\r\nContent-Length: {len(BODY)}\r\n\r\n".encode()
    + BODY
)
MOST_AT_ONCE = 100
#: Requests that may be arriving, and their bytes; beyond either the one that began first is dropped.
MOST_ARRIVING = 800
MOST_BYTES = 64_000_000
#: Connections kept for a next request; beyond that the one that has waited longest is closed.
MOST_IDLE = 400
#: Connections that end while their client still sends what nobody reads, and the seconds they have.
MOST_ENDING = 100
ENDING_SECONDS = 2.0
#: The thread that accepts and refuses must not wait five milliseconds for each of its turns.
SWITCH_SECONDS = 0.0002


class BoundedWorker(ThreadWorker):  # type: ignore[misc]  # gunicorn has no types
    """gunicorn's thread worker with whole requests, urgent threads and a bound on events."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._lock = threading.Lock()
        self._under_way = 0
        self._limit = 0
        self._longest_body = 0
        self._refusals = Refusals()
        self._arriving: OrderedDict[Any, Arrival] = OrderedDict()
        self._ending: OrderedDict[Any, float] = OrderedDict()
        self._events = ThreadPoolExecutor(EVENT_THREADS, thread_name_prefix="events")
        self._probes = ThreadPoolExecutor(1, thread_name_prefix="probes")

    def load_wsgi(self) -> None:
        """Load the app, which knows the bounds and stores the count of refusals."""
        super().load_wsgi()
        services = self.wsgi.extensions[KEY]
        self._limit, self._refusals = services.settings.max_waiting, services.refusals
        self._longest_body = int(services.settings.max_body_mb * 1_000_000)
        sys.setswitchinterval(SWITCH_SECONDS)

    def accept(self, listener: Any) -> None:
        """Take all connections that wait, not one a round: under load they would wait in front of the bound.

        Nothing here is asked of the system that is known already: every call lets all other threads go first.
        """
        ours = listener.getsockname()
        for _ in range(MOST_AT_ONCE):
            try:
                connection, address = hurried_accept(listener)
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            self.nr_conns += 1
            self.enqueue_req(TConn(self.cfg, connection, address, ours))

    def enqueue_req(self, conn: Any) -> None:
        """Begin to receive a request; what an earlier one of the connection read ahead is handed on at once."""
        if conn.parser is not None and conn.parser.unreader.buf.getvalue():
            self._hand_on(conn, b"")
            return
        self._receive(conn, Arrival(self._longest_body))

    def _receive(self, conn: Any, arrival: Arrival) -> None:
        """Read what is there; a whole request is handed on, the rest waits for the poller."""
        state = arrival.read(conn.sock)
        if state is State.WHOLE:
            self._take(conn, arrival)
        elif state is State.GONE:
            self._drop(conn)
        else:
            conn.sock.setblocking(False)
            self._arriving[conn] = arrival
            self.poller.register(conn.sock, selectors.EVENT_READ, partial(self._on_more, conn))
            self._drop_oldest()

    def _on_more(self, conn: Any, _connection: Any) -> None:
        """Go on with a request of which another piece is there."""
        arrival = self._arriving[conn]
        state = arrival.read(conn.sock)
        if state is State.ARRIVING:
            arrival.heard_at = time.monotonic()
            return
        self.poller.unregister(conn.sock)
        del self._arriving[conn]
        if state is State.WHOLE:
            self._take(conn, arrival)
        else:
            self._drop(conn)

    def _take(self, conn: Any, arrival: Arrival) -> None:
        """Hand a request on, and remember if its client goes on sending."""
        conn.is_cut = arrival.is_cut
        self._hand_on(conn, bytes(arrival.received))

    def _hand_on(self, conn: Any, received: bytes) -> None:
        """Give a whole request to a thread, or refuse it."""
        is_event = received.startswith(EVENT)
        if is_event and self._under_way >= self._limit:
            self._refusals.add()
            refuse(conn.sock)
            self._end(conn)
            return
        with self._lock:
            self._under_way += is_event
        conn.data_ready = True
        conn.sock.begin(received)
        done = self._pool_for(received).submit(self._serve, conn, is_event)
        done.add_done_callback(partial(self._on_done, conn))

    def _pool_for(self, received: bytes) -> ThreadPoolExecutor:
        """The threads that answer this kind of request."""
        if received.startswith(EVENT):
            return self._events
        pool: ThreadPoolExecutor = self._probes if received.startswith(PROBES) else self.tpool
        return pool

    def _on_done(self, conn: Any, done: "Future[Any]") -> None:
        """Let the main thread go on with a connection."""
        self.method_queue.defer(self.finish_request, conn, done)

    def finish_request(self, conn: Any, fs: "Future[Any]") -> None:
        """Keep a connection for its next request, or end it; gunicorn would wait for the client to close it."""
        if fs.cancelled() or fs.exception() is not None or (fs.result() and self.alive):
            super().finish_request(conn, fs)
            self._close_idle()
        else:
            self._end(conn)

    def _close_idle(self) -> None:
        """Keep connections that wait for nothing within a bound, or strangers could take all there are."""
        while len(self.keepalived_conns) > MOST_IDLE:
            conn = self.keepalived_conns.popleft()
            with contextlib.suppress(OSError, KeyError, ValueError):
                self.poller.unregister(conn.sock)
            self._drop(conn)

    def _end(self, conn: Any) -> None:
        """Close after the answer; where the client still sends, read on for a moment, or it would lose the answer."""
        with contextlib.suppress(OSError):
            conn.sock.shutdown(socket.SHUT_WR)
        if not getattr(conn, "is_cut", False):
            self._drop(conn)
            return
        conn.sock.setblocking(False)
        self._ending[conn] = time.monotonic() + ENDING_SECONDS
        self.poller.register(conn.sock, selectors.EVENT_READ, partial(self._on_rest, conn))
        while len(self._ending) > MOST_ENDING:
            self._let_go(next(iter(self._ending)))

    def _on_rest(self, conn: Any, _connection: Any) -> None:
        """Throw away what still comes in; the end of it, or an error, ends the connection."""
        with contextlib.suppress(BlockingIOError, InterruptedError):
            try:
                if conn.sock.recv(PIECE, socket.MSG_DONTWAIT):
                    return
            except ConnectionError:
                pass
            self._let_go(conn)

    def _let_go(self, conn: Any) -> None:
        """Close a connection that had its time to end."""
        del self._ending[conn]
        with contextlib.suppress(OSError, KeyError, ValueError):
            self.poller.unregister(conn.sock)
        self._drop(conn)

    def _serve(self, conn: Any, is_event: bool) -> Any:
        """Answer in a thread."""
        try:
            return self.handle(conn)
        finally:
            with self._lock:
                self._under_way -= is_event

    def murder_pending(self) -> None:
        """Close connections that fell silent, or drip for too long."""
        super().murder_pending()
        now = time.monotonic()
        for conn, arrival in list(self._arriving.items()):
            if now - arrival.heard_at > SILENCE_SECONDS or now - arrival.begun_at > REQUEST_SECONDS or not self.alive:
                self._forget(conn)
        for conn, until in list(self._ending.items()):
            if now > until or not self.alive:
                self._let_go(conn)

    def _drop_oldest(self) -> None:
        """Keep the number and the bytes of what arrives within bounds."""
        while len(self._arriving) > MOST_ARRIVING or self._bytes_arriving() > MOST_BYTES:
            self._forget(next(iter(self._arriving)))

    def _bytes_arriving(self) -> int:
        return sum(len(arrival.received) for arrival in self._arriving.values())

    def _forget(self, conn: Any) -> None:
        """Close a connection whose request never became whole."""
        del self._arriving[conn]
        with contextlib.suppress(OSError, KeyError, ValueError):
            self.poller.unregister(conn.sock)
        self._drop(conn)

    def _drop(self, conn: Any) -> None:
        self.nr_conns -= 1
        conn.close()


def refuse(connection: socket.socket) -> None:
    """Answer without waiting."""
    with contextlib.suppress(OSError):
        connection.send(REFUSAL, socket.MSG_DONTWAIT)


def wait_for_requests(server: Any) -> None:
    """Let Linux hand over a connection when its request is there, so that one look suffices for most."""
    if hasattr(socket, "TCP_DEFER_ACCEPT"):
        for listener in server.LISTENERS:
            listener.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT, 1)
