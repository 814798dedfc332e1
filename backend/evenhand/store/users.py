"""Accounts of the dashboard."""

from sqlalchemy import delete, select

from evenhand.domain import Account, Role
from evenhand.errors import NotFoundError
from evenhand.store.database import Aggregate
from evenhand.store.schema import users


class UserStore(Aggregate):
    """Accounts and their passwords' hashes."""

    def put(self, name: str, password_hash: str, role: Role | None = None) -> None:
        """Add an account, or change its password; without a role an existing one keeps its own and a new one is a
        reader."""
        with self._database.write() as connection:
            known = connection.execute(select(users.c.role).where(users.c.name == name)).scalar()
            values = {
                "name": name,
                "password_hash": password_hash,
                "role": role or known or "reader",
                "created_at": self._database.clock(),
            }
            connection.execute(self._database.upsert(users), [values])

    def get(self, name: str) -> Account | None:
        """An account; None if nobody has that name."""
        with self._database.read() as connection:
            row = connection.execute(select(users).where(users.c.name == name)).first()
        return None if row is None else Account(**row._mapping)

    def all(self) -> list[Account]:
        """All accounts by name."""
        with self._database.read() as connection:
            return [Account(**row._mapping) for row in connection.execute(select(users).order_by(users.c.name))]

    def names(self) -> list[str]:
        """Names of all accounts."""
        with self._database.read() as connection:
            return list(connection.execute(select(users.c.name).order_by(users.c.name)).scalars())

    def exist(self) -> bool:
        """Whether any account exists."""
        with self._database.read() as connection:
            return connection.execute(select(users.c.name).limit(1)).first() is not None

    def delete(self, name: str) -> None:
        """Remove an account; raises NotFoundError."""
        with self._database.write() as connection:
            if connection.execute(delete(users).where(users.c.name == name)).rowcount == 0:
                raise NotFoundError(f"there is no account {name!r}; `evenhand users list` shows them")
