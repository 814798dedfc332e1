"""Options that say how a file of answers is read, whatever wrote it."""

import functools
from collections.abc import Callable
from typing import Any

import click

from fdr_core.inputs.registry import FORMATS, MAPPABLE
from fdr_core.inputs.source import Limits

Command = Callable[..., Any]


def format_options(command: Command) -> Command:
    """Add --format, --map and the limits, handed over as one argument `reading` for `Comparisons.from_file`."""
    options = (
        click.option(
            "--format",
            "format_name",
            type=click.Choice(["auto", *FORMATS]),
            default="auto",
            show_default=True,
            help="How the file is written; auto looks at its columns.",
        ),
        click.option(
            "--map",
            "mapping",
            multiple=True,
            callback=_parse_mapping,
            metavar="OURS=THEIRS",
            help=f"Name a column, such as annotator=judge; ours are {', '.join(MAPPABLE)}.",
        ),
        click.option(
            "--max-gigabytes",
            type=click.FloatRange(min=0, min_open=True),
            default=Limits.most_bytes / 1e9,
            show_default=True,
            help="Largest unpacked file to take into memory.",
        ),
        click.option(
            "--max-rows",
            type=click.IntRange(min=1),
            default=Limits.most_rows,
            show_default=True,
            help="Most rows to take into memory.",
        ),
    )

    @functools.wraps(command)
    def gathered(*, format_name: str, mapping: Any, max_gigabytes: float, max_rows: int, **others: Any) -> Any:
        limits = Limits(most_bytes=int(max_gigabytes * 1e9), most_rows=max_rows)
        return command(**others, reading={"format": format_name, "mapping": mapping, "limits": limits})

    added: Command = gathered
    for option in reversed(options):
        added = option(added)
    return added


def _parse_mapping(_context: click.Context, _option: click.Parameter, pairs: tuple[str, ...]) -> dict[str, str]:
    """Read OURS=THEIRS pairs."""
    parts = [pair.partition("=") for pair in pairs]
    wrong = next((pair for pair, (ours, _, theirs) in zip(pairs, parts, strict=True) if not ours or not theirs), None)
    if wrong is not None:
        raise click.BadParameter(f"{wrong!r} is not a pair; write ours=theirs, such as annotator=judge")
    return {ours.strip(): theirs.strip() for ours, _, theirs in parts}
