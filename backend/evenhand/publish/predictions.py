"""The consensus as predictions: a winner on completed tasks, nothing pre-selected on open ones."""

from typing import Any

from evenhand.domain import Task
from evenhand.label_studio.payloads import prediction
from evenhand.projects.reading import reading_of
from evenhand.projects.task_states import refresh_states
from evenhand.publish.context import STATE, Context, content_hash
from evenhand.publish.plan import PREFIX, Plan, make_plan
from evenhand.publish.predict import expected
from fdr_core.inputs.label_studio.reading import Reading

CHANNEL = "predictions"
VERSION = "version"

Json = dict[str, Any]


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
    """What each task should show."""
    assert context.run is not None
    tasks = list(context.store.tasks.all(context.project.id))
    items = {item for task in tasks for item in (task.left_item, task.right_item) if item is not None}
    scores = context.store.rankings.scores(context.run.id, items)
    return {task.task_id: _entry(task, reading, expected(task, scores, context.run)) for task in tasks}


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
