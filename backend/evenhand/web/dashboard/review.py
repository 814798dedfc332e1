"""Reviewing: the queue of flagged annotators, reviewers' decisions with undo, and the sealed log of them."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from flask import flash, redirect, render_template, request, url_for
from werkzeug.wrappers import Response

from evenhand.domain import Run, choice_of
from evenhand.errors import NotFoundError, PayloadError
from evenhand.ingest.reviews import require_reviewer
from evenhand.web.auth import current_user
from evenhand.web.context import get_store
from evenhand.web.dashboard.blueprint import ID, bp, form_text, page_number, paging, project_page
from evenhand.web.rights import access

DECISIONS: Mapping[str, str] = {"confirm": "Confirmed", "dismiss": "Dismissed", "watch": "Watching"}
# What the log can hold besides what reviewers choose.
LOG_WORDS = {**DECISIONS, "erase": "Erased", "withdraw": "Withdrawn"}
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
        return redirect(url_for("dashboard.project", project_id=project_id))
    return _to_annotator(project_id, following)


@bp.post(f"/projects/<{ID}:project_id>/decisions/<{ID}:number>/withdraw")
@access("reviewer")
def withdraw(project_id: int, number: int) -> Response:
    """Take a decision back by a further line of the log."""
    store = get_store()
    for line in store.decisions.in_force(project_id):
        if line.number == number:
            require_reviewer(store, project_id, line.annotator_id, _author())
    withdrawn = store.decisions.withdraw(project_id, number, author=_author())
    flash(f"Undone. The log keeps both decision {number} and its withdrawal.")
    return _to_annotator(project_id, withdrawn.annotator_id)


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


def _author() -> str:
    user = current_user()
    return user.name if user else "unknown"


def _to_annotator(project_id: int, annotator_id: str) -> Response:
    return redirect(url_for("dashboard.annotator", project_id=project_id, id=annotator_id))
