"""Every error leaves as {"ok": false, "error": {"code", "message"}}; tracebacks go to the log only."""

import logging
import threading
import time
from collections.abc import Callable

from flask import Flask, Response, jsonify, request
from gunicorn.http.errors import NoMoreData, ParseException
from werkzeug.exceptions import HTTPException
from werkzeug.wrappers import Response as WerkzeugResponse

from evenhand.errors import BackendError, StoreError
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


# Raised by gunicorn while a view reads the body.
BROKEN_BODIES: tuple[type[Exception], ...] = (ParseException, NoMoreData)

HTML_ERROR = "evenhand_html_error"
HtmlError = Callable[[int, str, str], WerkzeugResponse]
CODES = {
    400: "bad_request",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    408: "timeout",
    413: "too_large",
    415: "unsupported_media_type",
    431: "headers_too_large",
}


def init_app(app: Flask) -> None:
    """Install the handlers; the dashboard may put a page renderer under extensions[HTML_ERROR]."""
    app.register_error_handler(BackendError, _backend_error)
    app.register_error_handler(HTTPException, _http_error)
    for kind in BROKEN_BODIES:
        app.register_error_handler(kind, _broken_body)
    app.register_error_handler(Exception, _unexpected)


def error_response(status: int, code: str, message: str) -> WerkzeugResponse:
    """An error in the one shape, or as a page for people on the dashboard."""
    from flask import current_app

    page: HtmlError | None = current_app.extensions.get(HTML_ERROR)
    if page is not None and request.path.startswith("/ui/"):
        return page(status, code, message)
    response: Response = jsonify({"ok": False, "error": {"code": code, "message": message}})
    response.status_code = status
    return response


def _backend_error(error: BackendError) -> WerkzeugResponse:
    """One of our own errors: its message was written for the caller."""
    if error.status >= 500:
        logger.error("%s: %s", error.code, error)  # it says what happened; a traceback per refused event says no more
    response = error_response(error.status, error.code, str(error))
    retry_after = getattr(error, "retry_after", None)
    if retry_after is not None:
        response.headers["Retry-After"] = str(max(1, round(retry_after)))
    if error.status == 401 and not request.path.startswith("/ui/"):
        response.headers["WWW-Authenticate"] = 'Basic realm="Evenhand", charset="UTF-8"'
    return response


def _http_error(error: HTTPException) -> WerkzeugResponse:
    """Werkzeug's errors in our shape; redirects pass through."""
    status = error.code or 500
    if status < 400:
        return error.get_response()
    message = error.description or error.name
    if status == 404:
        message = f"there is nothing at {request.path[:200]}; /api/v1/openapi.json lists the routes"
    if status == 413:
        message = "the request body is too large; EVENHAND_MAX_BODY_MB sets the limit"
    response = error_response(status, CODES.get(status, "http_error"), message)
    allowed = getattr(error, "valid_methods", None)
    if allowed:
        response.headers["Allow"] = ", ".join(sorted(allowed))
    return response


def _broken_body(_error: Exception) -> WerkzeugResponse:
    """The server could not make out where the body's pieces begin and end."""
    return error_response(400, "bad_payload", "the request's body is cut off or wrongly divided into chunks")


def _unexpected(error: Exception) -> WerkzeugResponse:
    """A bug: the log has the traceback, the caller only the request's id."""
    logger.error("unexpected %s", type(error).__name__, exc_info=error)
    return error_response(500, "internal_error", "unexpected error; the log has it under this answer's X-Request-Id")
