"""Each project's sufficient statistics, kept in memory and caught up from the store by sequence number."""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Literal

from evenhand.domain import Change, Project
from evenhand.projects.reading import reading_of
from evenhand.store import Store
from fdr_core import Comparisons, SufficientStatistics

BATCH = 10_000


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
            for change in changes:
                apply_change(current.statistics, change, coin_source)
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


def apply_change(statistics: SufficientStatistics, change: Change, coin_source: Literal["coin", "task"]) -> None:
    """Add or subtract one answer."""
    step = statistics.add if change.weight > 0 else statistics.remove
    step(
        change.annotator_id,
        change.left_item,
        change.right_item,
        change.outcome,
        coin=change.coin,
        coin_source=coin_source,
    )


def coin_source_of(project: Project) -> Literal["coin", "task"]:
    """Whether the project's coins are recorded, or its tasks stand for them."""
    reading = reading_of(project)
    return "coin" if reading is not None and reading.coin else "task"
