"""Passwords, and the key that signs sessions."""

import hashlib
import hmac
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

from werkzeug.security import check_password_hash, generate_password_hash

from evenhand.errors import TooManyAttemptsError
from evenhand.private_files import secret_file
from evenhand.settings import Settings
from evenhand.store import Store

#: Right credentials are remembered for so long: the hash is slow on purpose, Label Studio calls often.
VERIFIED_SECONDS = 600.0
MOST_VERIFIED = 1000
#: Hashes made at once, and callers that wait for their turn; threads beyond these are never held.
HASHES_AT_ONCE = 1
MOST_WAITING = 2
#: Guesses an address has, and how many come back a second.
ADDRESS_GUESSES, ADDRESS_REFILL = 10.0, 0.2
#: Guesses all addresses have together; those without a recent failure have a budget of their own.
ALL_GUESSES, ALL_REFILL = 20.0, 2.0
MOST_ADDRESSES = 10_000

# Of no account; checking against it makes unknown names as slow as known ones.
_DUMMY_HASH = (
    "scrypt:32768:8:1$evenhanddummysalt$"
    "00000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
    "000000000000000000"
)


def hash_password(password: str) -> str:
    """A salted, slow hash for the users table."""
    return generate_password_hash(password, method="scrypt")


def same(left: str, right: str) -> bool:
    """Constant-time equality."""
    return hmac.compare_digest(left.encode("utf-8", "replace"), right.encode("utf-8", "replace"))


class Bucket:
    """Guesses that are used up and come back with time."""

    def __init__(self, most: float, refill: float, clock: Callable[[], float]) -> None:
        self._most, self._refill, self._clock = most, refill, clock
        self._left, self._at = most, clock()

    def take(self) -> float:
        """Use one up; seconds to wait where none is left, else 0."""
        now = self._clock()
        self._left = min(self._most, self._left + (now - self._at) * self._refill)
        self._at = now
        if self._left < 1.0:
            return (1.0 - self._left) / self._refill
        self._left -= 1.0
        return 0.0

    def give_back(self) -> None:
        """Return what a right password had used up."""
        self._left = min(self._most, self._left + 1.0)


class PasswordDesk:
    """Checks passwords within the budgets; keeps nothing but digests and counts, and of both a bounded number."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._addresses: OrderedDict[str, Bucket] = OrderedDict()
        self._suspects = Bucket(ALL_GUESSES, ALL_REFILL, clock)
        self._others = Bucket(ALL_GUESSES, ALL_REFILL, clock)
        self._turn = threading.Semaphore(HASHES_AT_ONCE)
        self._room = threading.Semaphore(HASHES_AT_ONCE + MOST_WAITING)
        self._verified: dict[bytes, float] = {}
        self._key = secrets.token_bytes(32)

    def knows(self, name: str, password: str, stored: str | None) -> bool:
        """Whether exactly these were right a moment ago."""
        return stored is not None and self._verified.get(self._digest(name, password, stored), 0.0) > self._clock()

    def check(self, address: str, name: str, password: str, stored: str | None) -> bool:
        """Whether a password fits its hash; raises TooManyAttemptsError where guesses are used up."""
        self._charge(address)
        if not self._room.acquire(blocking=False):
            raise _too_many(1.0)
        try:
            with self._turn:
                is_right = check_password_hash(_DUMMY_HASH if stored is None else stored, password)
        finally:
            self._room.release()
        if not is_right or stored is None:
            return False
        self._forgive(address)
        self._remember(name, password, stored)
        return True

    def _charge(self, address: str) -> None:
        """Use up one guess of the address and one of all."""
        with self._lock:
            own = self._addresses.pop(address, None)
            everybody = self._others if own is None else self._suspects
            own = own or Bucket(ADDRESS_GUESSES, ADDRESS_REFILL, self._clock)
            self._addresses[address] = own
            while len(self._addresses) > MOST_ADDRESSES:
                self._addresses.popitem(last=False)
            wait = own.take() or everybody.take()
        if wait:
            raise _too_many(wait)

    def _forgive(self, address: str) -> None:
        """A right password costs the address nothing."""
        with self._lock:
            self._addresses.pop(address, None)
            self._others.give_back()

    def _remember(self, name: str, password: str, stored: str) -> None:
        """Keep a digest, never the password."""
        with self._lock:
            if len(self._verified) >= MOST_VERIFIED:
                self._verified.clear()
            self._verified[self._digest(name, password, stored)] = self._clock() + VERIFIED_SECONDS

    def _digest(self, name: str, password: str, stored: str) -> bytes:
        text = "\x00".join((name, password, stored)).encode("utf-8", "replace")
        return hmac.new(self._key, text, hashlib.sha256).digest()


def _too_many(wait: float) -> TooManyAttemptsError:
    return TooManyAttemptsError(f"too many failed attempts; try again in {max(wait, 1.0):.0f} s", max(wait, 1.0))


FILE_NAME = "session.key"
NAME = "session"
TOKEN, TOKEN_FILE = "open token", "open.token"


def session_key(settings: Settings, store: Store) -> str:
    """The key; on SQLite it is kept out of the database, so that a copy or backup of it opens no session."""
    return settings.secret_key or _kept_beside(store, NAME, FILE_NAME)


def open_token(settings: Settings, store: Store) -> str:
    """What lets in whoever started a service without credentials: one for each data folder, the same after a restart.

    A service on loopback can be reached by everybody on the machine, and behind a proxy by everybody; the file can be
    read by its owner alone.
    """
    return _kept_beside(store, TOKEN, TOKEN_FILE)


def open_link(settings: Settings, store: Store) -> str:
    """The address that opens the pages of a service without credentials."""
    base = settings.public_url or f"http://{settings.host}:{settings.port}"
    return f"{base}/ui/?token={open_token(settings, store)}"


def _kept_beside(store: Store, name: str, file_name: str) -> str:
    """A secret in a file beside a SQLite database, and not in it; else in the database, which replicas share."""
    path = store.engine.url.database
    if store.database.on_postgres or not path or path == ":memory:":
        return store.secrets.get(name)
    store.secrets.delete(name)
    return secret_file(Path(path).with_name(file_name), lambda: secrets.token_urlsafe(48))
