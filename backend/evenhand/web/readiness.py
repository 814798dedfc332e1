"""Whether the service can take events and act on them; asked seldom, so that strangers cannot keep it busy."""

import secrets
import threading
import time
from dataclasses import dataclass, field

from evenhand.errors import StoreBusyError, StoreDamagedError, StoreError
from evenhand.store import Store
from evenhand.store.database import LITTLE_SPACE_BYTES, NO_SPACE_BYTES
from evenhand.store.runs import INTEGRITY, WHOLE, SilentRuns, moves

REMEMBERED_SECONDS = 1.0
#: A worker looks through the whole database every hour.
CHECKED_SECONDS = 7_500.0
#: What strangers are told; the log has the rest.
WORDS = {
    "store_busy": "the database is locked; this passes",
    "store_unavailable": "the database cannot answer; the log says why",
    "store_damaged": "the database is damaged; `evenhand doctor` says where",
    "no_space": "the disk is full",
}


@dataclass(frozen=True)
class State:
    """READY; DEGRADED where events are taken and something else stands still; else NOT READY, with the code."""

    status: str
    code: str | None = None
    checks: dict[str, str] = field(default_factory=dict)


class Readiness:
    """The last answer, renewed by the first who asks after a second; never by two at once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._asked_at = float("-inf")
        self._state = State("NOT READY", "store_unavailable")
        self._silent = SilentRuns(store.database)

    def state(self) -> State:
        """How the service is: it writes a row and reads it back, at most once a second."""
        if time.monotonic() - self._asked_at >= REMEMBERED_SECONDS and self._lock.acquire(blocking=False):
            try:
                self._state = self._ask()
                self._asked_at = time.monotonic()
            finally:
                self._lock.release()
        return self._state

    def _ask(self) -> State:
        try:
            free = self._store.database.free_bytes()
            if free is not None and free < NO_SPACE_BYTES:
                return State("NOT READY", "no_space")
            self._store.leases.sign("ready", secrets.token_hex(8))
            signs = self._store.leases.signs()
            self._silent.end()
        except StoreBusyError:
            return State("NOT READY", StoreBusyError.code)
        except StoreDamagedError:
            return State("NOT READY", "store_damaged")
        except (StoreError, OSError):
            return State("NOT READY", StoreError.code)
        found, age = signs.get(INTEGRITY, ("", 0.0))
        if found and found != WHOLE:
            return State("NOT READY", "store_damaged")
        checks = {
            "database": "written and read back",
            "space": "not known" if free is None else "little" if free < LITTLE_SPACE_BYTES else "enough",
            "integrity": "whole" if found and age <= CHECKED_SECONDS else "not checked lately",
            "worker": "moves" if moves(signs) else "stands still",
        }
        is_well = checks["worker"] == "moves" and checks["space"] != "little"
        return State("READY" if is_well else "DEGRADED", None, checks)
