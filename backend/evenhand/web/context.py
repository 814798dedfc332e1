"""What every view may ask for: settings and store of the running app."""

from dataclasses import dataclass
from typing import Any

from flask import current_app, request

from evenhand.ingest.group_commit import GroupCommit
from evenhand.json_values import parse_json
from evenhand.label_studio.payloads import Event
from evenhand.settings import Settings
from evenhand.store import Store
from evenhand.web.errors import Refusals
from evenhand.web.readiness import Readiness

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
