"""`evenhand selftest`: realised error rates of every method on the user's own design."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from fdr_core.commands._files import load_comparisons
from fdr_core.commands._options import data_options, detection_options
from fdr_core.commands._progress import progress_bar
from fdr_core.commands._selftest import Score, methods
from fdr_core.commands._selftest import selftest as run_selftest
from fdr_core.terminal import exits_2_on_bad_input


@click.command("selftest")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--runs", type=click.IntRange(min=1), default=20, show_default=True, help="Simulated data sets.")
@click.option("--biased", type=click.IntRange(min=0), help="How many lean [a tenth].")
@click.option(
    "--bias", type=click.FloatRange(0, 1), default=0.5, show_default=True, help="How often they click a side."
)
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of the data sets.")
@detection_options("q", "min_bias", "sides", "lbi")
@data_options
@exits_2_on_bad_input
def selftest(
    file: Path,
    runs: int,
    biased: int | None,
    bias: float,
    seed: int,
    as_json: bool,
    fields: dict[str, Any],
    detection: dict[str, Any],
) -> None:
    """
    Simulate on the design of FILE (same annotators, items, sizes, sides) and print how every method does.

    False flags: the share of flags that are false, averaged over the data sets (to be compared with q). Found: of
    those who lean, the share flagged.
    """
    design = load_comparisons(file, fields=fields)
    with progress_bar("simulating") as progress:
        scores = run_selftest(
            design,
            methods(**detection),
            runs=runs,
            seed=seed,
            n_biased=biased,
            bias=bias,
            progress=progress,
        )
    if as_json:
        click.echo(json.dumps([asdict(score) for score in scores], indent=1))
        return
    console = Console()
    console.print(f"{design!r}, {runs} simulated data sets, q = {detection['q']:g}", markup=False)
    console.print(_table(scores))
    for score in scores:
        if score.problem:
            console.print(f"{score.method}: {score.problem}", markup=False)


def _table(scores: list[Score]) -> Table:
    """Lay the figures out."""
    table = Table("method", *("false flags", "± s.e.", "found", "flags per run"))
    for column in table.columns[1:]:
        column.justify = "right"
    for score in scores:
        if score.runs == 0:
            table.add_row(score.method, "–", "–", "–", "not possible")
            continue
        figures = (score.false_share, score.false_share_se, score.power)
        table.add_row(score.method, *(f"{figure:.3f}" for figure in figures), f"{score.flagged:.1f}")
    return table
