"""What every view may ask for: settings and store of the running app."""

import secrets
import threading
import time
from dataclasses import dataclass, field
from typing import Any

from flask import Blueprint, Flask, Response, current_app, request

from evenhand.errors import StoreBusyError, StoreDamagedError, StoreError
from evenhand.ingest.group_commit import GroupCommit
from evenhand.json_values import parse_json
from evenhand.label_studio.payloads import Event
from evenhand.runs.report import report_of_run
from evenhand.settings import Settings
from evenhand.store import Store
from evenhand.store.database import LITTLE_SPACE_BYTES, NO_SPACE_BYTES
from evenhand.store.runs import INTEGRITY, WHOLE, SilentRuns, moves
from evenhand.web.errors import Refusals
from evenhand.web.openapi import ID
from fdr_core.report import FILES, MEDIA_TYPES, pseudonymised, render
from fdr_core.report.page import content_security_policy

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


KEY = "evenhand"


@dataclass(frozen=True)
class Services:
    """The app's collaborators, put together in `evenhand.app`.

    `open_token` lets in who started an open service; `is_secret_given` tells whether somebody configured the secret.
    """

    settings: Settings
    store: Store
    events: GroupCommit[Event, dict[str, Any]]
    refusals: Refusals
    readiness: Readiness
    open_token: str
    is_secret_given: bool


def get_services() -> Services:
    """The running app's collaborators."""
    services: Services = current_app.extensions[KEY]
    return services


def get_store() -> Store:
    """The running app's store."""
    return get_services().store


def get_settings() -> Settings:
    """The running app's settings."""
    return get_services().settings


def json_body() -> Any:
    """The request's body as JSON; raises PayloadError."""
    return parse_json(request.get_data())


def wants_html() -> bool:
    """Whether a person's browser asks, rather than a program."""
    best = request.accept_mimetypes.best_match(["application/json", "text/html"], default="application/json")
    return best == "text/html"


def init_app(app: Flask) -> None:
    """Serve the files under the dashboard and under the API."""
    blueprint = Blueprint("downloads", __name__)
    for name in FILES:
        for prefix, endpoint in (("/ui", "report_file"), ("/api/v1", "api_report_file")):
            rule = f"{prefix}/projects/<{ID}:project_id>/runs/<{ID}:run_id>/{name}"
            blueprint.add_url_rule(rule, endpoint=endpoint, view_func=report_file, defaults={"name": name})
    app.register_blueprint(blueprint)


def report_file(project_id: int, run_id: int, name: str) -> Response:
    """One file of a run's report; ?pseudonymise=1 hides who the annotators are."""
    store = get_store()
    report = report_of_run(store, store.runs.get(run_id, project_id=project_id))
    if request.args.get("pseudonymise", "").lower() in ("1", "true", "yes"):
        report = pseudonymised(report)
    response = Response(render(report, name), content_type=MEDIA_TYPES[name])
    if name == "report.html":
        response.headers["Content-Security-Policy"] = f"{content_security_policy()}; frame-ancestors 'none'"
    disposition = "attachment" if request.args.get("download") or name != "report.html" else "inline"
    response.headers["Content-Disposition"] = f'{disposition}; filename="run-{run_id}-{name}"'
    return response
