"""Who may do what: default-deny on every route, named people, Label Studio by Basic or secret, CSRF.

A view says who may call it with `@access("public" | "protocol" | "webhook" | "people")`; without it the route is
for people only. For views: `current_user()`, `csrf_token()`, `log_in(name, password)`, `log_out()`.
"""

import hashlib
import hmac
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar
from urllib.parse import urlsplit

from flask import Flask, current_app, g, redirect, request, session, url_for
from werkzeug.security import check_password_hash, generate_password_hash
from werkzeug.wrappers import Response as WerkzeugResponse

from backend.errors import ForbiddenError, TooManyAttemptsError, UnauthorizedError
from backend.settings import is_loopback
from backend.web.context import get_settings, get_store, wants_html

Level = Literal["public", "protocol", "webhook", "people"]
View = TypeVar("View", bound=Callable[..., Any])
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
SECRET_HEADER = "X-Evenhand-Secret"  # noqa: S105 - a header's name
CSRF_FIELD = "csrf_token"
CSRF_HEADER = "X-CSRF-Token"
VERIFIED_SECONDS = 60.0
NO_USERS_SECONDS = 1.0
LOGIN_ENDPOINT = "dashboard.login"
LOCAL_USER = "local"


@dataclass(frozen=True)
class User:
    """Somebody we let in, and how."""

    name: str
    via: Literal["session", "basic", "secret", "open"]


def access(level: Level) -> Callable[[View], View]:
    """Mark who may call a view."""

    def mark(view: View) -> View:
        view.evenhand_access = level  # type: ignore[attr-defined]
        return view

    return mark


def access_level(app: Flask, endpoint: str | None) -> Level:
    """The level of an endpoint; the dashboard's static files are public, all else unmarked is for people."""
    if endpoint == "dashboard.static":
        return "public"
    level: Level = getattr(app.view_functions.get(endpoint or ""), "evenhand_access", "people")
    return level


def init_app(app: Flask) -> None:
    """Guard every request of the app."""
    app.extensions["evenhand_verified"] = _Verified()
    app.extensions["evenhand_refused"] = _Refused()
    app.extensions["evenhand_no_users"] = {}
    app.before_request(_guard)


def current_user() -> User | None:
    """Who makes this request; None on public pages seen by strangers."""
    user: User | None = g.get("evenhand_user")
    return user


def is_open() -> bool:
    """Whether the service runs without any credentials, for this machine only; every page says so."""
    return not get_settings().has_credentials and not _has_users()


def _has_users() -> bool:
    """Whether accounts exist; 'none' is remembered for a moment, since every request asks."""
    remembered: dict[str, float] = current_app.extensions["evenhand_no_users"]
    if remembered.get("until", 0.0) > time.monotonic():
        return False
    found = get_store().has_users()
    remembered["until"] = 0.0 if found else time.monotonic() + NO_USERS_SECONDS
    return found


def csrf_token() -> str:
    """The session's token, to be sent back as form field csrf_token or header X-CSRF-Token."""
    if CSRF_FIELD not in session:
        session[CSRF_FIELD] = secrets.token_urlsafe(32)
    return str(session[CSRF_FIELD])


def log_in(name: str, password: str) -> User:
    """Start a session; raises UnauthorizedError or TooManyAttemptsError."""
    _check_password(name, password)
    session.clear()
    session.permanent = True
    session["user"] = name
    session["fingerprint"] = _fingerprint(name)
    csrf_token()
    g.evenhand_user = User(name, "session")
    return User(name, "session")


def log_out() -> None:
    """End the session."""
    session.clear()
    g.pop("evenhand_user", None)


def hash_password(password: str) -> str:
    """A salted, slow hash for the users table."""
    return generate_password_hash(password, method="scrypt")


def _guard() -> WerkzeugResponse | None:
    """Let a request through, send people to the login page, or refuse."""
    level = access_level(current_app, request.endpoint)
    _refuse_other_sites()
    try:
        user = _identify(level)
    except UnauthorizedError:
        if level == "webhook":
            _count_refused()
        raise
    g.evenhand_user = user
    if level == "public":
        if user is not None:
            _require_csrf(user, level)
        return None
    if user is None:
        if wants_html() and request.method in SAFE_METHODS and LOGIN_ENDPOINT in current_app.view_functions:
            return redirect(url_for(LOGIN_ENDPOINT, next=request.full_path.rstrip("?")))
        if level == "webhook":
            _count_refused()
        raise UnauthorizedError(_refusal(level))
    _require_csrf(user, level)
    return None


def _identify(level: Level) -> User | None:
    """Who calls; wrong credentials raise, missing ones give None. Public pages look at the session only."""
    if level == "public":
        return _session_user()
    settings = get_settings()
    sent = request.headers.get(SECRET_HEADER)
    if level == "webhook" and sent is not None and settings.webhook_secret:
        if _same(sent, settings.webhook_secret):
            return User("Label Studio", "secret")
        raise UnauthorizedError(f"{SECRET_HEADER} is wrong; run `evenhand connect` to install the right one")
    basic = request.authorization
    if basic is not None and basic.type == "basic":
        name, password = basic.username or "", basic.password or ""
        if settings.has_credentials or _has_users():
            _check_password(name, password)
            return User(name, "basic")
    user = _session_user()
    if user is not None:
        return user
    needs_secret = level == "webhook" and bool(settings.webhook_secret)
    if not needs_secret and _is_local_request() and is_open():
        return User(LOCAL_USER, "open")
    return None


def _session_user() -> User | None:
    """The person of a valid session; changed passwords and removed accounts end it."""
    name = session.get("user")
    if not isinstance(name, str):
        return None
    expected = _fingerprint(name)
    if expected is None or not _same(str(session.get("fingerprint", "")), expected):
        session.clear()
        return None
    return User(name, "session")


def _is_local_request() -> bool:
    """Whether the request comes from this machine, under a local name (a foreign name would be DNS rebinding)."""
    return is_loopback(request.remote_addr or "") and is_loopback(_host_of(f"//{request.host}")[1])


def _refuse_other_sites() -> None:
    """Browsers tell where a request comes from; changes from other sites are refused."""
    if request.method in SAFE_METHODS:
        return
    origin = request.headers.get("Origin")
    allowed = {request.host, urlsplit(get_settings().public_url).netloc}
    is_foreign = origin is not None and _host_of(origin)[0] not in allowed
    if is_foreign or request.headers.get("Sec-Fetch-Site") == "cross-site":
        raise ForbiddenError("this change was asked for by a page of another site; use the dashboard itself")


def _host_of(address: str) -> tuple[str, str]:
    """Host with port, and host alone, of what a header says; a name nobody has where it is no address."""
    try:
        parts = urlsplit(address)
        return parts.netloc, parts.hostname or ""
    except ValueError:
        return "invalid", "invalid"


def _require_csrf(user: User, level: Level) -> None:
    """Cookies travel by themselves, so a change made with one must carry the session's token."""
    if request.method in SAFE_METHODS or user.via in ("basic", "secret"):
        return
    if user.via == "open" and (level != "people" or request.is_json):
        return
    sent = request.headers.get(CSRF_HEADER) or request.form.get(CSRF_FIELD, "")
    expected = session.get(CSRF_FIELD)
    if not expected or not _same(sent, str(expected)):
        raise ForbiddenError(
            "the form's security token is missing or out of date; reload the page and try again "
            "(programs send Basic credentials, or Content-Type: application/json where none are needed)"
        )


def _check_password(name: str, password: str) -> None:
    """Check a name and password with growing delays; raises UnauthorizedError or TooManyAttemptsError."""
    store = get_store()
    verified: _Verified = current_app.extensions["evenhand_verified"]
    stored = _stored_secret(name)
    if verified.knows(name, password, stored):
        return
    key = f"{request.remote_addr}|{name[:100]}"
    delay = store.login_delay(key)
    if delay > 0:
        raise TooManyAttemptsError(f"too many failed attempts; try again in {delay:.0f} s", delay)
    if _is_right(name, password, stored):
        store.record_login(key, succeeded=True)
        verified.remember(name, password, stored)
        return
    store.record_login(key, succeeded=False)
    raise UnauthorizedError("user name or password is wrong")


def _is_right(name: str, password: str, stored: str | None) -> bool:
    """Compare in constant time; an unknown name costs as much as a wrong password."""
    settings = get_settings()
    if settings.has_credentials and _same(name, settings.basic_auth_user):
        return _same(password, settings.basic_auth_pass)
    if stored is None:
        check_password_hash(_DUMMY_HASH, password)
        return False
    return check_password_hash(stored, password)


def _stored_secret(name: str) -> str | None:
    """What a name's password is checked against."""
    settings = get_settings()
    if settings.has_credentials and _same(name, settings.basic_auth_user):
        return settings.basic_auth_pass
    return get_store().get_password_hash(name[:200])


def _fingerprint(name: str) -> str | None:
    """A mark of the current password, so that changing it ends all sessions."""
    stored = _stored_secret(name)
    key = current_app.secret_key
    if stored is None or not key:
        return None
    key_bytes = key.encode() if isinstance(key, str) else key
    return hmac.new(key_bytes, stored.encode(), hashlib.sha256).hexdigest()[:32]


def _same(left: str, right: str) -> bool:
    """Constant-time equality."""
    return hmac.compare_digest(left.encode("utf-8", "replace"), right.encode("utf-8", "replace"))


def _refusal(level: Level) -> str:
    """What a stranger is told."""
    if level == "webhook":
        return f"events need the header {SECRET_HEADER} or Basic credentials; run `evenhand connect` to install it"
    if is_open():
        return "without credentials only this machine may call; set BASIC_AUTH_USER and BASIC_AUTH_PASS"
    return "log in, or send Basic credentials"


def _count_refused() -> None:
    """Make refused events visible with the fix, at most one write a second so that strangers cannot load us."""
    refused: _Refused = current_app.extensions["evenhand_refused"]
    number = refused.add()
    if number == 0:
        return
    store = get_store()
    store.count_event("webhook", "unauthorized", number)
    store.raise_problem(
        None,
        "webhook_unauthorized",
        "events were refused: they carried neither the right webhook secret nor Basic credentials",
        "Run `evenhand connect`, which installs EVENHAND_WEBHOOK_SECRET into Label Studio's webhook.",
    )


class _Refused:
    """Collects refused events between two writes."""

    def __init__(self) -> None:
        self._waiting = 0
        self._next = 0.0
        self._lock = threading.Lock()

    def add(self) -> int:
        """Count one more; the number to write now, 0 for later."""
        with self._lock:
            self._waiting += 1
            if time.monotonic() < self._next:
                return 0
            number, self._waiting, self._next = self._waiting, 0, time.monotonic() + 1.0
            return number


class _Verified:
    """Remembers for a minute which credentials were right: the hash is slow on purpose, Label Studio calls often."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)
        self._until: dict[bytes, float] = {}
        self._lock = threading.Lock()

    def knows(self, name: str, password: str, stored: str | None) -> bool:
        """Whether exactly these were right a moment ago."""
        return stored is not None and self._until.get(self._digest(name, password, stored), 0.0) > time.monotonic()

    def remember(self, name: str, password: str, stored: str | None) -> None:
        """Keep a digest, never the password."""
        with self._lock:
            if len(self._until) > 1000:
                self._until.clear()
            self._until[self._digest(name, password, stored or "")] = time.monotonic() + VERIFIED_SECONDS

    def _digest(self, name: str, password: str, stored: str) -> bytes:
        text = "\x00".join((name, password, stored)).encode("utf-8", "replace")
        return hmac.new(self._key, text, hashlib.sha256).digest()


# Of no account; checking against it makes unknown names as slow as known ones.
_DUMMY_HASH = (
    "scrypt:32768:8:1$evenhanddummysalt$"
    "00000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
    "000000000000000000"
)
