"""The state of the service: what arrives, what waits, what is wrong and what to do about it."""

import requests
from flask import render_template, request

from backend import doctor
from backend.label_studio import client_from_settings
from backend.status import overview
from backend.web.context import get_settings, get_store
from backend.web.dashboard.blueprint import bp

REJECTED = ("rejected", "unauthorized")


@bp.get("/status")
def status() -> str:
    """The status page; the checks that call Label Studio are loaded behind it, or with ?checks=1."""
    store, settings = get_store(), get_settings()
    state = overview(store)
    rejected = [row for row in state["events"] if row["outcome"] in REJECTED]
    findings = _examine() if request.args.get("checks") else None
    titles = {project["id"]: project["title"] for project in state["projects"]}
    return render_template(
        "status.html", state=state, rejected=rejected, findings=findings, titles=titles, settings=settings
    )


@bp.get("/status/checks")
def checks() -> str:
    """The checks alone, for the page to show when they are done."""
    return render_template("_checks.html", findings=_examine())


def _examine() -> list[doctor.Finding]:
    """Everything `evenhand doctor` looks at."""
    settings = get_settings()
    with requests.Session() as session:
        return doctor.examine(settings, get_store(), client_from_settings(settings, session))
