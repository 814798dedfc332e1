"""`evenhand selftest`: realised error rates of every method on the user's own design."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from fdr_core import Comparisons
from fdr_core.commands._formats import format_options
from fdr_core.commands._leans import Asked, lean_options
from fdr_core.commands._options import detection_options
from fdr_core.commands._progress import progress_bar
from fdr_core.commands._selftest import Score, methods
from fdr_core.commands._selftest import selftest as run_selftest
from fdr_core.commands._table import table
from fdr_core.terminal import exits_2_on_bad_input

COLUMNS = ("method", "false flags", "± s.e.", "found", "flags per run")


@click.command("selftest")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--runs", type=click.IntRange(min=1), default=20, show_default=True, help="Simulated data sets.")
@click.option("--biased", type=click.IntRange(min=0), help="How many lean [a tenth].")
@click.option(
    "--bias", type=click.FloatRange(0, 1), default=0.5, show_default=True, help="How often they click a side."
)
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of the data sets.")
@click.option("--placebo", is_flag=True, help="Test features without meaning instead, where --leans are to be asked.")
@detection_options("q", "min_bias", "sides", "lbi")
@format_options
@lean_options
@exits_2_on_bad_input
def selftest(
    file: Path,
    runs: int,
    biased: int | None,
    bias: float,
    seed: int,
    as_json: bool,
    placebo: bool,
    detection: dict[str, Any],
    asked: Asked,
    reading: dict[str, Any],
) -> None:
    """
    Simulate on the design of FILE (same annotators, items, sizes, sides) and print how every method does.

    False flags: the share of flags that are false, averaged over the data sets (to be compared with q). Found: of
    those who lean, the share flagged.

    --placebo with --leans and --gold: RUNS features drawn by chance and RUNS that go with quality stand in the place of
    one more lean; of their tests 5 % should have p < .05, and next to nobody should be listed.
    """
    design = Comparisons.from_file(file, **reading)
    if placebo:
        click.echo(_placebos(asked, design, runs=runs, seed=seed, q=detection["q"]))
        return
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
    click.echo(f"{design!r}, {runs} simulated data sets, q = {detection['q']:g}")
    click.echo("\n".join(table(COLUMNS, [_cells(score) for score in scores], words=COLUMNS[:1])))
    for score in scores:
        if score.problem:
            click.echo(f"{score.method}: {score.problem}")


def _placebos(asked: Asked, design: Comparisons, *, runs: int, seed: int, q: float) -> str:
    """What features without meaning give on these answers."""
    if not asked.leans:
        raise click.UsageError("--placebo needs the leans that are to be asked about, such as --leans length,format")
    found = next(
        (one for one in asked.lists(design, q=q, placebos=runs, seed=seed).values() if one.how != "others"), None
    )
    if found is None:
        raise click.UsageError("agreement is no feature of items; name one that is, such as --leans length")
    return "\n".join([*found.reasons, f"{found.placebos}."] if found.placebos else found.reasons)


def _cells(score: Score) -> dict[str, str]:
    """What the table says of a method."""
    figures = [f"{figure:.3f}" for figure in (score.false_share, score.false_share_se, score.power)]
    known = [*figures, f"{score.flagged:.1f}"] if score.runs else ["–", "–", "–", "not possible"]
    return dict(zip(COLUMNS, [score.method, *known], strict=True))
