"""Each project's sufficient statistics, kept in memory and caught up from the store by sequence number."""

from collections import OrderedDict
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from evenhand.domain import Project
from evenhand.project_config import ProjectConfig
from evenhand.projects.reading import reading_of
from evenhand.store import Store
from evenhand.store.revisions import Correction
from fdr_core import Comparisons, Detection, SufficientStatistics, detect
from fdr_core.answer_table import AnswerTable
from fdr_core.consensus.ranking import Ranking, ranking
from fdr_core.design import ridge_for
from fdr_core.progress import Progress
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

    def catch_up(self, project: Project, progress: Progress = lambda stage, done, of: None) -> Current:
        """Statistics of all answers accepted so far."""
        coin_source = coin_source_of(project)
        current = self._current.pop(project.id, None)
        if current is None or current.coin_source != coin_source or current.seq < project.erased_seq:
            current = self._load(project, coin_source, progress)
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

    def _load(self, project: Project, coin_source: Literal["coin", "task"], progress: Progress) -> Current:
        """Statistics from scratch, part by part: the answers of a large project never stand in memory as rows."""
        statistics, read = SufficientStatistics(), 0
        with self._store.comparisons.judged(project.id) as (seq, parts):
            for annotator, left, right, outcome, coin in parts:
                statistics.add(Comparisons.from_arrays(annotator, left, right, outcome, **{coin_source: coin}))
                read += len(annotator)
                progress("read", read, max(read, project.counts.get("judged", 0)))
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


def _apply(current: Current, step: Correction, weight: int) -> None:
    change = current.statistics.add if weight > 0 else current.statistics.remove
    items = (step.left_item, step.right_item)
    change(step.annotator_id, *items, step.outcome, coin=step.coin, coin_source=current.coin_source)
