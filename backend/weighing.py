"""Which answers weigh most in a finding, which tasks turn with the correction, and what to label again first."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from backend.domain import Run, Task
from backend.store import Store

MOST_TASKS_READ = 50_000
MOST_FLAGGED = 1_000
WINDOWS = 40


@dataclass(frozen=True)
class Weighed:
    """An answer, and how far it went to the annotator's side beyond what the items explain."""

    row: Mapping[str, Any]
    expected: float | None
    weight: float


@dataclass(frozen=True)
class TaskToReview:
    """A task with the consensus before and after correction, as differences of scores (left minus right)."""

    task: Task
    before: float
    after: float
    certainty: float
    flagged_answers: int

    @property
    def turns(self) -> bool:
        """Whether the correction gives the task to the other item."""
        return self.before * self.after < 0


def heaviest_answers(
    rows: Iterable[Mapping[str, Any]], scores: Mapping[str, float], lean: float, *, most: int = 20
) -> list[Weighed]:
    """The judged answers that contribute most to a lean, heaviest first."""
    direction = 1.0 if lean >= 0 else -1.0
    weighed = []
    for row in rows:
        if row["status"] != "answer" or direction * (row["outcome"] or 0.0) <= 0:
            continue
        left, right = scores.get(row["left_item"]), scores.get(row["right_item"])
        expected = left - right if left is not None and right is not None else None
        weight = direction * (row["outcome"] - (expected or 0.0))
        if weight > 0:
            weighed.append(Weighed(row, expected, weight))
    return sorted(weighed, key=lambda answer: (-answer.weight, answer.row["annotation_id"]))[:most]


def side_shares(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The share of answers for the left item in consecutive windows, with 95 % Wilson intervals, oldest first."""
    judged = [row for row in rows if row["status"] == "answer" and row["outcome"] not in (None, 0)]
    judged.sort(key=lambda row: (row["created_at"], row["annotation_id"]))
    size = max(10, -(-len(judged) // WINDOWS))
    windows = []
    for start in range(0, len(judged), size):
        part = judged[start : start + size]
        left = sum(row["outcome"] > 0 for row in part)
        low, high = wilson(left, len(part))
        windows.append(
            {
                "from": start + 1,
                "until": start + len(part),
                "at": part[-1]["created_at"],
                "n": len(part),
                "left": left,
                "share": left / len(part),
                "low": low,
                "high": high,
            }
        )
    return windows


def wilson(successes: int, n: int, z: float = 1.96) -> tuple[float, float]:
    """Wilson's interval of a share."""
    share = successes / n
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return max(0.0, centre - half), min(1.0, centre + half)


def tasks_to_review(store: Store, run: Run, *, most: int = 20) -> tuple[list[TaskToReview], int]:
    """Tasks to label again, most useful first, and the number of tasks whose consensus turns.

    Only tasks that a flagged annotator answered, or that lie on a pair that changed order, can gain from new answers.
    """
    flagged = [row["annotator"] for row in store.page_annotators(run.id, flagged=True, limit=MOST_FLAGGED).rows]
    touched: dict[int, int] = {}
    for task_ids in store.annotator_tasks(run.project_id, flagged).values():
        for task_id in task_ids:
            touched[task_id] = touched.get(task_id, 0) + 1
    items = {row["item"]: row for row in store.all_items(run.id)}
    changed = {frozenset((row["above"], row["below"])) for row in store.order_changes(run.id, limit=10_000)}
    tasks = {task.task_id: task for task in store.get_tasks(run.project_id, touched).values() if not task.deleted}
    if changed:
        for number, task in enumerate(store.iter_tasks(run.project_id)):
            if number >= MOST_TASKS_READ:
                break
            if frozenset((task.left_item, task.right_item)) in changed:
                tasks[task.task_id] = task
    reviews = [review for task in tasks.values() if (review := _review(task, items, touched.get(task.task_id, 0)))]
    reviews.sort(key=lambda review: (not review.turns, review.certainty, -review.flagged_answers, review.task.task_id))
    return reviews[:most], sum(review.turns for review in reviews)


def _review(task: Task, items: Mapping[str, Mapping[str, Any]], flagged_answers: int) -> TaskToReview | None:
    """A task with its consensus; None where an item has no score."""
    left, right = items.get(task.left_item or ""), items.get(task.right_item or "")
    if left is None or right is None or None in (left["score"], right["score"], left["raw_score"], right["raw_score"]):
        return None
    before, after = left["raw_score"] - right["raw_score"], left["score"] - right["score"]
    spread = math.hypot(left["se"] or 0.0, right["se"] or 0.0)
    certainty = math.erf(abs(after) / spread / math.sqrt(2)) if spread > 0 else 1.0
    return TaskToReview(task, before, after, certainty, flagged_answers)
