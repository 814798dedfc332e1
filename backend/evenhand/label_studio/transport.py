"""How this service speaks HTTP with Label Studio: tokens, time limits, retries, and answers turned into typed errors.

LabelStudioError (BackendError)
├── LabelStudioUnreachableError   no connection, or no answer in time
├── LabelStudioUnavailableError   429 or 5xx after all attempts
├── LabelStudioTokenError         401: no token, or it is expired, revoked or switched off
├── LabelStudioForbiddenError     403: known user, refused action (also: a blocked address)
├── LabelStudioMissingError       404: the project, task or annotation is gone
├── LabelStudioRejectedError      other 4xx: the request was understood and refused
└── LabelStudioAnswerError        an answer that is not Label Studio's: HTML, a redirect, broken JSON, a wrong shape
"""

import random
import re
import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import StrEnum
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import requests
from requests.auth import AuthBase

from evenhand.errors import BackendError

Json: TypeAlias = dict[str, Any]
Timeout: TypeAlias = tuple[float, float]

DEFAULT_TIMEOUT: Timeout = (5.0, 60.0)
HURRIED_TIMEOUT: Timeout = (3.0, 10.0)
ACCESS_SECONDS = 240.0  # an access token lives 300 s; renewed with a minute to spare
MAX_WAIT_SECONDS = 60.0
RETRIED_STATUS = frozenset({429, 500, 502, 503, 504})
# A POST that reached Label Studio may have been carried out; only these answers say that it was not.
REFUSED_UNDONE = frozenset({429, 503})


class TokenKind(StrEnum):
    """The kinds of credentials Label Studio takes."""

    PERSONAL = "personal access token"
    LEGACY = "legacy token"
    NONE = "no token"


class LabelStudioError(BackendError):
    """Label Studio could not do what was asked; `remedy` says what to do next."""

    code = "label_studio_error"
    status = 502
    remedy = "run `evenhand doctor`, which checks the connection step by step"

    def __init__(self, message: str, *, remedy: str | None = None) -> None:
        super().__init__(message)
        self.remedy = remedy or self.remedy


class LabelStudioUnreachableError(LabelStudioError):
    """No connection, or no answer in time."""

    code = "label_studio_unreachable"
    remedy = "check that Label Studio runs and that LABEL_STUDIO_URL is its address as seen from this service"


class LabelStudioUnavailableError(LabelStudioError):
    """Label Studio kept answering that it cannot serve now."""

    code = "label_studio_unavailable"
    remedy = "look into Label Studio's own log; the call is repeated at the next pull"


class LabelStudioTokenError(LabelStudioError):
    """The token is missing, expired, revoked, or of a kind that is switched off."""

    code = "label_studio_token"
    remedy = (
        "make a new token in Label Studio (Account & Settings, Personal Access Token) and set LABEL_STUDIO_API_KEY; "
        "legacy tokens work only if an administrator has enabled them"
    )


class LabelStudioForbiddenError(LabelStudioError):
    """A known user was refused the action."""

    code = "label_studio_forbidden"
    remedy = "use the token of a user who may change the project"


class LabelStudioMissingError(LabelStudioError):
    """What was asked for does not exist (any more)."""

    code = "label_studio_missing"
    status = 404
    remedy = "check the project's id; a deleted project can be disconnected"


class LabelStudioRejectedError(LabelStudioError):
    """The request was understood and refused."""

    code = "label_studio_rejected"


class LabelStudioAnswerError(LabelStudioError):
    """The answer is not one Label Studio gives."""

    code = "label_studio_answer"
    remedy = "check that LABEL_STUDIO_URL points at Label Studio itself and not at a login page or another service"


def token_kind(token: str) -> TokenKind:
    """Tell the two kinds of token apart: a personal access token is a JWT, a legacy one is a plain word."""
    if not token:
        return TokenKind.NONE
    return TokenKind.PERSONAL if token.count(".") == 2 else TokenKind.LEGACY


class _Header(AuthBase):
    """Sets the Authorization header; as an auth object, so that a .netrc entry cannot replace it."""

    def __init__(self, value: str) -> None:
        self._value = value

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        if self._value:
            request.headers["Authorization"] = self._value
        return request


class Transport:
    """One configured address, one token, bounded patience."""

    def __init__(
        self,
        url: str,
        token: str,
        *,
        session: requests.Session,
        timeout: Timeout = DEFAULT_TIMEOUT,
        attempts: int = 4,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
        rng: random.Random | None = None,
    ) -> None:
        self.url = url.rstrip("/")
        self.token_kind = token_kind(token)
        self._token = token
        self._session = session
        self._timeout = timeout
        self._attempts = attempts
        self._sleep = sleep
        self._clock = clock
        self._rng = rng or random.Random()
        self._lock = threading.Lock()
        self._access = ""
        self._access_until = float("-inf")
        self.server_time: datetime | None = None

    def hurried(self) -> "Transport":
        """The same address and token without second attempts, for somebody who waits for the answer."""
        return Transport(
            self.url,
            self._token,
            session=self._session,
            timeout=HURRIED_TIMEOUT,
            attempts=1,
            sleep=self._sleep,
            clock=self._clock,
            rng=self._rng,
        )

    def call(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str | int] | None = None,
        json: Any = None,
        timeout: Timeout | None = None,
    ) -> Any:
        """Call the API and return the decoded answer (None where it is empty)."""
        answer = self._send(method, path, params, json, timeout, self._authorization())
        if answer.status_code == 401 and self.token_kind is TokenKind.PERSONAL:
            # The access token may have been ended early, for instance by a restart with another key.
            self._access_until = float("-inf")
            answer = self._send(method, path, params, json, timeout, self._authorization())
        return self._decode(method, path, answer)

    def _authorization(self) -> str:
        if self.token_kind is TokenKind.NONE:
            return ""
        if self.token_kind is TokenKind.LEGACY:
            return f"Token {self._token}"
        with self._lock:
            if self._clock() >= self._access_until:
                asked_at = self._clock()
                path = "/api/token/refresh"
                answer = self._send("POST", path, None, {"refresh": self._token}, None, "", repeatable=True)
                if answer.status_code == 401:
                    raise LabelStudioTokenError("the personal access token was refused: expired or revoked")
                body = self._decode("POST", path, answer)
                if not isinstance(body, dict) or not isinstance(body.get("access"), str):
                    raise LabelStudioAnswerError(f"POST {path} answered without an access token")
                self._access, self._access_until = body["access"], asked_at + ACCESS_SECONDS
            return f"Bearer {self._access}"

    def _send(
        self,
        method: str,
        path: str,
        params: Mapping[str, str | int] | None,
        json: Any,
        timeout: Timeout | None,
        authorization: str,
        *,
        repeatable: bool | None = None,
    ) -> requests.Response:
        repeatable = method != "POST" if repeatable is None else repeatable
        for attempt in range(1, self._attempts + 1):
            is_last = attempt == self._attempts
            try:
                answer = self._session.request(
                    method,
                    self.url + path,
                    params=params,
                    json=json,
                    auth=_Header(authorization),
                    timeout=timeout or self._timeout,
                    allow_redirects=False,
                )
            except requests.RequestException as error:
                never_sent = isinstance(error, requests.ConnectTimeout) or "NewConnectionError" in repr(error)
                if is_last or not (repeatable or never_sent):
                    raise LabelStudioUnreachableError(self._unreachable(method, path, error)) from None
                self._sleep(self._pause(attempt, None))
                continue
            self._note_time(answer)
            retried = answer.status_code in (RETRIED_STATUS if repeatable else REFUSED_UNDONE)
            if not retried or is_last:
                return answer
            self._sleep(self._pause(attempt, answer.headers.get("Retry-After")))
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _pause(self, attempt: int, retry_after: str | None) -> float:
        """Exponential back-off with full jitter, or what the server asked for."""
        asked = _retry_after_seconds(retry_after)
        if asked is not None:
            return min(asked, MAX_WAIT_SECONDS)
        return min(0.5 * 2.0**attempt, MAX_WAIT_SECONDS) * self._rng.uniform(0.5, 1.0)

    def _note_time(self, answer: requests.Response) -> None:
        try:
            self.server_time = parsedate_to_datetime(answer.headers.get("Date", ""))
        except (TypeError, ValueError):
            self.server_time = None

    def _unreachable(self, method: str, path: str, error: requests.RequestException) -> str:
        slow = isinstance(error, requests.Timeout)
        what = "gave no answer in time" if slow else f"could not be reached ({type(error).__name__})"
        return f"Label Studio at {self.url} {what} ({method} {path})"

    def _decode(self, method: str, path: str, answer: requests.Response) -> Any:
        """Return the JSON of a good answer; raise the typed error of any other."""
        where = f"{method} {path}"
        status = answer.status_code
        if 300 <= status < 400:
            target = urlsplit(answer.headers.get("Location", ""))
            aim = f"{target.scheme}://{target.netloc}" if target.netloc else target.path or "nowhere"
            raise LabelStudioAnswerError(
                f"{where} was redirected to {aim}; redirects are not followed, since they could lead to another host",
                remedy="set LABEL_STUDIO_URL to the final address, including https:// and any sub-path",
            )
        if status >= 400:
            raise self._error(where, answer)
        if not answer.content:
            return None
        try:
            return answer.json()
        except ValueError:
            kind = answer.headers.get("Content-Type", "no content type")
            raise LabelStudioAnswerError(f"{where} answered {status} with {kind} instead of JSON") from None

    def _error(self, where: str, answer: requests.Response) -> LabelStudioError:
        status, detail = answer.status_code, self._detail(answer)
        message = f"{where} answered {status}: {detail}"
        if status == 401:
            return LabelStudioTokenError(f"{message} (sent: {self.token_kind})")
        if status == 403:
            return LabelStudioForbiddenError(message)
        if status == 404:
            return LabelStudioMissingError(message)
        if status == 429 or status >= 500:
            return LabelStudioUnavailableError(message)
        return LabelStudioRejectedError(message)

    def _detail(self, answer: requests.Response) -> str:
        """A short, harmless extract of an error body: never a page of HTML, never a secret."""
        try:
            body = answer.json()
        except ValueError:
            return f"no JSON ({answer.headers.get('Content-Type', 'no content type')})"
        detail = body.get("detail") if isinstance(body, dict) else None
        problems = body.get("validation_errors") if isinstance(body, dict) else None
        text = " ".join(str(part) for part in (detail, problems) if part) or "no detail given"
        text = re.sub(r"<[^>]*>", "", text)
        for secret in filter(None, (self._token, self._access)):
            text = text.replace(secret, "[secret]")
        return text[:300]


def knock(url: str, body: Json, *, auth: tuple[str, str] | None, headers: Mapping[str, str]) -> int | None:
    """Send ourselves what Label Studio would send, once; the status of the answer, None where there is none."""
    try:
        answer = requests.post(
            url, json=body, auth=auth, headers=headers, timeout=HURRIED_TIMEOUT, allow_redirects=False
        )
    except requests.RequestException:
        return None
    return answer.status_code


def _retry_after_seconds(header: str | None) -> float | None:
    """Read a Retry-After header, given in seconds or as a date."""
    if not header:
        return None
    if header.strip().isdigit():
        return float(header)
    try:
        return max(0.0, (parsedate_to_datetime(header) - datetime.now(UTC)).total_seconds())
    except (TypeError, ValueError):
        return None
