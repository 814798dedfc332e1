"""A project by the id people know, which is Label Studio's."""

from collections.abc import Collection

from evenhand.domain import Kind, Project
from evenhand.errors import NotFoundError
from evenhand.store import Store

KINDS: tuple[Kind, ...] = ("comparison", "demo")


def project_named(store: Store, ls_url: str, number: int, *, kinds: Collection[Kind] = KINDS) -> Project:
    """The project with this Label Studio id, of the configured Label Studio where several have it."""
    known = store.projects.all(kinds=kinds)
    fits = [project for project in known if project.ls_project_id == number]
    ours = [project for project in fits if project.ls_url == ls_url] or fits
    if not ours:
        ids = ", ".join(f"{project.ls_project_id} ({project.title})" for project in known) or "none"
        raise NotFoundError(f"no project with the Label Studio id {number} is connected; connected: {ids}")
    return max(ours, key=lambda project: (project.kind == "comparison", project.epoch, project.id))
