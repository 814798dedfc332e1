"""What became of answers after they were given: facts about edits and deletions, and what evidence is made of.

Rows of `comparisons` hold what Label Studio holds now; the ranking is made of them. Evidence about a person is made of
what that person submitted first: an edit, a deletion, another author or other items are kept here and change nothing
of it, and an answer that somebody else wrote is evidence against nobody.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection, or_, select

from evenhand.judged import Policy
from evenhand.store.database import Aggregate, project_row, select_in
from evenhand.store.merge import FOREIGN, GIVEN, JUDGED_COLUMNS, KEPT, judged
from evenhand.store.schema import changes, comparisons, revisions

Row = dict[str, Any]
#: Times whose answers were taken out, by annotator.
Withdrawn = Mapping[str, Sequence[tuple[float, float]]]


@dataclass(frozen=True)
class Correction:
    """One answer that is evidence though it no longer stands so (+1), or stands and is no evidence (-1)."""

    annotator_id: str
    left_item: str
    right_item: str
    coin: str
    outcome: float
    weight: int


@dataclass(frozen=True)
class Corrections:
    """What to add to the answers that stand, and to take from them: for evidence, and for the ranking."""

    evidence: list[Correction]
    ranking: list[Correction]


@dataclass(frozen=True)
class SideCounts:
    """How many answers by the side they had chosen."""

    left: int = 0
    right: int = 0
    ties: int = 0

    @property
    def total(self) -> int:
        """All of them."""
        return self.left + self.right + self.ties

    def with_one(self, outcome: float | None) -> "SideCounts":
        """Count one more."""
        if not outcome:
            return replace(self, ties=self.ties + 1)
        return replace(self, left=self.left + 1) if outcome > 0 else replace(self, right=self.right + 1)


@dataclass(frozen=True)
class History:
    """What became of one annotator's answers, by the side first chosen; `by` names who is known to have edited."""

    removed: SideCounts = SideCounts()
    edited: SideCounts = SideCounts()
    edited_by_others: SideCounts = SideCounts()
    written_by_others: SideCounts = SideCounts()
    by: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return any(counts.total for counts in (self.removed, self.edited, self.written_by_others))


class RevisionStore(Aggregate):
    """Reading the history of answers; `ComparisonStore` writes it along with the answers."""

    def corrections(self, project_id: int, upto: int, withdrawn: Withdrawn) -> Corrections:
        """How evidence, and the ranking, differ from the answers that stood at sequence number `upto`.

        Evidence is first submissions; answers of times that were `withdrawn` are out of both.
        """
        with self._database.read(snapshot=True, patient=True) as connection:
            policy = Policy.of(project_row(connection, project_id)["config"])
            parted = or_(
                comparisons.c.deleted,
                comparisons.c.standing.is_not(None),
                comparisons.c.annotator_id.in_(list(withdrawn)),
            )
            query = select(comparisons).where(comparisons.c.project_id == project_id, parted)
            query = query.where(comparisons.c.status != "judge")
            rows = [dict(row) for row in connection.execute(query).mappings()]
            firsts = _firsts(connection, project_id)
            given_again = _given_again(connection, project_id, policy, rows)
            moved = [row["annotation_id"] for row in rows if row["seq"] > upto]
            before = _stood(connection, project_id, moved, upto)
        found = Corrections([], [])
        for row in rows:
            if row["first_seq"] is None or row["first_seq"] > upto:
                continue
            stands = before.get(row["annotation_id"]) if row["seq"] > upto else judged(row, policy)
            first = _first_submission(row, firsts)
            evidence = judged(first, policy) if first is not None else None
            if row["deleted"] and evidence is not None and given_again.get(_presented(evidence), 0) > row["seq"]:
                evidence = None  # the tasks were imported anew, or the person answered again: it counts once
            is_out = any(since <= row["created_at"] <= until for since, until in withdrawn.get(row["annotator_id"], ()))
            found.evidence.extend(_differences(stands, None if is_out else evidence))
            found.ranking.extend(_differences(stands, None if is_out else stands))
        return found

    def of(
        self, project_id: int, annotator_ids: Collection[str] | None = None, *, upto: int | None = None
    ) -> dict[str, History]:
        """What became of annotators' answers, by annotator; those of whom nothing is to be said are left out."""
        query = select(revisions).where(revisions.c.project_id == project_id).order_by(revisions.c.seq)
        query = query if upto is None else query.where(revisions.c.seq <= upto)
        with self._database.read() as connection:
            rows = list(select_in(connection, query, revisions.c.annotator_id, annotator_ids))
            gone = _gone(connection, project_id, {row.annotation_id for row in rows if row.kind == "delete"})
        grouped: dict[str, list[Any]] = defaultdict(list)
        for row in rows:
            if row.annotator_id is not None:
                grouped[row.annotator_id].append(row)
        return {key: _history(key, own, gone) for key, own in sorted(grouped.items())}

    def since(self, project_id: int, moment: float) -> list[Row]:
        """The facts of a time, oldest first."""
        query = select(revisions).where(revisions.c.project_id == project_id, revisions.c.at >= moment)
        return [dict(row) for row in self._database.fetch(query.order_by(revisions.c.seq)).mappings()]


def _firsts(connection: Connection, project_id: int) -> dict[int, Row]:
    """The first submissions that the history keeps, by annotation."""
    query = select(revisions).where(revisions.c.project_id == project_id, revisions.c.is_first)
    return {row["annotation_id"]: {**row, "deleted": False} for row in connection.execute(query).mappings()}


def _first_submission(row: Row, firsts: dict[int, Row]) -> Row | None:
    """What the author submitted first; None where somebody else wrote the answer, or it is not known."""
    if row["standing"] == KEPT:
        return firsts.get(row["annotation_id"])
    return None if row["standing"] == FOREIGN else {**row, "deleted": False}


def _given_again(
    connection: Connection, project_id: int, policy: Policy, rows: Sequence[Row]
) -> dict[tuple[Any, ...], int]:
    """Presentations, by annotator and side, that stand, with the number in sequence of the newest one's arrival."""
    wanted = {row["annotator_id"] for row in rows if row["deleted"] and row["status"] in GIVEN}
    columns = [comparisons.c[name] for name in ("annotator_id", "left_item", "right_item", "first_seq")]
    query = select(*columns).where(comparisons.c.project_id == project_id, comparisons.c.standing.is_(None))
    found = select_in(connection, query.where(*policy.sql(comparisons)), columns[0], wanted - {None})
    return {tuple(row)[:3]: row.first_seq for row in sorted(found, key=lambda row: row.first_seq or 0)}


def _presented(values: Row) -> tuple[Any, ...]:
    """Who saw which item on which side."""
    return tuple(values[name] for name in ("annotator_id", "left_item", "right_item"))


def _stood(connection: Connection, project_id: int, ids: Collection[int], upto: int) -> dict[int, Row]:
    """Of annotations that changed since, what was judged at `upto`."""
    query = select(changes).where(changes.c.project_id == project_id, changes.c.seq <= upto).order_by(changes.c.seq)
    found: dict[int, Row] = {}
    for row in select_in(connection, query, changes.c.annotation_id, ids):
        if row.weight > 0:
            found[row.annotation_id] = {name: getattr(row, name) for name in JUDGED_COLUMNS}
        else:
            found.pop(row.annotation_id, None)
    return found


def _differences(stands: Row | None, wanted: Row | None) -> list[Correction]:
    """What takes the answers from one state to another."""
    if stands == wanted:
        return []
    names = ("annotator_id", "left_item", "right_item", "coin", "outcome")
    steps = ((stands, -1), (wanted, 1))
    return [Correction(**{name: row[name] for name in names}, weight=weight) for row, weight in steps if row]


def _gone(connection: Connection, project_id: int, ids: Collection[int]) -> set[int]:
    """Which of these annotations are still removed."""
    query = select(comparisons.c.annotation_id).where(comparisons.c.project_id == project_id, comparisons.c.deleted)
    return {row.annotation_id for row in select_in(connection, query, comparisons.c.annotation_id, ids)}


def _history(annotator_id: str, rows: Sequence[Any], gone: Collection[int]) -> History:
    """The facts about one annotator's answers, each annotation once."""
    counts: dict[str, SideCounts] = defaultdict(SideCounts)
    counted: set[tuple[str, int]] = set()
    people: dict[str, None] = {}

    def count(what: str, row: Any) -> None:
        if (what, row.annotation_id) not in counted:
            counted.add((what, row.annotation_id))
            counts[what] = counts[what].with_one(row.outcome)

    for row in rows:
        if row.kind == "vanished":
            continue
        is_foreign = row.by_id is not None and row.by_id != annotator_id
        if row.kind == "delete":
            if row.annotation_id in gone:
                count("removed", row)
            continue
        count("written_by_others" if row.kind == "written" else "edited", row)
        if is_foreign:
            people[row.by_id] = None
            if row.kind != "written":
                count("edited_by_others", row)
    return History(**counts, by=tuple(people))
