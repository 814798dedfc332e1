"""`evenhand prepare`: tasks with sides by recorded coin flips."""

import secrets
from pathlib import Path

import click
import numpy as np

from backend.commands._failures import exits_2_on_bad_input
from backend.offline import prepare as tasks


@click.command("prepare")
@click.argument("pairs", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), default=Path("prepared"), show_default=True)
@click.option("--both-orders", is_flag=True, help="Show every pair in both orders, under one coin.")
@click.option("--ties", is_flag=True, help="Offer a tie (Choices instead of Pairwise).")
@click.option("--pairs", "n_pairs", type=click.IntRange(min=1), help="From a list of items: how many pairs to draw.")
@click.option("--seed", type=click.IntRange(min=0), help="Seed of the coins; drawn and recorded by default.")
@exits_2_on_bad_input
def prepare(pairs: Path, out: Path, both_orders: bool, ties: bool, n_pairs: int | None, seed: int | None) -> None:
    """
    Write Label Studio tasks for PAIRS with sides decided by recorded coin flips.

    PAIRS is a CSV with columns left and right (or text1 and text2, and the like; other columns go along), or a list
    of items: a CSV with the column item, or a .txt with one item per line.
    """
    chosen = secrets.randbits(48) if seed is None else seed
    read = tasks.read_pairs(pairs, n_pairs=n_pairs, rng=np.random.default_rng([chosen, 1]))
    prepared = tasks.prepare(read, seed=chosen, both_orders=both_orders, ties=ties)
    written = tasks.write_prepared(prepared, out)
    click.echo(f"{len(prepared.tasks):,} tasks from {len(read.rows):,} pairs, seed {chosen}")
    for path in written:
        click.echo(f"  {path}")
    click.echo("Create a project in Label Studio with this label config, then import tasks.json:\n")
    click.echo(prepared.label_config)
    if tasks.shown_fields(read) != (read.left, read.right):
        click.echo(f"\nThe items are named by fields not shown: set item_left={read.left}, item_right={read.right}")
