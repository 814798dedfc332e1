"""Reviewers' answers on alert cards become decisions: only those Label Studio's API confirms, once each.

Events about cards are hints that ask for a pull; whoever knows the event secret could invent them. Our clock orders
decisions. Nobody decides about themselves, and where a project names its reviewers, nobody else decides.
"""

import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import requests

from evenhand.domain import Decision, Project, Review, normal_name
from evenhand.errors import ForbiddenError, PayloadError, UnusableValueError
from evenhand.json_values import MAX_ID
from evenhand.label_studio.client import LabelStudioClient
from evenhand.label_studio.payloads import read_review
from evenhand.label_studio.transport import LabelStudioError, Transport
from evenhand.project_config import ProjectConfig
from evenhand.pseudonyms import PSEUDONYM_KEY, resolve
from evenhand.settings import Settings
from evenhand.store import Store

logger = logging.getLogger(__name__)
People = Mapping[str, tuple[str | None, str | None]]
REFUSED, WITHDRAWN = "decision_refused", "decision_withdrawn"
SELF_DECISION = "nobody decides about their own answers; ask another reviewer"
NOT_LINKED = (
    "nobody knows yet who this account is in Label Studio, so it might decide about itself; prove it with your own "
    "token on the page Account, or ask an owner (`evenhand users link`)"
)
NOT_A_REVIEWER = "not one of the project's reviewers (project setting `reviewers`)"


@dataclass
class ReviewReport:
    """What one reading of all cards brought."""

    recorded: int = 0
    withdrawn: int = 0
    refused: dict[str, str] = field(default_factory=dict)


def take_reviews(
    store: Store, alerts_project: Project, answers: Iterable[tuple[dict[str, Any], dict[str, Any]]], people: People
) -> ReviewReport:
    """Bring the log to what the cards hold now: `answers` are all (annotation, card) pairs the API returned."""
    found: list[tuple[Review, str]] = []
    for annotation, card in answers:
        review = _read(store, alerts_project, annotation, card)
        if review is not None:
            user = _user_of(annotation)
            found.append((replace(review, author=_author(people, user) or review.author), user))
    report = ReviewReport()
    for review, user in sorted(found, key=lambda pair: (pair[0].decided_at, pair[0].source_key)):
        reason = refusal(store, review.project_id, review.annotator_id, {user, *filter(None, people.get(user, ()))})
        if reason:
            report.refused[review.source_key] = f"{review.author}: {reason}"
            continue
        report.recorded += store.decisions.add_review(review)[1]
    _withdraw_others(store, alerts_project, {review.source_key for review, _ in found}, report)
    _tell(store, alerts_project, report)
    return report


def refusal(store: Store, project_id: int, annotator_id: str, names: Collection[str]) -> str | None:
    """Why somebody known under these names may not decide about an annotator; None if they may."""
    known = {normal_name(name) for name in names}
    person = store.annotators.get(project_id, [annotator_id]).get(annotator_id)
    own = {annotator_id, *(filter(None, (person.name, person.email)) if person else ())}
    if known & {normal_name(name) for name in own}:
        return SELF_DECISION
    reviewers = ProjectConfig.model_validate(store.projects.get(project_id).config).reviewers
    if reviewers and not known & {normal_name(name) for name in reviewers}:
        return NOT_A_REVIEWER
    return None


def require_reviewer(store: Store, project_id: int, annotator_id: str, account: str) -> None:
    """Refuse a decision on the dashboard or through the API that its author may not make.

    Names can be chosen, so who somebody is in Label Studio must be known by id. Owners may link themselves as they
    like, so nothing is asked of them.
    """
    found, project = store.users.get(account), store.projects.get(project_id)
    linked = found.ls_user if found is not None and found.ls_url in ("", project.ls_url) else None
    if found is not None and found.role == "reviewer" and linked is None and project.kind != "demo":
        raise ForbiddenError(f"{account}: {NOT_LINKED}")
    reason = refusal(store, project_id, annotator_id, {account, linked or account})
    if reason:
        raise ForbiddenError(f"{account}: {reason}")


def link_by_token(store: Store, settings: Settings, account: str, token: str, session: requests.Session) -> str:
    """Link an account to whoever a token of Label Studio belongs to, and forget the token; the user's id."""
    if not settings.label_studio_url:
        raise UnusableValueError("LABEL_STUDIO_URL is not set, so nobody can be asked whose token that is")
    try:
        client = LabelStudioClient(Transport(settings.label_studio_url, token.strip(), session=session)).hurried()
        user = client.who_am_i().get("id")
    except LabelStudioError as error:
        raise UnusableValueError("Label Studio does not take this token; copy it from Account & Settings") from error
    if not isinstance(user, int) or not 0 < user <= MAX_ID:
        raise UnusableValueError("Label Studio did not say whose token that is")
    store.users.link(account, settings.label_studio_url, str(user), by="their own token", is_new=True)
    return str(user)


def _read(store: Store, alerts_project: Project, annotation: dict[str, Any], card: dict[str, Any]) -> Review | None:
    """The decision an answer holds; None if it holds none or is not for us to take."""
    try:
        review = read_review(annotation, card, alerts_project.id)
    except PayloadError:
        return None
    if review is None or review.project_id != alerts_project.alerts_for:
        return None
    annotator = _annotator(store, review.project_id, review.annotator_id)
    return None if annotator is None else replace(review, annotator_id=annotator)


def _withdraw_others(store: Store, alerts_project: Project, held: set[str], report: ReviewReport) -> None:
    """Take back what Label Studio does not hold: invented by whoever knew the secret, or deleted there since."""
    if alerts_project.alerts_for is None:
        return
    prefix = f"label-studio:{alerts_project.id}:"
    lines = [line for line in store.decisions.in_force(alerts_project.alerts_for) if line.source_key.startswith(prefix)]
    newest = {_answer_of(line): line.number for line in lines if line.source_key in held}
    for decision in lines:
        is_earlier_version = decision.number < newest.get(_answer_of(decision), 0)
        if decision.source_key not in held and not is_earlier_version:
            store.decisions.withdraw(
                decision.project_id,
                decision.number,
                author="evenhand",
                reason="Label Studio does not hold this answer.",
                source="pull",
            )
            logger.warning("decision %d of project %d is withdrawn", decision.number, decision.project_id)
            report.withdrawn += 1


def _answer_of(decision: Decision) -> str:
    """The annotation a decision came from, whatever its version."""
    return decision.source_key.rpartition(":")[0]


def _tell(store: Store, alerts_project: Project, report: ReviewReport) -> None:
    """Make refusals and withdrawals visible in the project they are about."""
    project_id = alerts_project.alerts_for
    if project_id is None:
        return
    if report.withdrawn:
        store.problems.open(
            project_id,
            WITHDRAWN,
            f"{report.withdrawn} decisions were withdrawn: Label Studio does not hold them",
            "Look at the decision log. If nobody deleted the answers, change EVENHAND_WEBHOOK_SECRET.",
        )
    if report.refused:
        message = "; ".join(sorted(set(report.refused.values())))[:1000]
        remedy = "Let another reviewer answer the card, or change the project setting `reviewers`."
        store.problems.open(project_id, REFUSED, f"answers on cards were not taken as decisions: {message}", remedy)
    else:
        store.problems.resolve(project_id, REFUSED)


def _annotator(store: Store, project_id: int, name: str) -> str | None:
    """The annotator a card is about, by id or by pseudonym."""
    known = store.annotators.get(project_id)
    if name in known:
        return name
    return resolve(store.secrets.get(PSEUDONYM_KEY), project_id, name, known)


def _user_of(annotation: Mapping[str, Any]) -> str:
    """The id of the Label Studio user who answered."""
    completed_by = annotation.get("completed_by")
    return str(completed_by.get("id") if isinstance(completed_by, dict) else completed_by)


def _author(people: People, user: str) -> str | None:
    """The reviewer's name."""
    name, email = people.get(user, (None, None))
    return name or email
