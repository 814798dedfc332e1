"""The answers that weigh most in each flag of a report."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fdr_core import Detection, SufficientStatistics


def expected_outcome(difference: float, consensus: str) -> float:
    """Mean outcome in [-1, 1] of comparing two items, given the difference of their scores, left minus right.

    Parameters
    ----------
    consensus : how the scores were fitted: "logistic" (log odds) or "least squares" (mean outcomes).
    """
    if consensus == "logistic":
        return math.tanh(difference / 2.0)  # 2 / (1 + exp(-difference)) - 1
    return max(-1.0, min(1.0, difference))


MOST_PEOPLE = 100
EACH = 5
HEAVY_KEYS = ("annotator", "task", "left", "right", "outcome", "expected", "weight", "times")
#: Probability of an order whose difference is one standard error.
ONE_STANDARD_ERROR = 0.5 + math.erf(1 / math.sqrt(2)) / 2

Row = Mapping[Any, Any]


@dataclass(frozen=True)
class Weighed:
    """An answer, and how far it went to the annotator's side beyond what the items explain."""

    row: Mapping[str, Any]
    expected: float | None
    weight: float


def heaviest_answers(
    rows: Iterable[Mapping[str, Any]], scores: Mapping[str, float], lean: float, *, consensus: str, most: int = 20
) -> list[Weighed]:
    """The judged answers that contribute most to a lean, heaviest first; `consensus` is what the scores come from."""
    direction = 1.0 if lean >= 0 else -1.0
    weighed = []
    for row in rows:
        if row["status"] not in ("answer", "judge") or direction * (row["outcome"] or 0.0) <= 0:
            continue
        left, right = scores.get(row["left_item"]), scores.get(row["right_item"])
        expected = None if left is None or right is None else expected_outcome(left - right, consensus)
        weight = direction * (row["outcome"] - (expected or 0.0))
        if weight > 0:
            weighed.append(Weighed(row, expected, weight))
    return sorted(weighed, key=lambda answer: (-answer.weight, answer.row["annotation_id"]))[:most]


def beyond_noise(change: Mapping[str, Any]) -> bool:
    """Whether a changed order is clearer than one standard error of the difference."""
    return change["probability"] is None or change["probability"] >= ONE_STANDARD_ERROR


def heaviest_of(
    annotators: Iterable[Row],
    answers_of: Callable[[Any], Iterable[Mapping[str, Any]]],
    scores: Mapping[Any, float],
    consensus: str,
) -> list[dict[str, Any]]:
    """Of each flagged annotator, from his answers and the scores of the ranking, as rows of the report."""
    flagged = [row for row in annotators if row["flagged"] and row["bias"]][:MOST_PEOPLE]
    return [told for row in flagged for told in _told(row, answers_of(row["annotator"]), scores, consensus)]


def heaviest_of_sums(detection: Detection, statistics: SufficientStatistics) -> list[dict[str, Any]]:
    """Of each flagged annotator of an analysis, from its sums: equal answers are told once, with their number."""
    answers, items = statistics.answers(), statistics.items
    codes = {label: code for code, label in enumerate(statistics.annotators)}
    scores = dict(zip(detection.ranking["item"], detection.ranking["score"].astype(float), strict=True))
    consensus = str(detection.parameters.get("consensus", "least squares"))

    def summed(annotator: Any) -> list[dict[str, Any]]:
        own = (answers.annotator == codes[annotator]).nonzero()[0].tolist()
        return [
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

    return heaviest_of(detection.annotators.to_dict("records"), summed, scores, consensus)


def _told(
    row: Row, answers: Iterable[Mapping[str, Any]], scores: Mapping[Any, float], consensus: str
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
