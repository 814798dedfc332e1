"""`evenhand prepare`: tasks with sides by recorded coin flips."""

import csv
import io
import json
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

import click
import numpy as np

from fdr_core import ConfigurationError, InputError
from fdr_core.inputs.item_keys import drawn_coin
from fdr_core.inputs.label_studio.reading import OWN_FIELDS
from fdr_core.inputs.label_studio.seen import COIN_FIELDS
from fdr_core.inputs.label_studio.words import paired_names
from fdr_core.inputs.reading import reading
from fdr_core.terminal import BadInput, exits_2_on_bad_input, with_parent

MOST_PAIRS = 100_000
COIN = COIN_FIELDS[0]
#: Which group of annotators a copy of a pair is for.
GROUP = f"{OWN_FIELDS}group"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_IMAGE = re.compile(r"^\S+\.(?:png|jpe?g|gif|webp|svg|bmp)(?:\?\S*)?$", re.IGNORECASE)
_ITEM_COLUMNS = ("item", "items", "name", "text")

Row = Mapping[str, str]


@dataclass(frozen=True)
class Pairs:
    """Rows to be compared, the two fields that name the items, and all pairs of fields that change sides together."""

    rows: tuple[Row, ...]
    left: str
    right: str
    paired: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Prepared:
    """Tasks for an import, the label config that shows them, and the record of the coins."""

    tasks: list[dict[str, Any]]
    label_config: str
    record: dict[str, Any]


def read_pairs(path: Path, *, n_pairs: int | None = None, rng: np.random.Generator) -> Pairs:
    """Read a CSV of pairs (left and right, or the like) or a list of items (one column, or the lines of a .txt)."""
    with reading(path):
        text = path.read_text(encoding="utf-8-sig")
        rows = list(csv.reader(io.StringIO(text, newline=""))) if path.suffix.lower() != ".txt" else []
    if path.suffix.lower() == ".txt":
        return _from_items(
            [line.strip() for line in text.splitlines() if line.strip()], n_pairs, rng, where=f"{path}: "
        )
    rows = [row for row in rows if any(cell.strip() for cell in row)]
    if not rows:
        raise InputError(f"{path} is empty; expected a header and rows: pairs (left, right) or a list of items (item)")
    header = [name.strip() for name in rows[0]]
    _check_table(path, header, rows[1:])
    if len(header) == 1 and header[0].lower() in _ITEM_COLUMNS:
        return _from_items([row[0].strip() for row in rows[1:]], n_pairs, rng, where=f"{path}: ")
    return _from_table(path, header, [dict(zip(header, row, strict=True)) for row in rows[1:]])


def prepared(pairs: Pairs, *, seed: int, both_orders: bool = False, ties: bool = False, groups: int = 1) -> Prepared:
    """
    Toss one coin per pair and write the tasks.

    With `both_orders` every pair is shown twice, once in each order, under one coin; the second showings come in a
    separate order, so that the two seldom follow each other. With `ties` the control offers a tie. With several
    `groups` of annotators each has a copy of every pair, with a coin of its own.
    """
    rng = np.random.default_rng(seed)
    rows = [row for _ in range(groups) for row in pairs.rows]
    group_of = [group for group in range(1, groups + 1) for _ in pairs.rows]
    drawn = [
        drawn_coin(
            seed,
            (position % len(pairs.rows), sorted(row.values())) + ((group,) if groups > 1 else ()),
            row[pairs.left],
            both_orders=both_orders,
        )
        for position, (row, group) in enumerate(zip(rows, group_of, strict=True))
    ]
    coins, heads = [coin for coin, _ in drawn], [head for _, head in drawn]
    shown = [(row if head else _swapped(row, pairs)) for row, head in zip(rows, heads, strict=True)]
    data: list[dict[str, Any]] = [{**row, COIN: coin} for row, coin in zip(shown, coins, strict=True)]
    if groups > 1:
        data = [{**row, GROUP: group} for row, group in zip(data, group_of, strict=True)]
    if both_orders:
        again = [{**_swapped(shown[k], pairs), COIN: coins[k]} for k in rng.permutation(len(shown))]
        data += again
    record = {
        "seed": seed,
        "both_orders": both_orders,
        "groups": groups,
        "pairs": len(pairs.rows),
        "tasks": len(data),
        "item_left": pairs.left,
        "item_right": pairs.right,
        "coin": COIN,
        "coins": [
            {"coin": coin, "left": row[pairs.left], "right": row[pairs.right]}
            for coin, row in zip(coins, shown, strict=True)
        ],
    }
    return Prepared([{"data": row} for row in data], label_config(pairs, ties=ties), record)


def write_prepared(prepared: Prepared, folder: Path) -> list[Path]:
    """Write tasks.json, label_config.xml and coins.json."""
    folder.mkdir(parents=True, exist_ok=True)
    contents = {
        "tasks.json": json.dumps(prepared.tasks, ensure_ascii=False, indent=1),
        "label_config.xml": prepared.label_config,
        "coins.json": json.dumps(prepared.record, ensure_ascii=False, indent=1),
    }
    for name, content in contents.items():
        (folder / name).write_text(content + "\n", encoding="utf-8")
    return [folder / name for name in contents]


def label_config(pairs: Pairs, *, ties: bool = False) -> str:
    """Write a label config that shows what is compared side by side."""
    left, right = shown_fields(pairs)
    is_image = all(_IMAGE.match(row[name]) for row in pairs.rows for name in (left, right))
    tag = "Image" if is_image else "Text"
    prompt = next((name for name in ("prompt", "question", "instruction") if name in pairs.rows[0]), None)
    heading = f"\n  <Text name={quoteattr(prompt)} value={quoteattr('$' + prompt)}/>" if prompt else ""
    sides = "\n".join(
        f'    <View style="flex: 50%"><{tag} name="{side}" value={quoteattr("$" + name)}/></View>'
        for side, name in (("left", left), ("right", right))
    )
    return (
        f'<View>\n  <Header value="Which is better?"/>{heading}\n{_control(ties)}\n'
        f'  <View style="display: flex; gap: 1em">\n{sides}\n  </View>\n</View>'
    )


def _control(ties: bool) -> str:
    """Write the control: Pairwise knows no tie, so ties need Choices."""
    if not ties:
        return '  <Pairwise name="preference" toName="left,right"/>'
    choices = (("left", "Left is better"), ("tie", "About the same"), ("right", "Right is better"))
    lines = "\n".join(f'    <Choice alias="{alias}" value="{value}"/>' for alias, value in choices)
    start = '  <Choices name="preference" toName="left" choice="single" showInline="true">'
    return f"{start}\n{lines}\n  </Choices>"


def shown_fields(pairs: Pairs) -> tuple[str, str]:
    """Show the wordiest pair of fields: ids name the items, texts are what people compare."""
    return max(pairs.paired, key=lambda pair: sum(len(row[name]) for row in pairs.rows for name in pair))


def _check_table(path: Path, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Refuse headers that Label Studio cannot refer to, and rows of another length."""
    for name in header:
        if not _NAME.fullmatch(name) or name == COIN or header.count(name) > 1:
            raise InputError(
                f"{path}: column {name!r} cannot be a field of the tasks; expected distinct names of letters, digits "
                f"and underscores, other than {COIN}; rename it"
            )
    for number, row in enumerate(rows, start=1):
        if len(row) != len(header):
            raise InputError(f"{path}: row {number} has {len(row)} fields; expected {len(header)}; correct the row")


def _from_table(path: Path, header: Sequence[str], rows: Sequence[Row]) -> Pairs:
    """Find the items among the columns."""
    paired = tuple(paired_names(header)) or (((header[0], header[1]),) if len(header) == 2 else ())
    if not paired:
        raise InputError(
            f"{path}: no two columns name the items; found {', '.join(header)}; expected left and right "
            "(or text1 and text2, and the like), or one column `item`"
        )
    left, right = next((pair for pair in paired if pair[0].lower() == "left"), paired[0])
    _check_rows(path, rows, left, right)
    return Pairs(tuple(rows), left, right, paired)


def _check_rows(path: Path, rows: Sequence[Row], left: str, right: str) -> None:
    """Refuse rows that compare nothing."""
    if not rows:
        raise InputError(f"{path}: there are no rows below the header; expected at least one pair")
    for number, row in enumerate(rows, start=1):
        if not row[left].strip() or not row[right].strip():
            raise InputError(f"{path}: row {number} lacks an item; expected two; fill it in or remove the row")
        if row[left].strip() == row[right].strip():
            raise InputError(f"{path}: row {number} compares {row[left][:40]!r} with itself; remove self-comparisons")


def _from_items(items: Sequence[str], n_pairs: int | None, rng: np.random.Generator, *, where: str) -> Pairs:
    """Pair the items: all pairs, or as many as asked for."""
    distinct = list(dict.fromkeys(item for item in items if item))
    if len(distinct) < 2:
        raise InputError(f"{where}found {len(distinct)} distinct items; expected at least two to compare")
    n = len(distinct)
    possible = n * (n - 1) // 2
    wanted = possible if n_pairs is None else n_pairs
    if not 1 <= wanted <= min(possible, MOST_PAIRS):
        raise ConfigurationError(
            f"{where}{n} items make {possible:,} pairs and {wanted:,} were asked for; expected 1 to "
            f"{min(possible, MOST_PAIRS):,}; give the number with --pairs (about ten per item is a good start)"
        )
    chosen = list(combinations(range(n), 2)) if wanted == possible else _some_pairs(n, wanted, rng)
    rows = tuple({"left": distinct[first], "right": distinct[second]} for first, second in chosen)
    return Pairs(rows, "left", "right", (("left", "right"),))


def _some_pairs(n: int, wanted: int, rng: np.random.Generator) -> list[tuple[int, int]]:
    """Draw distinct pairs, beginning with a chain through all items so that the items hang together."""
    order = rng.permutation(n)
    found = {(min(a, b), max(a, b)): None for a, b in zip(order[:-1].tolist(), order[1:].tolist(), strict=True)}
    while len(found) < wanted:
        first = int(rng.integers(n))
        second = (first + int(rng.integers(1, n))) % n
        found.setdefault((min(first, second), max(first, second)))
    return list(found)[:wanted]


def _swapped(row: Row, pairs: Pairs) -> dict[str, str]:
    """Exchange the sides of everything that belongs to one."""
    swapped = dict(row)
    for left, right in pairs.paired:
        swapped[left], swapped[right] = row[right], row[left]
    return swapped


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

    \b
    Examples:
      evenhand prepare pairs.csv --out prepared
      evenhand prepare items.txt --pairs 200 --groups 2
    """
    if (out / "coins.json").exists():
        raise BadInput(f"{out} holds tasks and their coins already; name another folder with --out, or delete it first")
    with_parent(out)
    copies = by_annotator or groups
    if both_orders and copies > 1:
        raise BadInput("--both-orders and --groups answer the same question; name one of them")
    chosen = secrets.randbits(48) if seed is None else seed
    read = read_pairs(pairs, n_pairs=n_pairs, rng=np.random.default_rng([chosen, 1]))
    made = prepared(read, seed=chosen, both_orders=both_orders, ties=ties, groups=copies)
    written = write_prepared(made, out)
    click.echo(f"{len(made.tasks):,} tasks from {len(read.rows):,} pairs, seed {chosen}")
    for path in written:
        click.echo(f"  {path}")
    if copies > 1:
        click.echo(f"Each of {copies} groups labels the tasks with its own number in {GROUP!r}: give it a tab with")
        click.echo("that filter, and let it begin with `Label Tasks As Displayed`.")
    click.echo("Create a project in Label Studio with this label config, then import json:\n")
    click.echo(made.label_config)
    if shown_fields(read) != (read.left, read.right):
        click.echo(
            f"\nThe items are named by fields that are not shown: connect the project with --item-left {read.left} "
            f"--item-right {read.right}"
        )
