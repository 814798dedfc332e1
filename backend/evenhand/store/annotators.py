"""The people of a project, by the ids Label Studio gives them."""

from collections.abc import Collection, Mapping

from sqlalchemy import bindparam, select, update

from evenhand.domain import Annotator
from evenhand.store.database import Aggregate, select_in
from evenhand.store.erased import Erased
from evenhand.store.project_rows import project_row
from evenhand.store.schema import annotators


class AnnotatorStore(Aggregate):
    """Names and addresses of annotators."""

    def name(self, project_id: int, names: Mapping[str, tuple[str | None, str | None]], *, insert: bool = False) -> int:
        """Set names and e-mail addresses by annotator id; people never seen are added only with `insert`."""
        if not names:
            return 0
        with self._database.write() as connection:
            project_row(connection, project_id, lock=True)
            names = Erased.of(connection, project_id).keep(names)
            if not names:
                return 0
            if insert:
                rows = [{"project_id": project_id, "annotator_id": key} for key in sorted(names)]
                connection.execute(self._database.insert_new(annotators), rows)
            statement = (
                update(annotators)
                .where(annotators.c.project_id == project_id, annotators.c.annotator_id == bindparam("key"))
                .values(name=bindparam("new_name"), email=bindparam("new_email"))
            )
            values = [{"key": key, "new_name": name, "new_email": email} for key, (name, email) in names.items()]
            connection.execute(statement, values)
        return len(names)

    def unnamed(self, project_id: int) -> set[str]:
        """Ids of annotators whose name is not known."""
        query = select(annotators.c.annotator_id).where(
            annotators.c.project_id == project_id, annotators.c.name.is_(None), annotators.c.email.is_(None)
        )
        with self._database.read() as connection:
            return set(connection.execute(query).scalars())

    def get(self, project_id: int, ids: Collection[str] | None = None) -> dict[str, Annotator]:
        """Annotators of a project by id."""
        query = select(annotators).where(annotators.c.project_id == project_id)
        with self._database.read() as connection:
            rows = select_in(connection, query, annotators.c.annotator_id, ids)
            return {row.annotator_id: Annotator(row.annotator_id, row.name, row.email, row.first_seen) for row in rows}
