"""How a project's annotations are read: its settings laid over its label config."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from evenhand.domain import Project, Trigger
from evenhand.errors import UnusableValueError
from evenhand.project_config import ProjectConfig, parse_config
from evenhand.store import Store
from evenhand.store.projects import READING_KEYS
from fdr_core.errors import FdrCoreError
from fdr_core.inputs.label_studio.reading import Reading, Wanted, difference, renamed_control
from fdr_core.inputs.label_studio.reading import resolve as resolve_wanted
from fdr_core.inputs.label_studio.setup import Setup, parse_label_config
from fdr_core.inputs.label_studio.words import meaning_text, option_for


def resolve_solved(store: Store) -> None:
    """Close problems of the service as a whole whose cause is gone."""
    general = {problem.code for problem in store.problems.find() if problem.project_id is None}
    if "webhook_unauthorized" in general and _events_are_taken_again(store):
        store.problems.resolve(None, "webhook_unauthorized")


def _events_are_taken_again(store: Store) -> bool:
    """Whether an event was accepted after the last one that was refused."""
    last = {"accepted": 0.0, "unauthorized": 0.0}
    for row in store.events.counts():
        if row["outcome"] in last:
            last[row["outcome"]] = max(last[row["outcome"]], float(row["last_at"]))
    return last["accepted"] > last["unauthorized"]


def resolve_read(store: Store, project_id: int, *, newest: float | None, ahead: float) -> None:
    """After a pull: close what it no longer sees, times in the future."""
    if newest is None or newest <= store.clock() + ahead:
        store.problems.resolve(project_id, "clock_skew")


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
    """How the project's annotations are read, as agreed; None if its settings do not fit its label config.

    A labelling setup that changes later changes nothing of it until somebody says so.
    """
    agreed = dict(project.agreed or {})
    by, names = str(agreed.get("label_config") or project.label_config), frozenset(agreed.get("names") or ())
    config = json.dumps(project.config, sort_keys=True)
    return _reading(config, by, project.label_config, project.task_fields, names)


@lru_cache(maxsize=256)
def _reading(
    config: str, agreed: str, label_config: str, task_fields: tuple[str, ...], names: frozenset[str]
) -> Reading | None:
    """The reading of one state of a project; every event needs it and it hardly ever changes.

    Answers under a name that no setup ever had are those of a control that was renamed before anybody looked; one that
    is gone from today's setup is called there as the only new one of its type.
    """
    try:
        found = resolve(ProjectConfig.model_validate_json(config), agreed, task_fields)
    except UnusableValueError:
        return None
    before, after = setup_of(agreed), setup_of(label_config)
    new_name = renamed_control(before, after, found.controls[0].name)
    return replace(found, names=(names | before.names | after.names) - {new_name or ""})


def change_config(store: Store, project: Project, values: dict[str, Any], *, by: str) -> Project:
    """Lay new settings over a project's own; refused with a message if they do not fit its label config.

    A change of `sides` is a statement: kept with its name and time, and followed by a run.
    """
    config = parse_config(values, base=project.config)
    if any(config.to_json()[key] != project.config.get(key) for key in READING_KEYS) or reading_of(project) is None:
        resolve(config, project.label_config, project.task_fields)
        store.projects.agree(project.id, anew(project))  # who changes it has today's setup before their eyes
    store.projects.set_config(project.id, config, by=by)
    changed = check_project(store, store.projects.get(project.id))
    if changed.config["sides"] != project.config.get("sides"):
        store.statements.add(project.id, str(changed.config["sides"]), by)
        store.runs.request(project.id, Trigger.MANUAL, by)
    return changed


def check_project(store: Store, project: Project) -> Project:
    """Agree on the first reading that fits, and open or close the problems of one that does not, or no longer does."""
    try:
        now = resolve(ProjectConfig.model_validate(project.config), project.label_config, project.task_fields)
        why = ""
    except UnusableValueError as error:
        now, why = None, str(error)
    before = reading_of(project)
    is_new = now is not None and not any(project.counts.get(status) for status in ("answer", "unreadable", "skip"))
    changes = [why] if now is None else [] if before is None or is_new else difference(before, now)
    agreed = dict(project.agreed or {})
    is_agreed = now is not None and not changes
    names = sorted({*agreed.get("names", ()), *setup_of(project.label_config).names})[:MOST_NAMES]
    wanted = {**agreed, "names": names} | ({"label_config": project.label_config} if is_agreed else {})
    if wanted != agreed and "label_config" in wanted:
        project = store.projects.agree(project.id, wanted)
    is_kept = agreed.get("kept") == project.label_config
    said = {
        "configuration": (why, CORRECT) if before is None and now is None else None,
        "setup_changed": _changed(changes) if before is not None and changes and not is_kept else None,
        "reading_guessed": _guessed(project, before or now),
    }
    known = {problem.code: problem.message for problem in store.problems.find(project.id)}
    for code, words in said.items():
        if words and known.get(code) != words[0]:
            store.problems.open(project.id, code, *words)
        elif not words and code in known:
            store.problems.resolve(project.id, code)
    return project


def anew(project: Project) -> dict[str, Any]:
    """What stays of an agreement when the next reading that fits is to be agreed on: names that controls have had."""
    return {"names": list((project.agreed or {}).get("names") or ())}


#: Names of a labelling setup that are remembered.
MOST_NAMES = 500
CORRECT = "Correct the project's settings, or add a Pairwise control to its label config."
KEEP, ANEW = "keep", "anew"


def _changed(changes: list[str]) -> tuple[str, str]:
    return (
        f"the labelling setup has changed, and answers are still read as agreed: {'; '.join(changes)[:1500]}",
        "Keep the reading, or read anew by today's setup: on the page Settings, under Reading, or with "
        "`evenhand connect PROJECT --changed-setup keep` (or `anew`).",
    )


def _guessed(project: Project, reading: Reading | None) -> tuple[str, str] | None:
    guesses = open_guesses(project, reading)
    if not guesses:
        return None
    return (
        f"what some answers mean is a guess: {'; '.join(guesses)[:1500]}",
        "Confirm or correct it on the page Settings, under Reading, or with `evenhand connect PROJECT` (`--yes` "
        "confirms, `--answers` corrects).",
    )


def open_guesses(project: Project, reading: Reading | None) -> list[str]:
    """What of a reading is a guess that nobody has confirmed."""
    confirmed = set((project.agreed or {}).get("guesses") or ())
    return [guess for guess in (reading.guesses if reading else ()) if guess not in confirmed]


def confirm_reading(store: Store, project: Project, *, by: str) -> Project:
    """Somebody says that the guesses are right: they become settings, which no later version reads otherwise."""
    reading = reading_of(project)
    if reading is None or not open_guesses(project, reading):
        return project
    guesses = [*((project.agreed or {}).get("guesses") or ()), *open_guesses(project, reading)]
    answers = dict(project.config.get("answers") or {})
    for control in reading.controls:
        told = {answer: control.answers.read(answer) for answer in (*control.outcomes, *control.answers.skips)}
        answers |= {answer: meaning_text(told[answer]) for answer in told} if control.answers.guessed else {}
    store.projects.agree(project.id, {**(project.agreed or {}), "guesses": guesses})
    if answers != (project.config.get("answers") or {}):
        config = parse_config({"answers": answers}, base=project.config)
        store.projects.set_config(project.id, config, by=by)
    return check_project(store, store.projects.get(project.id))


def settle_setup(store: Store, project: Project, choice: str, *, by: str) -> Project:
    """Keep the agreed reading under a changed labelling setup, or read anew by it; raises UnusableValueError."""
    if choice == KEEP:
        agreed = {**(project.agreed or {}), "kept": project.label_config}
        return check_project(store, store.projects.agree(project.id, agreed))
    config, reading = ProjectConfig.model_validate(project.config), reading_of(project)
    before, after = setup_of(str((project.agreed or {}).get("label_config") or "")), setup_of(project.label_config)
    old = reading.controls[0] if reading and len(reading.controls) == 1 else None
    if old is not None and after.control(old.name) is None:
        new = renamed_control(before, after, old.name)
        control = "|".join((new, old.name, *old.names)) if new else None
        config = parse_config({"control": control}, base=project.config)
    resolve(config, project.label_config, project.task_fields)
    store.projects.agree(project.id, anew(project))
    store.projects.set_config(project.id, config, by=by)
    store.projects.request_full_pull(project.id)
    return check_project(store, store.projects.get(project.id))


@dataclass(frozen=True)
class Told:
    """One answer of a project: what it is read as ("" if it is not understood), how often it was given, an example."""

    answer: str
    meaning: str
    count: int = 0
    task_id: int | None = None
    guess: str = ""


def answers_told(store: Store, project: Project, reading: Reading) -> list[Told]:
    """Every answer on offer or given, with what it means; those that are not understood first."""
    control = reading.controls[0]
    if len(reading.controls) > 1 or reading.form != "pair":
        return []
    seen: dict[str, Told] = {}
    for row in store.comparisons.words(project.id):
        if row["word"] is not None:
            before = seen.get(row["word"], Told(row["word"], "", 0, row["task_id"]))
            seen[row["word"]] = replace(before, count=before.count + row["count"])
    offered = dict.fromkeys((*(control.texts or control.outcomes), *control.answers.skips, *seen))
    told = []
    for answer in offered:
        is_known = control.answers.read(answer) is not None or control.answers.is_skip(answer)
        meaning = meaning_text(control.answers.read(answer)) if is_known else ""
        one = seen.get(answer, Told(answer, ""))
        told.append(replace(one, meaning=meaning, guess=control.answers.guessed.get(answer, "")))
    return sorted(told, key=lambda one: bool(one.meaning))


def unread(store: Store, project: Project) -> list[dict[str, Any]]:
    """Why answers of a project cannot be read, each with its count and an example, most frequent first."""
    return [row for row in store.comparisons.words(project.id) if row["status"] == "unreadable"]


def check_answers(store: Store, project: Project) -> None:
    """After answers came in, whatever way: name in a problem those that cannot be read, with what would help."""
    rows = unread(store, project) if project.counts.get("unreadable") else []
    if not rows:
        store.problems.resolve(project.id, "unreadable_answers")
        return
    total = sum(row["count"] for row in rows)
    listed = "; ".join(f"{row['reason']} ({row['count']:,}, such as task {row['task_id']})" for row in rows[:5])
    words = [row["word"] for row in rows if row["word"] is not None]
    remedy = "Check the project's settings and its tasks' data; the answers are kept and read again by a full pull."
    if words:
        remedy = (
            "Say what they mean on the page Settings, under Reading, or with `evenhand connect "
            f"{project.ls_project_id} {option_for(words)}`; they are kept and read again then."
        )
    message = f"{total:,} {'answer' if total == 1 else 'answers'} cannot be judged: {listed}"
    known = {problem.code: problem.message for problem in store.problems.find(project.id)}
    if known.get("unreadable_answers") != message:
        store.problems.open(project.id, "unreadable_answers", message, remedy)


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
