"""A project's settings, validated by the same model as everywhere, each with its effect explained."""

import json
from collections.abc import Mapping
from typing import Any

from flask import flash, make_response, redirect, render_template, request, url_for
from werkzeug.wrappers import Response

from evenhand.domain import Project
from evenhand.errors import UnusableValueError
from evenhand.project_config import ProjectConfig, UnfitSettingsError
from evenhand.projects.reading import change_config, resolve, setup_of
from evenhand.store.projects import READING_KEYS
from evenhand.web.auth import current_user
from evenhand.web.context import get_store
from evenhand.web.dashboard.blueprint import ID, bp, form_text, project_page
from evenhand.web.dashboard.setting_fields import GROUPS, Field

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
        changed = change_config(store, found, _values(typed), by=user.name if user else "unknown")
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


def _form(found: Project, values: Mapping[str, Any], *, message: str, wrong: Mapping[str, str] | None = None) -> str:
    """The page with these values filled in, and beside each setting that does not fit, why."""
    content = project_page(found, get_store().runs.latest(found.id), "settings")
    return render_template(
        "settings.html",
        **content,
        groups=GROUPS,
        values=values,
        message=message,
        wrong=wrong or {},
        titles={field.key: field.title for field in FIELDS},
        offered=_offered(found),
        in_use=_in_use(found),
        changes=get_store().decisions.setting_changes(found.id),
    )


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
    try:
        config = ProjectConfig.model_validate(found.config)
        reading = resolve(config, found.label_config, found.task_fields)
    except UnusableValueError:
        return {}
    return {key: getattr(reading, key) for key in ("control", "item_left", "item_right", "coin", "stratum")}


def _offered(found: Project) -> dict[str, list[str]]:
    """Names that fit the field settings, for suggestions."""
    parsed = setup_of(found.label_config)
    return {
        "control": [control.name for control in parsed.controls],
        "field": sorted({*parsed.fields.values(), *found.task_fields}),
    }
