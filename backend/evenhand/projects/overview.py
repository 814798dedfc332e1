"""The state of the service at a glance, for the API, the status page and the command line."""

from typing import Any

from evenhand.store import Store


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
