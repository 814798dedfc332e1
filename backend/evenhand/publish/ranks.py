"""Ranks in the review tabs, written into the tasks: where a project allows it, its tabs list the heaviest first.

A task may stand in several tabs, at another rank in each, so that every tab has a field of its own.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from evenhand.label_studio.client import LabelStudioClient
from evenhand.label_studio.review_fields import ALL_FIELDS, ranks_in, without_ranks
from evenhand.label_studio.transport import (
    LabelStudioForbiddenError,
    LabelStudioMissingError,
    LabelStudioRejectedError,
)
from evenhand.publish.context import STATE, Context, content_hash

CHANNEL = "ranks"
#: Tasks written in one call, up to ten seconds of work: cards and other projects are not to wait for longer.
AT_ONCE = 25

Json = dict[str, Any]


def assign_fields(tabs: Mapping[str, Sequence[int]], there: Mapping[str, Sequence[Json]]) -> dict[str, str]:
    """A field for every tab that lists tasks, by title; a tab that is there keeps the one it has."""
    listing = [title for title, tasks in tabs.items() if tasks]
    kept: dict[str, str] = {}
    for title in listing:
        field = _field_of(there.get(title, ()), taken=kept.values())
        if field is not None:
            kept[title] = field
    free = iter([field for field in ALL_FIELDS if field not in kept.values()])
    return {title: kept.get(title) or next(free) for title in listing}


def _field_of(views: Sequence[Json], taken: Collection[str]) -> str | None:
    """The field that a tab was made with; somebody may have sorted it by another column since."""
    if not views:
        return None
    known = (views[0].get("data") or {}).get("columnsDisplayType") or {}
    return next((field for field in ALL_FIELDS if f"tasks:data.{field}" in known and field not in taken), None)


def publish_ranks(context: Context, tabs: Mapping[str, Sequence[int]]) -> None:
    """Bring the tasks' fields to the ranks given (field to tasks, heaviest first); without any, remove them."""
    if not tabs and context.recall(CHANNEL).state == "new":
        return
    if context.is_waiting(CHANNEL):
        context.waiting.append(CHANNEL)
        return
    wanted = _wanted(tabs)
    fingerprint = content_hash(wanted)
    client, project = context.client, context.project.ls_project_id
    with context.failures_of(CHANNEL):
        there = {task: ranks_in(data) for task, data in client.tasks_with(project, ALL_FIELDS).items()}
    changed = [task for task in {*there, *wanted} if there.get(task, {}) != wanted.get(task, {})]
    changed.sort(key=lambda task: (min(wanted.get(task, {}).values(), default=0), task))
    written = 0
    if changed or not context.is_done(CHANNEL, fingerprint):
        with context.attempt(CHANNEL, fingerprint):
            written = _write(client, project, changed[:AT_ONCE], wanted)
    context.count("ranks_written", written)
    if changed[AT_ONCE:]:
        if written:  # tasks that are all gone are left to the next pull
            context.waiting.append(CHANNEL)
    elif not wanted:
        context.forget(CHANNEL, STATE)


def remove_ranks(client: LabelStudioClient, project: int) -> int:
    """Take all fields of ours out of a project's tasks; how many tasks had one."""
    removed = 0
    while there := client.tasks_with(project, ALL_FIELDS):
        written = _write(client, project, there, {})
        removed += written
        if not written:
            break  # they went while we looked
    return removed


def _wanted(tabs: Mapping[str, Sequence[int]]) -> dict[int, dict[str, int]]:
    """The fields that each task should have, 1 for the heaviest of a tab."""
    wanted: dict[int, dict[str, int]] = {}
    for field, tasks in tabs.items():
        for rank, task in enumerate(tasks, start=1):
            wanted.setdefault(task, {})[field] = rank
    return wanted


def _write(
    client: LabelStudioClient, project: int, tasks: Iterable[int], wanted: Mapping[int, Mapping[str, int]]
) -> int:
    """Change our fields of these tasks and nothing else; how many were written. Tasks that refuse hold up no others.

    Label Studio replaces a task's data as a whole and has no condition for it. So each task is read again in the
    moment before it is written: only a change within that fraction of a second could be lost.
    """
    written, refused = 0, None
    for task in tasks:
        data = client.task_data(project, task)
        if data is None:
            continue  # deleted meanwhile
        changed = {**without_ranks(data), **wanted.get(task, {})}
        if changed == data:
            continue
        try:
            client.update_task(task, {"data": changed})
        except LabelStudioMissingError:
            continue
        except (LabelStudioRejectedError, LabelStudioForbiddenError) as error:
            refused = refused or error
            continue
        written += 1
    if refused is not None:
        raise refused
    return written
