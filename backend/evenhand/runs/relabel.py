"""The next step after a review: which answers of confirmed people to ask for anew, what that costs and changes."""

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np

from evenhand.domain import Project, Run
from evenhand.runs.statistics import StatisticsCache, corrected
from evenhand.store import Store
from fdr_core.answer_table import AnswerTable
from fdr_core.relabel import LIKELY, Without, decided_by_lean, without
from fdr_core.report.heaviest import expected_outcome

COLUMNS = (
    "task", "annotator", "name", "left", "right", "answer", "expected", "probability", "seconds", "given_at", "address",
)  # fmt: skip


@dataclass(frozen=True)
class Relabel:
    """
    Answers to ask for anew, those most probably decided by a lean first, and the ranking without these people.

    Attributes
    ----------
    people : ids of those whose flag was confirmed and who have a lean.
    answers : rows of COLUMNS but for the address, which is the caller's.
    given : how many answers these people gave; changed : how many of them the leans decided, on average.
    seconds : what one answer takes the others, in the median; None where nobody's time is known.
    """

    people: list[str]
    answers: list[dict[str, Any]]
    given: int
    changed: float
    seconds: float | None
    without: Without | None

    @property
    def tasks(self) -> list[int]:
        """The tasks, each once, in the order of the answers."""
        return list(dict.fromkeys(row["task"] for row in self.answers if row["task"] is not None))

    @property
    def cost(self) -> float | None:
        """Seconds of work, one new answer for each."""
        return None if self.seconds is None else self.seconds * len(self.answers)


def confirmed(store: Store, project_id: int) -> list[str]:
    """Whose flag a reviewer confirmed."""
    return sorted(key for key, line in store.decisions.current(project_id).items() if line.decision == "confirm")


def relabel(store: Store, project: Project, run: Run) -> Relabel:
    """What to ask for anew, now that these flags are confirmed."""
    rows = store.findings.rows(run.id, confirmed(store, project.id))
    leans = {key: float(row["bias"]) for key, row in rows.items() if row["bias"] and not row["more_needed"]}
    times = [row.median_lead_time for row in store.findings.marks(run.id) if row.annotator not in leans]
    usual = median(known) if (known := [time for time in times if time is not None]) else None
    if not leans:
        return Relabel([], [], 0, 0.0, usual, None)
    others = _without(store, project, run, leans)
    columns = (others.scores[name].tolist() for name in ("item", "score", "component"))
    place = {item: (score, component) for item, score, component in zip(*columns, strict=True)}
    people = store.annotators.get(project.id, leans.keys())
    answers: list[dict[str, Any]] = []
    given, changed = 0, 0.0
    for key, lean in leans.items():
        own = [row for row in store.comparisons.of_annotator(project.id, key) if row["status"] in ("answer", "judge")]
        own = [row for row in own if row["outcome"] is not None]
        expected = [_expected(row, place, run.consensus) for row in own]
        told = np.array([np.nan if one is None else one for one in expected])
        chance = decided_by_lean(np.array([row["outcome"] for row in own], dtype=float), told, lean)
        given, changed = given + len(own), changed + float(chance.sum())
        answers += [
            {
                "task": row["task_id"],
                "annotator": key,
                "name": people[key].name if key in people else None,
                "left": row["left_item"],
                "right": row["right_item"],
                "answer": row["outcome"],
                "expected": before,
                "probability": float(likely),
                "seconds": row["lead_time"],
                "given_at": row["created_at"],
            }
            for row, before, likely in zip(own, expected, chance, strict=True)
            if likely >= LIKELY
        ]
    answers.sort(key=lambda row: (-row["probability"], row["task"] or 0))
    return Relabel(list(leans), answers, given, changed, usual, others)


def _expected(row: dict[str, Any], place: dict[str, tuple[float, int]], consensus: str) -> float | None:
    """What the others' scores say of a pair; None where they never compared its items."""
    left, right = place.get(row["left_item"]), place.get(row["right_item"])
    return None if not left or not right or left[1] != right[1] else expected_outcome(left[0] - right[0], consensus)


def _without(store: Store, project: Project, run: Run, people: Iterable[str]) -> Without:
    """The consensus of everybody else, of the answers as they stand."""
    current = StatisticsCache(store).catch_up(project)
    differing = store.revisions.corrections(project.id, current.seq, store.decisions.withdrawn_answers(project.id))
    present = {row["item"]: row["score"] for row in store.rankings.all(run.id) if row["score"] is not None}
    with corrected(current, differing.ranking):
        return without(AnswerTable.of(current.statistics), set(people), present, method=run.consensus)
