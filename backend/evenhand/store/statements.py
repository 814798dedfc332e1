"""What owners state about how sides were assigned; every statement is kept with its name and time."""

from typing import Any

from sqlalchemy import select

from evenhand.store.database import Aggregate
from evenhand.store.schema import side_statements


class StatementStore(Aggregate):
    """Statements about the sides of a project, the latest of which is in force."""

    def add(self, project_id: int, sides: str, said_by: str) -> None:
        """Keep a statement."""
        values = {"sides": sides, "said_by": said_by[:200], "said_at": self._database.clock()}
        with self._database.write() as connection:
            connection.execute(side_statements.insert().values(project_id=project_id, **values))

    def all(self, project_id: int) -> list[dict[str, Any]]:
        """Every statement, the latest first: sides, said_by, said_at."""
        query = select(side_statements).where(side_statements.c.project_id == project_id)
        with self._database.read() as connection:
            return [dict(row) for row in connection.execute(query.order_by(side_statements.c.id.desc())).mappings()]
