"""Failed logins, and how long a caller must wait after them."""

from sqlalchemy import delete, select

from evenhand.store.database import Aggregate
from evenhand.store.schema import login_failures

FREE_FAILURES = 5
LONGEST_BLOCK = 60.0
FORGET_AFTER = 900.0


class LoginStore(Aggregate):
    """Delays that grow with every failure."""

    def delay(self, key: str) -> float:
        """Seconds this caller must wait before the next attempt."""
        query = select(login_failures.c.blocked_until).where(login_failures.c.key == key)
        with self._database.read() as connection:
            until = connection.execute(query).scalar()
        delay = until - self._database.clock() if until is not None else 0.0
        return delay if 0.0 < delay <= LONGEST_BLOCK else 0.0  # a longer one was written before the clock was set back

    def record(self, key: str, *, succeeded: bool) -> None:
        """Forget a caller's failures on success; double the delay with every failure beyond the free ones."""
        now = self._database.clock()
        with self._database.write() as connection:
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
            connection.execute(self._database.upsert(login_failures), [values])
