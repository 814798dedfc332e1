"""Tasks as Label Studio last described them."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, bindparam, select

from evenhand.domain import Page, Task
from evenhand.store.database import CHUNK, Aggregate, chunks, without_project
from evenhand.store.paging import page
from evenhand.store.schema import tasks

_TASKS = select(tasks).where(
    tasks.c.project_id == bindparam("project"), tasks.c.task_id.in_(bindparam("ids", expanding=True))
)


class TaskStore(Aggregate):
    """Reading stored tasks."""

    def get(self, project_id: int, task_ids: Collection[int]) -> dict[int, Task]:
        """Stored tasks by id, deleted ones included; ids never seen are absent."""
        with self._database.read() as connection:
            stored = task_rows(connection, project_id, list(task_ids))
        return {key: _task(row) for key, row in stored.items()}

    def page(
        self, project_id: int, *, limit: int = 100, cursor: str | None = None, is_labeled: bool | None = None
    ) -> Page:
        """A page of live tasks by id."""
        query = select(tasks).where(tasks.c.project_id == project_id, ~tasks.c.deleted)
        if is_labeled is not None:
            query = query.where(tasks.c.is_labeled == is_labeled)
        with self._database.read() as connection:
            return page(connection, query, [(tasks.c.task_id, False)], limit=limit, cursor=cursor)

    def of_pairs(self, project_id: int, pairs: Collection[tuple[str, str]]) -> dict[frozenset[str], list[int]]:
        """Ids of the live tasks on each of these pairs of items, in either order."""
        names = sorted({name for pair in pairs for name in pair})
        query = select(tasks.c.task_id, tasks.c.left_item, tasks.c.right_item).where(
            tasks.c.project_id == project_id,
            ~tasks.c.deleted,
            tasks.c.left_item.in_(names),
            tasks.c.right_item.in_(names),
        )
        found: dict[frozenset[str], list[int]] = {frozenset(pair): [] for pair in pairs}
        with self._database.read() as connection:
            for task_id, left, right in connection.execute(query.order_by(tasks.c.task_id)):
                if frozenset((left, right)) in found:
                    found[frozenset((left, right))].append(task_id)
        return found

    def all(self, project_id: int) -> Iterator[Task]:
        """All live tasks, read in pages so that no transaction stays open."""
        last = 0
        while True:
            query = select(tasks).where(tasks.c.project_id == project_id, ~tasks.c.deleted, tasks.c.task_id > last)
            with self._database.read() as connection:
                rows = connection.execute(query.order_by(tasks.c.task_id).limit(CHUNK)).mappings().all()
            for row in rows:
                yield _task(dict(row))
            if len(rows) < CHUNK:
                return
            last = rows[-1]["task_id"]


def task_rows(connection: Connection, project_id: int, ids: Sequence[int]) -> dict[int, dict[str, Any]]:
    """Stored tasks by id."""
    found: dict[int, dict[str, Any]] = {}
    for part in chunks(ids):
        rows = connection.execute(_TASKS, {"project": project_id, "ids": part})
        found.update((row.task_id, without_project(row)) for row in rows)
    return found


def _task(row: Mapping[str, Any]) -> Task:
    """A stored task as a record; labels live in the items table."""
    names = ("task_id", "left_item", "right_item", "coin", "stratum", "is_labeled", "updated_at", "deleted")
    return Task(**{name: row[name] for name in names}, left_label=None, right_label=None)
