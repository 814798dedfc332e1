"""Whether the database answers: asked seldom, so that strangers cannot keep it busy, and never by two at once."""

import threading
import time

from evenhand.errors import StoreBusyError, StoreError
from evenhand.store import Store

REMEMBERED_SECONDS = 1.0
#: What strangers are told; the log has the rest.
WORDS = {
    "store_busy": "the database is locked; this passes",
    "store_unavailable": "the database cannot answer; the log says why",
}


class Readiness:
    """The last answer of the database, renewed by the first who asks after a second."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._asked_at = float("-inf")
        self._error: tuple[str, str] | None = ("store_unavailable", "the database was not asked yet")

    def error(self) -> tuple[str, str] | None:
        """Code and words of what is wrong; None if the database can be read and written."""
        if time.monotonic() - self._asked_at >= REMEMBERED_SECONDS and self._lock.acquire(blocking=False):
            try:
                self._error = self._ask()
                self._asked_at = time.monotonic()
            finally:
                self._lock.release()
        return self._error

    def _ask(self) -> tuple[str, str] | None:
        try:
            self._store.database.probe()
        except StoreError as error:
            code = StoreBusyError.code if isinstance(error, StoreBusyError) else StoreError.code
            return code, WORDS[code]
        return None
