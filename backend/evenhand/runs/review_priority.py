"""What to label again first, and how somebody's sides changed in time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from evenhand.store import Store
from fdr_core.report.document import plain

if TYPE_CHECKING:
    from fdr_core import Detection, SufficientStatistics

#: An order more probable than this needs no new answers.
CERTAIN = 0.95
MOST_TASKS_NAMED = 8
WINDOWS = 40


def side_shares(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The share of answers for the left item in consecutive windows, with 95 % Wilson intervals, oldest first."""
    judged = [row for row in rows if row["status"] in ("answer", "judge") and row["outcome"] not in (None, 0)]
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


def label_again(
    store: Store, project_id: int, detection: Detection, statistics: SufficientStatistics, *, most: int = 20
) -> list[dict[str, Any]]:
    """Pairs whose tasks gain most from new answers, as stored with a run.

    Only pairs that a flagged annotator answered, or whose order the correction changed, can gain; those whose order is
    certain (above `CERTAIN`) do not. Changed pairs come first, then the least certain.
    """
    touched = _flagged_answers(statistics, detection.flagged)
    items = {str(row["item"]): row for row in detection.ranking.to_dict("records")}
    changes = detection.order_changes.to_dict("records")
    known = {frozenset((str(row["above"]), str(row["below"]))): row["probability"] for row in changes}
    pairs = [
        found
        for pair in touched.keys() | known.keys()
        if (found := _pair(pair, items, known.get(pair), touched.get(pair, 0))) and found["probability"] <= CERTAIN
    ]
    pairs.sort(key=lambda row: (not row["turns"], row["probability"], -row["flagged_answers"], row["above"]))
    tasks = store.tasks.of_pairs(project_id, [(row["above"], row["below"]) for row in pairs[:most]])
    with_tasks = [(row, tasks.get(frozenset((row["above"], row["below"])), [])) for row in pairs[:most]]
    return [{**row, "n_tasks": len(ids), "tasks": ids[:MOST_TASKS_NAMED]} for row, ids in with_tasks]


def _flagged_answers(statistics: SufficientStatistics, flagged: Iterable[Any]) -> dict[frozenset[str], int]:
    """How many answers of flagged annotators each pair has."""
    import numpy as np  # not above: the web server shows pages with what else is here, and should be up soon

    codes = {label: code for code, label in enumerate(statistics.annotators)}
    answers = statistics.answers()
    is_flagged = np.isin(answers.annotator, [codes[label] for label in flagged if label in codes])
    items = [str(item) for item in statistics.items]
    ends = np.sort(np.column_stack([answers.left[is_flagged], answers.right[is_flagged]]), axis=1)
    pairs, place = np.unique(ends, axis=0, return_inverse=True)
    counts = np.bincount(place.ravel(), weights=answers.weight[is_flagged], minlength=len(pairs))
    return {
        frozenset((items[i], items[j])): round(n) for (i, j), n in zip(pairs.tolist(), counts.tolist(), strict=True)
    }


def _pair(
    pair: frozenset[str], items: Mapping[str, Mapping[Any, Any]], probability: float | None, flagged_answers: int
) -> dict[str, Any] | None:
    """A pair in its present order with the probability of it; None where an item has no score."""
    if len(pair) != 2 or any(name not in items for name in pair):
        return None
    above, below = sorted(pair, key=lambda name: (-items[name]["score"], name))
    high, low = items[above], items[below]
    difference, before = high["score"] - low["score"], high["raw_score"] - low["raw_score"]
    spread = math.hypot(high["se"], low["se"])
    told = probability if probability is not None else 0.5 + math.erf(difference / spread / math.sqrt(2)) / 2
    return {
        "above": above,
        "below": below,
        "difference": plain(difference),
        "raw_difference": plain(before),
        "probability": plain(told),
        "turns": bool(before < 0 < difference),
        "flagged_answers": flagged_answers,
    }
