"""What /setup and /webhook do: read, upsert, answer; everything else happens later in the worker."""

import json
import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from evenhand.domain import Batch, Comparison, Project, ProjectRef, Task, Trigger
from evenhand.errors import NotFoundError, UnusableValueError
from evenhand.json_values import MAX_ID
from evenhand.label_studio import payloads
from evenhand.label_studio.payloads import Event, ProjectInfo, Setup
from evenhand.project_config import parse_config
from evenhand.projects.overview import current_version
from evenhand.projects.reading import check_answers, check_project, reading_of
from evenhand.settings import Settings
from evenhand.store import Store
from evenhand.store.projects import MAX_FIELDS

logger = logging.getLogger("evenhand.ingest.events")

OTHER = "OTHER"
SKEW_SECONDS = 600.0
#: What extra_params may say: where an answer and its items stand.
NAMES_FIELDS = frozenset({"control", "controls", "item_left", "item_right", "coin", "stratum"})
UNVERIFIED = "answers are taken as they come: their events carry no secret, and there is no API token to read them back"
CONNECT_FIRST = "Set LABEL_STUDIO_API_KEY and run `evenhand connect`, which installs the secret into the webhook."
EXTRA_PARAMS = "extra_params of the ML backend"
DATA_EVENTS = frozenset(
    (
        *payloads.ANNOTATION_EVENTS,
        *payloads.ANNOTATION_DELETIONS,
        *payloads.TASK_EVENTS,
        *payloads.TASK_DELETIONS,
    )
)


def handle_setup(store: Store, settings: Settings, setup: Setup) -> str:
    """Register a project and its extra_params; the answer is the version of its latest results."""
    info = setup.project
    store.problems.resolve(None, "unknown_project")
    url = settings.label_studio_url or setup.hostname
    ref = _known_epoch(store, url, info.ref)
    project = store.projects.register(url, ref, label_config=info.label_config or "")
    if info.label_config is not None and info.label_config != project.label_config:
        project = store.projects.describe(project.id, label_config=info.label_config)
    if project.kind == "comparison":
        # Label Studio repeats extra_params with every health call; only new ones say anything.
        if setup.params and dict(setup.params) != dict(project.setup_params):
            project = _apply_params(store, project, setup)
        check_project(store, project)
    return current_version(store, project.id)


def take_hint(store: Store, settings: Settings, event: Event) -> None:
    """Note that something happened in a project; the worker reads it back from Label Studio. Many hints are one."""
    project = store.projects.find(settings.label_studio_url, event.project.ref)
    if project is not None and project.hinted_at is None:
        store.projects.hint(project.id)
        store.events.count(event_kind(event.action), "hint")


def handle_event(store: Store, settings: Settings, event: Event) -> dict[str, Any]:
    """Apply one webhook event; idempotent, whatever the order."""
    return handle_events(store, settings, [event])[0]


def handle_events(store: Store, settings: Settings, events: Sequence[Event]) -> list[dict[str, Any]]:
    """Apply several events; those about one project's answers share a transaction."""
    answers: list[dict[str, Any]] = [{} for _ in events]
    groups: dict[ProjectRef, list[int]] = {}
    for index, event in enumerate(events):
        if event.action in DATA_EVENTS:
            groups.setdefault(event.project.ref, []).append(index)
        else:
            answers[index] = _handle_other(store, settings, event)
    for indices in groups.values():
        members = [events[index] for index in indices]
        for index, answer in zip(indices, _handle_data(store, settings, members), strict=True):
            answers[index] = answer
    return answers


def _handle_other(store: Store, settings: Settings, event: Event) -> dict[str, Any]:
    """Apply an event about a project itself, or one we do not know."""
    project = _project_of(store, settings, event)
    kind = event_kind(event.action)
    if kind == OTHER:
        store.events.count(kind, "ignored")
        return {"ok": True, "project": project.id, "ignored": event.action[:60]}
    store.comparisons.apply(project.id, Batch(events=(kind,)))
    if event.action == "PROJECT_DELETED":
        store.projects.mark_deleted(project.id)
    if project.kind == "alerts":
        return {"ok": True, "project": project.id}
    if event.action == payloads.TRAINING:
        run = store.runs.request(project.id, Trigger.TRAINING, "Label Studio")
        logger.info("start training in Label Studio project %d asks for run %d", project.ls_project_id, run.id)
        return {"ok": True, "project": project.id, "run": run.id}
    check_project(store, project)
    return {"ok": True, "project": project.id}


def _handle_data(store: Store, settings: Settings, events: Sequence[Event]) -> list[dict[str, Any]]:
    """Apply events about one project's annotations and tasks in one transaction."""
    project = _project_of(store, settings, events[0])
    for event in events[1:]:
        project = _describe(store, project, event.project)
    unverified = {raw["id"] for event in events if not event.is_verified for raw in event.annotations}
    if project.kind == "alerts":
        return _ask_for_reviews(store, project, events)
    annotations = [raw for event in events for raw in event.annotations]
    batch = build_batch(store, project, annotations, [raw for event in events for raw in event.tasks])
    if unverified:
        store.problems.open(project.id, "unverified_events", UNVERIFIED, CONNECT_FIRST)
    batch = replace(
        batch,
        deleted_annotations=[key for event in events for key in event.deleted_annotations],
        deleted_tasks=[key for event in events for key in event.deleted_tasks],
        events=tuple(event_kind(event.action) for event in events),
    )
    store.comparisons.apply(project.id, batch)
    _report_unreadable(store, project, batch.comparisons)
    unreadable = {row.annotation_id for row in batch.comparisons if row.status == "unreadable"}
    return [
        {
            "ok": True,
            "project": project.id,
            "annotations": len(event.annotations) + len(event.deleted_annotations),
            "unreadable": sum(raw.get("id") in unreadable for raw in event.annotations),
        }
        for event in events
    ]


def build_batch(
    store: Store,
    project: Project,
    annotations: Sequence[dict[str, Any]],
    tasks: Sequence[dict[str, Any]],
    *,
    as_of: int | None = None,
) -> Batch:
    """Read raw annotations and tasks under the project's settings; tasks not given are looked up."""
    project = _note_fields(store, project, tasks)
    reading = reading_of(project)
    read = [payloads.read_task(raw, reading) for raw in tasks]
    known = {task.task_id: task for task in sorted(read, key=lambda task: task.updated_at)}
    wanted = {raw["task"] for raw in annotations if isinstance(raw.get("task"), int)}
    missing = [key for key in wanted if 0 < key <= MAX_ID and key not in known]
    stored = store.tasks.get(project.id, missing) if missing else {}
    lookup: dict[Any, Task] = {**stored, **known}
    tasks_of = [lookup.get(raw["task"]) if isinstance(raw.get("task"), int) else None for raw in annotations]
    data = {raw.get("id"): raw["data"] for raw in tasks if isinstance(raw.get("data"), dict)}
    rows = [
        row
        for raw, task in zip(annotations, tasks_of, strict=True)
        for row in payloads.read_comparisons(raw, task, reading, data.get(task.task_id if task else None))
    ]
    return Batch(comparisons=rows, tasks=read, as_of=as_of, reads_anew=project.full_pull_needed)


def event_kind(action: str) -> str:
    """The action for counting; unknown names count as one kind, so that nobody can grow the table."""
    return action if action in payloads.KNOWN_ACTIONS else OTHER


def _project_of(store: Store, settings: Settings, event: Event) -> Project:
    """The event's project, made from the event if we never heard of it."""
    info = event.project
    project = store.projects.find(settings.label_studio_url, info.ref)
    if project is None:
        if info.ref.epoch is None:
            store.events.count(event_kind(event.action), "unknown_project")
            store.problems.open(
                None,
                "unknown_project",
                f"an event names Label Studio project {info.ref.ls_project_id}, which was never set up",
                "Add this service as ML backend of the project, or run `evenhand connect`.",
            )
            raise NotFoundError(
                f"Label Studio project {info.ref.ls_project_id} was never set up here and the event does not tell "
                "when it was created; connect it first"
            )
        project = store.projects.register(
            settings.label_studio_url, info.ref, title=info.title or "", label_config=info.label_config or ""
        )
        check_project(store, project)
    return _describe(store, project, info)


def _describe(store: Store, project: Project, info: ProjectInfo) -> Project:
    """Take over a newer title or label config that rides along with an event."""
    is_newer = (info.updated_at or 0.0) > (project.ls_updated_at or 0.0)
    differs = info.title not in (None, project.title) or info.label_config not in (None, project.label_config)
    if not is_newer and not (differs and project.ls_updated_at is None):
        return project
    described = store.projects.describe(
        project.id, title=info.title, label_config=info.label_config, ls_updated_at=info.updated_at
    )
    if described.label_config != project.label_config and described.kind == "comparison":
        check_project(store, described)
    return described


def _known_epoch(store: Store, url: str, ref: ProjectRef) -> ProjectRef:
    """A /setup without epoch means the newest project of that id."""
    if ref.epoch is not None:
        return ref
    known = store.projects.find(url, ref)
    return ProjectRef(ref.ls_project_id, known.epoch if known else 0)


def _apply_params(store: Store, project: Project, setup: Setup) -> Project:
    """Take over the fields that extra_params name; what else they say is reported, not fatal: the connection stands.

    Everybody in Label Studio can edit extra_params, so they tell where the answers stand and nothing about how people
    are judged; and they tell it before the first answer is judged, since other fields would turn answers around.
    """
    project = store.projects.describe(project.id, setup_params=setup.params)
    is_first = not project.counts.get("judged")
    wanted = {key: value for key, value in setup.params.items() if _differs(project, key, value)}
    named = {key: value for key, value in wanted.items() if is_first and key in NAMES_FIELDS}
    refused = {key: value for key, value in wanted.items() if key not in named}
    try:
        if named:
            project = store.projects.set_config(project.id, parse_config(named, base=project.config), by=EXTRA_PARAMS)
    except UnusableValueError as error:
        remedy = "Correct the extra parameters of the ML backend in Label Studio."
        store.problems.open(project.id, "extra_params", f"extra_params: {error}", remedy)
        return project
    if refused:
        tried = ", ".join(f"{key[:60]} = {json.dumps(value)[:80]}" for key, value in sorted(refused.items()))[:800]
        store.problems.open(
            project.id,
            "extra_params",
            f"extra_params of the ML backend tried to set {tried}; nothing of it was taken over",
            "They may name the control and the fields, before the first answer. All else is for an owner: on the page "
            "Settings, or with `evenhand connect`.",
        )
    else:
        store.problems.resolve(project.id, "extra_params")
    return project


def _differs(project: Project, key: str, value: Any) -> bool:
    """Whether extra_params say something else than the project's settings; what cannot be read does."""
    try:
        return bool(parse_config({key: value}, base=project.config).to_json()[key] != project.config.get(key))
    except UnusableValueError:
        return True


def _note_fields(store: Store, project: Project, tasks: Sequence[dict[str, Any]]) -> Project:
    """Remember data fields not seen before; the settings are checked against them."""
    fields = payloads.data_fields(tasks)
    if fields <= set(project.task_fields) or len(project.task_fields) >= MAX_FIELDS:
        return project
    known = store.projects.add_task_fields(project.id, fields)
    if project.task_fields and reading_of(known) != reading_of(project):
        store.projects.request_full_pull(project.id)
    return known


def _report_unreadable(store: Store, project: Project, rows: Sequence[Comparison]) -> None:
    """Make answers that cannot be judged, and clocks that cannot be right, visible."""
    if any(row.status == "unreadable" or row.annotator_id is None for row in rows):
        check_answers(store, store.projects.get(project.id))
    latest = max((row.updated_at for row in rows), default=0.0)
    if latest > store.clock() + SKEW_SECONDS:
        message = f"an annotation's updated_at lies {latest - store.clock():.0f} s ahead of this machine's clock"
        store.problems.open(project.id, "clock_skew", message, "Set both clocks by NTP.")


def _ask_for_reviews(store: Store, project: Project, events: Sequence[Event]) -> list[dict[str, Any]]:
    """Events about alert cards only ask for a pull: what they say could be invented, what the API says could not."""
    store.comparisons.apply(project.id, Batch(events=tuple(event_kind(event.action) for event in events)))
    if not project.full_pull_needed:
        store.projects.request_full_pull(project.id)
    return [{"ok": True, "project": project.id, "pull": "requested"} for _ in events]
