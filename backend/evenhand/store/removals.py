"""Letting a project go for good: everything stored about it is deleted, but for the sealed log of decisions."""

import secrets as randomness
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, delete, func, select, update

from evenhand.store.database import Aggregate, Database
from evenhand.store.decisions import ERASED_AUTHOR, DecisionStore
from evenhand.store.project_rows import project_row
from evenhand.store.schema import decisions, metadata, projects, runs

ERASED_TITLE = "[erased]"


class RemovalStore(Aggregate):
    """Erasing whole projects."""

    def __init__(self, database: Database, decisions: DecisionStore) -> None:
        super().__init__(database)
        self._decisions = decisions

    def erase(self, project_id: int) -> int:
        """Delete a project with its alerts projects and all that is stored about them; how many rows went.

        The log of decisions is append-only: its lines stay without names and comments, under a bare project.
        """
        with self._database.read() as connection:
            cards = connection.execute(select(projects.c.id).where(projects.c.alerts_for == project_id)).scalars().all()
        with self._database.write() as connection:
            return sum(self._erase_in(connection, number) for number in (*cards, project_id))

    def _erase_in(self, connection: Connection, project_id: int) -> int:
        project_row(connection, project_id, lock=True)
        pseudonym = f"erased-{randomness.token_hex(4)}"

        def redact(_: Mapping[str, Any]) -> dict[str, Any]:
            return {"annotator_id": pseudonym, "author": ERASED_AUTHOR, "comment": "", "detail": None}

        self._decisions.redact_in(connection, project_id, pseudonym, redact)
        gone = _delete_rows(connection, project_id)
        mine = projects.c.id == project_id
        logged = select(func.count()).select_from(decisions).where(decisions.c.project_id == project_id)
        if connection.execute(logged).scalar_one():
            bare = {"title": ERASED_TITLE, "label_config": "", "setup_params": {}, "task_fields": [], "counts": {}}
            connection.execute(update(projects).where(mine).values(**bare, last_pull=None))
            return gone
        return gone + connection.execute(delete(projects).where(mine)).rowcount


def _delete_rows(connection: Connection, project_id: int) -> int:
    """Delete a project's rows everywhere but in its log; those that refer to others go first."""
    own_runs = select(runs.c.id).where(runs.c.project_id == project_id)
    gone = 0
    for table in reversed(metadata.sorted_tables):
        if table in (projects, decisions):
            continue
        if "run_id" in table.c and "project_id" not in table.c:
            gone += connection.execute(delete(table).where(table.c.run_id.in_(own_runs))).rowcount
        elif "project_id" in table.c and table is not runs:
            gone += connection.execute(delete(table).where(table.c.project_id == project_id)).rowcount
    return gone + connection.execute(delete(runs).where(runs.c.project_id == project_id)).rowcount
