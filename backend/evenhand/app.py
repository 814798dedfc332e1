"""The composition root: settings and store in, a guarded Flask app out."""

import logging
import re
import secrets
import time
from dataclasses import replace
from datetime import timedelta
from functools import partial

from flask import Flask, g, request
from flask.json.provider import DefaultJSONProvider
from werkzeug.wrappers import Response

from evenhand.errors import StoreError
from evenhand.ingest.events import handle_events
from evenhand.ingest.group_commit import GroupCommit
from evenhand.logs import request_id
from evenhand.settings import Settings
from evenhand.store import Store, open_store
from evenhand.web import api_v1, auth, dashboard, errors, metrics, ml_api
from evenhand.web import context as downloads
from evenhand.web.context import KEY, Readiness, Services
from evenhand.web.errors import Refusals
from evenhand.web.passwords import open_token, session_key

__all__ = ["create_app"]

logger = logging.getLogger("backend.requests")
#: Called all the time, and not worth a log line each.
PROBES = frozenset({"/health", "/ready"})
#: Somebody waits for every answer, Label Studio for one second only: a locked database is reported soon.
PATIENCE_SECONDS = 1.0
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
}


def create_app(settings: Settings, store: Store | None = None) -> Flask:
    """Put the service together; without a store the configured database is opened and brought up to date."""
    store = store if store is not None else open_store(settings, patience=PATIENCE_SECONDS)
    is_secret_given = bool(settings.webhook_secret)
    settings = replace(settings, webhook_secret=store.secrets.webhook(settings.webhook_secret))
    app = Flask("evenhand.web", static_folder=None)
    app.secret_key = session_key(settings, store)
    app.config.update(
        MAX_CONTENT_LENGTH=int(settings.max_body_mb * 1_000_000),
        MAX_FORM_MEMORY_SIZE=1_000_000,
        SESSION_COOKIE_NAME="evenhand_session",
        SESSION_COOKIE_HTTPONLY=True,
        SESSION_COOKIE_SAMESITE="Lax",
        SESSION_COOKIE_SECURE=settings.public_url.startswith("https://"),
        PERMANENT_SESSION_LIFETIME=timedelta(hours=12),
    )
    if isinstance(app.json, DefaultJSONProvider):
        app.json.sort_keys = False
    events = GroupCommit(partial(handle_events, store, settings), fatal=(StoreError,))
    token = open_token(settings, store)
    app.extensions[KEY] = Services(settings, store, events, Refusals(), Readiness(store), token, is_secret_given)
    app.before_request(_begin)
    metrics.init_app(app, store)
    auth.init_app(app)
    errors.init_app(app)
    app.register_blueprint(ml_api.bp)
    dashboard.init_app(app)
    downloads.init_app(app)
    app.register_blueprint(api_v1.bp)
    app.after_request(_end)
    return app


def _begin() -> None:
    """Give the request an id; one a proxy sent is kept if it is harmless."""
    sent = request.headers.get("X-Request-Id", "")
    g.evenhand_begun = time.perf_counter()
    request_id.set(sent if re.fullmatch(r"[\w.-]{1,64}", sent) else secrets.token_hex(8))


def _end(response: Response) -> Response:
    """Add the headers every answer carries, and log the request without its query or body."""
    response.headers["X-Request-Id"] = request_id.get()
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    if request.endpoint != "dashboard.static":
        response.headers.setdefault("Cache-Control", "no-store")
    if request.path not in PROBES:
        spent = (time.perf_counter() - g.get("evenhand_begun", time.perf_counter())) * 1000.0
        fields = {
            "method": request.method,
            "path": request.path[:200],
            "status": response.status_code,
            "milliseconds": round(spent, 1),
            "address": request.remote_addr,
        }
        logger.info("request", extra={"fields": fields})
    return response
