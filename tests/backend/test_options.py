"""The options of `detect` on the command line, in project settings and on the form: all from one table."""

import click
import pytest
from evenhand.errors import UnusableValueError
from evenhand.project_config import ProjectConfig, parse_config
from evenhand.web.dashboard.setting_fields import GROUPS

from fdr_core.commands.analyze import analyze
from fdr_core.options import OPTIONS, PROJECT_OPTIONS, Option

ON_FORM = {field.key: field for _, _, fields in GROUPS for field in fields}
IN_PROJECT = pytest.mark.parametrize("option", PROJECT_OPTIONS, ids=lambda option: option.name)


def other_values(option: Option) -> list[object]:
    """Values besides the default that the option takes."""
    if option.choices:
        return [value for value in option.choices if value != option.default]
    return [3, *([None] if option.may_be_empty else [])] if option.is_whole else [0.25]


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_command_line_offers_the_option_with_its_default_and_range(option: Option) -> None:
    (found,) = (entry for entry in analyze.params if entry.name == option.name)
    assert isinstance(found, click.Option)
    assert (found.opts, found.default) == ([f"--{option.name.replace('_', '-')}"], option.default)
    assert found.help == option.words
    if isinstance(found.type, click.Choice):
        assert list(found.type.choices) == list(option.choices)
    else:
        assert isinstance(found.type, click.IntRange if option.is_whole else click.FloatRange)


@IN_PROJECT
def test_project_setting_has_the_default_words_and_range_of_the_option(option: Option) -> None:
    field = ProjectConfig.model_fields[option.name]
    assert (field.default, field.description) == (option.default, option.words)
    for value in other_values(option):
        assert getattr(parse_config({option.name: value}), option.name) == value
    for value in ("something", -1, 1e9, []):
        with pytest.raises(UnusableValueError, match=option.name):
            parse_config({option.name: value})


def test_project_calls_detect_with_every_option_but_the_seed() -> None:
    assert set(ProjectConfig.model_validate({}).detection()) == {option.name for option in PROJECT_OPTIONS}


@IN_PROJECT
def test_form_offers_the_option_with_every_choice(option: Option) -> None:
    field = ON_FORM[option.name]
    assert (field.title, field.effect) == (option.title, option.words)
    assert [value for value, _ in field.choices if value] == list(option.choices)
    assert (("", "automatic") in field.choices) == (bool(option.choices) and option.may_be_empty)


def test_settings_that_do_not_go_together_are_refused_with_the_reason() -> None:
    with pytest.raises(UnusableValueError, match="draws was 0, but knockoff LBI decides"):
        parse_config({"draws": 0, "decide_by": "lbi"})
    with pytest.raises(UnusableValueError, match="needs sides assigned by chance"):
        parse_config({"method": "flip"}, base={"sides": "not random"})
