"""`evenhand prepare`: tasks with sides by recorded coin flips."""

import secrets
from pathlib import Path

import click
import numpy as np

from fdr_core.commands import _tasks as tasks
from fdr_core.terminal import BadInput, exits_2_on_bad_input, with_parent


@click.command("prepare")
@click.argument("pairs", type=click.Path(path_type=Path))
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("prepared"),
    show_default=True,
    help="Folder to write into.",
)
@click.option("--both-orders", is_flag=True, help="Show every pair in both orders, under one coin.")
@click.option(
    "--groups", type=click.IntRange(1, 100), default=1, help="A copy of every pair, with its own coin, for each group."
)
@click.option("--by-annotator", type=click.IntRange(1, 100), help="The same for each of so many annotators.")
@click.option("--ties", is_flag=True, help="Let annotators call it a tie (Choices instead of Pairwise).")
@click.option("--pairs", "n_pairs", type=click.IntRange(min=1), help="From a list of items: how many pairs to draw.")
@click.option("--seed", type=click.IntRange(min=0), help="Seed of the coins; drawn and recorded by default.")
@exits_2_on_bad_input
def prepare(
    pairs: Path,
    out: Path,
    both_orders: bool,
    groups: int,
    by_annotator: int | None,
    ties: bool,
    n_pairs: int | None,
    seed: int | None,
) -> None:
    """
    Write Label Studio tasks for PAIRS with sides decided by recorded coin flips.

    PAIRS is a CSV with columns left and right (or text1 and text2, and the like; other columns are kept), or a list
    of items: a CSV with the column item, or a .txt with one item per line.
    """
    if (out / "coins.json").exists():
        raise BadInput(f"{out} holds tasks and their coins already; name another folder with --out, or delete it first")
    copies = by_annotator or groups
    if both_orders and copies > 1:
        raise BadInput("--both-orders and --groups answer the same question; name one of them")
    chosen = secrets.randbits(48) if seed is None else seed
    read = tasks.read_pairs(pairs, n_pairs=n_pairs, rng=np.random.default_rng([chosen, 1]))
    prepared = tasks.prepare(read, seed=chosen, both_orders=both_orders, ties=ties, groups=copies)
    written = tasks.write_prepared(prepared, with_parent(out))
    click.echo(f"{len(prepared.tasks):,} tasks from {len(read.rows):,} pairs, seed {chosen}")
    for path in written:
        click.echo(f"  {path}")
    if copies > 1:
        click.echo(
            f"Each of {copies} groups labels the tasks with its own number in {tasks.GROUP!r}: give it a tab with"
        )
        click.echo("that filter, and let it begin with `Label Tasks As Displayed`.")
    click.echo("Create a project in Label Studio with this label config, then import tasks.json:\n")
    click.echo(prepared.label_config)
    if tasks.shown_fields(read) != (read.left, read.right):
        click.echo(
            f"\nThe items are named by fields that are not shown: connect the project with --item-left {read.left} "
            f"--item-right {read.right}"
        )
