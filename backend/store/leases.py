"""Leases: a time-limited right to work, kept by the database's clock, with a fencing token."""

from sqlalchemy import ColumnElement, Connection, and_, delete, select, update

from backend.domain import Lease
from backend.errors import LeaseLostError
from backend.schema import leases
from backend.store.base import StoreBase

#: No lease is given for longer. One that ends later was written before the clock was set back, and holds nobody up.
LONGEST_SECONDS = 300.0


def is_held(now: float) -> ColumnElement[bool]:
    """The condition that a lease is in force."""
    return and_(leases.c.expires_at > now, leases.c.expires_at <= now + LONGEST_SECONDS)


class LeaseStore(StoreBase):
    """Acquiring, renewing and releasing leases."""

    def acquire_lease(self, name: str, owner: str, seconds: float) -> Lease | None:
        """Take the lease if it is free, expired or already ours; None if somebody else holds it."""
        with self._write() as connection:
            return self._acquire(connection, name, owner, seconds)

    def renew_lease(self, lease: Lease, seconds: float) -> Lease:
        """Hold the lease for `seconds` more; raises LeaseLostError if it was taken over."""
        with self._write() as connection:
            self._check_lease(connection, lease)
            expires_at = self._database_time(connection) + min(seconds, LONGEST_SECONDS)
            connection.execute(update(leases).where(leases.c.name == lease.name).values(expires_at=expires_at))
            return Lease(lease.name, lease.owner, lease.token, expires_at)

    def release_lease(self, lease: Lease) -> None:
        """Give the lease back; harmless if it was lost. The token keeps growing, so the row stays."""
        with self._write() as connection:
            connection.execute(
                update(leases)
                .where(leases.c.name == lease.name, leases.c.owner == lease.owner, leases.c.token == lease.token)
                .values(expires_at=0.0)
            )

    def forget_lease(self, name: str) -> None:
        """Remove a lease altogether (a deleted project)."""
        with self._write() as connection:
            connection.execute(delete(leases).where(leases.c.name == name))

    def _acquire(self, connection: Connection, name: str, owner: str, seconds: float) -> Lease | None:
        """Take the lease within a transaction; concurrent takers of one name wait for each other on its row."""
        # The row exists before it is locked: of two processes that meet on a new name one would else fail.
        fresh = {"name": name, "owner": "", "token": 0, "expires_at": 0.0}
        connection.execute(self._insert(leases).values(**fresh).on_conflict_do_nothing())
        row = connection.execute(select(leases).where(leases.c.name == name).with_for_update()).one()
        now = self._database_time(connection)
        if now < row.expires_at <= now + LONGEST_SECONDS and row.owner != owner:
            return None
        lease = Lease(name, owner, row.token + 1, now + min(seconds, LONGEST_SECONDS))
        connection.execute(
            update(leases)
            .where(leases.c.name == name)
            .values(owner=owner, token=lease.token, expires_at=lease.expires_at)
        )
        return lease

    def _check_lease(self, connection: Connection, lease: Lease) -> None:
        """Refuse to go on under a lease that was taken over; an expired but untaken one is still ours."""
        row = connection.execute(select(leases).where(leases.c.name == lease.name).with_for_update()).first()
        if row is None or row.owner != lease.owner or row.token != lease.token:
            raise LeaseLostError(f"lease {lease.name!r} was taken over; drop this work, its successor does it again")
