"""Advances the e-processes by first submissions, in order of arrival, and gives early warnings."""

import math
import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.domain import Change, Project, StoredEvidence
from evenhand.project_config import ProjectConfig
from evenhand.store import Store
from fdr_core.live import LiveConsensus, early_warnings, may_warn
from fdr_core.live import LiveEvidence as Process

PROBLEM = "warnings_withdrawn"


def due_warnings(evidence: Mapping[str, StoredEvidence], q: float) -> set[str]:
    """Annotators whom e-BH finds on the current e-values and who have no warning yet."""
    rows = list(evidence.values())
    due = early_warnings([math.exp(min(row.log_e, 700.0)) for row in rows], q)
    return {row.annotator_id for row, is_due in zip(rows, due, strict=True) if is_due and row.warned_at is None}


def audit_lets_warn(store: Store, project_id: int) -> bool:
    """Whether the audit of the last run allows warnings; before the first run there are none."""
    run = store.runs.latest(project_id)
    return may_warn((run.audit or {}).get("how") if run else None)


def settle_warnings(store: Store, project: Project, how: str | None, q: float, reasons: Sequence[str] = ()) -> None:
    """Follow a new audit: give the warnings that waited for it, or withdraw those given.

    The flags themselves go with the run that is about to be stored; here they are counted for the note.
    """
    if may_warn(how):
        _, evidence = store.live.get(project.id)
        store.live.warn(project.id, due_warnings(evidence, q), store.clock())
    withdrawn = 0 if may_warn(how) else store.live.withdraw(project.id)
    flags = len(store.flags.all(project.id)) if how in (None, "none") else 0
    if withdrawn or flags:
        _note(store, project, withdrawn, flags, reasons)
    elif how not in (None, "none"):
        store.problems.resolve(project.id, PROBLEM)


def _note(store: Store, project: Project, withdrawn: int, flags: int, reasons: Sequence[str]) -> None:
    counted = [_plural(withdrawn, "early warning"), _plural(flags, "lasting flag")]
    because = reasons[-1] if reasons else "There are no answers to judge."
    store.problems.open(
        project.id,
        PROBLEM,
        f"{' and '.join(filter(None, counted))} withdrawn: {because}",
        f"Nobody is accused meanwhile. {sides_remedy(project)}",
    )


def sides_remedy(project: Project) -> str:
    """The command that tells how sides were assigned."""
    if project.kind != "comparison":
        return "Say how sides were assigned, in the project's settings."
    return f"Say how sides were assigned: `evenhand connect {project.ls_project_id} --sides shuffled` (or prepared)."


def _plural(number: int, word: str) -> str:
    return "" if not number else f"{number} {word}{'s' if number != 1 else ''}"


BATCH = 1_000
#: Time for one piece of catching up, between which runs have their turn.
SLICE_SECONDS = 2.0
#: Pairs that came in since the last sorting; looking them up costs memory instead of time.
MANY_FRESH = 100_000
#: Beyond this many answers the curve of an annotator keeps every tenth point.
DENSE_CURVE = 200


class Met:
    """Which (annotator, coin) pairs were met, as 64-bit hashes: 8 bytes each, where a set of pairs takes 200."""

    def __init__(self) -> None:
        self._old: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self._fresh: set[int] = set()

    def add_all(self, parts: Iterable[Sequence[Any]]) -> None:
        """Note many pairs."""
        hashed = [np.fromiter((hash(tuple(pair)) for pair in part), dtype=np.int64) for part in parts]
        self._old = np.unique(np.concatenate([self._old, *hashed]))

    def add(self, annotator: str, coin: str) -> bool:
        """Note a pair; whether it is new."""
        key = hash((annotator, coin))
        place = int(np.searchsorted(self._old, key))
        if key in self._fresh or (place < len(self._old) and self._old[place] == key):
            return False
        self._fresh.add(key)
        if len(self._fresh) > MANY_FRESH:
            self._old = np.union1d(self._old, np.fromiter(self._fresh, dtype=np.int64))
            self._fresh = set()
        return True


class LiveDesk:
    """The live evidence of all projects; remembers which coins each annotator has met."""

    def __init__(self, store: Store, *, max_projects: int = 100) -> None:
        self._store = store
        self._max_projects = max_projects
        self._met: OrderedDict[int, tuple[int, Met]] = OrderedDict()
        self._consensus: OrderedDict[int, tuple[int, LiveConsensus]] = OrderedDict()
        self._suspected: dict[int, bool] = {}

    def use_consensus(self, project_id: int, seq: int, consensus: LiveConsensus) -> None:
        """Let answers that arrived after `seq` be weighed against this run's consensus."""
        self._consensus.pop(project_id, None)
        self._consensus[project_id] = (seq, consensus)
        _trim(self._consensus, self._max_projects)

    def forget_consensus(self, project_id: int) -> None:
        """Make room: a run is about to make a new one, and until then answers are weighed without any."""
        self._consensus.pop(project_id, None)

    def advance(self, project: Project, now: float, *, seconds: float = SLICE_SECONDS) -> list[str]:
        """Count new first submissions for about so long; return the annotators with a first warning.

        What is left is counted by the next call: nobody who waits for a run waits for a million answers first.
        """
        until = time.monotonic() + seconds
        if not self._store.comparisons.changes_since(project.id, project.live_seq, limit=1):
            return []
        start, evidence = self._store.live.get(project.id)
        seq = start
        met = self._met_before(project.id, seq)
        q = ProjectConfig.model_validate(project.config).q
        is_audited = audit_lets_warn(self._store, project.id)
        warned: list[str] = []
        changed: set[str] = set()
        curve: list[tuple[str, int, float, float]] = []
        while changes := self._store.comparisons.changes_since(project.id, seq, limit=BATCH):
            touched, points = self._count(project.id, changes, evidence, met)
            due = due_warnings(evidence, q)
            self._suspected[project.id] = bool(due) and not is_audited
            fresh = due if is_audited else set()
            for annotator in fresh:
                evidence[annotator] = replace(evidence[annotator], warned_at=now)
            changed |= touched | fresh
            curve += points
            warned.extend(sorted(fresh))
            seq = changes[-1].seq
            if time.monotonic() >= until:
                break
        # One write for all that was counted: an annotator who answers steadily is in every batch.
        rows = [evidence[annotator] for annotator in changed]
        self._store.live.put(project.id, rows, from_seq=start, to_seq=seq, curve=curve)
        self._met[project.id] = (seq, met)
        _trim(self._met, self._max_projects)
        return warned

    def waits_for_an_audit(self, project_id: int) -> bool:
        """Whether the answers counted last would give a warning if the last audit allowed one."""
        return self._suspected.get(project_id, False)

    def _met_before(self, project_id: int, seq: int) -> Met:
        """Coins counted up to `seq`, by this worker or by others; put back only when they were counted for good."""
        known, met = self._met.pop(project_id, (0, Met()))
        if known > seq:
            known, met = 0, Met()
        if known < seq:
            met.add_all(self._store.comparisons.first_coins(project_id, known, seq))
        return met

    def _count(
        self,
        project_id: int,
        changes: list[Change],
        evidence: dict[str, StoredEvidence],
        met: Met,
    ) -> tuple[set[str], list[tuple[str, int, float, float]]]:
        """Count changes into `evidence`; who is touched, and the points of their curves."""
        processes: dict[str, Process] = {}
        curve: list[tuple[str, int, float, float]] = []
        for change in changes:
            if not change.is_first or change.weight < 0 or not met.add(change.annotator_id, change.coin):
                continue
            process = processes.get(change.annotator_id) or _process_of(evidence.get(change.annotator_id))
            process = process.update(change.outcome, self._probability_left(project_id, change))
            processes[change.annotator_id] = process
            if process.answers <= DENSE_CURVE or process.answers % 10 == 0:
                curve.append((change.annotator_id, change.seq, change.at, process.log_e))
        evidence.update((key, _stored(key, process, evidence.get(key))) for key, process in processes.items())
        return set(processes), curve

    def _probability_left(self, project_id: int, change: Change) -> float:
        """The consensus of a run on data before this answer; 1/2 where there is none (always valid)."""
        seq, consensus = self._consensus.get(project_id, (change.seq, None))
        if consensus is None or seq >= change.seq:
            return 0.5
        return consensus.probability_left(change.left_item, change.right_item, change.coin)


def _process_of(stored: StoredEvidence | None) -> Process:
    """The e-process as it was stored, or a new one."""
    return Process.from_dict(stored.state) if stored else Process()


def _stored(annotator: str, process: Process, before: StoredEvidence | None) -> StoredEvidence:
    """An e-process as it is stored; a warning given stays."""
    return StoredEvidence(
        annotator,
        process.as_dict(),
        process.log_e,
        process.sup_log_e,
        process.answers,
        before.warned_at if before else None,
    )


def _trim(kept: "OrderedDict[int, Any]", most: int) -> None:
    """Drop what was used longest ago."""
    while len(kept) > most:
        kept.popitem(last=False)
