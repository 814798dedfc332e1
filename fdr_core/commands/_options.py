"""Options that several offline commands share."""

import functools
import json
import math
from collections.abc import Callable
from typing import Any

import click

from fdr_core.errors import ConfigurationError
from fdr_core.option import Option as DetectOption
from fdr_core.options import BY_NAME, LBI_WORDS
from fdr_core.paper.knockoff_lbi import KnockoffLBI

Command = Callable[..., Any]
Option = Callable[[Command], Command]


def _option(option: DetectOption) -> Option:
    """The command-line form of an option of `detect`."""
    name = f"--{option.name.replace('_', '-')}"
    shows = option.default is not None
    return click.option(name, type=_type(option), default=option.default, show_default=shows, help=option.words)


def _type(option: DetectOption) -> click.ParamType[Any]:
    """What click checks before anything is read."""
    if option.choices:
        return click.Choice(tuple(option.choices))
    if option.is_whole:
        return click.IntRange(int(option.low), None if math.isinf(option.high) else int(option.high))
    is_open = option.excludes_bounds
    return click.FloatRange(option.low, option.high, min_open=is_open, max_open=is_open)


def _parse_lbi(_context: click.Context, _option: click.Parameter, value: str) -> KnockoffLBI | None:
    """Read the paper's method."""
    try:
        return KnockoffLBI.parse(value)
    except ConfigurationError as error:
        raise click.BadParameter(str(error)) from error


_lbi: Option = click.option("--lbi", default="", callback=_parse_lbi, help=LBI_WORDS)

_FIELDS = ("control", "item_left", "item_right", "coin", "stratum", "outcomes")


def detection_options(*names: str) -> Option:
    """Add the named options of `detect`, all of them by default, and hand them over as one argument `detection`."""
    chosen = names or (*BY_NAME, "lbi")

    def add(command: Command) -> Command:
        made = tuple(_lbi if name == "lbi" else _option(BY_NAME[name]) for name in chosen)
        return _with(made, _gathering(command, "detection", chosen))

    return add


def data_options(command: Command) -> Command:
    """Add the options that say how a Label Studio export is read, as one argument `fields`."""
    options = (
        click.option("--control", help="Label Studio: name of the control that holds the answer."),
        click.option("--item-left", help="Label Studio: field that names the left item."),
        click.option("--item-right", help="Label Studio: field that names the right item."),
        click.option("--coin", help="Label Studio: field that names the coin."),
        click.option("--stratum", help="Label Studio: field that groups the tasks, such as the prompt."),
        click.option(
            "--outcomes", callback=_parse_outcomes, help='Label Studio: {"answer": outcome in [-1, 1]} as JSON.'
        ),
    )
    return _with(options, _gathering(command, "fields", _FIELDS))


def _with(options: tuple[Option, ...], command: Command) -> Command:
    """Apply options so that they are listed in the order written here."""
    for option in reversed(options):
        command = option(command)
    return command


def _gathering(command: Command, name: str, members: tuple[str, ...]) -> Command:
    """Collect several options into one argument."""

    @functools.wraps(command)
    def gathered(**options: Any) -> Any:
        together = {member: options.pop(member) for member in members}
        return command(**options, **{name: together})

    return gathered


def _parse_outcomes(_context: click.Context, _option: click.Parameter, value: str | None) -> dict[str, float] | None:
    """Read the map of answers."""
    if value is None:
        return None
    try:
        parsed = json.loads(value)
    except ValueError as error:
        raise click.BadParameter(f'not JSON ({error}); write it as \'{{"A": 1, "B": -1}}\'') from error
    if not isinstance(parsed, dict):
        raise click.BadParameter('expected an object from answers to numbers, such as \'{"A": 1, "B": -1}\'')
    return parsed
