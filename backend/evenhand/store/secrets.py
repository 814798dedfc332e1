"""Random secrets all replicas share."""

import secrets as randomness

from sqlalchemy import delete, select

from evenhand.store.database import Aggregate
from evenhand.store.schema import secrets


class SecretStore(Aggregate):
    """Secrets by name."""

    def get(self, name: str) -> str:
        """A random secret all replicas share, made on first use."""
        query = select(secrets.c.value).where(secrets.c.name == name)
        with self._database.read() as connection:
            value = connection.execute(query).scalar()
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
        with self._database.read() as connection:
            if connection.execute(select(secrets.c.name).where(secrets.c.name == name)).first() is None:
                return
        with self._database.write() as connection:
            connection.execute(delete(secrets).where(secrets.c.name == name))
