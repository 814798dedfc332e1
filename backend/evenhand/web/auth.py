"""Who calls, and whether that suffices: default-deny on every route, named people with roles, Label Studio, CSRF.

A view says who may call it with `@access(...)` of `evenhand.web.auth`; without it reading is for readers and changing
for owners. For views: `current_user()`, `csrf_token()`, `log_in(name, password)`, `log_out()`."""

import hashlib
import hmac
import ipaddress
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeVar
from urllib.parse import urlsplit

from flask import Flask, current_app, g, redirect, request, session, url_for
from werkzeug.wrappers import Response as WerkzeugResponse

from evenhand.domain import Role, normal_name
from evenhand.errors import ForbiddenError, TooManyAttemptsError, UnauthorizedError, UnsupportedBodyError
from evenhand.label_studio.payloads import TRAINING
from evenhand.settings import SECRET_HEADER, is_loopback
from evenhand.web.context import get_services, get_settings, get_store, wants_html
from evenhand.web.passwords import PasswordDesk, same

Access = Literal["public", "protocol", "webhook", "metrics", "account", "reader", "reviewer", "owner"]
#: Who calls: nobody known, whoever has the webhook secret, or somebody with a role.
Caller = Literal["stranger", "secret", "protocol", "reader", "reviewer", "owner"]
View = TypeVar("View", bound=Callable[..., Any])
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
ACCESS = "evenhand_access"
STATIC = "dashboard.static"
CALLERS: tuple[Caller, ...] = ("stranger", "secret", "protocol", "reader", "reviewer", "owner")
#: Who may call what. Label Studio's routes are its own: people have the API and the pages, and rights of their own.
ALLOWED: dict[Access, frozenset[Caller]] = {
    "public": frozenset(CALLERS),
    "protocol": frozenset({"protocol"}),
    "webhook": frozenset({"stranger", "secret", "protocol"}),
    "metrics": frozenset({"protocol", "reader", "reviewer", "owner"}),
    "account": frozenset({"reader", "reviewer", "owner"}),
    "reader": frozenset({"reader", "reviewer", "owner"}),
    "reviewer": frozenset({"reviewer", "owner"}),
    "owner": frozenset({"owner"}),
}
#: Routes of Label Studio, which nobody's role but its own opens.
LABEL_STUDIO_S: frozenset[Access] = frozenset({"protocol", "webhook"})


@dataclass(frozen=True)
class Right:
    """One line of the table: who may call which route with which method, and what that does."""

    route: str
    method: str
    who: tuple[Caller, ...]
    what: str


def access(needed: Access) -> Callable[[View], View]:
    """Mark who may call a view."""

    def mark(view: View) -> View:
        setattr(view, ACCESS, needed)
        return view

    return mark


def access_needed(app: Flask, endpoint: str | None, method: str = "GET") -> Access:
    """Who may call an endpoint; unmarked ones are for readers, and for owners where they change something."""
    if endpoint == STATIC:
        return "public"
    unmarked: Access = "reader" if method in SAFE_METHODS else "owner"
    needed: Access = getattr(app.view_functions.get(endpoint or ""), ACCESS, unmarked)
    return needed


def is_allowed(caller: Role | Caller, needed: Access) -> bool:
    """Whether a caller of this kind may."""
    return caller in ALLOWED[needed]


def rights(app: Flask) -> Iterator[Right]:
    """Every route and method of the service, in the order of their addresses."""
    for rule in sorted(app.url_map.iter_rules(), key=lambda rule: rule.rule):
        view = app.view_functions[rule.endpoint]
        what = "A file of the pages." if rule.endpoint == STATIC else (view.__doc__ or "").strip().partition("\n")[0]
        route = re.sub(r"<[^>]*?(\w+)>", r"{\1}", rule.rule)
        for method in sorted((rule.methods or set()) - {"HEAD", "OPTIONS"}):
            allowed = ALLOWED[access_needed(app, rule.endpoint, method)]
            yield Right(route, method, tuple(caller for caller in CALLERS if caller in allowed), what)


CSRF_FIELD = "csrf_token"
CSRF_HEADER = "X-CSRF-Token"
NO_USERS_SECONDS = 1.0
LOGIN_ENDPOINT = "dashboard.login"
LOCAL_USER = "local"
#: Asked by machines all the time; they look at nothing, the database least of all.
PROBES = frozenset({"ml_api.health", "ml_api.ready"})
#: Headers a proxy adds: who sends them does not sit at this machine, whatever the connection says.
FORWARDED = ("Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-IP", "Via")
SMALL_BODY = 100_000
TOKEN_ARGUMENT = "token"  # noqa: S105 - the argument's name


@dataclass(frozen=True)
class User:
    """Somebody we let in, how, and with which rights."""

    name: str
    via: Literal["session", "basic", "secret", "open", "hint"]
    role: Role
    is_label_studio: bool = False

    def may(self, needed: Access) -> bool:
        """Whether this caller may: by the role, and the configured credential as Label Studio whatever its role."""
        return is_allowed(self.role, needed) or (self.is_label_studio and is_allowed("protocol", needed))


def init_app(app: Flask) -> None:
    """Guard every request of the app."""
    app.extensions["evenhand_passwords"] = PasswordDesk()
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
    found = get_store().users.exist()
    remembered["until"] = 0.0 if found else time.monotonic() + NO_USERS_SECONDS
    return found


def csrf_token() -> str:
    """The session's token, to be sent back as form field csrf_token or header X-CSRF-Token."""
    if CSRF_FIELD not in session:
        session[CSRF_FIELD] = secrets.token_urlsafe(32)
    return str(session[CSRF_FIELD])


def log_in(name: str, password: str) -> User:
    """Start a session; raises UnauthorizedError, ForbiddenError or TooManyAttemptsError."""
    name, role = normal_name(name), _check_password(name, password)
    if not is_allowed(role, "account"):
        raise ForbiddenError(
            f"{name} is the account Label Studio calls with and opens no page; add one for yourself with "
            "`evenhand users add NAME --role owner`"
        )
    session.clear()
    session.permanent = True
    session["user"] = name
    session["fingerprint"] = _fingerprint(_secret_and_role(name)[0])
    csrf_token()
    g.evenhand_user = user = User(name, "session", role)
    return user


def log_out() -> None:
    """End the session."""
    session.clear()
    g.pop("evenhand_user", None)


def _guard() -> WerkzeugResponse | None:
    """Let a request through, send people to the login page, or refuse."""
    needed = access_needed(current_app, request.endpoint, request.method)
    _refuse_other_sites()
    try:
        user = _identify(needed)
    except UnauthorizedError:
        if needed == "webhook":
            _count_refused()
        raise
    g.evenhand_user = user
    if user is None and needed != "public":
        return _turn_away(needed)
    if user is not None and user.via == "open" and wants_html() and TOKEN_ARGUMENT in request.args:
        return redirect(request.path)  # the token is in the session now, and need not stand in the address
    _require_csrf(user, needed)
    if user is not None and not user.may(needed):
        if needed in LABEL_STUDIO_S:
            raise ForbiddenError(f"{user.name} has the role {user.role}; this route is Label Studio's own")
        raise ForbiddenError(f"{user.name} has the role {user.role}; this needs {needed} (`evenhand users add --role`)")
    return None


def _turn_away(needed: Access) -> WerkzeugResponse:
    """Send people to the login page; refuse programs."""
    can_log_in = LOGIN_ENDPOINT in current_app.view_functions and not is_open()
    if wants_html() and request.method in SAFE_METHODS and can_log_in:
        return redirect(url_for(LOGIN_ENDPOINT, next=request.full_path.rstrip("?")))
    if needed == "webhook":
        _count_refused()
    raise UnauthorizedError(_refusal(needed))


def _identify(needed: Access) -> User | None:
    """Who calls; wrong credentials raise, missing ones give None. Public pages look at the session only."""
    if needed == "public":
        return None if request.endpoint in PROBES else _session_user() or _with_token()
    settings = get_settings()
    sent = request.headers.get(SECRET_HEADER)
    if needed == "webhook" and sent is not None and settings.webhook_secret:
        if same(sent, settings.webhook_secret):
            return User("Label Studio", "secret", "protocol")
        raise UnauthorizedError(f"{SECRET_HEADER} is wrong; run `evenhand connect` to install the right one")
    basic = request.authorization
    if basic is not None and basic.type == "basic":
        name, password = normal_name(basic.username or ""), basic.password or ""
        if settings.has_credentials or _has_users():
            is_theirs = _is_configured(name)
            return User(name, "basic", _check_password(name, password), is_label_studio=is_theirs)
    user = _session_user()
    if user is None and needed in LABEL_STUDIO_S:
        return _unnamed(needed)
    return user or _with_token()


def _unnamed(needed: Access) -> User | None:
    """A call of Label Studio's without credentials.

    Its own webhook sends none: an event is a hint, and what it names is read back from Label Studio's API. Without an
    API token it is taken as it is, marked as unverified, while nothing but this machine is configured.
    """
    settings = get_settings()
    is_ours = is_open() and _is_local_request()
    if needed == "protocol" or _is_training():
        return User(LOCAL_USER, "open", "protocol") if is_ours else None
    if settings.label_studio_url and settings.label_studio_api_key:
        return User("nobody", "hint", "protocol")
    if is_ours and settings.is_this_machine_only and not get_services().is_secret_given:
        return User(LOCAL_USER, "open", "protocol")
    return None


def _with_token() -> User | None:
    """Whoever holds the token of an open service, in a header, in the link, or in a session that began with it."""
    if not _is_local_request() or not is_open():
        return None
    token = get_services().open_token
    basic = request.authorization
    bearer = basic.token if basic is not None and basic.type == "bearer" else None
    sent = bearer or (request.args.get(TOKEN_ARGUMENT) if request.method in SAFE_METHODS else None)
    is_known = bool(sent) and same(str(sent), token)
    if is_known and wants_html():
        session["open"] = _fingerprint(token)
    if not is_known and not same(str(session.get("open", "")), _fingerprint(token) or "no key"):
        return None
    return User(LOCAL_USER, "open", "owner")


def _is_training() -> bool:
    """Whether this is "Start Training", which Label Studio sends like /setup: with Basic credentials, or with none."""
    body = request.get_json(silent=True) if request.content_length and request.content_length < SMALL_BODY else None
    return isinstance(body, dict) and body.get("action") == TRAINING


def _session_user() -> User | None:
    """The person of a valid session; changed passwords and removed accounts end it."""
    name = session.get("user")
    if not isinstance(name, str):
        return None
    stored, role = _secret_and_role(name)
    expected = _fingerprint(stored)
    is_theirs = expected is not None and same(str(session.get("fingerprint", "")), expected)
    if not is_theirs or not is_allowed(role, "account"):
        session.clear()
        return None
    return User(name, "session", role)


def _is_local_request() -> bool:
    """Whether somebody at this machine asks, under a local name (a foreign one would be DNS rebinding), unforwarded."""
    is_near = is_loopback(request.remote_addr or "") and is_loopback(_host_of(f"//{request.host}")[1])
    return is_near and not any(name in request.headers for name in FORWARDED)


def _refuse_other_sites() -> None:
    """Browsers tell where a request comes from; changes from other sites, or from nowhere, are refused."""
    if request.method in SAFE_METHODS:
        return
    origin = request.headers.get("Origin")
    allowed = {request.host, urlsplit(get_settings().public_url).netloc} - {""}
    is_foreign = origin is not None and _host_of(origin)[0] not in allowed
    if is_foreign or request.headers.get("Sec-Fetch-Site") == "cross-site":
        raise ForbiddenError("this change was asked for by a page of another site; use the dashboard itself")


def _host_of(address: str) -> tuple[str, str]:
    """Host with port, and host alone, of what a header says; a name that nobody has where it is not an address."""
    try:
        parts = urlsplit(address)
        return parts.netloc, parts.hostname or ""
    except ValueError:
        return "invalid", "invalid"


def _require_csrf(user: User | None, needed: Access) -> None:
    """What a browser sends by itself (cookies, remembered passwords, nothing at all) must come with our token or JSON.

    Forms of other sites can send neither: a token they cannot read, JSON they may not.
    """
    if request.method in SAFE_METHODS:
        return
    if user is not None and user.via != "session":
        _require_json(user, needed)
        return
    _require_token()


def _require_json(user: User, needed: Access) -> None:
    """Programs send JSON; a form of the dashboard carries the token instead."""
    is_bare = user.via != "open" and not request.content_length and "Transfer-Encoding" not in request.headers
    if request.is_json or is_bare:
        return
    if needed in ("protocol", "webhook") or not (request.form or CSRF_HEADER in request.headers):
        raise UnsupportedBodyError("send the body as JSON, with Content-Type: application/json")
    _require_token()


def _require_token() -> None:
    """The session's token, in a header or in the form."""
    sent = request.headers.get(CSRF_HEADER) or request.form.get(CSRF_FIELD, "")
    expected = session.get(CSRF_FIELD)
    if not expected or not same(sent, str(expected)):
        raise ForbiddenError(
            "the form's security token is missing or out of date; reload the page and try again "
            "(programs send Basic credentials, or Content-Type: application/json where none are needed)"
        )


def _check_password(name: str, password: str) -> Role:
    """The role of a name whose password is right; raises UnauthorizedError or TooManyAttemptsError."""
    settings, name = get_settings(), normal_name(name)
    is_basic_user = _is_configured(name)
    desk: PasswordDesk = current_app.extensions["evenhand_passwords"]
    stored, role = _secret_and_role(name)
    is_given = is_basic_user and same(password, settings.basic_auth_pass)
    if not is_basic_user and desk.knows(name, password, stored):
        return role
    key = f"{_network()}|{name[:100]}"
    delay = get_store().logins.delay(key)
    if delay > 0:
        raise TooManyAttemptsError(f"too many failed attempts; try again in {delay:.0f} s", delay)
    if is_given:
        return role
    if desk.check(_network(), name, password, None if is_basic_user else stored):
        get_store().logins.record(key, succeeded=True)
        return role
    get_store().logins.record(key, succeeded=False)
    raise UnauthorizedError("user name or password is wrong")


def _network() -> str:
    """The caller's address; of IPv6 the part that one household shares, since the rest is theirs to choose."""
    address = request.remote_addr or ""
    try:
        return str(ipaddress.ip_network(f"{address}/64", strict=False)) if ":" in address else address
    except ValueError:
        return address


def _secret_and_role(name: str) -> tuple[str | None, Role]:
    """What a name's password is checked against, and the role behind it."""
    settings = get_settings()
    if _is_configured(name):
        return settings.basic_auth_pass, settings.basic_auth_role
    account = get_store().users.get(name[:200])
    return (None, "protocol") if account is None else (account.password_hash, account.role)


def _is_configured(name: str) -> bool:
    """Whether a name is that of BASIC_AUTH_USER."""
    settings = get_settings()
    return settings.has_credentials and same(normal_name(name), normal_name(settings.basic_auth_user))


def _fingerprint(stored: str | None) -> str | None:
    """A mark of the current password, so that changing it ends all sessions."""
    key = current_app.secret_key
    if stored is None or not key:
        return None
    key_bytes = key.encode() if isinstance(key, str) else key
    return hmac.new(key_bytes, stored.encode(), hashlib.sha256).hexdigest()[:32]


def _refusal(needed: Access) -> str:
    """What a stranger is told."""
    if needed == "webhook":
        return f"events need the header {SECRET_HEADER} or Basic credentials; run `evenhand connect` to install it"
    if is_open():
        return (
            "this service runs without accounts, for whoever started it on this machine: open the link that "
            "`evenhand serve` printed, which `evenhand status` prints again; programs send the token in it as "
            "`Authorization: Bearer`. For others add accounts with `evenhand users add`"
        )
    return "log in, or send Basic credentials"


def _count_refused() -> None:
    """Make refused events visible with the fix, at most one write a second so that strangers cannot load us."""
    refused: _Refused = current_app.extensions["evenhand_refused"]
    number = refused.add()
    if number == 0:
        return
    store = get_store()
    store.events.count("webhook", "unauthorized", number)
    store.problems.open(
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
