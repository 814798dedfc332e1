"""A service that lets nobody in without credentials, and what callers send it."""

from __future__ import annotations

import base64
import re

from evenhand.settings import Settings
from flask import Flask

SECRET = "webhook-secret-0123456789"
CLOSED = Settings(basic_auth_user="lead", basic_auth_pass="right-horse", basic_auth_role="owner", webhook_secret=SECRET)
PUBLIC = {"ml_api.health", "ml_api.ready", "ml_api.root", "dashboard.login", "dashboard.static"}
STRANGER = {"REMOTE_ADDR": "192.0.2.7"}


def basic(name: str = "lead", password: str = "right-horse") -> dict[str, str]:
    """The header of HTTP Basic."""
    return {"Authorization": "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()}


def every_route(app: Flask) -> list[tuple[str, str, str]]:
    """Endpoint, method and a path of every route."""
    found = []
    for rule in app.url_map.iter_rules():
        path = re.sub(r"<int[^>]*>", "1", rule.rule)
        path = re.sub(r"<[^>]*>", "x", path)
        found += [(rule.endpoint, method, path) for method in sorted((rule.methods or set()) - {"HEAD", "OPTIONS"})]
    return found
