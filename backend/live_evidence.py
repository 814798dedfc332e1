"""Advances the e-processes by first submissions, in order of arrival, and gives early warnings."""

import math
from dataclasses import replace

from backend.config import ProjectConfig
from backend.domain import Change, LiveEvidence, Project
from backend.store import Store
from fdr_core.live import Consensus, early_warnings
from fdr_core.live import LiveEvidence as Process

BATCH = 5_000
#: Beyond this many answers the curve of an annotator keeps every tenth point.
DENSE_CURVE = 200


class LiveDesk:
    """The live evidence of all projects; remembers which coins each annotator has met."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._met: dict[int, set[tuple[str, str]]] = {}
        self._consensus: dict[int, tuple[int, Consensus]] = {}

    def use_consensus(self, project_id: int, seq: int, consensus: Consensus) -> None:
        """Let answers that arrived after `seq` be weighed against this run's consensus."""
        self._consensus[project_id] = (seq, consensus)

    def advance(self, project: Project, now: float) -> list[str]:
        """Count all new first submissions; return the annotators warned of for the first time."""
        if not self._store.changes_since(project.id, project.live_seq, limit=1):
            return []
        seq, evidence = self._store.get_live(project.id)
        met = self._met_before(project.id, seq)
        q = ProjectConfig.model_validate(project.config).q
        warned: list[str] = []
        while changes := self._store.changes_since(project.id, seq, limit=BATCH):
            touched, curve = self._count(project.id, changes, evidence, met)
            fresh = _warn(evidence, q, now)
            to_seq = changes[-1].seq
            rows = [evidence[annotator] for annotator in touched | fresh]
            self._store.put_live(project.id, rows, from_seq=seq, to_seq=to_seq, curve=curve)
            warned.extend(sorted(fresh))
            seq = to_seq
        return warned

    def _met_before(self, project_id: int, seq: int) -> set[tuple[str, str]]:
        """Coins counted so far, read once after a start."""
        if project_id not in self._met:
            met: set[tuple[str, str]] = set()
            at = 0
            while at < seq and (changes := self._store.changes_since(project_id, at, limit=BATCH)):
                met.update((c.annotator_id, c.coin) for c in changes if c.is_first and c.weight > 0 and c.seq <= seq)
                at = changes[-1].seq
            self._met[project_id] = met
        return self._met[project_id]

    def _count(
        self,
        project_id: int,
        changes: list[Change],
        evidence: dict[str, LiveEvidence],
        met: set[tuple[str, str]],
    ) -> tuple[set[str], list[tuple[str, int, float, float]]]:
        touched: set[str] = set()
        curve: list[tuple[str, int, float, float]] = []
        for change in changes:
            key = (change.annotator_id, change.coin)
            if not change.is_first or change.weight < 0 or key in met:
                continue
            met.add(key)
            stored = evidence.get(change.annotator_id)
            process = Process.from_dict(stored.state) if stored else Process()
            process = process.update(change.outcome, self._probability_left(project_id, change))
            evidence[change.annotator_id] = LiveEvidence(
                change.annotator_id,
                process.as_dict(),
                process.log_e,
                process.sup_log_e,
                process.answers,
                stored.warned_at if stored else None,
            )
            touched.add(change.annotator_id)
            if process.answers <= DENSE_CURVE or process.answers % 10 == 0:
                curve.append((change.annotator_id, change.seq, change.at, process.log_e))
        return touched, curve

    def _probability_left(self, project_id: int, change: Change) -> float:
        """The consensus of a run on data before this answer; 1/2 where there is none (always valid)."""
        seq, consensus = self._consensus.get(project_id, (change.seq, None))
        if consensus is None or seq >= change.seq:
            return 0.5
        return consensus.probability_left(change.left_item, change.right_item, change.coin)


def _warn(evidence: dict[str, LiveEvidence], q: float, now: float) -> set[str]:
    """E-BH on the current e-values; a warning given stays."""
    rows = list(evidence.values())
    due = early_warnings([math.exp(min(row.log_e, 700.0)) for row in rows], q)
    fresh = {row.annotator_id for row, is_due in zip(rows, due, strict=True) if is_due and row.warned_at is None}
    for annotator in fresh:
        evidence[annotator] = replace(evidence[annotator], warned_at=now)
    return fresh
