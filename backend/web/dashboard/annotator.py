"""One annotator: the evidence, how it came about, and what reviewers decided."""

import math
from typing import Any

from flask import flash, redirect, render_template, url_for
from werkzeug.wrappers import Response

from backend.domain import Project, Run
from backend.errors import NotFoundError, PayloadError
from backend.web.auth import current_user
from backend.web.context import get_store
from backend.web.dashboard.blueprint import (
    ID,
    argument,
    bp,
    chosen_run,
    form_text,
    page_number,
    paging,
    project_page,
    task_url,
)
from backend.weighing import heaviest_answers, side_shares

DECISIONS = {"confirm": "Confirmed", "dismiss": "Dismissed", "watch": "Watching"}
# What the log can hold besides what reviewers choose.
LOG_WORDS = {**DECISIONS, "erase": "Erased"}
LOG_SIZE = 100
LONGEST_COMMENT = 5000
MOST_ANSWERS = 20_000


@bp.get(f"/projects/<{ID}:project_id>/annotator")
def annotator(project_id: int) -> str:
    """The evidence on one annotator's answers."""
    store = get_store()
    found = store.get_project(project_id)
    annotator_id = argument("id")
    person = store.list_annotators(project_id, [annotator_id]).get(annotator_id)
    if person is None:
        raise NotFoundError(f"project {project_id} has no annotator {annotator_id[:60]!r}; its page lists them")
    run = chosen_run(found)
    row = store.run_annotator(run.id, annotator_id) if run else None
    answers = store.annotator_answers(project_id, annotator_id, limit=MOST_ANSWERS)
    log = store.list_decisions(project_id, annotator_id=annotator_id, limit=LOG_SIZE)
    flag = next((flag for flag in store.list_flags(project_id) if flag["annotator_id"] == annotator_id), None)
    return render_template(
        "annotator.html",
        **project_page(found, run, "annotators"),
        annotator_id=annotator_id,
        person=person,
        row=row,
        flag=flag,
        shares=side_shares(answers),
        left_out=_left_out(answers),
        live=_live(project_id, annotator_id),
        heaviest=_heaviest(found, run, row, answers),
        log=log,
        decision=store.current_decisions(project_id).get(annotator_id),
        decision_words=LOG_WORDS,
    )


@bp.post(f"/projects/<{ID}:project_id>/decisions")
def decide(project_id: int) -> Response:
    """Append a reviewer's decision to the log."""
    store = get_store()
    annotator_id, decision = form_text("annotator"), form_text("decision")
    comment = form_text("comment")
    if decision not in DECISIONS:
        raise PayloadError("no decision was chosen; go back and choose confirm, dismiss or watch")
    if len(comment) > LONGEST_COMMENT:
        raise PayloadError(f"the comment has {len(comment)} characters; at most {LONGEST_COMMENT} are kept")
    if annotator_id not in store.list_annotators(project_id, [annotator_id]):
        raise NotFoundError(f"project {project_id} has no annotator {annotator_id[:60]!r}")
    run = store.latest_run(project_id)
    user = current_user()
    store.add_decision(
        project_id,
        annotator_id,
        decision,  # type: ignore[arg-type]  # checked above
        author=user.name if user else "unknown",
        comment=comment,
        run_id=run.id if run else None,
    )
    flash(f"{DECISIONS[decision]}. The decision is in the log.")
    return redirect(url_for("dashboard.annotator", project_id=project_id, id=annotator_id, _anchor="decisions"))


@bp.get(f"/projects/<{ID}:project_id>/decisions")
def decisions(project_id: int) -> str:
    """The project's whole log of decisions, and whether its seal is intact."""
    store = get_store()
    found = store.get_project(project_id)
    number, cursor = page_number(), None
    log = store.list_decisions(project_id, limit=LOG_SIZE)
    place = paging(log.total, LOG_SIZE, number)
    for _ in range(place["number"] - 1):
        cursor = log.cursor
        log = store.list_decisions(project_id, limit=LOG_SIZE, cursor=cursor)
    people = store.list_annotators(project_id, {row["annotator_id"] for row in log.rows})
    return render_template(
        "decisions.html",
        **project_page(found, store.latest_run(project_id), "decisions"),
        log=log,
        paging=place,
        arguments={},
        people=people,
        chain=store.verify_decisions(project_id),
        decision_words=LOG_WORDS,
    )


def _left_out(answers: list[dict[str, Any]]) -> dict[str, int]:
    """How many of the annotator's rows are not judged, by reason."""
    counts: dict[str, int] = {}
    for row in answers:
        if row["status"] != "answer":
            counts[row["status"]] = counts.get(row["status"], 0) + 1
    return counts


def _live(project_id: int, annotator_id: str) -> dict[str, Any] | None:
    """The live evidence and its curve (base-10 logarithms); None before the first answer was counted."""
    store = get_store()
    current = store.get_live(project_id, [annotator_id])[1].get(annotator_id)
    if current is None:
        return None
    curve = [
        {"answer": number, "at": at, "log10": log_e / math.log(10)}
        for number, (_, at, log_e) in enumerate(store.get_curve(project_id, annotator_id), start=1)
    ]
    return {
        "e": math.exp(min(current.log_e, 700.0)),
        "sup_e": math.exp(min(current.sup_log_e, 700.0)),
        "answers": current.answers,
        "warned_at": current.warned_at,
        "curve": curve,
    }


def _heaviest(
    found: Project, run: Run | None, row: dict[str, Any] | None, answers: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """The answers that weigh most, with the items' texts and a link to the task."""
    if run is None or row is None or not row["bias"]:
        return []
    store = get_store()
    items = {answer[side] for answer in answers for side in ("left_item", "right_item") if answer[side]}
    weighed = heaviest_answers(answers, store.item_scores(run.id, items), row["bias"])
    labels = store.item_labels(
        found.id, {answer.row[side] for answer in weighed for side in ("left_item", "right_item")}
    )
    return [
        {
            "task_id": answer.row["task_id"],
            "url": task_url(found, answer.row["task_id"]),
            "left": labels.get(answer.row["left_item"], answer.row["left_item"]),
            "right": labels.get(answer.row["right_item"], answer.row["right_item"]),
            "outcome": answer.row["outcome"],
            "expected": answer.expected,
            "weight": answer.weight,
            "lead_time": answer.row["lead_time"],
            "at": answer.row["created_at"],
        }
        for answer in weighed
    ]
