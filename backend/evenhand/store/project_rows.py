"""The row of a project, which writers of that project lock so that they take turns."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, bindparam, select

from evenhand.errors import NotFoundError
from evenhand.store.schema import projects

_PROJECT = select(projects.c.seq, projects.c.config, projects.c.counts).where(projects.c.id == bindparam("project"))
_LOCKED_PROJECT = _PROJECT.with_for_update()


def missing_project(project_id: int) -> NotFoundError:
    """The error that there is no such project."""
    return NotFoundError(f"project {project_id} does not exist; `evenhand status` lists the projects")


def project_row(connection: Connection, project_id: int, *, lock: bool = False) -> Mapping[str, Any]:
    """The project's sequence number, settings and counts; `lock` serialises writers of one project."""
    row = connection.execute(_LOCKED_PROJECT if lock else _PROJECT, {"project": project_id}).mappings().first()
    if row is None:
        raise missing_project(project_id)
    return dict(row)
