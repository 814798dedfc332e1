"""Outgoing alerts, each queued once."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import func, or_, select, update

from evenhand.store.database import Aggregate
from evenhand.store.schema import notifications

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
        with self._database.read() as connection:
            rows = connection.execute(query.order_by(notifications.c.created_at, notifications.c.key).limit(limit))
            return [dict(row) for row in rows.mappings()]

    def settle(self, key: str, *, error: str | None = None, next_try_at: float | None = None) -> None:
        """Mark an alert as sent, to be tried again at `next_try_at`, or as given up (error without next try)."""
        state = "sent" if error is None else "waiting" if next_try_at is not None else "failed"
        values = {"state": state, "last_error": error, "next_try_at": next_try_at}
        with self._database.write() as connection:
            connection.execute(
                update(notifications)
                .where(notifications.c.key == key)
                .values(attempts=notifications.c.attempts + 1, **values)
            )
