"""Options that several offline commands share."""

import functools
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


def detection_options(*names: str) -> Option:
    """Add the named options of `detect`, all of them by default, and hand them over as one argument `detection`."""
    chosen = names or (*BY_NAME, "lbi")

    def add(command: Command) -> Command:
        made = tuple(_lbi if name == "lbi" else _option(BY_NAME[name]) for name in chosen)
        return _with(made, _gathering(command, "detection", chosen))

    return add


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
