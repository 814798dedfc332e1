"""How sides were assigned, as the owner states it: three answers, what follows from each, and who said it when."""

from collections.abc import Mapping
from dataclasses import dataclass

from evenhand.domain import Project, Trigger
from evenhand.project_config import parse_config
from evenhand.store import Store


@dataclass(frozen=True)
class Assignment:
    """One answer to "how were sides assigned?": the setting it stands for, in words, and what follows."""

    setting: str
    words: str
    follows: str


ASSIGNMENTS: Mapping[str, Assignment] = {
    "prepared": Assignment(
        "audit",
        "tasks made by `evenhand prepare`",
        "The recorded coins are used: everybody with enough answers can be judged.",
    ),
    "shuffled": Assignment(
        "random",
        "shuffled by us per task",
        "Your word stands for the coins: everybody with enough answers can be judged, and flags are wrong if it is "
        "not so.",
    ),
    "unknown": Assignment(
        "audit",
        "not shuffled, or not known",
        "The audit looks for itself: with unique pairs nobody can be judged, and nobody is accused.",
    ),
}


def assignment_of(setting: str) -> str:
    """The answer that a value of the setting `sides` stands for where nobody was asked."""
    return "shuffled" if setting == "random" else "unknown"


def setting_of(sides: str) -> str:
    """The value of the setting `sides` that follows from an answer; a value of the setting stands for itself."""
    return ASSIGNMENTS[sides].setting if sides in ASSIGNMENTS else sides


def state_sides(store: Store, project: Project, sides: str, *, by: str) -> Project:
    """Record a statement with its name and time, follow it, and ask for a run if it changes anything."""
    known = store.statements.all(project.id)
    setting = setting_of(sides)
    if known and known[0]["sides"] == sides and project.config.get("sides") == setting:
        return project
    store.statements.add(project.id, sides, by)
    is_new = project.config.get("sides") != setting
    project = store.projects.set_config(project.id, parse_config({"sides": setting}, base=project.config), by=by)
    if is_new:
        store.runs.request(project.id, Trigger.CONNECT, by)
    return project
