"""What a person should look at."""

from sqlalchemy import select, update

from evenhand.domain import Problem
from evenhand.store.database import Aggregate
from evenhand.store.schema import problems


class ProblemStore(Aggregate):
    """Problems, opened by the service and resolved by it or by a person."""

    def open(self, project_id: int | None, code: str, message: str, remedy: str) -> None:
        """Record something a person should look at; a repeat of an open problem is counted, not added."""
        now = self._database.clock()
        is_open = (problems.c.project_id.is_not_distinct_from(project_id), problems.c.code == code)
        with self._database.write() as connection:
            again = (
                update(problems)
                .where(*is_open, problems.c.resolved_at.is_(None))
                .values(message=message, remedy=remedy, last_at=now, count=problems.c.count + 1)
            )
            if connection.execute(again).rowcount == 0:
                values = {"code": code, "message": message, "remedy": remedy, "first_at": now, "last_at": now}
                connection.execute(problems.insert().values(project_id=project_id, count=1, **values))

    def resolve(self, project_id: int | None, code: str) -> bool:
        """Close an open problem; whether there was one."""
        is_open = (
            problems.c.project_id.is_not_distinct_from(project_id),
            problems.c.code == code,
            problems.c.resolved_at.is_(None),
        )
        with self._database.read() as connection:
            if connection.execute(select(problems.c.id).where(*is_open).limit(1)).first() is None:
                return False
        with self._database.write() as connection:
            return (
                connection.execute(update(problems).where(*is_open).values(resolved_at=self._database.clock())).rowcount
                > 0
            )

    def resolve_all(self, project_id: int) -> None:
        """Close every problem of a project that is let go."""
        mine = (problems.c.project_id == project_id, problems.c.resolved_at.is_(None))
        with self._database.write() as connection:
            connection.execute(update(problems).where(*mine).values(resolved_at=self._database.clock()))

    def find(self, project_id: int | None = None, *, is_open: bool = True) -> list[Problem]:
        """Problems of a project, or of all and of the service itself if None; newest first."""
        query = select(problems)
        if project_id is not None:
            query = query.where(problems.c.project_id == project_id)
        if is_open:
            query = query.where(problems.c.resolved_at.is_(None))
        with self._database.read() as connection:
            rows = connection.execute(query.order_by(problems.c.last_at.desc(), problems.c.id.desc()).limit(500))
            return [Problem(**row._mapping) for row in rows]
