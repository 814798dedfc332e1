"""`evenhand doctor`: what a file of answers can be used for; without one, what a service around the library says."""

from pathlib import Path
from typing import Any

import click

from fdr_core.commands._options import detection_options, format_options
from fdr_core.inputs.registry import FORMATS
from fdr_core.report.examine import Examination, examine
from fdr_core.report.words import left_out_words
from fdr_core.terminal import exits_2_on_bad_input, json_option, printable, say_json

_COINS = {"coin": "recorded", "task": "one per task", "guessed": "guessed", "own": "one per answer"}


def _list_formats(context: click.Context, _option: click.Parameter, is_wanted: bool) -> None:
    """Every format of the registry, by the fields that tell it."""
    if is_wanted:
        for name, one in FORMATS.items():
            click.echo(f"{name}: {one.title}{' (refused)' if one.refusal else ''}; {', '.join(one.uses)}")
        context.exit()


@click.command("doctor")
@click.option(
    "--formats", is_flag=True, is_eager=True, expose_value=False, callback=_list_formats, help="List formats."
)
@click.argument("file", required=False, type=click.Path(path_type=Path))
@detection_options("sides")
@json_option
@format_options
@click.pass_context
@exits_2_on_bad_input
def doctor(
    context: click.Context, file: Path | None, as_json: bool, detection: dict[str, Any], reading: dict[str, Any]
) -> None:
    """
    Check the service, or with FILE say what a file of answers can be used for.

    Without FILE: address, token, Label Studio's address filters, webhooks, clock and database; exit 1 if one fails.
    With FILE (- for standard input): the format recognised, what each column is used for, what the data supports and
    what it does not, and what would help, by the audit that `analyze`, `gate` and `export-preferences` judge by; exit 1
    if nobody can be judged by it.

    \b
    Examples:
      evenhand doctor answers.csv
      evenhand doctor --json
    """
    if file is None and context.obj is None:
        raise click.UsageError("FILE is missing: name a file of answers")
    if file is None:
        context.obj(as_json=as_json)  # a program around the library hands over how it examines itself
    elif file is not None:
        found = examine(file, **detection, **reading)
        say_json(_document(found)) if as_json else _print(file, found)
        context.exit(0 if found.can_judge else 1)


def _document(found: Examination) -> dict[str, Any]:
    """What was found, for programs."""
    recognised, read = found.recognised, found.comparisons
    return {
        "format": recognised.format,
        "columns": dict(recognised.columns),
        "unused": list(recognised.unused),
        "answers": None if read is None else len(read),
        "annotators": None if read is None else read.n_annotators,
        "items": None if read is None else read.n_items,
        "left_out": {} if read is None else dict(read.excluded),
        "can_judge": found.can_judge,
        **{name: list(getattr(found, name)) for name in ("can", "cannot", "helps")},
    }


def _print(path: Path, found: Examination) -> None:
    """What was found, for people."""
    recognised = found.recognised
    click.echo(f"{path}: {recognised.title} ({recognised.kind}, --format {recognised.format})")
    _section("Columns", [f"{name}: {use}" for name, use in recognised.columns.items()])
    if recognised.unused:
        _section("Not used", [", ".join(recognised.unused)])
    if found.comparisons is not None:
        _section("Read", _counts(found))
    _section("Supports", found.can)
    _section("Does not support", found.cannot)
    _section("Would help", found.helps)


def _counts(found: Examination) -> list[str]:
    comparisons = found.comparisons
    assert comparisons is not None
    lines = [
        f"answers: {len(comparisons):,}; annotators: {comparisons.n_annotators:,}; items: {comparisons.n_items:,}; "
        f"coins: {_COINS[comparisons.coin_source]}"
    ]
    return lines + [
        f"left out: {count:,} {left_out_words(reason)}" for reason, count in comparisons.excluded.items() if count
    ]


def _section(title: str, lines: list[str] | tuple[str, ...]) -> None:
    if lines:
        click.echo(f"{title}:")
        for line in lines:
            click.echo(f"  {printable(line)}")
