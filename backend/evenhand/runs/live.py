"""Advances the e-processes by first submissions, in order of arrival, and gives early warnings."""

import math
import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from evenhand.domain import Project, StoredEvidence
from evenhand.project_config import ProjectConfig
from evenhand.store import Store
from fdr_core.live import LiveConsensus, advance, early_warnings, may_warn
from fdr_core.live import LiveEvidence as Process
from fdr_core.types import Floats, Ints

PROBLEM = "warnings_withdrawn"


def due_warnings(evidence: Mapping[str, Any], q: float) -> set[str]:
    """Annotators whom e-BH finds on the current e-values and who have no warning yet."""
    due = early_warnings([math.exp(min(row.log_e, 700.0)) for row in evidence.values()], q)
    return {key for (key, row), is_due in zip(evidence.items(), due, strict=True) if is_due and row.warned_at is None}


def audit_lets_warn(store: Store, project_id: int) -> bool:
    """Whether the audit of the last run allows warnings; before the first run there are none."""
    run = store.runs.latest(project_id)
    return may_warn((run.audit or {}).get("how") if run else None)


def settle_warnings(store: Store, project: Project, how: str | None, q: float, reasons: Sequence[str] = ()) -> None:
    """Follow a new audit: give the warnings that waited for it, or withdraw those given.

    The flags themselves go with the run that is about to be stored; here they are counted for the note.
    """
    if may_warn(how):
        _, evidence = store.live.standing(project.id)
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


BATCH = 50_000
#: Time for one part of catching up, between which runs have their turn.
SLICE_SECONDS = 10.0
#: An annotator's curve keeps at most so many points: every answer, then every second, every fourth, and so on.
MOST_POINTS = 64


class LiveDesk:
    """The live evidence of all projects; remembers which coins each annotator has met."""

    def __init__(self, store: Store, *, max_projects: int = 100) -> None:
        self._store = store
        self._max_projects = max_projects
        # Hashes of the (annotator, coin) pairs that were met: 8 bytes each, where a set of pairs takes 200.
        self._met: OrderedDict[int, tuple[int, Ints]] = OrderedDict()
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

        What is left is counted by the next call: nobody who waits for a run waits for ten million answers first.
        """
        until = time.monotonic() + seconds
        if not self._store.comparisons.changes_since(project.id, project.live_seq, limit=1):
            return []
        start, standing = self._store.live.standing(project.id)
        seq, met = start, self._met_before(project.id, start)
        q = ProjectConfig.model_validate(project.config).q
        is_audited = audit_lets_warn(self._store, project.id)
        warned: list[str] = []
        evidence: dict[str, StoredEvidence] = {}
        while changes := self._store.comparisons.changes_since(project.id, seq, limit=BATCH):
            met = self._count(project.id, changes, evidence, met)
            due = due_warnings({**standing, **evidence}, q)
            self._suspected[project.id] = bool(due) and not is_audited
            if is_audited and due:
                evidence |= self._store.live.get(project.id, due - evidence.keys())
                evidence |= {annotator: replace(evidence[annotator], warned_at=now) for annotator in due}
                warned.extend(sorted(due))
            seq = changes[-1].seq
            if time.monotonic() >= until:
                break
        # One write for all that was counted: an annotator who answers steadily is in every batch.
        self._store.live.put(project.id, list(evidence.values()), from_seq=start, to_seq=seq)
        self._met[project.id] = (seq, met)
        _trim(self._met, self._max_projects)
        return warned

    def waits_for_an_audit(self, project_id: int) -> bool:
        """Whether the answers counted last would give a warning if the last audit allowed one."""
        return self._suspected.get(project_id, False)

    def _met_before(self, project_id: int, seq: int) -> Ints:
        """Coins counted up to `seq`, by this worker or by others; put back only when they were counted for good."""
        known, met = self._met.pop(project_id, (0, _NOTHING))
        if known > seq:
            known, met = 0, _NOTHING
        if known < seq:
            parts = self._store.comparisons.first_coins(project_id, known, seq)
            met = np.unique(np.concatenate([met, *(_hashes(part) for part in parts)]))
        return met

    def _count(self, project_id: int, changes: Sequence[Any], evidence: dict[str, StoredEvidence], met: Ints) -> Ints:
        """Count changes into `evidence`; the coins met by then."""
        first = [change for change in changes if change.is_first and change.weight > 0]
        fresh, places = np.unique(_hashes((change.annotator_id, change.coin) for change in first), return_index=True)
        is_new = ~np.isin(fresh, met, assume_unique=True)
        news = [first[place] for place in np.sort(places[is_new]).tolist()]
        who = [change.annotator_id for change in news]
        evidence |= self._store.live.get(project_id, set(who) - evidence.keys())
        before = {key: _process_of(evidence[key]) for key in set(who) & evidence.keys()}
        outcome = np.array([change.outcome for change in news])
        made = advance(before, who, outcome, self._probabilities_left(project_id, news))
        points: dict[str, list[Point]] = {key: [] for key in made.evidence}
        for change, number, log_e in zip(news, made.number.tolist(), made.log_e.tolist(), strict=True):
            if number % _step(made.evidence[change.annotator_id].answers) == 0:
                points[change.annotator_id].append((number, change.at, round(log_e, 4)))
        for key, process in made.evidence.items():
            known, step = evidence.get(key), _step(process.answers)
            former = known.state.get("curve", []) if known else []
            curve = [*(point for point in former if point[0] % step == 0), *points[key]]
            figures = (process.log_e, process.sup_log_e, process.answers)
            state = {"log_wealth": process.log_wealth, "curve": curve}
            evidence[key] = StoredEvidence(key, state, *figures, known.warned_at if known else None)
        return np.union1d(met, fresh[is_new])

    def _probabilities_left(self, project_id: int, changes: Sequence[Any]) -> Floats:
        """The consensus of a run on data before these answers; 1/2 where there is none (always valid)."""
        found = np.full(len(changes), 0.5)
        seq, consensus = self._consensus.get(project_id, (0, None))
        if consensus is not None:
            later = [place for place, change in enumerate(changes) if change.seq > seq]
            shown = [[getattr(changes[k], name) for k in later] for name in ("left_item", "right_item", "coin")]
            found[later] = consensus.probabilities_left(*shown)
        return found


def _process_of(stored: StoredEvidence) -> Process:
    """The e-process as it was stored."""
    return Process(tuple(stored.state["log_wealth"]), stored.log_e, stored.sup_log_e, stored.answers)


_NOTHING: Ints = np.empty(0, dtype=np.int64)
Point = tuple[int, float, float]


def _hashes(pairs: Iterable[Iterable[str]]) -> Ints:
    """(annotator, coin) pairs as 64-bit numbers."""
    return np.array([hash(tuple(pair)) for pair in pairs], dtype=np.int64)


def _step(answers: int) -> int:
    """Of so many answers every how manieth is a point of the curve: a power of two."""
    return 1 << max(0, -(-answers // MOST_POINTS) - 1).bit_length()


def _trim(kept: "OrderedDict[int, Any]", most: int) -> None:
    """Drop what was used longest ago."""
    while len(kept) > most:
        kept.popitem(last=False)
