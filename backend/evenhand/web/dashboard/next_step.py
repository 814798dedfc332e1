"""After the review: what to label anew, what it costs and what the ranking is without these answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import requests
from flask import Response as FlaskResponse
from flask import flash, redirect, render_template, url_for
from werkzeug.wrappers import Response

from evenhand.domain import Project
from evenhand.errors import NotFoundError, PayloadError
from evenhand.label_studio.client import client_from_settings
from evenhand.publish.tabs import MOST_LISTED, relabel_tab
from evenhand.web.auth import access
from evenhand.web.context import get_settings, get_store
from evenhand.web.dashboard.annotator import queue_of
from evenhand.web.dashboard.blueprint import ID, bp, label_studio_url, project_page, task_url
from fdr_core.report.document import csv_bytes
from fdr_core.report.heaviest import beyond_noise

if TYPE_CHECKING:
    from evenhand.runs.relabel import Relabel

MOST_SHOWN = 20


@bp.get(f"/projects/<{ID}:project_id>/next")
def next_step(project_id: int) -> str:
    """What follows from the decisions made so far, with its cost."""
    from evenhand.runs.relabel import relabel  # not above: the other pages need no numerics, and are up sooner

    store = get_store()
    found = store.projects.get(project_id)
    run = store.runs.latest(project_id)
    plan = relabel(store, found, run) if run else None
    changes: list[Any] = plan.without.changes.to_dict("records") if plan and plan.without else []
    clear = [row for row in changes if beyond_noise(row)]
    shown = plan.answers[:MOST_SHOWN] if plan else []
    wanted = {row[key] for row in shown for key in ("left", "right")}
    wanted |= {row[key] for row in clear[:MOST_SHOWN] for key in ("above", "below")}
    decided = store.decisions.current(project_id)
    decisions = [decided.get(key) for key in (store.findings.flagged(run.id) if run else ())]
    return render_template(
        "next.html",
        **project_page(found, run, "annotators"),
        queue=queue_of(run, project_id),
        decided=[{"decision": line.decision if line else None} for line in decisions],
        plan=plan,
        shown=shown,
        clear=clear[:MOST_SHOWN],
        n_clear=len(clear),
        n_noise=len(changes) - len(clear),
        labels=store.items.labels(project_id, wanted),
        task_urls={row["task"]: task_url(found, row["task"]) for row in shown},
        can_list=bool(label_studio_url(found)) and bool(get_settings().label_studio_api_key),
        most_listed=MOST_LISTED,
    )


@bp.get(f"/projects/<{ID}:project_id>/relabel.csv")
def relabel_csv(project_id: int) -> FlaskResponse:
    """Exactly the answers to ask for anew, one a row."""
    from evenhand.runs.relabel import COLUMNS

    found, plan = _plan(project_id)
    items = get_store().items.labels(project_id, {row[key] for row in plan.answers for key in ("left", "right")})
    rows: list[dict[str, Any]] = [
        {
            **row,
            **{key: items.get(row[key], row[key]) for key in ("left", "right")},
            "address": task_url(found, row["task"]),
        }
        for row in plan.answers
    ]
    response = FlaskResponse(csv_bytes(COLUMNS, rows), content_type="text/csv; charset=utf-8")
    response.headers["Content-Disposition"] = f'attachment; filename="project-{project_id}-relabel.csv"'
    return response


@bp.post(f"/projects/<{ID}:project_id>/relabel-tab")
@access("reviewer")
def relabel_in_tab(project_id: int) -> Response:
    """Make the tab in Label Studio with the tasks to label anew."""
    found, plan = _plan(project_id)
    with requests.Session() as session:
        client = client_from_settings(get_settings(), session)
        if client is None:
            raise PayloadError("LABEL_STUDIO_URL or LABEL_STUDIO_API_KEY is not set; set both and restart the service")
        listed = relabel_tab(client, found, plan.tasks)
    flash(f"The tab “bias: label anew” in Label Studio shows {listed} tasks, the likeliest first to be chosen.")
    return redirect(url_for("dashboard.next_step", project_id=project_id))


def _plan(project_id: int) -> tuple[Project, Relabel]:
    from evenhand.runs.relabel import relabel

    store = get_store()
    found, run = store.projects.get(project_id), store.runs.latest(project_id)
    if run is None:
        raise NotFoundError("no run has finished yet, so there is nothing to label anew")
    return found, relabel(store, found, run)
