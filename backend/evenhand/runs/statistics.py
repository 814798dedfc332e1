"""Each project's sufficient statistics, kept in memory and caught up from the store by sequence number.

Of large projects a snapshot is stored now and then, from which a restarted worker goes on.
"""

import logging
from collections import OrderedDict
from dataclasses import dataclass
from typing import Literal

from evenhand.domain import Change, Project
from evenhand.errors import StoreError
from evenhand.projects.reading import reading_of
from evenhand.runs.snapshots import SnapshotError, decode, encode, fingerprint
from evenhand.store import Store
from evenhand.store.snapshots import Snapshot
from fdr_core import Comparisons, SufficientStatistics

logger = logging.getLogger(__name__)

BATCH = 10_000
#: Smaller projects are read whole in less time than anybody notices.
WORTH_KEEPING = 20_000
#: A new snapshot is stored after this share of the answers has changed: that is what a restart has to catch up with.
SHARE_CHANGED = 0.05


@dataclass
class Current:
    """Statistics of one project as of `seq`; `coin_source` tells whether coins were recorded or are task ids.

    `unkept` counts the changes that are not in a stored snapshot, None where there is no snapshot.
    """

    statistics: SufficientStatistics
    seq: int
    coin_source: Literal["coin", "task"]
    unkept: int | None = None


class StatisticsCache:
    """Keeps the projects used last; the first use reads a snapshot or all answers, later ones only what changed."""

    def __init__(self, store: Store, *, max_projects: int = 100) -> None:
        self._store = store
        self._max_projects = max_projects
        self._current: OrderedDict[int, Current] = OrderedDict()

    def catch_up(self, project: Project) -> Current:
        """Statistics of all answers accepted so far."""
        coin_source = coin_source_of(project)
        current = self._current.pop(project.id, None)
        if current is None or current.coin_source != coin_source or current.seq < project.erased_seq:
            current = self._kept(project, coin_source) or self._load(project, coin_source)
        while changes := self._store.comparisons.changes_since(project.id, current.seq, limit=BATCH):
            for change in changes:
                apply_change(current.statistics, change, coin_source)
            current.seq = changes[-1].seq
            current.unkept = None if current.unkept is None else current.unkept + len(changes)
        self._current[project.id] = current
        while len(self._current) > self._max_projects:
            self._current.popitem(last=False)
        return current

    def keep(self, project: Project, current: Current) -> bool:
        """Store a snapshot if a restart would save time by it; whether one was stored."""
        size = len(current.statistics)
        if size < WORTH_KEEPING or (current.unkept is not None and current.unkept < SHARE_CHANGED * size):
            return False
        try:
            content = encode(current.statistics)
            named = fingerprint(project, current.coin_source)
            if not self._store.snapshots.put(project.id, Snapshot(current.seq, named, content)):
                return False
        except (SnapshotError, StoreError) as error:
            logger.warning("no snapshot of project %d's statistics was stored: %s", project.id, error)
            return False
        current.unkept = 0
        return True

    def _kept(self, project: Project, coin_source: Literal["coin", "task"]) -> Current | None:
        """Statistics from the stored snapshot; None, and a line in the log, where it cannot be trusted."""
        snapshot = self._store.snapshots.newest(project.id)
        if snapshot is None:
            return None
        try:
            if snapshot.fingerprint != fingerprint(project, coin_source):
                raise SnapshotError("it was made by another version or under other settings")
            if not project.erased_seq <= snapshot.seq <= self._store.projects.get(project.id).seq:
                raise SnapshotError("it does not belong to this project's history")
            return Current(decode(snapshot.content, coin_source), snapshot.seq, coin_source, unkept=0)
        except SnapshotError as error:
            logger.warning("the snapshot of project %d's statistics is not used: %s", project.id, error)
            return None

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
