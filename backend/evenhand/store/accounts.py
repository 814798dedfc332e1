"""Who may log in, delays after failed logins, and random secrets that all replicas share."""

import secrets as randomness

from sqlalchemy import delete, select, update

from evenhand.domain import Account, Role, normal_name
from evenhand.errors import ConflictError, NotFoundError
from evenhand.store.database import Aggregate
from evenhand.store.schema import login_failures, secrets, users


class SecretStore(Aggregate):
    """Secrets by name."""

    def get(self, name: str) -> str:
        """A random secret all replicas share, made on first use."""
        query = select(secrets.c.value).where(secrets.c.name == name)
        value = self._database.fetch(query).scalar()
        if value is not None:
            return str(value)
        insert = self._database.insert(secrets).values(name=name, value=randomness.token_urlsafe(48))
        with self._database.write() as connection:
            connection.execute(insert.on_conflict_do_nothing())
            return str(connection.execute(query).scalar_one())

    def webhook(self, configured: str) -> str:
        """The secret that events carry: the configured one, else one of our own, which `connect` installs."""
        return configured or self.get("webhook")

    def delete(self, name: str) -> None:
        """Forget a secret that is kept elsewhere now."""
        if self._database.fetch(select(secrets.c.name).where(secrets.c.name == name)).first() is None:
            return
        self._database.change(delete(secrets).where(secrets.c.name == name))


LINK = ("ls_url", "ls_user", "linked_by")


class UserStore(Aggregate):
    """Accounts, their passwords' hashes, and who each is in Label Studio; names are kept in one form."""

    def put(self, name: str, password_hash: str, role: Role | None = None) -> None:
        """Add an account, or change its password; without a role an existing one keeps its own and a new one is a
        reader."""
        with self._database.write() as connection:
            row = connection.execute(select(users).where(users.c.name == normal_name(name))).first()
            known = dict(row._mapping) if row is not None else {"role": "reader", **dict.fromkeys(LINK)}
            made = {"name": normal_name(name), "password_hash": password_hash, "created_at": self._database.clock()}
            values = {**known, **made, "role": role or known["role"]}
            connection.execute(self._database.upsert(users), [values])

    def link(self, name: str, ls_url: str, ls_user: str, *, by: str, is_new: bool = False) -> None:
        """Say who an account is in Label Studio ('': nobody there); raises NotFoundError.

        With `is_new` what is known stays, and another answer raises ConflictError.
        """
        with self._database.write() as connection:
            row = connection.execute(select(users).where(users.c.name == normal_name(name))).first()
            if row is None:
                raise NotFoundError(f"there is no account {name[:60]!r}; `evenhand users list` shows them")
            if is_new and row.ls_user is not None:
                if (row.ls_url, row.ls_user) == (ls_url, ls_user):
                    return
                raise ConflictError("the account is linked to another user of Label Studio; an owner can change that")
            mine = update(users).where(users.c.name == row.name)
            connection.execute(mine.values(ls_url=ls_url, ls_user=ls_user, linked_by=by[:200]))

    def get(self, name: str) -> Account | None:
        """An account; None if nobody has that name."""
        row = self._database.fetch(select(users).where(users.c.name == normal_name(name))).first()
        return None if row is None else Account(**row._mapping)

    def all(self) -> list[Account]:
        """All accounts by name."""
        return [Account(**row._mapping) for row in self._database.fetch(select(users).order_by(users.c.name))]

    def names(self) -> list[str]:
        """Names of all accounts."""
        return list(self._database.fetch(select(users.c.name).order_by(users.c.name)).scalars())

    def exist(self) -> bool:
        """Whether any account exists."""
        return self._database.fetch(select(users.c.name).limit(1)).first() is not None

    def delete(self, name: str) -> None:
        """Remove an account; raises NotFoundError."""
        if self._database.change(delete(users).where(users.c.name == normal_name(name))).rowcount == 0:
            raise NotFoundError(f"there is no account {name!r}; `evenhand users list` shows them")


FREE_FAILURES = 5
LONGEST_BLOCK = 60.0
FORGET_AFTER = 900.0


class LoginStore(Aggregate):
    """Delays that grow with every failure."""

    def delay(self, key: str) -> float:
        """Seconds this caller must wait before the next attempt."""
        query = select(login_failures.c.blocked_until).where(login_failures.c.key == key)
        until = self._database.fetch(query).scalar()
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
