"""Live evidence between runs, advanced together with the sequence number it has seen."""

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import select, update

from evenhand.domain import StoredEvidence
from evenhand.errors import ConflictError
from evenhand.store.database import Aggregate, select_in, without_project
from evenhand.store.erased import Erased
from evenhand.store.schema import live_curve, live_evidence, projects


@dataclass(frozen=True)
class Warned:
    """A standing early warning: when it was given, and how many answers the evidence counts by now."""

    warned_at: float
    answers: int


class LiveStore(Aggregate):
    """Reading and advancing the e-processes of a project."""

    def get(
        self, project_id: int, annotator_ids: Collection[str] | None = None
    ) -> tuple[int, dict[str, StoredEvidence]]:
        """The sequence number already counted, and the evidence by annotator, as one consistent state."""
        query = select(live_evidence).where(live_evidence.c.project_id == project_id)
        with self._database.read(snapshot=True) as connection:
            seq = connection.execute(select(projects.c.live_seq).where(projects.c.id == project_id)).scalar_one()
            rows = select_in(connection, query, live_evidence.c.annotator_id, annotator_ids)
            return seq, {row.annotator_id: StoredEvidence(**without_project(row)) for row in rows}

    def put(
        self,
        project_id: int,
        rows: Collection[StoredEvidence],
        *,
        from_seq: int,
        to_seq: int,
        curve: Collection[tuple[str, int, float, float]] = (),
    ) -> None:
        """Store evidence that counted the changes from_seq < seq <= to_seq, in one transaction.

        `curve` holds points (annotator_id, seq, at, log_e). Raises ConflictError if somebody else advanced it.
        """
        with self._database.write() as connection:
            advance = update(projects).where(projects.c.id == project_id, projects.c.live_seq == from_seq)
            if connection.execute(advance.values(live_seq=to_seq)).rowcount != 1:
                raise ConflictError(f"live evidence of project {project_id} is no longer at {from_seq}; read it again")
            erased = Erased.of(connection, project_id)
            rows = [row for row in rows if row.annotator_id not in erased]
            curve = [point for point in curve if point[0] not in erased]
            if rows:
                values = [{"project_id": project_id, **vars(row)} for row in rows]
                connection.execute(self._database.upsert(live_evidence), values)
            if curve:
                points = [
                    {"project_id": project_id, "annotator_id": key, "seq": seq, "at": at, "log_e": log_e}
                    for key, seq, at, log_e in curve
                ]
                connection.execute(self._database.insert(live_curve).on_conflict_do_nothing(), points)

    def warn(self, project_id: int, annotator_ids: Collection[str], at: float) -> None:
        """Note warnings of these annotators; an older warning keeps its time."""
        if not annotator_ids:
            return
        mine = (live_evidence.c.project_id == project_id, live_evidence.c.annotator_id.in_(sorted(annotator_ids)))
        statement = update(live_evidence).where(*mine, live_evidence.c.warned_at.is_(None)).values(warned_at=at)
        with self._database.write() as connection:
            connection.execute(statement)

    def withdraw(self, project_id: int) -> int:
        """Take all warnings of a project back; how many there were."""
        if not self.warned(project_id):
            return 0
        mine = (live_evidence.c.project_id == project_id, live_evidence.c.warned_at.is_not(None))
        with self._database.write() as connection:
            return connection.execute(update(live_evidence).where(*mine).values(warned_at=None)).rowcount

    def warned(self, project_id: int) -> dict[str, Warned]:
        """Everybody with a warning, the earliest first; the state of the evidence, which is large, is not read."""
        columns = (live_evidence.c.annotator_id, live_evidence.c.warned_at, live_evidence.c.answers)
        query = select(*columns).where(live_evidence.c.project_id == project_id, live_evidence.c.warned_at.is_not(None))
        order = (live_evidence.c.warned_at, live_evidence.c.annotator_id)
        with self._database.read() as connection:
            rows = connection.execute(query.order_by(*order)).all()
        return {row.annotator_id: Warned(row.warned_at, row.answers) for row in rows}

    def curve(self, project_id: int, annotator_id: str) -> list[tuple[int, float, float]]:
        """Points (seq, at, log_e) of one annotator's e-process, oldest first."""
        query = select(live_curve.c.seq, live_curve.c.at, live_curve.c.log_e).where(
            live_curve.c.project_id == project_id, live_curve.c.annotator_id == annotator_id
        )
        with self._database.read() as connection:
            return [(row.seq, row.at, row.log_e) for row in connection.execute(query.order_by(live_curve.c.seq))]
