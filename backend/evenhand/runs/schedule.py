"""When a project is due: pure decisions on what is stored, so that every replica decides alike."""

from evenhand.domain import Project, Run
from evenhand.project_config import ProjectConfig

#: A burst of answers is waited out for this long, but never longer than MAX_WAIT after the first reason for a run.
QUIET_SECONDS = 2.0
MAX_WAIT_SECONDS = 30.0
#: Between the end of one scheduled run and the start of the next.
MIN_GAP_SECONDS = 5.0
#: After a failed run: trying again at once would most likely fail again.
GAP_AFTER_FAILURE_SECONDS = 300.0
#: Between two readings of the alert cards.
CARDS_GAP_SECONDS = 5.0
#: Between two readings that events without credentials ask for.
HINT_GAP_SECONDS = 5.0
#: A moment further ahead than replicas' clocks can differ was written before the clock was set back.
AHEAD_SECONDS = 60.0


def run_is_due(project: Project, newest: Run | None, new_answers: int, now: float) -> bool:
    """Whether a scheduled run should be requested for a project that changed since its last finished run."""
    if newest is not None and newest.status in ("queued", "running"):
        return False
    config = ProjectConfig.model_validate(project.config)
    since = _elapsed((newest.finished_at or newest.requested_at) if newest is not None else project.created_at, now)
    enough = config.every_answers is not None and new_answers >= config.every_answers
    long_ago = config.every_minutes is not None and since >= 60.0 * config.every_minutes
    failed = newest is not None and newest.status == "failed"
    gap = GAP_AFTER_FAILURE_SECONDS if failed else MIN_GAP_SECONDS
    if not (enough or long_ago) or (newest is not None and since < gap):
        return False
    quiet = _elapsed(project.last_event_at or 0.0, now)
    return quiet >= QUIET_SECONDS or since >= MAX_WAIT_SECONDS


def pull_is_due(project: Project, reconcile_minutes: float, now: float) -> bool:
    """Whether a project should be read from Label Studio again."""
    if project.kind == "demo" or project.deleted_at is not None:
        return False
    if project.last_pull_at is None:
        return True
    if project.full_pull_needed:  # events about cards ask for it, and strangers with the secret could send many
        return project.kind != "alerts" or _elapsed(project.last_pull_at, now) >= CARDS_GAP_SECONDS
    if project.hinted_at is not None and _elapsed(project.last_pull_at, now) >= HINT_GAP_SECONDS:
        return True
    return reconcile_minutes > 0 and _elapsed(project.last_pull_at, now) >= 60.0 * reconcile_minutes


def _elapsed(moment: float, now: float) -> float:
    """Seconds since a moment; one well in the future counts as long past: the clock was set back after it."""
    return now - moment if moment <= now + AHEAD_SECONDS else float("inf")


def has_new_settings(project: Project, last_done: Run | None) -> bool:
    """Whether the project's settings differ from those of the last finished run."""
    return last_done is None or dict(project.config) != dict(last_done.config or {})
