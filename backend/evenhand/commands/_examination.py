"""What `evenhand doctor FILE` prints."""

from pathlib import Path

import click

from evenhand.terminal import printable
from fdr_core.inputs.examine import Examination, examine

_COINS = {"coin": "recorded", "task": "one per task", "own": "one per answer"}


def print_examination(path: Path) -> bool:
    """Examine a file, print what was found, and tell whether it can be judged."""
    found = examine(path)
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
    return found.comparisons is not None


def _counts(found: Examination) -> list[str]:
    comparisons = found.comparisons
    assert comparisons is not None
    lines = [
        f"answers: {len(comparisons):,}; annotators: {comparisons.n_annotators:,}; items: {comparisons.n_items:,}; "
        f"coins: {_COINS[comparisons.coin_source]}"
    ]
    return lines + [f"left out: {count:,} {reason}" for reason, count in comparisons.excluded.items() if count]


def _section(title: str, lines: list[str] | tuple[str, ...]) -> None:
    if lines:
        click.echo(f"{title}:")
        for line in lines:
            click.echo(f"  {printable(line)}")
