"""The answers that weigh most in each flag of a report."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from evenhand.domain import Run
from evenhand.runs.review_priority import heaviest_answers
from evenhand.store import Store

if TYPE_CHECKING:
    from fdr_core import Detection, SufficientStatistics

MOST_PEOPLE = 100
EACH = 5
HEAVY_KEYS = ("annotator", "task", "left", "right", "outcome", "expected", "weight", "times")


def heaviest_of_run(
    store: Store, run: Run, annotators: Sequence[Mapping[str, Any]], ranking: Iterable[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Of each flagged annotator of a stored run, from the answers the run saw and the ranking it made."""
    scores = {row["item"]: row["score"] for row in ranking if row["score"] is not None}
    found: list[dict[str, Any]] = []
    for row in _flagged(annotators):
        own = store.comparisons.of_annotator(run.project_id, row["annotator"])
        seen = [answer for answer in own if answer["seq"] <= (run.seq or 0)]
        found += _told(row, seen, scores, run.consensus)
    return found


def heaviest_of_sums(detection: "Detection", statistics: "SufficientStatistics") -> list[dict[str, Any]]:
    """Of each flagged annotator of an analysis, from its sums: equal answers are told once, with their number."""
    answers, items = statistics.answers(), statistics.items
    codes = {label: code for code, label in enumerate(statistics.annotators)}
    scores = dict(zip(detection.ranking["item"], detection.ranking["score"].astype(float), strict=True))
    consensus = str(detection.parameters.get("consensus", "least squares"))
    found: list[dict[str, Any]] = []
    for row in _flagged(detection.annotators.to_dict("records")):
        own = (answers.annotator == codes[row["annotator"]]).nonzero()[0].tolist()
        summed = [
            {
                "annotation_id": k,
                "task_id": None,
                "status": "answer",
                "left_item": items[answers.left[k]],
                "right_item": items[answers.right[k]],
                "outcome": float(answers.outcome[k]),
                "times": round(float(answers.weight[k])),
            }
            for k in own
        ]
        found += _told(row, summed, scores, consensus)
    return found


def _flagged(annotators: Iterable[Mapping[Any, Any]]) -> list[Mapping[Any, Any]]:
    return [row for row in annotators if row["flagged"] and row["bias"]][:MOST_PEOPLE]


def _told(
    row: Mapping[Any, Any], answers: Iterable[Mapping[str, Any]], scores: Mapping[Any, float], consensus: str
) -> list[dict[str, Any]]:
    """The heaviest answers of one annotator as rows of the report."""
    return [
        {
            "annotator": row["annotator"],
            "task": heavy.row["task_id"],
            "left": heavy.row["left_item"],
            "right": heavy.row["right_item"],
            "outcome": heavy.row["outcome"],
            "expected": heavy.expected,
            "weight": heavy.weight,
            "times": heavy.row.get("times", 1),
        }
        for heavy in heaviest_answers(answers, scores, row["bias"], consensus=consensus, most=EACH)
    ]
