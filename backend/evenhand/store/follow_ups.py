"""What was done in Label Studio after a flag was confirmed, so that it can be shown and undone."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import select, update

from evenhand.store.database import Aggregate
from evenhand.store.schema import follow_ups


class FollowUpStore(Aggregate):
    """One line per thing done, with what is needed to undo it."""

    def add(self, project_id: int, annotator_id: str, kind: str, detail: Mapping[str, Any]) -> int:
        """Note what is about to be done; its number."""
        values = {"annotator_id": annotator_id, "kind": kind, "detail": dict(detail), "made_at": self._database.clock()}
        with self._database.write() as connection:
            made = connection.execute(follow_ups.insert().values(project_id=project_id, **values))
            return int((made.inserted_primary_key or (0,))[0])

    def complete(self, number: int, detail: Mapping[str, Any]) -> None:
        """Note what was done."""
        with self._database.write() as connection:
            connection.execute(update(follow_ups).where(follow_ups.c.id == number).values(detail=dict(detail)))

    def undo(self, number: int) -> None:
        """Note that it was undone."""
        with self._database.write() as connection:
            connection.execute(
                update(follow_ups).where(follow_ups.c.id == number).values(undone_at=self._database.clock())
            )

    def all(self, project_id: int, *, standing: bool = False) -> list[dict[str, Any]]:
        """What was done, the latest first; `standing`: only what was not undone."""
        query = select(follow_ups).where(follow_ups.c.project_id == project_id)
        query = query.where(follow_ups.c.undone_at.is_(None)) if standing else query
        with self._database.read() as connection:
            return [dict(row) for row in connection.execute(query.order_by(follow_ups.c.id.desc())).mappings()]
