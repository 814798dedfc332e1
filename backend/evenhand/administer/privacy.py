"""What privacy law asks for: everything about one annotator in one document, and its erasure."""

import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from evenhand.domain import Lease, Project, Trigger
from evenhand.errors import NotFoundError, StoreBusyError, UnusableValueError
from evenhand.label_studio.client import LabelStudioClient
from evenhand.label_studio.payloads import ALERT_ANNOTATOR, ALERT_PROJECT
from evenhand.label_studio.transport import LabelStudioError
from evenhand.project_config import ProjectConfig
from evenhand.pseudonyms import PSEUDONYM_KEY, pseudonym
from evenhand.publish.context import Context
from evenhand.publish.tabs import publish_tab
from evenhand.settings import Settings
from evenhand.store import Store

FORMAT = "evenhand-annotator"
VERSION = 1
#: What a worker does with a project; none of it may go on while somebody is taken out.
WORK = ("run", "pull", "publish")
LEASE_SECONDS = 300.0
WAIT_SECONDS = 90.0


@dataclass(frozen=True)
class Person:
    """One user of one Label Studio."""

    ls_url: str
    ids: frozenset[str]
    names: frozenset[str]


@dataclass
class ErasureReport:
    """What was erased by project, what was withdrawn from Label Studio, and what people have to do themselves."""

    erased: dict[int, dict[str, int]] = field(default_factory=dict)
    withdrawn: list[str] = field(default_factory=list)
    by_hand: list[str] = field(default_factory=list)


def find_person(store: Store, wanted: str, url: str | None = None) -> Person:
    """The one annotator with this user id or e-mail address; raises NotFoundError or UnusableValueError."""
    found = {place: ids for place, ids in store.people.find(wanted).items() if url is None or place == url}
    if not found:
        raise NotFoundError(
            f"nobody with the user id or e-mail address {wanted[:100]!r} is known here; the annotators page of a "
            "project shows ids. Somebody who was erased is no longer known"
        )
    if len(found) > 1:
        raise UnusableValueError(
            f"{wanted[:100]!r} occurs in {len(found)} Label Studios ({', '.join(sorted(found))}), where it can mean "
            "different people; choose one with --label-studio URL"
        )
    ((place, ids),) = found.items()
    return Person(place, frozenset(ids), frozenset(store.people.names(place, ids)))


def export_person(store: Store, person: Person) -> dict[str, Any]:
    """Everything stored about a person, by project; projects that know nothing are left out."""
    projects = []
    for project in store.people.projects(person.ls_url):
        rows = store.people.rows(project.id, person.ids, person.names)
        if any(rows.values()):
            labels = _item_labels(store, project.id, rows["comparisons"])
            projects.append(
                {"id": project.id, "title": project.title, "kind": project.kind, "items": labels, **_without_salt(rows)}
            )
    return {
        "format": FORMAT,
        "version": VERSION,
        "label_studio": person.ls_url,
        "annotator_ids": sorted(person.ids),
        "names": sorted(person.names),
        "times": "seconds since 1970-01-01 UTC",
        "projects": projects,
    }


def erase_person(
    store: Store,
    client: LabelStudioClient | None,
    person: Person,
    settings: Settings,
    *,
    wait: float = WAIT_SECONDS,
    sleep: Callable[[float], None] = time.sleep,
) -> ErasureReport:
    """Erase a person everywhere we can reach; statistics follow with the next run, which is asked for."""
    projects = store.people.projects(person.ls_url)
    report = ErasureReport()
    with _stopped(store, projects, wait, sleep):
        sent = sum(
            row["state"] == "sent"
            for project in projects
            for row in store.people.rows(project.id, person.ids, person.names)["notifications"]
        )
        _withdraw_cards(store, client, person, projects, report)
        report.erased = {key: tally for key, tally in store.people.erase(person.ls_url, person.ids).items() if tally}
        _withdraw_from_tabs(store, client, projects, settings, report)
    for project in projects:
        if project.id in report.erased and project.kind == "comparison" and project.deleted_at is None:
            store.runs.request(project.id, Trigger.ERASURE)
    _note_what_is_left(store, person, sent, report)
    try:
        store.people.compact()
    except StoreBusyError as error:
        report.by_hand.append(f"traces in the database's files: {error}")
    return report


@contextmanager
def _stopped(store: Store, projects: list[Project], wait: float, sleep: Callable[[float], None]) -> Iterator[None]:
    """Hold back runs, pulls and publishing of these projects; what is under way is waited for."""
    owner, held = f"erasure:{secrets.token_hex(4)}", list[Lease]()
    deadline = time.monotonic() + wait
    try:
        for project in projects:
            for work in WORK:
                while (lease := store.leases.acquire(f"{work}:{project.id}", owner, LEASE_SECONDS)) is None:
                    if time.monotonic() >= deadline:
                        raise StoreBusyError(
                            f"a {work} of project {project.id} has been going on for {wait:.0f} s; "
                            "try again when it is done, nothing was erased"
                        )
                    sleep(0.5)
                held.append(lease)
        yield
    finally:
        for lease in held:
            store.leases.release(lease)


def _withdraw_cards(
    store: Store, client: LabelStudioClient | None, person: Person, projects: list[Project], report: ErasureReport
) -> None:
    """Delete the person's cards in the alerts projects, answered ones too."""
    key = store.secrets.get(PSEUDONYM_KEY)
    for project in projects:
        if project.kind != "alerts" or project.alerts_for is None or project.deleted_at is not None:
            continue
        place = f"cards in Label Studio project {project.ls_project_id} ({project.title})"
        if client is None or client.url != person.ls_url:
            report.by_hand.append(f"{place}: Label Studio is not configured here; delete those about this annotator")
            continue
        shown = {*person.ids, *(pseudonym(key, project.alerts_for, one) for one in person.ids)}
        try:
            removed = 0
            for page in client.tasks(project.ls_project_id):
                for task in page:
                    if _is_card_of(task, project.alerts_for, shown):
                        client.delete_task(int(task["id"]))
                        removed += 1
            if removed:
                report.withdrawn.append(f"{removed} {place}")
        except LabelStudioError as error:
            report.by_hand.append(f"{place}: {error}; delete those about this annotator")


def _is_card_of(task: dict[str, Any], project_id: int, shown: set[str]) -> bool:
    data = task.get("data")
    if not isinstance(data, dict) or str(data.get(ALERT_PROJECT)) != str(project_id):
        return False
    return str(data.get(ALERT_ANNOTATOR)) in shown


def _withdraw_from_tabs(
    store: Store,
    client: LabelStudioClient | None,
    projects: list[Project],
    settings: Settings,
    report: ErasureReport,
) -> None:
    """Write the tabs that name flagged annotators again, now without the erased one."""
    for project in projects:
        if not ("flags" in report.erased.get(project.id, {}) and store.publications.get(project.id, "tab")):
            continue
        place = f"the tab of Label Studio project {project.ls_project_id} ({project.title})"
        if client is None or client.url != project.ls_url:
            report.by_hand.append(f"{place}: Label Studio is not configured here; remove the annotator's filter")
            continue
        config = ProjectConfig.model_validate(project.config)
        run, now = store.runs.latest(project.id), store.clock()
        try:
            publish_tab(Context(store, client, store.projects.get(project.id), config, run, now, settings))
            report.withdrawn.append(place)
        except LabelStudioError as error:
            report.by_hand.append(f"{place}: {error}; the worker tries again")


def _note_what_is_left(store: Store, person: Person, sent: int, report: ErasureReport) -> None:
    """Name what lies outside of the database."""
    if sent:
        report.by_hand.append(f"{sent} alerts about this annotator that were sent to the alert webhook")
    accounts = sorted({name for name in store.users.names() if name in person.names})
    if accounts:
        report.by_hand.append(f"the dashboard account {', '.join(accounts)} (`evenhand users remove`)")
    report.by_hand += [
        "the person's user, annotations and drafts in Label Studio itself",
        "backups made before, and reports that were downloaded",
    ]


def _item_labels(store: Store, project_id: int, rows: list[dict[str, Any]]) -> dict[str, str]:
    items = {row[side] for row in rows for side in ("left_item", "right_item") if row[side] is not None}
    return store.items.labels(project_id, items)


def _without_salt(rows: dict[str, list[dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    """Rows as they may leave: the salt of a decision would undo a later erasure."""
    return {name: [{k: v for k, v in row.items() if k != "salt"} for row in found] for name, found in rows.items()}
