"""What every view may ask for: settings and store of the running app."""

from dataclasses import dataclass
from typing import Any

from flask import current_app, request

from backend.combine import Combiner
from backend.json_values import parse_json
from backend.protocol import Event
from backend.settings import Settings
from backend.store import Store
from backend.web.refusals import Refusals

KEY = "evenhand"


@dataclass(frozen=True)
class Services:
    """The app's collaborators, put together in `backend.app`."""

    settings: Settings
    store: Store
    events: Combiner[Event, dict[str, Any]]
    refusals: Refusals


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
    return parse_json(request.get_data(cache=False))


def wants_html() -> bool:
    """Whether a person's browser asks, rather than a program."""
    best = request.accept_mimetypes.best_match(["application/json", "text/html"], default="application/json")
    return best == "text/html"
