"""The options of `detect` on the command line, in project settings and on the form: all from one table."""

from typing import Any

import click
import pytest
from click.testing import CliRunner
from evenhand.errors import UnusableValueError
from evenhand.project_config import ProjectConfig, parse_config
from evenhand.web.dashboard.settings import GROUPS

from fdr_core import KnockoffLBI
from fdr_core.commands.analyze import analyze
from fdr_core.option import Option
from fdr_core.options import LBI_OPTIONS, LBI_WORDS, OPTIONS

ON_FORM = {field.key: field for _, _, fields in GROUPS for field in fields}
EVERY_OPTION = pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)


def other_values(option: Option) -> list[object]:
    """Values besides the default that the option takes."""
    return [value for value in option.choices if value != option.default] or [0.25]


def on_command_line(name: str) -> click.Option:
    (found,) = (entry for entry in analyze.params if entry.name == name)
    assert isinstance(found, click.Option)
    return found


@EVERY_OPTION
def test_command_line_offers_the_option_with_its_default_and_range(option: Option) -> None:
    found = on_command_line(option.name)
    assert (found.opts, found.default) == ([f"--{option.name.replace('_', '-')}"], option.default)
    assert found.help == option.words
    if isinstance(found.type, click.Choice):
        assert list(found.type.choices) == list(option.choices)
    else:
        assert isinstance(found.type, click.FloatRange)


def test_command_line_offers_the_papers_method_as_one_option_and_refuses_what_it_does_not_know() -> None:
    assert on_command_line("lbi").help == LBI_WORDS
    assert not {option.name for option in LBI_OPTIONS} & {entry.name for entry in analyze.params}
    refused = CliRunner().invoke(analyze, ["nothing.csv", "--lbi", "draws=0"])
    assert refused.exit_code == 2
    assert "draws was 0" in refused.output


@EVERY_OPTION
def test_project_setting_has_the_default_words_and_range_of_the_option(option: Option) -> None:
    field = ProjectConfig.model_fields[option.name]
    assert (field.default, field.description) == (option.default, option.words)
    for value in other_values(option):
        assert getattr(parse_config({option.name: value}), option.name) == value
    for value in ("something", -1, 1e9, []):
        with pytest.raises(UnusableValueError, match=option.name):
            parse_config({option.name: value})


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("", ""),
        (None, "off"),
        ("off", "off"),
        (" path = iss , draws = 21 ", "path=iss"),
        ({"draws": 50, "seconds": None}, "draws=50,seconds=none"),
    ],
)
def test_project_keeps_of_the_papers_method_what_differs_from_the_defaults(given: Any, kept: str) -> None:
    assert parse_config({"lbi": given}).to_json()["lbi"] == kept


def test_project_calls_detect_with_every_option() -> None:
    asked = parse_config({"lbi": "draws=3"}).detection()
    assert set(asked) == {*(option.name for option in OPTIONS), "lbi"}
    assert asked["lbi"] == KnockoffLBI(draws=3)


@EVERY_OPTION
def test_form_offers_the_option_with_every_choice(option: Option) -> None:
    field = ON_FORM[option.name]
    assert (field.title, field.effect) == (option.title, option.words)
    assert [value for value, _ in field.choices if value] == list(option.choices)


def test_form_offers_the_papers_method_in_one_field() -> None:
    assert (ON_FORM["lbi"].kind, ON_FORM["lbi"].effect) == ("text", LBI_WORDS)
    assert not {option.name for option in LBI_OPTIONS} & set(ON_FORM)


def test_settings_that_do_not_go_together_are_refused_with_the_reason() -> None:
    with pytest.raises(UnusableValueError, match="knockoff LBI was left out"):
        parse_config({"lbi": "off", "decide_by": "lbi"})
    with pytest.raises(UnusableValueError, match="needs sides assigned by chance"):
        parse_config({"lbi": "construction=flip"}, base={"sides": "not random"})
