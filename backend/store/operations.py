"""What keeps the service honest: problems, counters, publications, notifications, accounts."""

import secrets as randomness
from collections.abc import Mapping
from typing import Any

from sqlalchemy import delete, func, or_, select, update

from backend.domain import Problem, Publication
from backend.errors import NotFoundError
from backend.schema import (
    event_counts,
    login_failures,
    notifications,
    problems,
    publications,
    runs,
    secrets,
    users,
)
from backend.store.comparisons import ComparisonStore

FREE_FAILURES = 5
LONGEST_BLOCK = 60.0
FORGET_AFTER = 900.0
LONGEST_RETRY = 6 * 3600.0


class OperationStore(ComparisonStore):
    """Bookkeeping around the data."""

    def raise_problem(self, project_id: int | None, code: str, message: str, remedy: str) -> None:
        """Record something a person should look at; a repeat of an open problem is counted, not added."""
        now = self.clock()
        is_open = (problems.c.project_id.is_not_distinct_from(project_id), problems.c.code == code)
        with self._write() as connection:
            again = (
                update(problems)
                .where(*is_open, problems.c.resolved_at.is_(None))
                .values(message=message, remedy=remedy, last_at=now, count=problems.c.count + 1)
            )
            if connection.execute(again).rowcount == 0:
                values = {"code": code, "message": message, "remedy": remedy, "first_at": now, "last_at": now}
                connection.execute(problems.insert().values(project_id=project_id, count=1, **values))

    def resolve_problem(self, project_id: int | None, code: str) -> bool:
        """Close an open problem; whether there was one."""
        is_open = (
            problems.c.project_id.is_not_distinct_from(project_id),
            problems.c.code == code,
            problems.c.resolved_at.is_(None),
        )
        with self._read() as connection:
            if connection.execute(select(problems.c.id).where(*is_open).limit(1)).first() is None:
                return False
        with self._write() as connection:
            return connection.execute(update(problems).where(*is_open).values(resolved_at=self.clock())).rowcount > 0

    def list_problems(self, project_id: int | None = None, *, is_open: bool = True) -> list[Problem]:
        """Problems of a project, or of all and of the service itself if None; newest first."""
        query = select(problems)
        if project_id is not None:
            query = query.where(problems.c.project_id == project_id)
        if is_open:
            query = query.where(problems.c.resolved_at.is_(None))
        with self._read() as connection:
            rows = connection.execute(query.order_by(problems.c.last_at.desc(), problems.c.id.desc()).limit(500))
            return [Problem(**row._mapping) for row in rows]

    def count_event(self, kind: str, outcome: str, number: int = 1) -> None:
        """Count an event that changed nothing in the store (rejected, ignored)."""
        with self._write() as connection:
            self._count_event(connection, kind, outcome, number)

    def event_counts(self) -> list[dict[str, Any]]:
        """Counters by kind and outcome, with the time of the last one."""
        query = select(event_counts).order_by(event_counts.c.kind, event_counts.c.outcome)
        with self._read() as connection:
            return [dict(row) for row in connection.execute(query).mappings()]

    def run_counts(self) -> list[dict[str, Any]]:
        """Per status: number of runs and seconds they took."""
        spent = func.coalesce(func.sum(runs.c.finished_at - runs.c.started_at), 0.0)
        query = select(runs.c.status, func.count().label("count"), spent.label("seconds")).group_by(runs.c.status)
        with self._read() as connection:
            return [dict(row) for row in connection.execute(query).mappings()]

    def get_publications(self, project_id: int, channel: str | None = None) -> dict[tuple[str, str], Publication]:
        """What was sent, by (channel, key)."""
        query = select(publications).where(publications.c.project_id == project_id)
        query = query if channel is None else query.where(publications.c.channel == channel)
        with self._read() as connection:
            return {(row.channel, row.key): Publication(**row._mapping) for row in connection.execute(query)}

    def put_publication(self, publication: Publication) -> None:
        """Remember what was sent under (project, channel, key), or why it failed and when to try again."""
        with self._write() as connection:
            connection.execute(self._upsert(publications), [vars(publication)])

    def delete_publication(self, project_id: int, channel: str, key: str) -> None:
        """Forget something that was withdrawn from Label Studio."""
        with self._write() as connection:
            connection.execute(
                delete(publications).where(
                    publications.c.project_id == project_id,
                    publications.c.channel == channel,
                    publications.c.key == key,
                )
            )

    def publication_states(self) -> dict[str, int]:
        """Number of publications by state."""
        query = select(publications.c.state, func.count()).group_by(publications.c.state)
        with self._read() as connection:
            return {row[0]: row[1] for row in connection.execute(query)}

    def add_notification(self, key: str, payload: Mapping[str, Any], *, project_id: int | None = None) -> bool:
        """Queue an outgoing alert once per key; whether it is new."""
        values = {"key": key, "project_id": project_id, "payload": dict(payload), "created_at": self.clock()}
        insert = self._insert(notifications).values(state="waiting", attempts=0, **values)
        with self._write() as connection:
            made = insert.on_conflict_do_nothing().returning(notifications.c.key)
            return connection.execute(made).first() is not None

    def due_notifications(self, *, limit: int = 20) -> list[dict[str, Any]]:
        """Alerts to send now, oldest first."""
        now, next_try = self.clock(), func.coalesce(notifications.c.next_try_at, 0.0)
        due = or_(next_try <= now, next_try > now + LONGEST_RETRY)  # the latter: the clock was set back
        query = select(notifications).where(notifications.c.state == "waiting", due)
        with self._read() as connection:
            rows = connection.execute(query.order_by(notifications.c.created_at, notifications.c.key).limit(limit))
            return [dict(row) for row in rows.mappings()]

    def settle_notification(self, key: str, *, error: str | None = None, next_try_at: float | None = None) -> None:
        """Mark an alert as sent, to be tried again at `next_try_at`, or as given up (error without next try)."""
        state = "sent" if error is None else "waiting" if next_try_at is not None else "failed"
        values = {"state": state, "last_error": error, "next_try_at": next_try_at}
        with self._write() as connection:
            connection.execute(
                update(notifications)
                .where(notifications.c.key == key)
                .values(attempts=notifications.c.attempts + 1, **values)
            )

    def put_user(self, name: str, password_hash: str) -> None:
        """Add an account, or change its password."""
        values = {"name": name, "password_hash": password_hash, "created_at": self.clock()}
        with self._write() as connection:
            connection.execute(self._upsert(users), [values])

    def get_password_hash(self, name: str) -> str | None:
        """The account's password hash, None if there is no such account."""
        with self._read() as connection:
            return connection.execute(select(users.c.password_hash).where(users.c.name == name)).scalar()

    def list_users(self) -> list[str]:
        """Names of all accounts."""
        with self._read() as connection:
            return list(connection.execute(select(users.c.name).order_by(users.c.name)).scalars())

    def has_users(self) -> bool:
        """Whether any account exists."""
        with self._read() as connection:
            return connection.execute(select(users.c.name).limit(1)).first() is not None

    def delete_user(self, name: str) -> None:
        """Remove an account; raises NotFoundError."""
        with self._write() as connection:
            if connection.execute(delete(users).where(users.c.name == name)).rowcount == 0:
                raise NotFoundError(f"there is no account {name!r}; `evenhand users list` shows them")

    def login_delay(self, key: str) -> float:
        """Seconds this caller must wait before the next attempt."""
        query = select(login_failures.c.blocked_until).where(login_failures.c.key == key)
        with self._read() as connection:
            until = connection.execute(query).scalar()
        delay = until - self.clock() if until is not None else 0.0
        return delay if 0.0 < delay <= LONGEST_BLOCK else 0.0  # a longer one was written before the clock was set back

    def record_login(self, key: str, *, succeeded: bool) -> None:
        """Forget a caller's failures on success; double the delay with every failure beyond the free ones."""
        now = self.clock()
        with self._write() as connection:
            row = connection.execute(select(login_failures).where(login_failures.c.key == key)).first()
            if succeeded:
                if row is not None:
                    connection.execute(delete(login_failures).where(login_failures.c.key == key))
                return
            connection.execute(delete(login_failures).where(login_failures.c.blocked_until < now - FORGET_AFTER))
            is_known = row is not None and row.blocked_until >= now - FORGET_AFTER
            failures = row.failures + 1 if row is not None and is_known else 1
            delay = 0.0 if failures <= FREE_FAILURES else min(LONGEST_BLOCK, 2.0 ** (failures - FREE_FAILURES - 1))
            values = {"key": key, "failures": min(failures, 1000), "blocked_until": now + delay}
            connection.execute(self._upsert(login_failures), [values])

    def shared_secret(self, name: str) -> str:
        """A random secret all replicas share, made on first use."""
        query = select(secrets.c.value).where(secrets.c.name == name)
        with self._read() as connection:
            value = connection.execute(query).scalar()
        if value is not None:
            return str(value)
        insert = self._insert(secrets).values(name=name, value=randomness.token_urlsafe(48))
        with self._write() as connection:
            connection.execute(insert.on_conflict_do_nothing())
            return str(connection.execute(query).scalar_one())
