"""One annotator: the evidence, how it came about, and what reviewers decided."""

import math
from typing import Any

from flask import render_template

from evenhand.domain import Project, Run
from evenhand.errors import NotFoundError
from evenhand.runs.first_submissions import history_words
from evenhand.runs.review_priority import side_shares
from evenhand.web.context import get_store
from evenhand.web.dashboard.blueprint import ID, argument, bp, chosen_run, project_page, task_url
from evenhand.web.dashboard.review import LOG_SIZE, LOG_WORDS, queue_of
from fdr_core.report.heaviest import heaviest_answers

MOST_ANSWERS = 20_000


@bp.get(f"/projects/<{ID}:project_id>/annotator")
def annotator(project_id: int) -> str:
    """The evidence on one annotator's answers."""
    store = get_store()
    found = store.projects.get(project_id)
    annotator_id = argument("id")
    person = store.annotators.get(project_id, [annotator_id]).get(annotator_id)
    if person is None:
        raise NotFoundError(f"project {project_id} has no annotator {annotator_id[:60]!r}; its page lists them")
    run = chosen_run(found)
    row = store.findings.get(run.id, annotator_id) if run else None
    answers = store.comparisons.of_annotator(project_id, annotator_id, limit=MOST_ANSWERS)
    log = store.decisions.page(project_id, annotator_id=annotator_id, limit=LOG_SIZE)
    queue = queue_of(run, project_id)
    flag = next((flag for flag in store.flags.all(project_id) if flag["annotator_id"] == annotator_id), None)
    return render_template(
        "annotator.html",
        **project_page(found, run, "annotators"),
        annotator_id=annotator_id,
        person=person,
        row=row,
        flag=flag,
        shares=side_shares(answers),
        left_out=_left_out(answers),
        later=_later(found, annotator_id),
        taken_out=store.decisions.withdrawn_answers(project_id).get(annotator_id, ()),
        live=_live(project_id, annotator_id),
        heaviest=_heaviest(found, run, row, answers),
        log=log,
        queue=queue,
        place=queue.place(annotator_id),
        decision=store.decisions.current(project_id).get(annotator_id),
        decision_words=LOG_WORDS,
    )


def _later(found: Project, annotator_id: str) -> str:
    """What became of the annotator's answers after they were given; where only pulls read them, nobody knows."""
    history = get_store().revisions.of(found.id, [annotator_id]).get(annotator_id)
    if history is not None:
        return history_words(history, get_store().annotators.get(found.id))
    return "" if found.last_event_at else "whether others changed these answers is not known: pulls see no history"


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
    current = store.live.get(project_id, [annotator_id])[1].get(annotator_id)
    if current is None:
        return None
    curve = [
        {"answer": number, "at": at, "log10": log_e / math.log(10)}
        for number, (_, at, log_e) in enumerate(store.live.curve(project_id, annotator_id), start=1)
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
    scores = store.rankings.scores(run.id, items)
    weighed = heaviest_answers(answers, scores, row["bias"], consensus=run.consensus)
    labels = store.items.labels(
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
