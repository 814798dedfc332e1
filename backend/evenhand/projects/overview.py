"""The state of the service at a glance, for the API, the status page and the command line."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from evenhand.domain import Batch, Kind, Project
from evenhand.errors import NotFoundError
from evenhand.store import Store

KINDS: tuple[Kind, ...] = ("comparison", "demo")


def project_named(store: Store, ls_url: str, number: int, *, kinds: Collection[Kind] = KINDS) -> Project:
    """The project with this Label Studio id, of the configured Label Studio where several have it."""
    known = store.projects.all(kinds=kinds)
    fits = [project for project in known if project.ls_project_id == number]
    ours = [project for project in fits if project.ls_url == ls_url] or fits
    if not ours:
        ids = ", ".join(f"{project.ls_project_id} ({project.title})" for project in known) or "none"
        raise NotFoundError(f"no project with the Label Studio id {number} is connected; connected: {ids}")
    return max(ours, key=lambda project: (project.kind == "comparison", project.epoch, project.id))


NO_VERSION = "evenhand-0"


def current_version(store: Store, project_id: int) -> str:
    """The model version /setup and /predict answer with: the published one, else that of the latest finished run.

    Label Studio asks again for tasks without a prediction of this version, so it must be the one we published.
    """
    published = store.publications.get(project_id, "predictions").get(("predictions", "version"))
    if published is not None and published.remote_id:
        return published.remote_id
    run = store.runs.latest(project_id)
    return run.model_version or NO_VERSION if run else NO_VERSION


def refresh_states(store: Store, project: Project, states: Mapping[int, bool], *, as_of: int) -> None:
    """Store which tasks are completed; a raised overlap reopens tasks without changing their times."""
    stale = [
        replace(task, is_labeled=states[task.task_id])
        for task in store.tasks.all(project.id)
        if task.task_id in states and task.is_labeled is not states[task.task_id]
    ]
    if stale:
        store.comparisons.apply(project.id, Batch(tasks=stale, as_of=as_of))


def overview(store: Store) -> dict[str, Any]:
    """Projects with last event, pull and run; counters; queue; problems with their remedies."""
    projects = []
    for project in store.projects.all():
        latest = store.runs.latest(project.id)
        newest = store.runs.latest(project.id, status=None)
        projects.append(
            {
                "id": project.id,
                "title": project.title,
                "ls_project_id": project.ls_project_id,
                "counts": dict(project.counts),
                "last_event_at": project.last_event_at,
                "last_pull_at": project.last_pull_at,
                "last_pull": project.last_pull,
                "latest_run": latest.id if latest else None,
                "finished_at": latest.finished_at if latest else None,
                "run_state": newest.status if newest else None,
                "live_behind": project.seq - project.live_seq,
                "flagged": len(store.flags.all(project.id)),
                "warned": len(store.live.warned(project.id)),
            }
        )
    return {
        "database": store.database.name,
        "projects": projects,
        "events": store.events.counts(),
        "queue_age_seconds": store.runs.queue_age(),
        "runs": store.runs.counts(),
        "publications": store.publications.states(),
        "problems": [dict(vars(problem)) for problem in store.problems.find()],
    }
