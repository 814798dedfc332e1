"""Pages about one annotator: the evidence, and what reviewers decide."""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from flask import flash, redirect, render_template, request, url_for
from werkzeug.wrappers import Response

from evenhand.domain import Project, Run, Trigger, choice_of
from evenhand.errors import ForbiddenError, NotFoundError, PayloadError
from evenhand.ingest.reviews import require_reviewer
from evenhand.runs.report import history_words
from evenhand.runs.review_priority import side_shares
from evenhand.store.decisions import WITHDRAW_ANSWERS
from evenhand.web.auth import access, current_user
from evenhand.web.context import get_store
from evenhand.web.dashboard.blueprint import (
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
from fdr_core.report.heaviest import expected_outcome, heaviest_answers
from fdr_core.report.words import says_lean

DECISIONS: Mapping[str, str] = {"confirm": "Confirmed", "dismiss": "Dismissed", "watch": "Watching"}
# What the log can hold besides what reviewers choose.
LOG_WORDS = {**DECISIONS, "erase": "Erased", "withdraw": "Withdrawn", "withdraw_answers": "Answers withdrawn"}
LOG_SIZE = 100
LONGEST_COMMENT = 5000


@dataclass(frozen=True)
class Queue:
    """The flagged annotators of a run in the list's order, and about whom somebody has decided."""

    flagged: list[str]
    decided: Collection[str]

    @property
    def undecided(self) -> list[str]:
        """Those about whom nobody has decided yet, in the list's order."""
        return [key for key in self.flagged if key not in self.decided]

    @property
    def reviewed(self) -> int:
        """How many have been decided about."""
        return len(self.flagged) - len(self.undecided)

    def place(self, annotator_id: str) -> dict[str, Any] | None:
        """Where an annotator stands among the flagged, and who comes before and after; None if not flagged."""
        if annotator_id not in self.flagged:
            return None
        index = self.flagged.index(annotator_id)
        before = self.flagged[index - 1] if index else None
        after = self.flagged[index + 1] if index + 1 < len(self.flagged) else None
        return {"number": index + 1, "previous": before, "next": after}

    def following(self, annotator_id: str) -> str | None:
        """The next one to decide about: the first undecided after this one, else from the top; None if none is left."""
        start = self.flagged.index(annotator_id) + 1 if annotator_id in self.flagged else 0
        order = self.flagged[start:] + self.flagged[:start]
        return next((key for key in order if key not in self.decided and key != annotator_id), None)


def queue_of(run: Run | None, project_id: int) -> Queue:
    """The queue of a run; empty without one."""
    store = get_store()
    return Queue(store.findings.flagged(run.id) if run else [], store.decisions.current(project_id).keys())


@bp.post(f"/projects/<{ID}:project_id>/decisions")
@access("reviewer")
def decide(project_id: int) -> Response:
    """Append a reviewer's decision to the log, and go on to the next one of the queue."""
    store = get_store()
    annotator_id, decision = form_text("annotator"), choice_of(form_text("decision"))
    comment = form_text("comment")
    if decision is None:
        raise PayloadError("no decision was chosen; go back and choose Confirm, Dismiss or Watch")
    if len(comment) > LONGEST_COMMENT:
        raise PayloadError(f"the comment has {len(comment)} characters; at most {LONGEST_COMMENT} are kept")
    person = store.annotators.get(project_id, [annotator_id]).get(annotator_id)
    if person is None:
        raise NotFoundError(f"project {project_id} has no annotator {annotator_id[:60]!r}")
    require_reviewer(store, project_id, annotator_id, _author())
    run = store.runs.latest(project_id)
    made = store.decisions.add(
        project_id, annotator_id, decision, author=_author(), comment=comment, run_id=run.id if run else None
    )
    undo = url_for("dashboard.withdraw", project_id=project_id, number=made.number)
    told: Any = {"text": DECISIONS[decision], "who": person.name or annotator_id, "undo": undo}
    flash(told, "decision")
    if "advance" not in request.form:
        return _to_annotator(project_id, annotator_id)
    queue = queue_of(run, project_id)
    following = queue.following(annotator_id) if annotator_id in queue.flagged else annotator_id
    if following is None:
        return redirect(url_for("dashboard.next_step", project_id=project_id))
    return _to_annotator(project_id, following)


@bp.post(f"/projects/<{ID}:project_id>/decisions/<{ID}:number>/withdraw")
@access("reviewer")
def withdraw(project_id: int, number: int) -> Response:
    """Take a decision back by a further line of the log."""
    store, user = get_store(), current_user()
    line = store.decisions.line(project_id, number)
    require_reviewer(store, project_id, line.annotator_id, _author())
    if line.decision == WITHDRAW_ANSWERS and (user is None or not user.may("owner")):
        raise ForbiddenError("answers that an owner withdrew are taken back by owners")
    withdrawn = store.decisions.withdraw(project_id, number, author=_author())
    if line.decision == WITHDRAW_ANSWERS:
        store.runs.request(project_id, Trigger.MANUAL, _author())
    flash(f"Undone. The log keeps both entry {number} and its withdrawal.")
    return _to_annotator(project_id, withdrawn.annotator_id)


@bp.post(f"/projects/<{ID}:project_id>/answers/withdraw")
@access("owner")
def withdraw_answers(project_id: int) -> Response:
    """Take the answers somebody gave in a time out of everything, with a reason, and ask for a run."""
    store, annotator_id, reason = get_store(), form_text("annotator"), form_text("reason").strip()
    if annotator_id not in store.annotators.get(project_id, [annotator_id]):
        raise NotFoundError(f"project {project_id} has no annotator {annotator_id[:60]!r}")
    if not 0 < len(reason) <= LONGEST_COMMENT:
        raise PayloadError("say why the answers are withdrawn; the log keeps it")
    since, until = _moment("since", 0.0), _moment("until", store.clock())
    if since >= until:
        raise PayloadError("the time ends before it begins; leave a field empty for all answers on that side")
    require_reviewer(store, project_id, annotator_id, _author())
    store.decisions.withdraw_answers(
        project_id, annotator_id, since=since, until=until, author=_author(), reason=reason
    )
    store.runs.request(project_id, Trigger.MANUAL, _author())
    flash("The answers are withdrawn, and a run is on its way. The log keeps who did it and why.")
    return _to_annotator(project_id, annotator_id)


@bp.get(f"/projects/<{ID}:project_id>/decisions")
def decisions(project_id: int) -> str:
    """The project's whole log of decisions, and whether its seal is intact."""
    store = get_store()
    found = store.projects.get(project_id)
    number, cursor = page_number(), None
    log = store.decisions.page(project_id, limit=LOG_SIZE)
    place = paging(log.total, LOG_SIZE, number)
    for _ in range(place["number"] - 1):
        cursor = log.cursor
        log = store.decisions.page(project_id, limit=LOG_SIZE, cursor=cursor)
    people = store.annotators.get(project_id, {row["annotator_id"] for row in log.rows})
    return render_template(
        "decisions.html",
        **project_page(found, store.runs.latest(project_id), "decisions"),
        log=log,
        paging=place,
        arguments={},
        people=people,
        chain=store.decisions.verify(project_id),
        decision_words=LOG_WORDS,
    )


def _moment(field: str, otherwise: float) -> float:
    """A time that a form gave, in UTC."""
    text = form_text(field).strip()
    try:
        return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() if text else otherwise
    except (ValueError, OverflowError):
        raise PayloadError(f"{text[:40]!r} is no time; expected one like 2026-05-01T09:30") from None


def _author() -> str:
    user = current_user()
    return user.name if user else "unknown"


def _to_annotator(project_id: int, annotator_id: str) -> Response:
    return redirect(url_for("dashboard.annotator", project_id=project_id, id=annotator_id))


MOST_ANSWERS = 20_000
MOST_TICKS = 500


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
        seen=_seen(run, row, answers),
        crowd=_crowd(run, row),
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
    current = store.live.get(project_id, [annotator_id]).get(annotator_id)
    if current is None:
        return None
    curve = [
        {"answer": number, "at": at, "log10": log_e / math.log(10)}
        for number, at, log_e in current.state.get("curve", [])
    ]
    return {
        "e": math.exp(min(current.log_e, 700.0)),
        "sup_e": math.exp(min(current.sup_log_e, 700.0)),
        "answers": current.answers,
        "warned_at": current.warned_at,
        "curve": curve,
    }


def _seen(run: Run | None, row: dict[str, Any] | None, answers: list[dict[str, Any]]) -> dict[str, Any] | None:
    """How many answers went left, and how many the scores of the items predict; only what has both counts."""
    if run is None or row is None:
        return None
    items = {answer[side] for answer in answers for side in ("left_item", "right_item") if answer[side]}
    scores = get_store().rankings.scores(run.id, items)
    known = [
        (answer["outcome"], scores[answer["left_item"]] - scores[answer["right_item"]])
        for answer in answers
        if answer["status"] in ("answer", "judge")
        and answer["outcome"]
        and {answer["left_item"], answer["right_item"]} <= scores.keys()
    ]
    expected = sum((1 + expected_outcome(gap, run.consensus)) / 2 for _, gap in known)
    return {"n": len(known), "left": sum(side > 0 for side, _ in known), "expected": expected} if known else None


def _crowd(run: Run | None, row: dict[str, Any] | None) -> dict[str, Any]:
    """Everybody's leans, for where one stands among them."""
    marks = get_store().findings.marks(run.id) if run and row else []
    leans = [mark.bias for mark in marks if mark.bias is not None and says_lean(mark._asdict())]
    own = (row or {}).get("bias") or 0.0
    beyond = sum(lean * (1 if own > 0 else -1) > abs(own) for lean in leans)
    return {"n": len(leans), "beyond": beyond, "leans": leans[:: max(1, len(leans) // MOST_TICKS)]}


def _others(choices: Mapping[frozenset[str], Mapping[str, int]], left: str, right: str) -> dict[str, int] | None:
    """What others chose about a pair, by where its items stood; None where nobody else judged it."""
    counts = choices.get(frozenset((left, right)))
    return (
        None if not counts else {"left": counts.get(left, 0), "right": counts.get(right, 0), "n": sum(counts.values())}
    )


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
    shown = {answer.row[side] for answer in weighed for side in ("left_item", "right_item")}
    labels = store.items.labels(found.id, shown)
    choices = store.comparisons.choices(found.id, shown, but=row["annotator"])
    return [
        {
            "others": _others(choices, answer.row["left_item"], answer.row["right_item"]),
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
