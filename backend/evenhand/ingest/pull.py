"""Pulls a project from Label Studio's API and heals what events lost; the pull is the truth, events are hints."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from evenhand.domain import Applied, Batch, Comparison, Project, Task
from evenhand.errors import PayloadError
from evenhand.ingest.reviews import take_reviews
from evenhand.label_studio.client import LabelStudioClient, project_epoch, user_names
from evenhand.label_studio.payloads import (
    JUDGE,
    clean,
    data_fields,
    read_comparisons,
    read_draft,
    read_judgement,
    read_task,
)
from evenhand.label_studio.transport import LabelStudioError, LabelStudioMissingError
from evenhand.projects.overview import refresh_states
from evenhand.projects.reading import check_answers, check_project, reading_of, resolve_read
from evenhand.store import Store
from evenhand.store.annotators import removed_name
from fdr_core.inputs.label_studio.reading import Reading
from fdr_core.report.words import plural

Json = dict[str, Any]
#: Hears how many pages, tasks and answers were read, and how many tasks there are.
Tell = Callable[[int, int, int, int], None]

#: What a task holds, and how it is read; predictions are read where judges are.
KINDS: Mapping[str, Callable[[Json, Task, Reading | None, Json], list[Comparison]]] = {
    "annotations": read_comparisons,
    "drafts": read_draft,
    "predictions": read_judgement,
}
# Label Studio writes a task's time before its import ends; looking back covers imports that last minutes.
OVERLAP_SECONDS = 600.0
# Times further ahead of Label Studio's clock were written before it was set back.
AHEAD_SECONDS = 60.0


class ProjectGoneError(LabelStudioError):
    """The project no longer exists in Label Studio, or its id now belongs to another one."""

    code = "project_gone"
    status = 404
    remedy = "what is stored stays readable; connect the project anew if it was moved, with `evenhand connect`"


@dataclass(frozen=True)
class PullReport:
    """What a pull looked at and what it had to repair."""

    full: bool
    is_first: bool
    tasks: int = 0
    annotations: int = 0
    added: int = 0
    updated: int = 0
    revived: int = 0
    removed: int = 0
    tasks_removed: int = 0
    unreadable: int = 0
    broken: int = 0
    decisions: int = 0
    decisions_refused: int = 0
    decisions_withdrawn: int = 0
    difference: int = 0
    seconds: float = 0.0

    @property
    def repaired(self) -> int:
        """Annotations that are different now from what events had told."""
        return self.added + self.updated + self.revived + self.removed

    def to_json(self) -> Json:
        """The report as stored with the project."""
        return {**asdict(self), "repaired": self.repaired}


@dataclass
class _Seen:
    """What the pages of one pull showed."""

    tasks: set[int] = field(default_factory=set)
    annotations: set[int] = field(default_factory=set)
    fields: set[str] = field(default_factory=set)
    newest: float | None = None
    submitted: int = 0
    broken: int = 0
    applied: list[Applied] = field(default_factory=list)
    tasks_removed: int = 0

    def total(self, name: str) -> int:
        """Sum of one count over all batches."""
        return sum(int(getattr(applied, name)) for applied in self.applied)


def pull_project(
    store: Store, client: LabelStudioClient, project: Project, *, full: bool, tell: Tell | None = None
) -> PullReport:
    """Bring the store to what Label Studio holds; safe to call again at any time.

    An incremental pull reads the tasks changed since the last one and checks the totals; where they do not add up,
    everything is read. The alerts project is pulled for reviewers' decisions only. `tell` hears, page by page, how far
    it is.
    """
    started = time.monotonic()
    described = _describe(client, project)
    if project.kind == "alerts":
        return _pull_decisions(store, client, project, started)
    project = store.projects.describe(
        project.id, title=clean(described.get("title")), label_config=clean(described.get("label_config"))
    )
    project = check_project(store, project)
    horizon = client.server_time.timestamp() + AHEAD_SECONDS if client.server_time else float("inf")
    if project.hinted_at is not None:
        store.projects.take_up_hint(project.id)  # before reading: a hint that comes meanwhile asks again
    told = None if tell is None else partial(_tell, tell, described.get("task_number"))
    full = full or project.full_pull_needed or project.pull_watermark is None or project.pull_watermark > horizon
    seen = _pull(store, client, project, full=full, told=told)
    if not full:
        _remove_deleted_tasks(store, client, project, described, seen)
        if _difference(store, project, described) != _known_difference(project):
            full = True
            seen = _pull(store, client, project, full=True)
    name_annotators(store, client, project)
    report = PullReport(
        full=full,
        is_first=project.last_pull_at is None,
        tasks=len(seen.tasks),
        annotations=seen.submitted,
        added=seen.total("inserted"),
        updated=seen.total("updated"),
        revived=seen.total("revived"),
        removed=seen.total("deleted"),
        tasks_removed=seen.tasks_removed,
        unreadable=seen.total("unreadable"),
        broken=seen.broken,
        difference=_difference(store, project, described) if full else _known_difference(project),
        seconds=round(time.monotonic() - started, 3),
    )
    newest = max((moment for moment in (seen.newest, project.pull_watermark) if moment is not None), default=None)
    watermark = None if newest is None else min(newest, horizon)
    store.projects.finish_pull(project.id, report.to_json(), watermark=watermark, was_full=full)
    resolve_read(store, project.id, newest=seen.newest, ahead=AHEAD_SECONDS)
    check_answers(store, store.projects.get(project.id))
    report_less(store, project.id)
    return report


def report_less(store: Store, project_id: int) -> None:
    """Where answers that were read before are not read now, say so, until they are read again."""
    counts = store.projects.get(project_id).counts
    lost = store.comparisons.no_longer_read(project_id) if counts.get("empty") or counts.get("unreadable") else 0
    message = f"{plural(lost, 'answer')} that {'was' if lost == 1 else 'were'} read before cannot be read now"
    known = {problem.code: problem.message for problem in store.problems.find(project_id)}.get("reads_less")
    if not lost and known:
        store.problems.resolve(project_id, "reads_less")
    elif lost and known != message:
        remedy = (
            "Look at the page Settings, under Reading: the control, the fields and what answers mean. Nothing is lost; "
            "a full pull reads all answers again."
        )
        store.problems.open(project_id, "reads_less", message, remedy)


def _describe(client: LabelStudioClient, project: Project) -> Json:
    """The project as Label Studio has it, if it is still the same one."""
    try:
        described = client.project(project.ls_project_id)
    except LabelStudioMissingError:
        raise ProjectGoneError(
            f"project {project.ls_project_id} ({project.title!r}) is not in Label Studio at {client.url}: "
            "deleted, or not visible to the token's user"
        ) from None
    epoch = project_epoch(described)
    if project.epoch and epoch != project.epoch:
        raise ProjectGoneError(
            f"project {project.ls_project_id} at {client.url} was created at {epoch}, the connected one at "
            f"{project.epoch}: Label Studio was reinstalled and the id now belongs to another project"
        )
    return described


def _tell(tell: Tell, total: object, seen: _Seen) -> None:
    known = len(seen.tasks)
    tell(len(seen.applied), known, seen.submitted, total if isinstance(total, int) else known)


def _pull(
    store: Store,
    client: LabelStudioClient,
    project: Project,
    *,
    full: bool,
    told: Callable[[_Seen], None] | None = None,
) -> _Seen:
    """Read pages and apply each; then remove what the pages no longer show."""
    seen = _Seen()
    since = None
    if not full and project.pull_watermark is not None:
        since = datetime.fromtimestamp(project.pull_watermark - OVERLAP_SECONDS, UTC)
    as_of, reads_anew = store.projects.begin_pull(project.id), project.full_pull_needed
    for page in client.tasks(project.ls_project_id, updated_since=since):
        project = _learn_fields(store, project, page, seen)
        batch = _read_page(page, reading_of(project), seen, judges=project.config.get("judges", "people") != "people")
        seen.applied.append(store.comparisons.apply(project.id, replace(batch, as_of=as_of, reads_anew=reads_anew)))
        if told is not None:
            told(seen)
    within = None if full else seen.tasks
    seen.applied.append(
        store.comparisons.delete_missing(project.id, seen.annotations, as_of=as_of, within_tasks=within)
    )
    if full:
        before = store.tasks.page(project.id, limit=1).total
        seen.applied.append(store.comparisons.delete_missing_tasks(project.id, seen.tasks, as_of=as_of))
        seen.tasks_removed += before - store.tasks.page(project.id, limit=1).total
    return seen


def _learn_fields(store: Store, project: Project, page: list[Json], seen: _Seen) -> Project:
    """Remember data fields never seen before: settings may name them."""
    fields = data_fields(page)
    if fields <= seen.fields | set(project.task_fields):
        return project
    seen.fields |= fields
    store.projects.add_task_fields(project.id, fields)
    return store.projects.get(project.id)


def _read_page(page: Iterable[Json], reading: Reading | None, seen: _Seen, *, judges: bool) -> Batch:
    """Turn one page of tasks into a batch; an entry without a usable id is counted, not guessed."""
    tasks: list[Task] = []
    comparisons: list[Comparison] = []
    for raw in page:
        raw = clean(raw)
        try:
            task = read_task(raw, reading)
            data = raw["data"] if isinstance(raw.get("data"), dict) else {}
        except PayloadError:
            seen.broken += 1
            continue
        tasks.append(task)
        seen.tasks.add(task.task_id)
        seen.newest = max(seen.newest or 0.0, task.updated_at)
        for key, read in KINDS.items():
            if key == "predictions" and not judges:
                continue
            for entry in raw.get(key) or ():
                try:
                    rows = read(entry, task, reading, data)
                except PayloadError:
                    seen.broken += 1
                    continue
                comparisons += rows
                seen.annotations.update(row.annotation_id for row in rows)
                seen.submitted += key == "annotations"
    return Batch(tasks=tasks, comparisons=comparisons)


def _remove_deleted_tasks(
    store: Store, client: LabelStudioClient, project: Project, described: Mapping[str, Any], seen: _Seen
) -> None:
    """If the number of tasks or of completed ones is off, ask for every task's id and state."""
    known = store.tasks.page(project.id, limit=1).total
    completed = store.tasks.page(project.id, limit=1, is_labeled=True).total
    if known == described.get("task_number") and completed == described.get("finished_task_number", completed):
        return
    as_of = store.projects.begin_pull(project.id)
    states = client.task_states(project.ls_project_id)
    seen.applied.append(store.comparisons.delete_missing_tasks(project.id, states.keys(), as_of=as_of))
    seen.tasks_removed += known - store.tasks.page(project.id, limit=1).total
    refresh_states(store, project, states, as_of=as_of)


def _difference(store: Store, project: Project, described: Mapping[str, Any]) -> int:
    """Annotations stored minus annotations Label Studio counts; 0 where it does not say."""
    submitted, skipped = described.get("total_annotations_number"), described.get("skipped_annotations_number")
    if not isinstance(submitted, int) or not isinstance(skipped, int):
        return 0
    counts = store.projects.get(project.id).counts
    stored = sum(counts.get(status, 0) for status in ("answer", "skip", "empty", "prediction", "unreadable", "erased"))
    return stored - counts.get("further", 0) - submitted - skipped


def _known_difference(project: Project) -> int:
    """The difference a full pull could not explain; it must not cause full pulls for ever."""
    value = (project.last_pull or {}).get("difference", 0)
    return value if isinstance(value, int) else 0


def name_annotators(store: Store, client: LabelStudioClient, project: Project) -> None:
    """Take over names and addresses that are new or changed."""
    known = store.annotators.get(project.id)
    if not known:
        return
    names = {key: value for key, value in user_names(client).items() if key in known}
    judges = [key for key in known if key.startswith(JUDGE)]
    names.update({key: (f"judge {key.removeprefix(JUDGE)}", None) for key in judges})
    gone = [person for key, person in known.items() if person.email and key not in names]
    names.update({one.annotator_id: (removed_name(one.name or str(one.email)), one.email) for one in gone})
    changed = {key: value for key, value in names.items() if (known[key].name, known[key].email) != value}
    store.annotators.name(project.id, changed)


def _pull_decisions(store: Store, client: LabelStudioClient, project: Project, started: float) -> PullReport:
    """Read reviewers' answers on the alert cards; cards are few, so all are read each time."""
    store.projects.take_up_pull(project.id)  # before reading: an event that comes meanwhile asks again
    people = user_names(client)
    store.annotators.name(project.id, people, insert=True)
    cards = [clean(task) for page in client.tasks(project.ls_project_id) for task in page]
    answers = [(annotation, card) for card in cards for annotation in card.get("annotations") or ()]
    found = take_reviews(store, project, answers, people)
    report = PullReport(
        full=True,
        is_first=project.last_pull_at is None,
        tasks=len(cards),
        annotations=len(answers),
        decisions=found.recorded,
        decisions_refused=len(found.refused),
        decisions_withdrawn=found.withdrawn,
        seconds=round(time.monotonic() - started, 3),
    )
    store.projects.finish_pull(project.id, report.to_json(), watermark=None, was_full=False)
    return report
