"""Each project's sufficient statistics, kept in memory and caught up from the store by sequence number."""

from collections import Counter, OrderedDict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from evenhand.domain import Project
from evenhand.project_config import ProjectConfig
from evenhand.projects.reading import reading_of
from evenhand.store import Store
from evenhand.store.revisions import Correction, History, SideCounts
from fdr_core import Comparisons, Detection, SufficientStatistics, detect
from fdr_core.answer_table import AnswerTable
from fdr_core.consensus.ranking import Ranking, ranking
from fdr_core.design import ridge_for
from fdr_core.report.document import plain

BATCH = 50_000
JUDGED = ("annotator_id", "left_item", "right_item", "outcome", "coin")


@dataclass
class Current:
    """Statistics of one project as of `seq`; `coin_source` tells whether coins were recorded or are task ids."""

    statistics: SufficientStatistics
    seq: int
    coin_source: Literal["coin", "task"]


class StatisticsCache:
    """Keeps the projects used last; the first use reads all answers, later ones only what changed."""

    def __init__(self, store: Store, *, max_projects: int = 100) -> None:
        self._store = store
        self._max_projects = max_projects
        self._current: OrderedDict[int, Current] = OrderedDict()

    def catch_up(self, project: Project) -> Current:
        """Statistics of all answers accepted so far."""
        coin_source = coin_source_of(project)
        current = self._current.pop(project.id, None)
        if current is None or current.coin_source != coin_source or current.seq < project.erased_seq:
            current = self._load(project, coin_source)
        while changes := self._store.comparisons.changes_since(project.id, current.seq, limit=BATCH):
            for weight in (1, -1):
                if rows := [[getattr(row, name) for name in JUDGED] for row in changes if row.weight == weight]:
                    *answers, coin = zip(*rows, strict=True)
                    step = current.statistics.add if weight > 0 else current.statistics.remove
                    step(Comparisons.from_arrays(*answers, **{coin_source: coin}))
            current.seq = changes[-1].seq
        self._current[project.id] = current
        while len(self._current) > self._max_projects:
            self._current.popitem(last=False)
        return current

    def _load(self, project: Project, coin_source: Literal["coin", "task"]) -> Current:
        """Statistics from scratch, part by part: the answers of a large project never stand in memory as rows."""
        statistics = SufficientStatistics()
        with self._store.comparisons.judged(project.id) as (seq, parts):
            for annotator, left, right, outcome, coin in parts:
                statistics.add(Comparisons.from_arrays(annotator, left, right, outcome, **{coin_source: coin}))
        return Current(statistics, seq, coin_source)

    def forget(self, project_id: int) -> None:
        """Drop a project; the next use loads it anew."""
        self._current.pop(project_id, None)


def coin_source_of(project: Project) -> Literal["coin", "task"]:
    """Whether the project's coins are recorded, or its tasks stand for them."""
    reading = reading_of(project)
    return "coin" if reading is not None and reading.coin else "task"


#: What is kept of each annotator.
KEPT = ("comparisons", "left", "right", "ties", "bias", "p_value", "q_value", "flagged")


def judged_beside(store: Store, project: Project) -> dict[str, dict[str, Any]]:
    """By annotator and control, what an exact test of that control's answers says; empty where one control is read.

    Every list holds its own error rate; together they may hold as many times that as there are lists.
    """
    reading = reading_of(project)
    found: dict[str, dict[str, Any]] = {}
    for control in reading.beside if reading else ():
        for row in _tested(store, project, control.name):
            found.setdefault(str(row["annotator"]), {})[control.name] = {name: plain(row[name]) for name in KEPT}
    return found


def _tested(store: Store, project: Project, control: str) -> list[dict[Hashable, Any]]:
    """The annotator table of one control's answers."""
    statistics, coin_source = SufficientStatistics(), coin_source_of(project)
    with store.comparisons.answered(project.id, control) as parts:
        for annotator, left, right, outcome, coin in parts:
            statistics.add(Comparisons.from_arrays(annotator, left, right, outcome, **{coin_source: coin}))
    if not len(statistics):
        return []
    config = ProjectConfig.model_validate(project.config)
    detection = detect(statistics, q=config.q, min_bias=config.min_bias, sides=config.sides, lbi=None)
    return detection.annotators.to_dict("records")


PROBLEM = "answers_revised"
#: Revisions are named in a problem for so long; the annotator's page shows all of them.
SHOWN_SECONDS = 30 * 86_400.0
#: Deletions do not tell who made them: so many of one person's answers are worth a look.
MANY_DELETIONS = 5
WORDS: Mapping[str, str] = {
    "edit": "edited",
    "delete": "removed",
    "written": "written in their name",
    "vanished": "told of by events and never shown by Label Studio, so they count for nothing",
    "author": "given another author",
    "task": "shown with other items",
    "mark": "marked as ground truth or not",
}


@contextmanager
def corrected(current: Current, corrections: Sequence[Correction]) -> Iterator[SufficientStatistics]:
    """The statistics with these corrections, which are taken back at the end."""
    for step in corrections:
        _apply(current, step, step.weight)
    yield current.statistics
    for step in reversed(corrections):
        _apply(current, step, -step.weight)


def ranking_as_it_stands(
    statistics: SufficientStatistics, detection: Detection, *, consensus: str
) -> tuple[Ranking, AnswerTable] | None:
    """The ranking of the answers that stand, with the leans of the flagged taken out; None where none stand."""
    if not len(statistics):
        return None
    table = AnswerTable.of(statistics)
    flagged = np.flatnonzero(np.isin(table.annotators.astype(str), [str(name) for name in detection.flagged]))
    answers = table.answers
    return ranking(answers, table.sums, flagged, method=consensus, fallback_ridge=ridge_for(answers)), table


def report_revisions(store: Store, project: Project) -> None:
    """Name in a problem whose answers were touched by others, and by whom as far as that is known."""
    found: dict[tuple[str, str, str | None], set[int]] = {}
    for row in store.revisions.since(project.id, store.clock() - SHOWN_SECONDS):
        if row["annotator_id"] is not None and row["by_id"] != row["annotator_id"]:
            key = (row["kind"], row["annotator_id"], row["by_id"])
            found.setdefault(key, set()).add(row["annotation_id"])
    counts = Counter({key: len(ids) for key, ids in found.items() if key[0] != "delete" or len(ids) >= MANY_DELETIONS})
    if not counts:
        store.problems.resolve(project.id, PROBLEM)
        return
    named = store.annotators.get(project.id)
    told = "; ".join(_sentence(*key, number, named) for key, number in counts.most_common(10))
    more = len(counts) - 10
    store.problems.open(
        project.id,
        PROBLEM,
        f"{told}{f'; and {more} more' if more > 0 else ''}. Evidence is made of first submissions and stays as it was",
        "Ask who did it and why. If answers should not count, an owner withdraws them on the annotator's page.",
    )


def history_words(history: History, named: Mapping[str, Any]) -> str:
    """What became of somebody's answers later, by the side first chosen; evidence is of first submissions."""
    told = [
        _by_side(history.removed, "removed later"),
        _by_side(history.edited, "edited later"),
        _by_side(history.written_by_others, "written by others in this name, which are evidence against nobody"),
    ]
    others = history.edited_by_others.total
    if others:
        told[1] += f" ({others} not by the annotator)"
    if history.by:
        told.append(f"by {', '.join(_name(user, named) for user in history.by[:5])}")
    return "; ".join(part for part in told if part)


def _by_side(counts: SideCounts, what: str) -> str:
    """So many answers, and for which side they were; nothing where there are none."""
    if not counts.total:
        return ""
    sides = [(counts.right, "right"), (counts.left, "left"), (counts.ties, "a tie")]
    parts = ", ".join(f"{number} of them {side}" for number, side in sides if number)
    return f"{'1 answer was' if counts.total == 1 else f'{counts.total} answers were'} {what}, {parts}"


def _sentence(kind: str, annotator: str, by: str | None, number: int, named: Mapping[str, Any]) -> str:
    """One fact in words."""
    answers = "an answer" if number == 1 else f"{number} answers"
    who = "by whom is not known" if by is None else f"by {_name(by, named)}"
    return f"{answers} of {_name(annotator, named)} {'was' if number == 1 else 'were'} {WORDS[kind]}, {who}"


def _name(user: str, named: Mapping[str, Any]) -> str:
    """A user as people know them."""
    person = named.get(user)
    return f"{person.name} (user {user})" if person is not None and person.name else f"user {user}"


def _apply(current: Current, step: Correction, weight: int) -> None:
    change = current.statistics.add if weight > 0 else current.statistics.remove
    items = (step.left_item, step.right_item)
    change(step.annotator_id, *items, step.outcome, coin=step.coin, coin_source=current.coin_source)
