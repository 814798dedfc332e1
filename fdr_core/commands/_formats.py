"""Options that say how a file of answers is read, whatever wrote it."""

import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from fdr_core.errors import ConfigurationError
from fdr_core.inputs.label_studio.words import answers_from
from fdr_core.inputs.registry import FORMATS, MAPPABLE
from fdr_core.inputs.source import Limits

Command = Callable[..., Any]


#: How a Label Studio export is read: parameters of `Comparisons.from_label_studio`, each with its help.
FIELDS: Mapping[str, str] = {
    "control": "name of the control that holds the answer; new|old where it was renamed.",
    "item_left": "field that names the left item; of a list, the property that names its items.",
    "item_right": "field that names the right item.",
    "coin": "field that names the coin.",
    "stratum": "field that groups the tasks, such as the prompt.",
    "answers": "what answers mean, 'A is worse=right,Same=tie': left, right, tie, both, neither, skip, or -1 to 1.",
    "label_config": "file with the project's label config; the export is then read as the service reads the project.",
}


def format_options(command: Command) -> Command:
    """Add what says how a file is read, handed over as one argument `reading` for `Comparisons.from_file`."""
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
            help=f"Name a column or path, as annotator=judge, choice=results[0].winner; ours: {', '.join(MAPPABLE)}.",
        ),
        click.option(
            "--swapped",
            type=click.Path(path_type=Path, exists=True),
            help="A second file with the same pairs, row by row, in the other order.",
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
    def gathered(
        *, format_name: str, mapping: Any, swapped: Path | None, max_gigabytes: float, max_rows: int, **others: Any
    ) -> Any:
        limits = Limits(most_bytes=int(max_gigabytes * 1e9), most_rows=max_rows)
        fields = {name: value for name in FIELDS if (value := others.pop(name)) is not None}
        reading = {"format": format_name, "mapping": mapping, "limits": limits, "fields": fields, "swapped": swapped}
        return command(**others, reading=reading)

    added: Command = gathered
    for name, words in reversed(tuple(FIELDS.items())):
        kind = click.Path(path_type=Path, exists=True, dir_okay=False) if name == "label_config" else None
        parse = _parse_answers if name == "answers" else None
        words = words if name == "answers" else f"Label Studio: {words}"
        option = click.option(f"--{name.replace('_', '-')}", name, type=kind, callback=parse, help=words)
        added = option(added)
    for option in reversed(options):
        added = option(added)
    return added


def _parse_answers(_context: click.Context, _option: click.Parameter, value: str | None) -> dict[str, Any] | None:
    """Read ANSWER=MEANING pairs, and refuse a meaning that there is not."""
    if value is None:
        return None
    try:
        return answers_from(value)
    except ConfigurationError as error:
        raise click.BadParameter(str(error)) from error


def _parse_mapping(_context: click.Context, _option: click.Parameter, pairs: tuple[str, ...]) -> dict[str, str]:
    """Read OURS=THEIRS pairs."""
    parts = [pair.partition("=") for pair in pairs]
    wrong = next((pair for pair, (ours, _, theirs) in zip(pairs, parts, strict=True) if not ours or not theirs), None)
    if wrong is not None:
        raise click.BadParameter(f"{wrong!r} is not a pair; write ours=theirs, such as annotator=judge")
    return {ours.strip(): theirs.strip() for ours, _, theirs in parts}
