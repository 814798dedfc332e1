"""Marks of erased people: a keyed hash each, enough to keep their answers out, and naming nobody."""

import hashlib
import hmac
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, bindparam, or_, select

from evenhand.domain import Comparison, Status
from evenhand.store.merge import TOMBSTONE
from evenhand.store.schema import erasures, projects, secrets

KEY_NAME = "erasures"
STATUS: Status = "erased"
_MARKS = (
    select(erasures.c.token)
    .join(projects, or_(erasures.c.ls_url == projects.c.ls_url, erasures.c.ls_url == ""))
    .where(projects.c.id == bindparam("project"))
)
_KEY = select(secrets.c.value).where(secrets.c.name == KEY_NAME)


def mark(key: str, annotator_id: str) -> str:
    """What is kept of an erased person."""
    return hmac.new(key.encode(), annotator_id.encode("utf-8", "replace"), hashlib.sha256).hexdigest()


class Erased:
    """The erased people of a project's Label Studio; `in` tells whether an annotator is one of them."""

    def __init__(self, key: str, marks: Iterable[str]) -> None:
        self._key, self._marks = key, frozenset(marks)

    @classmethod
    def of(cls, connection: Connection, project_id: int) -> "Erased":
        """Read the marks; to be called after the project's row is locked, so that an erasure cannot slip between."""
        marks = list(connection.execute(_MARKS, {"project": project_id}).scalars())
        return cls(str(connection.execute(_KEY).scalar() or "") if marks else "", marks)

    def __contains__(self, annotator_id: object) -> bool:
        """Whether this annotator was erased."""
        return bool(self._marks) and isinstance(annotator_id, str) and mark(self._key, annotator_id) in self._marks

    def without(self, comparisons: Iterable[Comparison]) -> Iterator[Comparison]:
        """Answers as they may be stored: of an erased person, only that the task has one."""
        for row in comparisons:
            if row.annotator_id in self:
                row = replace(
                    TOMBSTONE, annotation_id=row.annotation_id, task_id=row.task_id, status=STATUS, ground_truth=False
                )
            yield row

    def keep(self, named: Mapping[str, Any]) -> dict[str, Any]:
        """Entries by annotator, without those of erased people."""
        return {key: value for key, value in named.items() if key not in self}
