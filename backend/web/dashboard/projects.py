"""All projects at a glance; an empty service greets with how to connect Label Studio and a demo."""

from typing import Any

from flask import redirect, render_template, url_for
from werkzeug.wrappers import Response

from backend.demo_project import load_demo
from backend.domain import Project
from backend.web.auth import current_user
from backend.web.context import get_settings, get_store
from backend.web.dashboard.blueprint import bp
from backend.webhooks import service_url


@bp.get("/")
def projects() -> str:
    """Every project with its state."""
    store = get_store()
    problems = store.list_problems()
    rows = [_row(project, problems) for project in store.list_projects()]
    general = [problem for problem in problems if problem.project_id is None]
    return render_template("projects.html", rows=rows, problems=general, address=service_url(get_settings()))


@bp.post("/demo")
def demo() -> Response:
    """Load the simulated crowd and ask for a run."""
    user = current_user()
    project = load_demo(get_store(), requested_by=user.name if user else None)
    return redirect(url_for("dashboard.project", project_id=project.id))


def _row(project: Project, problems: list[Any]) -> dict[str, Any]:
    """One project's state."""
    store = get_store()
    latest, newest = store.latest_run(project.id), store.latest_run(project.id, status=None)
    return {
        "project": project,
        "latest": latest,
        "newest": newest,
        "summary": (latest.summary if latest else None) or {},
        "construction": ((latest.audit if latest else None) or {}).get("construction"),
        "problems": [problem for problem in problems if problem.project_id == project.id],
    }
