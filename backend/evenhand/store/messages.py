"""What was told to others: sent to Label Studio, queued as alerts, and what a person should look at."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import delete, func, or_, select, update

from evenhand.domain import Problem, Publication
from evenhand.store.database import Aggregate
from evenhand.store.schema import notifications, problems, publications


class PublicationStore(Aggregate):
    """What was sent, or why it was not."""

    def get(self, project_id: int, channel: str | None = None) -> dict[tuple[str, str], Publication]:
        """What was sent, by (channel, key)."""
        query = select(publications).where(publications.c.project_id == project_id)
        query = query if channel is None else query.where(publications.c.channel == channel)
        return {(row.channel, row.key): Publication(**row._mapping) for row in self._database.fetch(query)}

    def put(self, publication: Publication) -> None:
        """Remember what was sent under (project, channel, key), or why it failed and when to try again."""
        self._database.change(self._database.upsert(publications), [vars(publication)])

    def delete(self, project_id: int, channel: str, key: str) -> None:
        """Forget something that was withdrawn from Label Studio."""
        self._database.change(
            delete(publications).where(
                publications.c.project_id == project_id,
                publications.c.channel == channel,
                publications.c.key == key,
            )
        )

    def states(self) -> dict[str, int]:
        """Number of publications by state."""
        query = select(publications.c.state, func.count()).group_by(publications.c.state)
        return {row[0]: row[1] for row in self._database.fetch(query)}


LONGEST_RETRY = 6 * 3600.0


class NotificationStore(Aggregate):
    """The queue of alerts."""

    def add(self, key: str, payload: Mapping[str, Any], *, project_id: int | None = None) -> bool:
        """Queue an outgoing alert once per key; whether it is new."""
        values = {"key": key, "project_id": project_id, "payload": dict(payload), "created_at": self._database.clock()}
        insert = self._database.insert(notifications).values(state="waiting", attempts=0, **values)
        with self._database.write() as connection:
            made = insert.on_conflict_do_nothing().returning(notifications.c.key)
            return connection.execute(made).first() is not None

    def due(self, *, limit: int = 20) -> list[dict[str, Any]]:
        """Alerts to send now, oldest first."""
        now, next_try = self._database.clock(), func.coalesce(notifications.c.next_try_at, 0.0)
        due = or_(next_try <= now, next_try > now + LONGEST_RETRY)  # the second case: the clock was set back
        query = select(notifications).where(notifications.c.state == "waiting", due)
        rows = self._database.fetch(query.order_by(notifications.c.created_at, notifications.c.key).limit(limit))
        return [dict(row) for row in rows.mappings()]

    def settle(self, key: str, *, error: str | None = None, next_try_at: float | None = None) -> None:
        """Mark an alert as sent, to be tried again at `next_try_at`, or as given up (error without next try)."""
        state = "sent" if error is None else "waiting" if next_try_at is not None else "failed"
        values = {"state": state, "last_error": error, "next_try_at": next_try_at}
        self._database.change(
            update(notifications)
            .where(notifications.c.key == key)
            .values(attempts=notifications.c.attempts + 1, **values)
        )


#: A problem said again sooner, in the same words, is the same: every event may say it, and a write each is dear.
SAME_SECONDS = 1.0


class ProblemStore(Aggregate):
    """Problems, opened by the service and resolved by it or by a person."""

    def open(self, project_id: int | None, code: str, message: str, remedy: str) -> None:
        """Record something a person should look at; a repeat of an open problem is counted, not added."""
        now, is_open = self._database.clock(), _is_open(project_id, code)
        same_words = (problems.c.message == message, problems.c.remedy == remedy)
        just_said = (*same_words, problems.c.last_at.between(now - SAME_SECONDS, now))
        if self._database.fetch(select(problems.c.id).where(*is_open, *just_said).limit(1)).first() is not None:
            return
        with self._database.write() as connection:
            values = {"message": message, "remedy": remedy, "last_at": now, "count": problems.c.count + 1}
            if connection.execute(update(problems).where(*is_open).values(**values)).rowcount == 0:
                values = {"code": code, "message": message, "remedy": remedy, "first_at": now, "last_at": now}
                connection.execute(problems.insert().values(project_id=project_id, count=1, **values))

    def resolve(self, project_id: int | None, code: str) -> bool:
        """Close an open problem; whether there was one."""
        is_open = _is_open(project_id, code)
        if self._database.fetch(select(problems.c.id).where(*is_open).limit(1)).first() is None:
            return False
        with self._database.write() as connection:
            closed = connection.execute(update(problems).where(*is_open).values(resolved_at=self._database.clock()))
            return closed.rowcount > 0

    def resolve_all(self, project_id: int) -> None:
        """Close every problem of a project that is let go."""
        mine = (problems.c.project_id == project_id, problems.c.resolved_at.is_(None))
        self._database.change(update(problems).where(*mine).values(resolved_at=self._database.clock()))

    def find(self, project_id: int | None = None, *, is_open: bool = True) -> list[Problem]:
        """Problems of a project, or of all and of the service itself if None; newest first."""
        query = select(problems)
        if project_id is not None:
            query = query.where(problems.c.project_id == project_id)
        if is_open:
            query = query.where(problems.c.resolved_at.is_(None))
        rows = self._database.fetch(query.order_by(problems.c.last_at.desc(), problems.c.id.desc()).limit(500))
        return [Problem(**row._mapping) for row in rows]


def _is_open(project_id: int | None, code: str) -> tuple[Any, ...]:
    """The condition of a problem that nobody resolved yet."""
    mine = problems.c.project_id.is_not_distinct_from(project_id)
    return mine, problems.c.code == code, problems.c.resolved_at.is_(None)
