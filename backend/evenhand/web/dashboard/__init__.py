"""The dashboard under /ui/: server-rendered pages on stored runs, one module per page."""

import hashlib
from functools import lru_cache
from pathlib import Path
from typing import Any

from flask import Flask, Response, current_app, make_response, render_template, request, url_for
from jinja2 import StrictUndefined
from werkzeug.wrappers import Response as WerkzeugResponse

from evenhand.web.auth import csrf_token, current_user, is_open
from evenhand.web.context import get_store
from evenhand.web.dashboard import annotator, next_step, projects, runs, settings, status, today
from evenhand.web.dashboard.blueprint import STATIC, bp
from evenhand.web.errors import HTML_ERROR
from fdr_core import __version__
from fdr_core.report import opinions
from fdr_core.report.words import FILTERS

__all__ = ["bp", "init_app"]

TITLES = {
    400: "That request could not be read",
    401: "Please log in",
    403: "That was refused",
    404: "There is nothing here",
    409: "Somebody else got there first",
    422: "These settings do not fit",
    429: "Please wait a moment",
    503: "The database is not answering",
}
PAGES = (annotator, next_step, projects, runs, settings, status, today)


def init_app(app: Flask) -> None:
    """Add the pages, their words and the error page to the app."""
    app.jinja_env.undefined = StrictUndefined
    app.jinja_env.trim_blocks = app.jinja_env.lstrip_blocks = True
    app.jinja_env.globals["STRENGTH_WORDS"] = opinions.STRENGTH_WORDS
    app.jinja_env.filters.update({**FILTERS, **opinions.FILTERS, "trigger_words": runs.trigger_words})
    app.jinja_env.globals.update(csrf_token=csrf_token)
    app.context_processor(_shared)
    app.extensions[HTML_ERROR] = error_page
    app.register_blueprint(bp)


def error_page(status: int, code: str, message: str) -> WerkzeugResponse:
    """What people see when something did not work."""
    title = TITLES.get(status, "Something went wrong" if status >= 500 else "That did not work")
    return make_response(render_template("error.html", title=title, message=message, code=code), status)


@bp.after_request
def _keep_assets(response: Response) -> Response:
    """Assets named with their content's hash never change."""
    if request.endpoint == "dashboard.static" and "v" in request.args:
        response.headers["Cache-Control"] = "public, max-age=31536000, immutable"
    return response


def _shared() -> dict[str, Any]:
    """What every template may use."""
    return {
        "asset": _asset,
        "current_user": current_user,
        "is_open": is_open,
        "now": get_store().clock(),
        "version": __version__,
    }


def _asset(name: str) -> str:
    """The address of a static file, renewed when the file changes."""
    return url_for("dashboard.static", filename=name, v=_fingerprint(STATIC / name, current_app.debug))


@lru_cache(maxsize=64)
def _fingerprint(path: Path, _debug: bool) -> str:
    """A mark of a file's content."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:12]
