"""Live evidence between runs, advanced together with the sequence number it has seen."""

from collections.abc import Collection, Iterable
from typing import Any

from sqlalchemy import select, update

from backend.domain import LiveEvidence
from backend.errors import ConflictError
from backend.schema import live_curve, live_evidence, projects
from backend.store.base import StoreBase, chunks
from backend.store.erased import Erased


class EvidenceStore(StoreBase):
    """Reading and advancing the e-processes of a project."""

    def get_live(
        self, project_id: int, annotator_ids: Collection[str] | None = None
    ) -> tuple[int, dict[str, LiveEvidence]]:
        """The sequence number already counted, and the evidence by annotator, as one consistent state."""
        query = select(live_evidence).where(live_evidence.c.project_id == project_id)
        found: dict[str, LiveEvidence] = {}
        with self._read(snapshot=True) as connection:
            seq = connection.execute(select(projects.c.live_seq).where(projects.c.id == project_id)).scalar_one()
            parts: Iterable[Any] = [None] if annotator_ids is None else chunks(sorted(annotator_ids))
            for part in parts:
                chosen = query if part is None else query.where(live_evidence.c.annotator_id.in_(part))
                for row in connection.execute(chosen).mappings():
                    values = {key: value for key, value in row.items() if key != "project_id"}
                    found[row["annotator_id"]] = LiveEvidence(**values)
        return seq, found

    def put_live(
        self,
        project_id: int,
        rows: Collection[LiveEvidence],
        *,
        from_seq: int,
        to_seq: int,
        curve: Collection[tuple[str, int, float, float]] = (),
    ) -> None:
        """Store evidence that counted the changes from_seq < seq <= to_seq, in one transaction.

        `curve` holds points (annotator_id, seq, at, log_e). Raises ConflictError if somebody else advanced it.
        """
        with self._write() as connection:
            advance = update(projects).where(projects.c.id == project_id, projects.c.live_seq == from_seq)
            if connection.execute(advance.values(live_seq=to_seq)).rowcount != 1:
                raise ConflictError(f"live evidence of project {project_id} is no longer at {from_seq}; read it again")
            erased = Erased.of(connection, project_id)
            rows = [row for row in rows if row.annotator_id not in erased]
            curve = [point for point in curve if point[0] not in erased]
            if rows:
                values = [{"project_id": project_id, **vars(row)} for row in rows]
                connection.execute(self._upsert(live_evidence), values)
            if curve:
                points = [
                    {"project_id": project_id, "annotator_id": key, "seq": seq, "at": at, "log_e": log_e}
                    for key, seq, at, log_e in curve
                ]
                connection.execute(self._insert(live_curve).on_conflict_do_nothing(), points)

    def get_curve(self, project_id: int, annotator_id: str) -> list[tuple[int, float, float]]:
        """Points (seq, at, log_e) of one annotator's e-process, oldest first."""
        query = select(live_curve.c.seq, live_curve.c.at, live_curve.c.log_e).where(
            live_curve.c.project_id == project_id, live_curve.c.annotator_id == annotator_id
        )
        with self._read() as connection:
            return [(row.seq, row.at, row.log_e) for row in connection.execute(query.order_by(live_curve.c.seq))]
