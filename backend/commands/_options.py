"""Options that several offline commands share."""

import functools
import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import click

Command = Callable[..., Any]
Option = Callable[[Command], Command]


def _choice(name: str, *values: str, text: str) -> Option:
    """Make an option of one of some words, the first by default."""
    return click.option(name, type=click.Choice(values), default=values[0], show_default=True, help=text)


def _count(name: str, default: int, *, least: int, text: str) -> Option:
    """Make an option of a whole number."""
    return click.option(name, type=click.IntRange(min=least), default=default, show_default=True, help=text)


def _share(name: str, default: float, *, text: str) -> Option:
    """Make an option of a number; its range is checked where it is used."""
    return click.option(name, type=float, default=default, show_default=True, help=text)


_DETECTION: Mapping[str, Option] = MappingProxyType(
    {
        "q": _share("--q", 0.1, text="Target share of false flags."),
        "method": _choice("--method", "auto", "flip", "paper", text="Construction; auto lets the audit decide."),
        "path": _choice("--path", "lbi", "iss", "lasso", "marginal", text="Regularisation path."),
        "cut": _choice("--cut", "knockoff+", "knockoff", text="Threshold: FDR, or modified FDR."),
        "copies": click.option("--copies", type=click.IntRange(min=1), help="Knockoff copies per annotator."),
        "draws": _count("--draws", 21, least=1, text="Independent draws."),
        "seed": _count("--seed", 0, least=0, text="Seed of all draws."),
        "sides": _choice(
            "--sides", "audit", "random", "not random", text="Test whether sides were random, or state it."
        ),
        "min_bias": _share("--min-bias", 0.1, text="Smallest lean worth a flag."),
        "aggregate": _choice("--aggregate", "majority", "evalues", text="How draws are combined."),
        "statistic": _choice(
            "--statistic",
            "auto",
            "likelihood",
            "path",
            text="What orders annotators and copies; auto: likelihood for the majority of draws.",
        ),
    }
)
_FIELDS = ("control", "item_left", "item_right", "coin", "stratum", "outcomes")


def detection_options(*names: str) -> Option:
    """Add the named options of `detect` and hand them over as one argument `detection`."""

    def add(command: Command) -> Command:
        return _with(tuple(_DETECTION[name] for name in names), _gathering(command, "detection", names))

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
