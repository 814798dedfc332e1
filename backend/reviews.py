"""Reviewers' answers on alert cards become decisions, once each, whichever way they arrive."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from backend.domain import Project
from backend.errors import PayloadError
from backend.protocol import read_review
from backend.pseudonyms import PSEUDONYM_KEY, resolve
from backend.store import Store

People = Mapping[str, tuple[str | None, str | None]]


def record_review(
    store: Store,
    alerts_project: Project,
    annotation: dict[str, Any],
    task: dict[str, Any],
    people: People | None = None,
) -> bool:
    """Append the decision an answer holds; False if it holds none, is known already, or is not for us to take.

    `people` are names by user id, where the caller has them; else the names known for the project are used.
    """
    try:
        review = read_review(annotation, task, alerts_project.id)
    except PayloadError:
        return False
    if review is None or review.project_id != alerts_project.alerts_for:
        return False
    annotator = _annotator(store, review.project_id, review.annotator_id)
    if annotator is None:
        return False
    author = _author(store, alerts_project, annotation.get("completed_by"), people) or review.author
    before = store.list_decisions(review.project_id, limit=1).total
    decision = store.add_review(replace(review, annotator_id=annotator, author=author))
    return decision.number > before


def _annotator(store: Store, project_id: int, name: str) -> str | None:
    """The annotator a card is about, by id or by pseudonym."""
    known = store.list_annotators(project_id)
    if name in known:
        return name
    return resolve(store.shared_secret(PSEUDONYM_KEY), project_id, name, known)


def _author(store: Store, alerts_project: Project, completed_by: Any, people: People | None) -> str | None:
    """The reviewer's name."""
    user = completed_by.get("id") if isinstance(completed_by, dict) else completed_by
    if people is not None:
        return people.get(str(user), (None, None))[0]
    for project_id in filter(None, (alerts_project.id, alerts_project.alerts_for)):
        person = store.list_annotators(project_id, [str(user)]).get(str(user))
        if person and (person.name or person.email):
            return person.name or person.email
    return None
