"""How a project's annotations are read: its settings laid over its label config."""

import json
from collections.abc import Collection
from functools import lru_cache
from typing import Any

from evenhand.domain import Project, Trigger
from evenhand.errors import UnusableValueError
from evenhand.project_config import ProjectConfig, parse_config
from evenhand.store import Store
from fdr_core.errors import FdrCoreError
from fdr_core.inputs.label_studio.reading import Reading, Wanted
from fdr_core.inputs.label_studio.reading import resolve as resolve_wanted
from fdr_core.inputs.label_studio.setup import Setup, parse_label_config

WANTED = ("control", "controls", "item_left", "item_right", "coin", "stratum")


def resolve(config: ProjectConfig, label_config: str, task_fields: Collection[str] = ()) -> Reading:
    """Fit a project's settings to its label config; raises UnusableValueError."""
    wanted = Wanted(**{name: getattr(config, name) for name in WANTED}, answers=config.answers or {})
    try:
        return resolve_wanted(wanted, parse_label_config(label_config), task_fields)
    except FdrCoreError as error:
        raise UnusableValueError(str(error)) from error


def setup_of(label_config: str) -> Setup:
    """The controls and fields of a label config; an empty setup where it cannot be parsed, which `resolve` says."""
    try:
        return parse_label_config(label_config)
    except FdrCoreError:
        return Setup(())


def reading_of(project: Project) -> Reading | None:
    """How the project's annotations are read, None if its settings do not fit its label config."""
    return _reading(json.dumps(project.config, sort_keys=True), project.label_config, project.task_fields)


@lru_cache(maxsize=256)
def _reading(config: str, label_config: str, task_fields: tuple[str, ...]) -> Reading | None:
    """The reading of one state of a project; every event needs it and it hardly ever changes."""
    try:
        return resolve(ProjectConfig.model_validate_json(config), label_config, task_fields)
    except UnusableValueError:
        return None


def change_config(store: Store, project: Project, values: dict[str, Any], *, by: str) -> Project:
    """Lay new settings over a project's own; refused with a message if they do not fit its label config.

    A change of `sides` is a statement: kept with its name and time, and followed by a run.
    """
    config = parse_config(values, base=project.config)
    resolve(config, project.label_config, project.task_fields)
    changed = store.projects.set_config(project.id, config, by=by)
    check_project(store, changed)
    if changed.config["sides"] != project.config.get("sides"):
        store.statements.add(project.id, str(changed.config["sides"]), by)
        store.runs.request(project.id, Trigger.MANUAL, by)
    return changed


def check_project(store: Store, project: Project) -> None:
    """Record or clear the problem of settings that do not fit the label config."""
    try:
        resolve(ProjectConfig.model_validate(project.config), project.label_config, project.task_fields)
    except UnusableValueError as error:
        remedy = "Correct the project's settings, or add a Pairwise control to its label config."
        store.problems.open(project.id, "configuration", str(error), remedy)
    else:
        store.problems.resolve(project.id, "configuration")
