"""The consensus as predictions: a winner on completed tasks, nothing pre-selected on open ones."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evenhand.domain import Project, ProjectRef, Run, Task
from evenhand.json_values import ids
from evenhand.label_studio import payloads
from evenhand.label_studio.payloads import prediction
from evenhand.project_config import ProjectConfig
from evenhand.projects.overview import current_version, refresh_states
from evenhand.projects.reading import reading_of
from evenhand.publish.context import STATE, Context, content_hash
from evenhand.settings import Settings
from evenhand.store import Store
from fdr_core.inputs.label_studio.reading import Reading
from fdr_core.report.heaviest import expected_outcome

Json = dict[str, Any]

PREFIX = "evenhand"
SCORE_STEP = 0.05  # a score that moved by less is not written again
# Changes are written one by one while they are few: removing a whole version keeps Label Studio's database busy for
# 20 ms a prediction, during which annotators wait.
FEW, FEW_SHARE, MOST = 100, 0.25, 1000


@dataclass(frozen=True)
class Plan:
    """The writes that lead from what is there to what should be, all under one model version."""

    version: str
    create: list[Json]
    update: dict[int, Json]
    delete: list[int]
    drop_versions: list[str]


def make_plan(existing: Iterable[Json], desired: Mapping[int, Json], published: str | None, current: str) -> Plan:
    """Keep the published model version while little changes, else replace everything under the current one."""
    ours = [entry for entry in existing if str(entry.get("model_version") or "").startswith(PREFIX)]
    if published:
        plan = _plan_for(published, ours, desired)
        few = min(max(FEW, FEW_SHARE * len(desired)), MOST)
        if published == current or len(plan.update) + len(plan.delete) <= few:
            return plan
    return _plan_for(current, ours, desired)


def _plan_for(version: str, ours: list[Json], desired: Mapping[int, Json]) -> Plan:
    by_task: dict[int, list[Json]] = {}
    for entry in ours:
        if entry["model_version"] == version:
            by_task.setdefault(int(entry["task"]), []).append(entry)
    create, update, delete = [], {}, []
    for task, wanted in desired.items():
        found = sorted(by_task.pop(task, []), key=lambda entry: not _same(entry, wanted))
        if not found:
            create.append({**wanted, "task": task, "model_version": version})
        elif not _same(found[0], wanted):
            update[int(found[0]["id"])] = {"result": wanted["result"], "score": wanted["score"]}
        delete += [int(extra["id"]) for extra in found[1:]]
    delete += [int(entry["id"]) for leftover in by_task.values() for entry in leftover]
    # A winner that must go is taken back before anything else is written.
    update = dict(sorted(update.items(), key=lambda change: bool(change[1]["result"])))
    others = Counter(str(entry["model_version"]) for entry in ours if entry["model_version"] != version)
    return Plan(version, create, update, delete, sorted(others))


def _same(entry: Json, wanted: Json) -> bool:
    """Whether a prediction shows the same answer, with a score near enough."""
    if _answers(entry) != _answers(wanted):
        return False
    return abs(float(entry.get("score") or 0.0) - float(wanted["score"])) < SCORE_STEP


def _answers(entry: Json) -> list[tuple[Any, Any]]:
    results = entry.get("result")
    return [(part.get("from_name"), part.get("value")) for part in results] if isinstance(results, list) else []


#: Tasks that are read at a time.
PART = 500


def predict_tasks(
    store: Store, settings: Settings, ref: ProjectRef | None, tasks: Sequence[dict[str, Any]]
) -> Iterator[dict[str, Any] | list[Any]]:
    """One entry per task: what the latest finished run says where predictions are published, else an empty list.

    Label Studio takes an empty list for "no prediction". It asks whenever somebody opens a task that has none and
    keeps every answer, two if the page asks twice: a winner kept like this would be nobody's to take back when the
    task is opened for labelling again.
    """
    if ref is None:
        ref = _ref_of(tasks)
    project = store.projects.find(settings.label_studio_url, ref) if ref else None
    reading = reading_of(project) if project and project.kind != "alerts" else None
    run = store.runs.latest(project.id) if project else None
    if project is None or reading is None or run is None or not _publishes(project):
        return ([] for _ in tasks)
    ids(tasks, "tasks")  # before the answer begins: what is wrong must be said with a status
    return (
        prediction
        for start in range(0, len(tasks), PART)
        for prediction in _predict_part(store, run, reading, tasks[start : start + PART])
    )


def _publishes(project: Project) -> bool:
    return ProjectConfig.model_validate(project.config).publish.predictions


def _predict_part(
    store: Store, run: Run, reading: Reading, tasks: Sequence[dict[str, Any]]
) -> Iterator[dict[str, Any] | list[Any]]:
    """Predictions of a few tasks; an empty list where there is no winner, or the task can still be labelled."""
    read = [payloads.read_task(task, reading) for task in tasks]
    wanted = {item for task in read for item in (task.left_item, task.right_item) if item is not None}
    scores = store.rankings.scores(run.id, wanted)
    version = current_version(store, run.project_id)
    for task in read:
        shown = payloads.prediction(task, reading, expected(task, scores, run), version)
        yield shown if shown["result"] else []


def expected(task: Task, scores: Mapping[str, float], run: Run) -> float | None:
    """The consensus on a task as an outcome, 1 left to -1 right; None where an item has no score."""
    left, right = scores.get(task.left_item or ""), scores.get(task.right_item or "")
    return None if left is None or right is None else expected_outcome(left - right, run.consensus)


def _ref_of(tasks: Sequence[dict[str, Any]]) -> ProjectRef | None:
    """The project that the tasks themselves name."""
    numbers = {task.get("project") for task in tasks if isinstance(task.get("project"), int)}
    return payloads.project_ref(numbers.pop()) if len(numbers) == 1 else None


CHANNEL = "predictions"
VERSION = "version"


def publish_predictions(context: Context) -> None:
    """Write the differences between what Label Studio shows and what the latest run found."""
    if not context.config.publish.predictions:
        _withdraw(context)
        return
    reading = reading_of(context.project)
    if context.run is None or not context.run.model_version or reading is None:
        return
    fingerprint = _fingerprint(_desired(context, reading))
    if context.is_done(CHANNEL, fingerprint):
        return
    with context.attempt(CHANNEL, fingerprint):
        store, client, project = context.store, context.client, context.project
        # A task may have been reopened since the last pull: a winner must not be shown there.
        as_of = store.projects.begin_pull(project.id)
        states = client.task_states(project.ls_project_id)
        refresh_states(store, project, states, as_of=as_of)
        everything = _desired(context, reading)
        desired = {task: entry for task, entry in everything.items() if task in states}
        existing = client.predictions(project.ls_project_id)
        published = context.recall(CHANNEL, VERSION).remote_id
        plan = make_plan(existing, desired, published, context.run.model_version)
        context.remember(CHANNEL, VERSION, remote_id=plan.version, state="intended")
        _carry_out(context, plan)
        context.remember(CHANNEL, content_hash=_fingerprint(everything))


def _desired(context: Context, reading: Reading) -> dict[int, Json]:
    """What each completed task should show, where the consensus has a winner."""
    assert context.run is not None
    tasks = list(context.store.tasks.all(context.project.id))
    items = {item for task in tasks for item in (task.left_item, task.right_item) if item is not None}
    scores = context.store.rankings.scores(context.run.id, items)
    entries = {task.task_id: _entry(task, reading, expected(task, scores, context.run)) for task in tasks}
    # An empty prediction would show annotators a tab "evenhand · 0.00%" on the task.
    return {task: entry for task, entry in entries.items() if entry["result"]}


def _entry(task: Task, reading: Reading, outcome: float | None) -> Json:
    shown = prediction(task, reading, outcome, "")
    return {"result": shown["result"], "score": shown["score"]}


def _fingerprint(desired: dict[int, Json]) -> str:
    rows = [
        (task, [part["value"] for part in entry["result"]], round(float(entry["score"]), 2))
        for task, entry in sorted(desired.items())
    ]
    return content_hash(rows)


def _carry_out(context: Context, plan: Plan) -> None:
    """Take back first, then add; every step leaves a state the next plan can start from."""
    client, project = context.client, context.project.ls_project_id
    for number, fields in plan.update.items():
        client.update_prediction(number, fields)
    for number in plan.delete:
        client.delete_prediction(number)
    for version in plan.drop_versions:
        client.delete_model_version(project, version)
    client.import_predictions(project, plan.create)
    context.count("predictions_created", len(plan.create))
    context.count("predictions_updated", len(plan.update))
    context.count("predictions_removed", len(plan.delete))
    context.count("prediction_versions_removed", len(plan.drop_versions))


def _withdraw(context: Context) -> None:
    """Remove all predictions of ours after the channel was switched off."""
    if context.recall(CHANNEL).state == "new":
        return
    with context.attempt(CHANNEL, "withdrawn"):
        project = context.project.ls_project_id
        versions = {str(entry.get("model_version") or "") for entry in context.client.predictions(project)}
        for version in sorted(version for version in versions if version.startswith(PREFIX)):
            context.client.delete_model_version(project, version)
            context.count("prediction_versions_removed")
    context.forget(CHANNEL, STATE, VERSION)
