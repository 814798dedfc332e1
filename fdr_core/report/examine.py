"""What a file of answers can and cannot support, and what would help, before anybody is judged."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fdr_core.comparisons import Comparisons
from fdr_core.inputs.formats import Recognised
from fdr_core.inputs.registry import detect_format
from fdr_core.inputs.source import Limits, Source
from fdr_core.judges.both_orders import both_orders
from fdr_core.types import Ints

#: Fewer answers than this, all on one side, could be chance.
FEWEST_ANSWERS = 6
_MOST_CANDIDATES = 20
#: Share of values that may go with both orders in a column that looks like the coin.
_EXCEPTIONS = 0.01
#: From this many repeated pairs on, "never swapped" can be told from chance.
_REPEATS_TO_TELL = 10
_COIN_NAMES = re.compile(r"coin|flip|swap|switch|seed|order|position|task|instruction|question|prompt|_id$|^id$", re.I)


@dataclass(frozen=True)
class Examination:
    """
    What a file was recognised as, and what its answers allow.

    Attributes
    ----------
    recognised : Recognised
        Format and columns.
    comparisons : Comparisons or None
        The answers; None where the format is refused.
    can, cannot, helps : tuple of str
        Whole sentences: what the data supports, what it does not, what would help.
    """

    recognised: Recognised
    comparisons: Comparisons | None
    can: tuple[str, ...]
    cannot: tuple[str, ...]
    helps: tuple[str, ...]


def examine(path: str | Path, *, limits: Limits | None = None, fields: Mapping[str, Any] | None = None) -> Examination:
    """
    Read a file and say what it can be used for.

    Parameters
    ----------
    path : str or Path
        A file of any format of the registry.
    limits : Limits, optional
        The largest data to take into memory.
    fields : mapping, optional
        How a Label Studio export is read; see `Comparisons.from_label_studio`.

    Raises
    ------
    InputError
        Where the file cannot be read or no format has its columns.
    """
    source = Source(path, limits=limits)
    recognised = detect_format(source)
    if recognised.refusal:
        return Examination(recognised, None, recognised.supports, recognised.lacks, (recognised.refusal,))
    comparisons = Comparisons.from_file(source, fields=fields)
    can, cannot, helps = list(recognised.supports), list(recognised.lacks), list[str]()
    _say_orders(comparisons, can, cannot, helps)
    _say_sizes(comparisons, cannot, helps)
    if comparisons.coin_source == "own":
        helps += [
            f"Column {name} looks like the coin: each of its values goes with one order of a pair. If it decided the "
            f"sides, add --map coin={name}."
            for name in _coin_candidates(source, recognised, comparisons)
        ]
    return Examination(recognised, comparisons, tuple(can), tuple(cannot), tuple(helps))


def _say_orders(comparisons: Comparisons, can: list[str], cannot: list[str], helps: list[str]) -> None:
    """Both orders, one order only, or sides that were never swapped."""
    n_swapped = sum(one.pairs for one in both_orders(comparisons))
    if n_swapped:
        can.append(f"Shown to the same annotator in both orders: {n_swapped:,} pairs. A lean shows without any coin.")
    if _never_swapped(comparisons):
        cannot.append("Sides were never swapped: every pair always stood in one order, so nobody can be judged.")
        helps.append("Assign sides by chance: `evenhand prepare` writes tasks with recorded coin flips.")
    elif comparisons.coin_source == "coin":
        can.append(f"Recorded coins that decided the sides: {len(np.unique(comparisons.coin)):,}.")
    elif not n_swapped:
        cannot.append("No coin is recorded: whether chance decided the sides is tested from the answers.")
        helps.append("Record the coin that decides each order, or show each pair in both orders.")


def _never_swapped(comparisons: Comparisons) -> bool:
    """Whether pairs are repeated, and always in one order."""
    ordered = np.unique(np.stack([comparisons.left, comparisons.right], axis=1), axis=0)
    pairs = np.unique(np.sort(ordered, axis=1), axis=0)
    return len(ordered) == len(pairs) and len(comparisons) >= len(pairs) + _REPEATS_TO_TELL


def _say_sizes(comparisons: Comparisons, cannot: list[str], helps: list[str]) -> None:
    """How many annotators answered too little to be judged."""
    few = int((np.bincount(comparisons.annotator) < FEWEST_ANSWERS).sum())
    if few:
        cannot.append(f"Annotators with fewer than {FEWEST_ANSWERS} answers: {few:,} of {comparisons.n_annotators:,}.")
        helps.append(f"At least {FEWEST_ANSWERS} answers are needed from an annotator, twenty for a mild lean.")


def _coin_candidates(source: Source, recognised: Recognised, comparisons: Comparisons) -> list[str]:
    """Unused columns whose values each go with one order, and occur more than once."""
    names = [name for name in recognised.unused if _COIN_NAMES.search(name)][:_MOST_CANDIDATES]
    frame = source.frame(names, text=names) if names else pd.DataFrame()
    if len(frame) != len(comparisons):
        return []
    return [name for name in names if _goes_with_order(pd.factorize(frame[name].astype(str))[0], comparisons)]


def _goes_with_order(value: Ints, comparisons: Comparisons) -> bool:
    """Whether nearly every value, together with a pair, stands for one order only, and some value is repeated."""
    low = np.minimum(comparisons.left, comparisons.right)
    high = np.maximum(comparisons.left, comparisons.right)
    key = np.stack([value, low, high], axis=1)
    distinct = len(np.unique(key, axis=0))
    ordered = len(np.unique(np.column_stack([key, comparisons.left]), axis=0))
    return distinct < len(comparisons) and ordered - distinct <= _EXCEPTIONS * distinct
