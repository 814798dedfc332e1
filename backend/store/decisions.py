"""Reviewers' decisions: an append-only log, each line sealed by the hash of the one before."""

import hashlib
import json
from typing import Any

from sqlalchemy import Connection, select

from backend.domain import ChainCheck, Decision, Page, Review, Verdict
from backend.errors import NotFoundError
from backend.schema import decisions, projects
from backend.store.base import StoreBase, page

FIRST = "0" * 64


class DecisionStore(StoreBase):
    """Appending, reading and checking decisions."""

    def add_decision(
        self,
        project_id: int,
        annotator_id: str,
        decision: Verdict,
        *,
        author: str,
        comment: str = "",
        source: str = "dashboard",
        source_key: str | None = None,
        run_id: int | None = None,
        decided_at: float | None = None,
    ) -> Decision:
        """Append a decision; the same `source_key` twice is the same decision and is stored once."""
        with self._write() as connection:
            last = self._last(connection, project_id)
            number = last.number + 1 if last else 1
            key = source_key or f"{source}:{number}"
            known = select(decisions).where(decisions.c.project_id == project_id, decisions.c.source_key == key)
            row = connection.execute(known).first()
            if row is not None:
                return Decision(**row._mapping)
            now = self.clock()
            values: dict[str, Any] = {
                "number": number,
                "project_id": project_id,
                "annotator_id": annotator_id,
                "decision": decision,
                "comment": comment,
                "author": author,
                "source": source,
                "source_key": key,
                "run_id": run_id,
                "decided_at": now if decided_at is None else decided_at,
                "recorded_at": now,
                "previous_hash": last.hash if last else FIRST,
            }
            values["hash"] = seal(values)
            connection.execute(decisions.insert().values(**values))
            return Decision(**values)

    def add_review(self, review: Review) -> Decision:
        """Append a decision that came back from the alerts project."""
        return self.add_decision(
            review.project_id,
            review.annotator_id,
            review.decision,
            author=review.author,
            comment=review.comment,
            source="label-studio",
            source_key=review.source_key,
            decided_at=review.decided_at,
        )

    def list_decisions(
        self, project_id: int, *, annotator_id: str | None = None, limit: int = 100, cursor: str | None = None
    ) -> Page:
        """A page of the log, newest first."""
        query = select(decisions).where(decisions.c.project_id == project_id)
        if annotator_id is not None:
            query = query.where(decisions.c.annotator_id == annotator_id)
        with self._read() as connection:
            return page(connection, query, [(decisions.c.number, True)], limit=limit, cursor=cursor)

    def current_decisions(self, project_id: int) -> dict[str, Decision]:
        """The decision in force per annotator: the one decided last, whenever it reached us."""
        query = select(decisions).where(decisions.c.project_id == project_id)
        order = (decisions.c.decided_at, decisions.c.number)
        with self._read() as connection:
            return {row.annotator_id: Decision(**row._mapping) for row in connection.execute(query.order_by(*order))}

    def verify_decisions(self, project_id: int) -> ChainCheck:
        """Recompute the chain from its start."""
        query = select(decisions).where(decisions.c.project_id == project_id).order_by(decisions.c.number)
        previous, length = FIRST, 0
        with self._read() as connection:
            for row in connection.execute(query):
                values = dict(row._mapping)
                stored = values.pop("hash")
                is_next = row.number == length + 1 and row.previous_hash == previous
                if not is_next or seal(values) != stored:
                    return ChainCheck(False, length, row.number)
                previous, length = stored, row.number
        return ChainCheck(True, length, None)

    def _last(self, connection: Connection, project_id: int) -> Any:
        """The last line of the log, with the project locked so that the chain cannot fork."""
        lock = select(projects.c.id).where(projects.c.id == project_id).with_for_update()
        if connection.execute(lock).first() is None:
            raise NotFoundError(f"project {project_id} does not exist; `evenhand status` lists the projects")
        query = select(decisions).where(decisions.c.project_id == project_id)
        return connection.execute(query.order_by(decisions.c.number.desc()).limit(1)).first()


def seal(values: dict[str, Any]) -> str:
    """The hash of one line, which covers the hash of the line before."""
    text = json.dumps({key: values[key] for key in sorted(values) if key != "hash"}, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()
