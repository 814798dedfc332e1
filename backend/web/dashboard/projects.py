"""All projects at a glance; an empty service greets with how to connect Label Studio and a demo."""

from typing import Any

import requests
from flask import flash, redirect, render_template, url_for
from werkzeug.wrappers import Response

from backend.domain import Project
from backend.errors import NotFoundError, PayloadError
from backend.label_studio.client import client_from_settings
from backend.label_studio.connect import connect_project
from backend.label_studio.webhooks import service_url
from backend.projects.demo import DEMOS, load_demo
from backend.projects.sides import ASSIGNMENTS, state_sides
from backend.web.auth import current_user
from backend.web.context import get_settings, get_store
from backend.web.dashboard.blueprint import BIGGEST, bp, form_text


@bp.get("/")
def projects() -> str:
    """Every project with its state."""
    store = get_store()
    problems = store.problems.find()
    rows = [_row(project, problems) for project in store.projects.all()]
    general = [problem for problem in problems if problem.project_id is None]
    settings = get_settings()
    reachable = settings.label_studio_url if settings.label_studio_api_key else ""
    return render_template(
        "projects.html",
        rows=rows,
        problems=general,
        address=service_url(settings),
        label_studio_url=(settings.label_studio_public_url or reachable) if reachable else "",
        assignments=ASSIGNMENTS,
    )


@bp.post("/connect")
def connect() -> Response:
    """Connect a project of Label Studio, as `evenhand connect` does; its answers are fetched by the next pull."""
    number, sides = form_text("project"), form_text("sides")
    if not number.isdecimal() or not 0 < int(number) < BIGGEST or sides not in ASSIGNMENTS:
        raise PayloadError(f"the project's number is {number[:40]!r}; expected the one in its address in Label Studio")
    user = current_user()
    store, settings = get_store(), get_settings()
    with requests.Session() as session:
        client = client_from_settings(settings, session)
        if client is None:
            raise PayloadError("LABEL_STUDIO_URL or LABEL_STUDIO_API_KEY is not set; set both and restart the service")
        made = connect_project(store, client, settings, int(number), {})
    state_sides(store, made.project, sides, by=user.name if user else "unknown")
    flash("Connected. Answers given so far are fetched by the next pull, new ones arrive as they are given.")
    return redirect(url_for("dashboard.project", project_id=made.project.id))


@bp.post("/demo")
def demo() -> Response:
    """Load a simulated crowd and ask for a run."""
    user = current_user()
    kind = form_text("kind") or "photos"
    if kind not in DEMOS:
        raise NotFoundError(f"there is no demo {kind[:40]!r}; there are {', '.join(DEMOS)}")
    project = load_demo(get_store(), kind, requested_by=user.name if user else None)
    return redirect(url_for("dashboard.project", project_id=project.id))


def _row(project: Project, problems: list[Any]) -> dict[str, Any]:
    """One project's state."""
    store = get_store()
    latest, newest = store.runs.latest(project.id), store.runs.latest(project.id, status=None)
    return {
        "project": project,
        "latest": latest,
        "newest": newest,
        "summary": (latest.summary if latest else None) or {},
        "construction": ((latest.audit if latest else None) or {}).get("construction"),
        "problems": [problem for problem in problems if problem.project_id == project.id],
    }
