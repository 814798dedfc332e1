"""Leases: a time-limited right to work, kept by the database's clock, with a fencing token."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from sqlalchemy import ColumnElement, Connection, and_, select, update

from evenhand.domain import Lease
from evenhand.errors import LeaseLostError, StoreBusyError
from evenhand.store.database import Aggregate
from evenhand.store.dialect import now
from evenhand.store.schema import leases

#: No lease is given for longer. One that ends later was written before the clock was set back, and holds nobody up.
LONGEST_SECONDS = 300.0
POLL_SECONDS = 0.1

#: What a worker does for a project beside runs, each under a lease of its own.
CHORES = ("pull", "webhook", "names", "publish")


def chore_lease(chore: str, project_id: int) -> str:
    """The name of the lease under which a chore of a project is done."""
    return f"{chore}:{project_id}"


def is_held(moment: float) -> ColumnElement[bool]:
    """The condition that a lease is in force."""
    return and_(leases.c.expires_at > moment, leases.c.expires_at <= moment + LONGEST_SECONDS)


class LeaseStore(Aggregate):
    """Acquiring, renewing and releasing leases."""

    def acquire(self, name: str, owner: str, seconds: float) -> Lease | None:
        """Take the lease if it is free, expired or already ours; None if somebody else holds it."""
        with self._database.write() as connection:
            return self.acquire_in(connection, name, owner, seconds)

    def renew(self, lease: Lease, seconds: float) -> Lease:
        """Hold the lease for `seconds` more; raises LeaseLostError if it was taken over."""
        with self._database.write() as connection:
            return self.renew_in(connection, lease, seconds)

    def release(self, lease: Lease) -> None:
        """Give the lease back; harmless if it was lost. The token keeps growing, so the row stays."""
        with self._database.write() as connection:
            self.end_in(connection, lease)

    @contextmanager
    def without_chores(self, project_id: int, owner: str, *, patience: float = 60.0) -> Iterator[None]:
        """Keep workers away from a project: what they are doing for it is waited for, and nothing new begins."""
        deadline = time.monotonic() + patience
        with ExitStack() as held:
            for name in (chore_lease(chore, project_id) for chore in CHORES):
                while (lease := self.acquire(name, owner, LONGEST_SECONDS)) is None:
                    if time.monotonic() > deadline:
                        raise StoreBusyError(f"a worker was busy with {name!r} for {patience:.0f} s; try again later")
                    time.sleep(POLL_SECONDS)
                held.callback(self.release, lease)
            yield

    def acquire_in(self, connection: Connection, name: str, owner: str, seconds: float) -> Lease | None:
        """Take the lease within a transaction; concurrent takers of one name wait for each other on its row."""
        # The row exists before it is locked: otherwise, of two processes that meet on a new name, one would fail.
        fresh = {"name": name, "owner": "", "token": 0, "expires_at": 0.0}
        connection.execute(self._database.insert(leases).values(**fresh).on_conflict_do_nothing())
        row = connection.execute(select(leases).where(leases.c.name == name).with_for_update()).one()
        moment = now(connection)
        if moment < row.expires_at <= moment + LONGEST_SECONDS and row.owner != owner:
            return None
        lease = Lease(name, owner, row.token + 1, moment + min(seconds, LONGEST_SECONDS))
        connection.execute(
            update(leases)
            .where(leases.c.name == name)
            .values(owner=owner, token=lease.token, expires_at=lease.expires_at)
        )
        return lease

    def renew_in(self, connection: Connection, lease: Lease, seconds: float) -> Lease:
        """Hold a lease that is still ours for `seconds` more."""
        self.check_in(connection, lease)
        expires_at = now(connection) + min(seconds, LONGEST_SECONDS)
        connection.execute(update(leases).where(leases.c.name == lease.name).values(expires_at=expires_at))
        return Lease(lease.name, lease.owner, lease.token, expires_at)

    def end_in(self, connection: Connection, lease: Lease) -> None:
        """Let a lease that is still ours expire at once."""
        connection.execute(
            update(leases)
            .where(leases.c.name == lease.name, leases.c.owner == lease.owner, leases.c.token == lease.token)
            .values(expires_at=0.0)
        )

    def check_in(self, connection: Connection, lease: Lease) -> None:
        """Refuse to go on under a lease that was taken over; an expired but untaken one is still ours."""
        row = connection.execute(select(leases).where(leases.c.name == lease.name).with_for_update()).first()
        if row is None or row.owner != lease.owner or row.token != lease.token:
            raise LeaseLostError(f"lease {lease.name!r} was taken over; drop this work, its successor does it again")
