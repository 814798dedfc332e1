"""What was sent to Label Studio."""

from sqlalchemy import delete, func, select

from evenhand.domain import Publication
from evenhand.store.database import Aggregate
from evenhand.store.schema import publications


class PublicationStore(Aggregate):
    """What was sent, or why it was not."""

    def get(self, project_id: int, channel: str | None = None) -> dict[tuple[str, str], Publication]:
        """What was sent, by (channel, key)."""
        query = select(publications).where(publications.c.project_id == project_id)
        query = query if channel is None else query.where(publications.c.channel == channel)
        with self._database.read() as connection:
            return {(row.channel, row.key): Publication(**row._mapping) for row in connection.execute(query)}

    def put(self, publication: Publication) -> None:
        """Remember what was sent under (project, channel, key), or why it failed and when to try again."""
        with self._database.write() as connection:
            connection.execute(self._database.upsert(publications), [vars(publication)])

    def delete(self, project_id: int, channel: str, key: str) -> None:
        """Forget something that was withdrawn from Label Studio."""
        with self._database.write() as connection:
            connection.execute(
                delete(publications).where(
                    publications.c.project_id == project_id,
                    publications.c.channel == channel,
                    publications.c.key == key,
                )
            )

    def states(self) -> dict[str, int]:
        """Number of publications by state."""
        query = select(publications.c.state, func.count()).group_by(publications.c.state)
        with self._database.read() as connection:
            return {row[0]: row[1] for row in connection.execute(query)}
