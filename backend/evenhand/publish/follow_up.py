"""What follows a confirmed flag, as the project chooses: tasks to label anew, or one more answer for each; all undone
on request. Nobody's answers are ever deleted."""

import logging
import secrets
from typing import Any

from evenhand.label_studio.client import LabelStudioClient, project_epoch
from evenhand.label_studio.payloads import COLUMNS
from evenhand.label_studio.transport import LabelStudioMissingError
from evenhand.projects.reading import reading_of, setup_of
from evenhand.publish.context import Context
from evenhand.publish.tabs import heaviest_tasks
from evenhand.store import Store
from fdr_core.inputs.item_keys import drawn_coin
from fdr_core.inputs.label_studio.reading import PREPARED_COIN, Reading

logger = logging.getLogger("evenhand.publish.follow_up")

CHANNEL = "follow_up"
SOURCE = "evenhand_source_task"
SWAPPED = "evenhand_swapped"
TITLE_LENGTH = 50

Json = dict[str, Any]


def publish_follow_ups(context: Context) -> None:
    """Do what the project chose for every confirmed flag, once; what was undone is not done again."""
    kind = context.config.after_confirm
    if kind == "nothing":
        return
    store, project = context.store, context.project
    known = {row["annotator_id"]: row for row in store.follow_ups.all(project.id)}
    for annotator, decision in sorted(store.decisions.current(project.id).items()):
        row = known.get(annotator)
        if decision.decision != "confirm" or (row is not None and (row["undone_at"] or row["detail"].get("done"))):
            continue
        if row is None:
            tasks = heaviest_tasks(store, project, context.run, annotator, most=context.config.review_tasks)
            number = store.follow_ups.add(project.id, annotator, kind, {"tasks": tasks})
        else:
            number, kind, tasks = int(row["id"]), row["kind"], list(row["detail"]["tasks"])
        with context.attempt(CHANNEL, f"{kind} {number}"):
            made = _relabel(context, number, tasks) if kind == "relabel" else _raise_overlap(context, number, tasks)
        store.follow_ups.complete(number, {**made, "tasks": tasks, "done": True})
        context.count(f"{kind}_follow_ups")
        logger.info("follow-up %d of project %d: %s of %d tasks", number, project.id, kind, len(tasks))


def _relabel(context: Context, number: int, tasks: list[int]) -> Json:
    """A project with these tasks, their sides by new coins; one made just before a kill is found again."""
    client, project, reading = context.client, context.project, reading_of(context.project)
    marker = f"[evenhand relabel {project.ls_project_id}.{project.epoch}.{number}]"
    made = next((p for p in client.projects() if marker in str(p.get("description") or "")), None)
    if made is None:
        made = client.create_project(
            {
                "title": f"Label anew: {project.title}"[:TITLE_LENGTH].strip(),
                "description": f"Tasks behind a confirmed flag, sides assigned by new coins. {marker}",
                "label_config": project.label_config,
            }
        )
    target = int(made["id"])
    if reading is not None and not client.task_states(target):
        sources = [client.task(task) for task in tasks]
        client.import_tasks(target, [{"data": _flipped(source, reading, project.label_config)} for source in sources])
    return {"project": target, "epoch": project_epoch(made)}


def _flipped(task: Json, reading: Reading, label_config: str) -> Json:
    """The task's data with its sides decided by a new, recorded coin."""
    data = {key: value for key, value in (task.get("data") or {}).items() if key not in COLUMNS}
    coin, is_heads = drawn_coin(secrets.randbits(48), task["id"], data.get(reading.item_left))
    is_swapped = not is_heads
    if is_swapped:
        shown = setup_of(label_config)
        read = {control.name for control in reading.controls}
        pairs = {(reading.item_left, reading.item_right)}
        for names in {control.to_name for control in shown.controls if control.name in read}:
            if len(names) == 2 and all(name in shown.fields for name in names):
                pairs.add((shown.fields[names[0]], shown.fields[names[1]]))
        for left, right in pairs:
            if left in data and right in data:
                data[left], data[right] = data[right], data[left]
    return {**data, PREPARED_COIN: coin, SOURCE: task["id"], SWAPPED: is_swapped}


def _raise_overlap(context: Context, number: int, tasks: list[int]) -> Json:
    """Ask for one more answer on each task; what stood before is noted first, so that a kill loses nothing."""
    client = context.client
    known = next(row for row in context.store.follow_ups.all(context.project.id) if row["id"] == number)
    before: dict[str, int] = dict(known["detail"].get("before") or {})
    for task in tasks:
        if str(task) not in before:
            before[str(task)] = int(client.task(task).get("overlap") or 1)
    context.store.follow_ups.complete(number, {"tasks": tasks, "before": before})
    for task in tasks:
        given = _given(client.task(task))
        # A task that counts as completed is offered to nobody, whatever its overlap.
        client.update_task(task, {"overlap": max(before[str(task)], given) + 1, "is_labeled": False})
    return {"before": before}


def _given(task: Json) -> int:
    """Answers that a task has."""
    return sum(not annotation.get("was_cancelled") for annotation in task.get("annotations") or ())


def undo_follow_up(store: Store, client: LabelStudioClient, row: Json) -> str:
    """Take back what followed; what people answered meanwhile stays. Says what was done."""
    said = _undo_relabel(client, row) if row["kind"] == "relabel" else _undo_overlap(client, row)
    store.follow_ups.undo(int(row["id"]))
    return said


def _undo_relabel(client: LabelStudioClient, row: Json) -> str:
    number = row["detail"].get("project")
    try:
        made = client.project(int(number)) if number else {}
    except LabelStudioMissingError:
        return "the project was deleted already"
    if not number or project_epoch(made) != row["detail"].get("epoch"):
        return "there was no project"
    if any(task.get("annotations") for page in client.tasks(int(number)) for task in page):
        return f"project {number} holds answers and stays; nothing more is added to it"
    client.delete_project(int(number))
    return f"project {number} was deleted; it held no answers"


def _undo_overlap(client: LabelStudioClient, row: Json) -> str:
    before = dict(row["detail"].get("before") or {})
    for task, overlap in before.items():
        try:
            is_labeled = _given(client.task(int(task))) >= overlap
            client.update_task(int(task), {"overlap": overlap, "is_labeled": is_labeled})
        except LabelStudioMissingError:
            continue
    return f"the overlap of {len(before)} tasks is as before"
