"""A project's settings, validated by the same model as everywhere, each with its effect explained."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flask import flash, make_response, redirect, render_template, request, url_for
from werkzeug.wrappers import Response

from evenhand.domain import Project
from evenhand.errors import UnusableValueError
from evenhand.project_config import ProjectConfig, UnfitSettingsError
from evenhand.projects.reading import (
    ANEW,
    KEEP,
    answers_told,
    change_config,
    confirm_reading,
    open_guesses,
    reading_of,
    settle_setup,
    setup_of,
    unread,
)
from evenhand.store.projects import READING_KEYS
from evenhand.web.auth import current_user
from evenhand.web.context import get_store
from evenhand.web.dashboard.blueprint import ID, bp, form_text, project_page, task_url
from fdr_core.inputs.label_studio.reading import other_controls
from fdr_core.option import Option
from fdr_core.options import LBI_TITLE, LBI_WORDS, OPTIONS


@dataclass(frozen=True)
class Field:
    """One setting on the form: how it is entered, and what it does."""

    key: str
    title: str
    effect: str
    kind: str = "text"
    choices: tuple[tuple[str, str], ...] = ()
    placeholder: str = ""


def _field(option: Option) -> Field:
    """An option of `detect` on the form."""
    if not option.choices:
        return Field(option.name, option.title, option.words, "number")
    return Field(option.name, option.title, option.words, "choice", tuple(option.choices.items()))


JUDGES = (
    ("people", "of people"),
    ("predictions", "of LLM judges: predictions by model version"),
    ("both", "of people and judges together"),
)
AFTER_CONFIRM = (
    ("nothing", "nothing"),
    ("relabel", "a project in which these tasks are labelled anew, sides flipped by new coins"),
    ("overlap", "one more answer is asked for on these tasks"),
)
GROUPS: tuple[tuple[str, str, tuple[Field, ...]], ...] = (
    (
        "How answers are read",
        "Changing one of these reads all answers again from Label Studio.",
        (
            Field(
                "control", "Control", "The control that holds the answer. Empty: the first Pairwise control.", "field"
            ),
            Field(
                "controls",
                "Several controls",
                "Names, by commas: judged together. Once saved, Control above may name the one that decides.",
            ),
            Field(
                "item_left", "Left item", "Data field that names the left item. Empty: what the control shows.", "field"
            ),
            Field(
                "item_right",
                "Right item",
                "Data field that names the right item. Empty: what the control shows.",
                "field",
            ),
            Field(
                "coin",
                "Coin",
                "Data field with the id of the coin that placed the sides. Empty: one coin per task.",
                "field",
            ),
            Field("stratum", "Stratum", "Data field that groups tasks, such as the prompt.", "field"),
            Field(
                "answers",
                "Answers",
                "What answers mean whose words do not tell: left, right, tie, both, neither, skip, or 1 (left) to −1 "
                "(right).",
                "area",
                placeholder='{"A is worse": "right", "Same": "tie"}',
            ),
        ),
    ),
    (
        "How answers are judged",
        "These take effect with the next run; earlier runs stay as they are.",
        (
            *(_field(option) for option in OPTIONS),
            Field(
                "judges",
                "Whose answers",
                "Stored predictions that name a model version can be judged like annotators; pulls read them.",
                "choice",
                JUDGES,
            ),
            Field(
                "one_sided",
                "One-sided answers are meant",
                "Otherwise a run stops where nobody ever chose one side, or everybody has one answer throughout: that "
                "is what a wrong reading looks like.",
                "switch",
            ),
            Field(
                "leans",
                "Leans beyond position",
                "Names, separated by commas: length, format, agreement. Empty: none. Without gold they may only be "
                "described.",
                "list",
            ),
            Field(
                "lean_gold",
                "Gold for these",
                "Whose answers tell which item is better: user ids or e-mail addresses, separated by commas, or "
                "ground_truth for answers marked so. Imports carry that mark by default: name it only if it is true.",
                "list",
            ),
            Field("count_ground_truth", "Ground truth", "Also judge annotations marked as ground truth.", "switch"),
            Field(
                "count_predictions",
                "Shown predictions",
                "Also judge answers taken over from a shown prediction; they may say more about the "
                "prediction than about the person.",
                "switch",
            ),
        ),
    ),
    (
        LBI_TITLE,
        "The paper's method, which runs beside the exact tests.",
        (Field("lbi", "How it is run", LBI_WORDS, placeholder="draws=21,path=lbi"),),
    ),
    (
        "When runs happen",
        "A run starts when either is due and there is something new; “Run now” works at any time.",
        (
            Field("every_minutes", "Every … minutes", "Leave empty for no runs by the clock.", "number"),
            Field(
                "pull_only",
                "Pulls only",
                "Label Studio cannot call this service: no webhook and no ML backend are looked for.",
                "switch",
            ),
            Field("every_answers", "After … new answers", "Leave empty for no runs by their number.", "number"),
        ),
    ),
    (
        "What is written to Label Studio",
        "How much is shown in Label Studio, and what follows a decision.",
        (
            Field(
                "publish.predictions",
                "Predictions",
                "The consensus winner on completed tasks; never on tasks that can still be labelled.",
                "switch",
            ),
            Field(
                "publish.tab",
                "Review tab",
                "A Data Manager tab for each annotator with a lasting flag, with the tasks that weigh most.",
                "switch",
            ),
            Field(
                "publish.columns",
                "Columns of the tab",
                "Whose answer it is, the consensus and how much it says, written into the data of the tasks that a "
                "tab lists, and removed with the tab.",
                "switch",
            ),
            Field(
                "publish.alerts",
                "Alerts project",
                "One card per lasting flag or warning, with the evidence; reviewers' answers come back as decisions.",
                "switch",
            ),
            Field(
                "review_tasks",
                "Tasks in a review tab",
                "How many of the heaviest tasks a tab shows.",
                "number",
            ),
            Field(
                "after_confirm",
                "After Confirm",
                "What follows a confirmed flag. Nobody's answers are deleted, and `evenhand undo` takes it back.",
                "choice",
                AFTER_CONFIRM,
            ),
            Field(
                "reviewers",
                "Reviewers",
                "Who may decide: Label Studio user ids or e-mail addresses, or account names here, separated by "
                "commas. Empty: every reviewer. Nobody may decide about themselves.",
                "list",
            ),
            Field(
                "publish.pseudonyms",
                "Pseudonyms",
                "Cards show pseudonyms instead of names, and there are no review tabs.",
                "switch",
            ),
        ),
    ),
)


#: What most people come for; the rest stands behind "More".
FIRST = ("q", "sides", "reviewers", "publish.predictions", "publish.tab", "publish.alerts", "publish.pseudonyms")
FIELDS: tuple[Field, ...] = tuple(field for _, _, fields in GROUPS for field in fields)
# Left empty these mean "not at all", rather than the default.
NONE_IF_EMPTY = frozenset({"every_minutes", "every_answers", "answers"})


@bp.get(f"/projects/<{ID}:project_id>/settings")
def settings(project_id: int) -> str:
    """The form with the settings in force."""
    found = get_store().projects.get(project_id)
    return _form(found, _shown(ProjectConfig.model_validate(found.config)), message="")


@bp.post(f"/projects/<{ID}:project_id>/settings")
def change_settings(project_id: int) -> Response:
    """Validate and store; what does not fit is explained beside what was typed."""
    store = get_store()
    found = store.projects.get(project_id)
    typed = {field.key: _typed(field) for field in FIELDS}
    try:
        user = current_user()
        values = _values(typed)
        if typed["control"] == (found.config.get("control") or ""):
            del values["control"]  # filled in by the form: nobody says by it that it decides among several
        changed = change_config(store, found, values, by=user.name if user else "unknown")
    except UnusableValueError as error:
        wrong = error.fields if isinstance(error, UnfitSettingsError) else {}
        return make_response(_form(found, typed, message=str(error), wrong=wrong), error.status)
    reads_anew = any(changed.config.get(key) != found.config.get(key) for key in READING_KEYS)
    if changed.config == found.config:
        flash("Nothing was changed.")
    elif reads_anew:
        flash("Saved. The next pull reads all answers again, and the run after it judges them as read then.")
    else:
        flash("Saved. The next run uses the new settings.")
    return redirect(url_for("dashboard.settings", project_id=project_id))


@bp.post(f"/projects/<{ID}:project_id>/reading")
def change_reading(project_id: int) -> Response:
    """Say what answers mean, confirm what is guessed, or decide what a changed labelling setup means."""
    store, user = get_store(), current_user()
    found, by = store.projects.get(project_id), user.name if user else "unknown"
    action = form_text("action")
    try:
        if action in (KEEP, ANEW):
            settle_setup(store, found, action, by=by)
            flash("The reading stays as it is." if action == KEEP else "All answers are read anew by the next pull.")
        else:
            answers = {**(found.config.get("answers") or {}), **_meanings(found)}
            changed = change_config(store, found, {"answers": answers or None}, by=by)
            confirm_reading(store, changed, by=by)
            flash("Saved. Where a meaning changed, the next pull reads all answers again.")
    except UnusableValueError as error:
        shown = _shown(ProjectConfig.model_validate(found.config))
        return make_response(_form(found, shown, message=str(error)), error.status)
    return redirect(url_for("dashboard.settings", project_id=project_id) + "#reading")


def _meanings(found: Project) -> dict[str, str]:
    """What the form says of answers, where that is not what they mean already."""
    reading = reading_of(found)
    told = answers_told(get_store(), found, reading) if reading else []
    typed = {one.answer: form_text(f"means {place}") for place, one in enumerate(told)}
    return {one.answer: typed[one.answer] for one in told if typed[one.answer] not in ("", one.meaning)}


def _form(found: Project, values: Mapping[str, Any], *, message: str, wrong: Mapping[str, str] | None = None) -> str:
    """The page with these values filled in, and beside each setting that does not fit, why."""
    content = project_page(found, get_store().runs.latest(found.id), "settings")
    return render_template(
        "settings.html",
        **content,
        first=[field for key in FIRST for field in FIELDS if field.key == key],
        groups=[(title, words, [one for one in fields if one.key not in FIRST]) for title, words, fields in GROUPS],
        values=values,
        message=message,
        wrong=wrong or {},
        titles={field.key: field.title for field in FIELDS},
        offered=_offered(found),
        teams=get_store().annotators.teams(found.id),
        in_use=_in_use(found),
        changes=get_store().decisions.setting_changes(found.id),
        **_reading(found),
    )


def _reading(found: Project) -> dict[str, Any]:
    """How answers are read, for people: control, fields, what each answer means, and what is not read."""
    store, reading = get_store(), reading_of(found)
    if reading is None:
        return {"reading": None, "unread": unread(store, found)}
    read, told = [control.name for control in reading.controls], answers_told(store, found, reading)
    return {
        "reading": reading,
        "told": told,
        "is_fixed": reading.form != "pair" or any(control.type == "pairwise" for control in reading.controls),
        "guesses": (guesses := open_guesses(found, reading)),
        "notes": [guess for guess in guesses if not any(one.guess and guess.endswith(one.guess) for one in told)],
        "others": other_controls(setup_of(found.label_config), read),
        "unread": [row for row in unread(store, found) if row["word"] is None],
        "task_url": lambda task: task_url(found, task),
    }


def _typed(field: Field) -> Any:
    """What the form sent for a field."""
    if field.kind == "switch":
        return field.key in request.form
    return form_text(field.key)[:10_000]


def _values(typed: Mapping[str, Any]) -> dict[str, Any]:
    """The form as project settings."""
    values: dict[str, Any] = {"publish": {}}
    for key, value in typed.items():
        group, _, name = key.partition(".")
        if name:
            values[group][name] = value
        else:
            values[key] = None if value == "" and key in NONE_IF_EMPTY else value
    return values


def _shown(config: ProjectConfig) -> dict[str, Any]:
    """Settings as the form shows them."""
    plain = config.to_json()
    shown = {key: _text(value) for key, value in plain.items() if key != "publish"}
    if plain["answers"] is not None:
        shown["answers"] = json.dumps(plain["answers"], ensure_ascii=False)
    return {**shown, **{f"publish.{name}": value for name, value in plain["publish"].items()}}


def _text(value: Any) -> Any:
    """Nothing as empty text, lists with commas, numbers without needless zeros, everything else as it is."""
    if isinstance(value, list):
        return ", ".join(value)
    return "" if value is None else f"{value:g}" if isinstance(value, float) else value


def _in_use(found: Project) -> dict[str, str | None]:
    """The control and fields that are read now, to be shown where nothing is set."""
    reading = reading_of(found)
    names = ("control", "item_left", "item_right", "coin", "stratum")
    return {key: getattr(reading, key) for key in names} if reading else {}


def _offered(found: Project) -> dict[str, list[str]]:
    """Names that fit the field settings, for suggestions."""
    parsed = setup_of(found.label_config)
    return {
        "control": [control.name for control in parsed.controls],
        "field": sorted({*parsed.fields.values(), *found.task_fields}),
    }
