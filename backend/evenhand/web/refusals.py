"""Events the web server refused because too many were under way: counted there, stored along with a later event."""

import logging
import threading
import time

from evenhand.errors import StoreError
from evenhand.ingest.events import OTHER
from evenhand.store import Store

logger = logging.getLogger(__name__)
REPORT_SECONDS = 1.0


class Refusals:
    """A count that refusing only adds to, since it has to cost much less than taking an event."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        self._stored_at = float("-inf")

    def add(self) -> None:
        """Count one event that was refused."""
        with self._lock:
            self._count += 1

    def store(self, store: Store) -> None:
        """Write the count down, at most once a second; what cannot be stored now is stored later."""
        with self._lock:
            now = time.monotonic()
            if not self._count or now - self._stored_at < REPORT_SECONDS:
                return
            count, self._count, self._stored_at = self._count, 0, now
        logger.warning("%d events were refused, since too many were under way; the next pull brings them", count)
        try:
            store.events.count(OTHER, "refused", count)
        except StoreError:
            with self._lock:
                self._count += count
