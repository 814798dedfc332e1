"""Snapshots of a project's statistics, kept in parts, so that a restarted worker reads only what changed since."""

from dataclasses import dataclass

from sqlalchemy import bindparam, delete, select

from evenhand.store.database import Aggregate, chunks
from evenhand.store.schema import projects, statistics_parts

#: Bytes written in one transaction: events wait for no more than that.
PART_BYTES = 1 << 20
_ERASED = select(projects.c.erased_seq).where(projects.c.id == bindparam("project")).with_for_update()


@dataclass(frozen=True)
class Snapshot:
    """What was stored as of `seq`, made under the settings that `fingerprint` stands for."""

    seq: int
    fingerprint: str
    content: bytes


class SnapshotStore(Aggregate):
    """The newest whole snapshot of every project; an erasure or removal takes it out along with the rest."""

    def put(self, project_id: int, snapshot: Snapshot) -> bool:
        """Keep a snapshot in place of older ones; False if somebody, or the project, was erased meanwhile."""
        parts = list(chunks(snapshot.content, PART_BYTES))
        named = {"project_id": project_id, "seq": snapshot.seq, "fingerprint": snapshot.fingerprint}
        own = statistics_parts.c.project_id == project_id
        for number, part in enumerate(parts):
            row = {**named, "part": number, "parts": len(parts), "content": part}
            with self._database.write() as connection:
                # Under the project's lock: an erasure is either seen here, or deletes what is written here.
                erased = connection.execute(_ERASED, {"project": project_id}).scalar()
                if erased is None or erased > snapshot.seq:
                    connection.execute(delete(statistics_parts).where(own))
                    return False
                connection.execute(self._database.upsert(statistics_parts), [row])
                if number == len(parts) - 1:
                    connection.execute(delete(statistics_parts).where(own, statistics_parts.c.seq != snapshot.seq))
        return True

    def newest(self, project_id: int) -> Snapshot | None:
        """The newest snapshot of which every part is there."""
        columns = statistics_parts.c
        query = select(columns.seq, columns.fingerprint, columns.parts, columns.content)
        query = query.where(columns.project_id == project_id).order_by(columns.seq.desc(), columns.part)
        with self._database.read() as connection:
            rows = connection.execute(query).all()
        for seq in sorted({row.seq for row in rows}, reverse=True):
            own = [row for row in rows if row.seq == seq]
            if len(own) == own[0].parts and len({row.fingerprint for row in own}) == 1:
                return Snapshot(seq, own[0].fingerprint, b"".join(row.content for row in own))
        return None

    def drop(self, project_id: int) -> None:
        """Forget a project's snapshots."""
        with self._database.write() as connection:
            connection.execute(delete(statistics_parts).where(statistics_parts.c.project_id == project_id))
