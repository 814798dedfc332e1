"""Predictions from stored runs: which item the consensus prefers on each task."""

from collections.abc import Sequence
from typing import Any

from backend import protocol
from backend.domain import ProjectRef
from backend.ingest import NO_VERSION, current_version, reading_of
from backend.settings import Settings
from backend.store import Store


def predict_tasks(
    store: Store, settings: Settings, ref: ProjectRef | None, tasks: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """One prediction per task from the latest finished run; empty where there is nothing to say."""
    empty = {"result": [], "score": 0.0, "model_version": NO_VERSION}
    if ref is None:
        ref = _ref_of(tasks)
    project = store.find_project(settings.label_studio_url, ref) if ref else None
    reading = reading_of(project) if project and project.kind != "alerts" else None
    run = store.latest_run(project.id) if project else None
    if reading is None or run is None:
        return [dict(empty) for _ in tasks]
    read = [protocol.read_task(task, reading) for task in tasks]
    wanted = {item for task in read for item in (task.left_item, task.right_item) if item is not None}
    scores = store.item_scores(run.id, wanted)
    version = current_version(store, run.project_id)
    results = []
    for task in read:
        left, right = scores.get(task.left_item or ""), scores.get(task.right_item or "")
        difference = None if left is None or right is None else left - right
        results.append(protocol.prediction(task, reading, difference, version))
    return results


def _ref_of(tasks: Sequence[dict[str, Any]]) -> ProjectRef | None:
    """The project that the tasks themselves name."""
    numbers = {task.get("project") for task in tasks if isinstance(task.get("project"), int)}
    return protocol.project_ref(numbers.pop()) if len(numbers) == 1 else None
