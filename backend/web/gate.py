"""A bound on the events under way: beyond it a web process refuses at once instead of letting everybody wait."""

import json
import logging
import threading
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from backend.errors import StoreError

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

logger = logging.getLogger(__name__)
PATH = "/webhook"
RETRY_AFTER = "1"
REPORT_SECONDS = 1.0
MESSAGE = "too many events are under way; this one was not taken, send it again or let the next pull bring it"
BODY = json.dumps({"ok": False, "error": {"code": "overloaded", "message": MESSAGE}}).encode()
HEADERS = [
    ("Content-Type", "application/json"),
    ("Content-Length", str(len(BODY))),
    ("Retry-After", RETRY_AFTER),
    ("Cache-Control", "no-store"),
    ("X-Content-Type-Options", "nosniff"),
]


class Gate:
    """WSGI middleware before everything else, since refusing has to cost much less than taking.

    An event counts from the moment a thread picks it up until its answer stands. Refusals are counted here and
    reported along with a later event, so that refusing writes nothing.
    """

    def __init__(self, app: "WSGIApplication", limit: int, report: Callable[[int], None]) -> None:
        self._app, self._limit, self._report = app, limit, report
        self._lock = threading.Lock()
        self._under_way = 0
        self._refused = 0
        self._reported_at = float("-inf")

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        """Pass an event on if there is room; everything else passes anyway."""
        if environ.get("PATH_INFO") != PATH:
            return self._app(environ, start_response)
        with self._lock:
            has_room = self._under_way < self._limit
            if has_room:
                self._under_way += 1
            else:
                self._refused += 1
        if not has_room:
            start_response("503 Service Unavailable", HEADERS)
            return [BODY]
        try:
            return self._app(environ, start_response)
        finally:
            with self._lock:
                self._under_way -= 1
            self._tell()

    def _tell(self) -> None:
        """Report refusals, at most once a second; what cannot be stored now is reported later."""
        with self._lock:
            now = time.monotonic()
            if not self._refused or now - self._reported_at < REPORT_SECONDS:
                return
            count, self._refused, self._reported_at = self._refused, 0, now
        logger.warning("%d events were refused: more than %d were under way", count, self._limit)
        try:
            self._report(count)
        except StoreError:
            with self._lock:
                self._refused += count
