"""All projects at a glance; an empty service greets with how to connect Label Studio and a demo."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import requests
from flask import flash, make_response, redirect, render_template, url_for
from werkzeug.wrappers import Response

from evenhand.administer.connect import connect_project
from evenhand.domain import Project, Trigger
from evenhand.errors import NotFoundError, PayloadError, RequestError
from evenhand.ingest.pull import pull_project
from evenhand.label_studio.client import LabelStudioClient, client_from_settings
from evenhand.label_studio.transport import LabelStudioError
from evenhand.label_studio.webhooks import service_url
from evenhand.projects.demo import DEMOS, load_demo
from evenhand.projects.sides import ASSIGNMENTS, state_sides
from evenhand.web.auth import current_user
from evenhand.web.context import get_settings, get_store
from evenhand.web.dashboard.blueprint import BIGGEST, bp, form_text
from fdr_core.report.words import cause_of

#: A project with more answers than this is fetched by the worker, so that nobody waits for the page.
FETCHED_AT_ONCE = 2000


@bp.get("/")
def projects() -> str:
    """Every project with its state."""
    return _page()


def _page(typed: Mapping[str, str] | None = None, message: str = "") -> str:
    """The page, with what was typed into the form to connect a project, and beside it why that did not work."""
    store = get_store()
    problems = store.problems.find()
    rows = [_row(project, problems) for project in store.projects.all()]
    settings = get_settings()
    reachable = settings.label_studio_url if settings.label_studio_api_key else ""
    return render_template(
        "projects.html",
        rows=rows,
        problems=_shared(problems),
        titles={row["project"].id: row["project"].title for row in rows},
        address=service_url(settings),
        label_studio_url=(settings.label_studio_public_url or reachable) if reachable else "",
        assignments=ASSIGNMENTS,
        typed=typed or {},
        message=message,
    )


@bp.post("/connect")
def connect() -> Response:
    """Connect a project of Label Studio, as `evenhand connect` does; what stands in the way is said on the form."""
    typed = {"project": form_text("project"), "sides": form_text("sides")}
    try:
        project = _connect(typed["project"], typed["sides"])
    except (RequestError, LabelStudioError) as error:
        words, _ = cause_of(str(error))
        return make_response(_page(typed, f"{words}; {error.remedy}" if error.remedy else words), error.status)
    flash("Connected. New answers arrive as they are given.")
    return redirect(url_for("dashboard.project", project_id=project.id))


def _connect(number: str, sides: str) -> Project:
    """Register the project on both sides and take the owner's word on the sides."""
    if not number.isdecimal() or not 0 < int(number) < BIGGEST or sides not in ASSIGNMENTS:
        raise PayloadError(f"the project number was {number[:40]!r}; expected the one in its address in Label Studio")
    user, store, settings = current_user(), get_store(), get_settings()
    name = user.name if user else "unknown"
    with requests.Session() as session:
        client = client_from_settings(settings, session)
        if client is None:
            raise PayloadError("LABEL_STUDIO_URL or LABEL_STUDIO_API_KEY is not set; set both and restart the service")
        project = connect_project(store, client, settings, int(number), {}).project
        _fetch_if_small(client, project)
    project = state_sides(store, project, sides, by=name)
    if store.projects.get(project.id).counts.get("judged"):
        store.runs.request(project.id, Trigger.CONNECT, name)
    return project


def _fetch_if_small(client: LabelStudioClient, project: Project) -> None:
    """Fetch few answers while somebody waits for the first list; many are fetched by the worker."""
    described = client.project(project.ls_project_id)
    if int(described.get("total_annotations_number") or 0) <= FETCHED_AT_ONCE:
        pull_project(get_store(), client, project, full=True)


@bp.post("/demo")
def demo() -> Response:
    """Load a simulated crowd and ask for a run."""
    user = current_user()
    kind = form_text("kind") or "photos"
    if kind not in DEMOS:
        raise NotFoundError(f"there is no demo {kind[:40]!r}; there are {', '.join(DEMOS)}")
    project = load_demo(get_store(), kind, requested_by=user.name if user else None)
    return redirect(url_for("dashboard.project", project_id=project.id))


def _shared(problems: list[Any]) -> list[Any]:
    """Problems that are not one project's own: of the service, or with one cause for several projects."""
    causes = Counter(cause_of(problem.message)[0] for problem in problems)
    return [one for one in problems if one.project_id is None or causes[cause_of(one.message)[0]] > 1]


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
