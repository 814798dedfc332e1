"""The blueprint all pages register on, and what they share: the chosen run, chart data, links into Label Studio."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flask import Blueprint, request

from evenhand.domain import Project, Run
from evenhand.errors import NotFoundError
from evenhand.json_values import clean
from evenhand.web.context import get_settings, get_store
from evenhand.web.openapi import BIGGEST, ID

WEB = Path(__file__).resolve().parent.parent
STATIC = WEB / "static"

__all__ = [
    "BIGGEST", "ID", "STATIC", "argument", "bp", "chosen_run", "form_text", "label_studio_url",
    "mark_of", "page_number", "paging", "project_page", "task_url",
]  # fmt: skip

bp = Blueprint(
    "dashboard",
    __name__,
    url_prefix="/ui",
    template_folder=str(WEB / "templates"),
    static_folder=str(STATIC),
    static_url_path="/static",
)


def chosen_run(project: Project) -> Run | None:
    """The finished run asked for with ?run=, else the latest; None where there is none yet."""
    wanted = request.args.get("run", type=int)
    if wanted is None or not 0 < wanted < BIGGEST:
        return get_store().runs.latest(project.id)
    found = get_store().runs.get(wanted, project_id=project.id)
    if found.status != "done":
        raise NotFoundError(f"run {wanted} is {found.status}; only finished runs have results")
    return found


def project_page(project: Project, run: Run | None, page: str) -> dict[str, Any]:
    """What every page of a project shows: its state, problems, and the run looked at."""
    store = get_store()
    newest = store.runs.latest(project.id, status=None)
    latest = run if newest is None or run is None or newest.id <= run.id else store.runs.latest(project.id)
    return {
        "project": project,
        "page": page,
        "run": run,
        "newest": newest,
        "is_latest": run is None or latest is None or latest.id == run.id,
        "problems": store.problems.find(project.id),
        "label_studio": label_studio_url(project),
    }


def mark_of(project: Project) -> str:
    """What a project without a finished run shows, as a text: answers that arrived, and the newest run."""
    newest = get_store().runs.latest(project.id, status=None)
    run = f"{newest.id} {newest.status}" if newest else "none"
    return f"{project.counts.get('judged', 0)} answers, read {project.last_pull_at is not None}, run {run}"


def label_studio_url(project: Project) -> str:
    """The project's address in Label Studio for people, '' where there is none."""
    if project.kind == "demo" or not project.ls_url.startswith(("http://", "https://")):
        return ""
    settings = get_settings()
    is_configured = project.ls_url == settings.label_studio_url and settings.label_studio_public_url
    base = settings.label_studio_public_url if is_configured else project.ls_url
    return f"{base}/projects/{project.ls_project_id}/data"


def task_url(project: Project, task_id: int | None) -> str:
    """A task's address in Label Studio, '' where there is none."""
    base = label_studio_url(project)
    return f"{base}?task={task_id}" if base and task_id is not None else ""


def argument(name: str) -> str:
    """A query argument as text that any database takes."""
    return str(clean(request.args.get(name, "")))


def form_text(name: str) -> str:
    """A form field as text that any database takes, without space around it."""
    return str(clean(request.form.get(name, ""))).strip()


def page_number() -> int:
    """The page asked for with ?page=, from 1."""
    return max(1, min(request.args.get("page", 1, type=int), 10**6))


def paging(total: int, size: int, number: int) -> Mapping[str, Any]:
    """Where a page stands among all rows."""
    last = max(1, -(-total // size))
    number = min(number, last)
    first = (number - 1) * size
    return {
        "number": number,
        "last": last,
        "total": total,
        "first": first + 1 if total else 0,
        "until": min(first + size, total),
    }
