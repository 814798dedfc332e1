"""Predictions from stored runs: which item the consensus prefers on each task."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from evenhand.domain import Project, ProjectRef, Run, Task
from evenhand.json_values import ids
from evenhand.label_studio import payloads
from evenhand.project_config import ProjectConfig
from evenhand.projects.model_version import current_version
from evenhand.projects.reading import reading_of
from evenhand.settings import Settings
from evenhand.store import Store
from fdr_core.consensus.score_scale import expected_outcome
from fdr_core.inputs.label_studio.reading import Reading

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
) -> Iterator[dict[str, Any]]:
    """Predictions of a few tasks."""
    read = [payloads.read_task(task, reading) for task in tasks]
    wanted = {item for task in read for item in (task.left_item, task.right_item) if item is not None}
    scores = store.rankings.scores(run.id, wanted)
    version = current_version(store, run.project_id)
    for task in read:
        yield payloads.prediction(task, reading, expected(task, scores, run), version)


def expected(task: Task, scores: Mapping[str, float], run: Run) -> float | None:
    """The consensus on a task as an outcome, 1 left to -1 right; None where an item has no score."""
    left, right = scores.get(task.left_item or ""), scores.get(task.right_item or "")
    return None if left is None or right is None else expected_outcome(left - right, run.consensus)


def _ref_of(tasks: Sequence[dict[str, Any]]) -> ProjectRef | None:
    """The project that the tasks themselves name."""
    numbers = {task.get("project") for task in tasks if isinstance(task.get("project"), int)}
    return payloads.project_ref(numbers.pop()) if len(numbers) == 1 else None
