"""Which tasks of a project are completed."""

from collections.abc import Mapping
from dataclasses import replace

from evenhand.domain import Batch, Project
from evenhand.store import Store


def refresh_states(store: Store, project: Project, states: Mapping[int, bool], *, as_of: int) -> None:
    """Store which tasks are completed; a raised overlap reopens tasks without changing their times."""
    stale = [
        replace(task, is_labeled=states[task.task_id])
        for task in store.tasks.all(project.id)
        if task.task_id in states and task.is_labeled is not states[task.task_id]
    ]
    if stale:
        store.comparisons.apply(project.id, Batch(tasks=stale, as_of=as_of))
