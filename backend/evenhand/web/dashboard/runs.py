"""Runs: history, run now with live progress, and what differs between two runs."""

from collections.abc import Mapping
from typing import Any

from flask import redirect, render_template, request, url_for
from werkzeug.wrappers import Response

from evenhand.domain import Run, Trigger
from evenhand.errors import NotFoundError
from evenhand.runs.compare import compare_runs
from evenhand.web.auth import current_user
from evenhand.web.context import get_store
from evenhand.web.dashboard.blueprint import BIGGEST, ID, argument, bp, mark_of, project_page
from evenhand.web.rights import access

PAGE_SIZE = 30
TRIGGERS: Mapping[str, str] = {
    Trigger.MANUAL: "by hand",
    Trigger.SCHEDULE: "on schedule",
    Trigger.TRAINING: "from Label Studio",
    Trigger.WARNING: "after an early warning",
    Trigger.CONNECT: "after connecting",
    Trigger.ERASURE: "after an erasure",
    Trigger.DEMO: "for the demo",
}


@bp.get(f"/projects/<{ID}:project_id>/runs")
def runs(project_id: int) -> str:
    """The history, newest first."""
    store = get_store()
    found = store.projects.get(project_id)
    page = store.runs.page(project_id, limit=PAGE_SIZE, cursor=argument("cursor") or None)
    content = project_page(found, store.runs.latest(project_id), "runs")
    return render_template("runs.html", **content, rows=page.rows, cursor=page.cursor, total=page.total)


@bp.post(f"/projects/<{ID}:project_id>/runs")
@access("reviewer")
def run_now(project_id: int) -> Response:
    """Queue a run and show its progress."""
    user = current_user()
    get_store().runs.request(project_id, Trigger.MANUAL, user.name if user else None)
    return redirect(url_for("dashboard.runs", project_id=project_id))


@bp.get(f"/projects/<{ID}:project_id>/runs/<{ID}:run_id>/progress")
def progress(project_id: int, run_id: int) -> dict[str, Any]:
    """How far a run is; a run that found nothing new is forgotten, which counts as done."""
    try:
        run = get_store().runs.get(run_id, project_id=project_id)
    except NotFoundError:
        return {"status": "done", "progress": 1.0, "note": "nothing had changed"}
    return {"status": run.status, "progress": run.progress or 0.0, "note": _note(run)}


@bp.get(f"/projects/<{ID}:project_id>/mark")
def mark(project_id: int) -> dict[str, Any]:
    """A text that changes with what the project's page shows before its first run, for the page to renew itself."""
    return {"mark": mark_of(get_store().projects.get(project_id))}


@bp.get(f"/projects/<{ID}:project_id>/compare")
def compare(project_id: int) -> str:
    """Two runs side by side: who appeared, who vanished, and why."""
    store = get_store()
    found = store.projects.get(project_id)
    older, newer = sorted((_finished(project_id, "a"), _finished(project_id, "b")), key=lambda run: run.id)
    comparison = compare_runs(store, older, newer)
    people = {entry.annotator for entry in (*comparison.appeared, *comparison.vanished)} | set(comparison.stayed)
    names = {key: person.name or key for key, person in store.annotators.get(project_id, people).items()}
    return render_template(
        "compare.html",
        **project_page(found, store.runs.latest(project_id), "runs"),
        older=older,
        newer=newer,
        comparison=comparison,
        names=names,
    )


def _finished(project_id: int, argument: str) -> Run:
    """The finished run named by an argument."""
    wanted = request.args.get(argument, type=int)
    if wanted is None or not 0 < wanted < BIGGEST:
        raise NotFoundError("choose two finished runs in the list of runs to compare them")
    run = get_store().runs.get(wanted, project_id=project_id)
    if run.status != "done":
        raise NotFoundError(f"run {wanted} is {run.status}; only finished runs can be compared")
    return run


def _note(run: Run) -> str:
    """What a run is doing, in words."""
    words: Mapping[str, str] = {"queued": "waiting for a worker", "done": "finished", "failed": run.error or "failed"}
    return words.get(run.status, run.progress_note or "starting")


def trigger_words(trigger: Any) -> str:
    """What asked for a run."""
    return TRIGGERS.get(str(trigger), "by another version")
