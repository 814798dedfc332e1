"""The state of the service: what arrives, what waits, what is wrong and what to do about it."""

import requests
from flask import render_template, request

from evenhand.administer import doctor
from evenhand.label_studio.client import LabelStudioClient
from evenhand.label_studio.transport import Transport
from evenhand.projects.overview import overview
from evenhand.settings import Settings
from evenhand.web.context import get_settings, get_store
from evenhand.web.dashboard.blueprint import bp

# Seconds to connect, and to wait for an answer.
PATIENCE = (3.0, 10.0)
REJECTED = ("rejected", "unauthorized")


@bp.get("/status")
def status() -> str:
    """The status page; the checks that call Label Studio are loaded behind it, or with ?checks=1."""
    store, settings = get_store(), get_settings()
    state = overview(store) | {"problems": store.problems.find()}
    rejected = [row for row in state["events"] if row["outcome"] in REJECTED]
    checks = _examine() if request.args.get("checks") else None
    titles = {project["id"]: project["title"] for project in state["projects"]}
    return render_template(
        "status.html", state=state, rejected=rejected, checks=checks, titles=titles, settings=settings
    )


@bp.get("/status/checks")
def checks() -> str:
    """The checks alone, for the page to show when they are done."""
    return render_template("_checks.html", checks=_examine())


def _examine() -> list[doctor.Check]:
    """Everything `evenhand doctor` looks at."""
    settings = get_settings()
    with requests.Session() as session:
        return doctor.examine(settings, get_store(), _impatient_client(settings, session))


def _impatient_client(settings: Settings, session: requests.Session) -> LabelStudioClient | None:
    """A client that asks once and gives up soon: somebody waits for the page."""
    if not settings.label_studio_url or not settings.label_studio_api_key:
        return None
    transport = Transport(
        settings.label_studio_url, settings.label_studio_api_key, session=session, attempts=1, timeout=PATIENCE
    )
    return LabelStudioClient(transport)
