"""Numbers that follow from labels alone: what is divided by them is divided alike, in whatever order answers came."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

import numpy as np
from pandas.util import hash_array

from fdr_core.inputs.item_keys import item_hash, told_by
from fdr_core.types import Ints, Words


def label_keys(labels: Iterable[Hashable]) -> Words:
    """One number per label; 7 and "7" have the same, as files write both alike."""
    return hash_array(np.array([str(label) for label in labels] + [""], dtype=object), categorize=False)[:-1]


def drawn_sides(coins: Sequence[object], items: Sequence[object], coin: Ints, left: Ints, right: Ints) -> Ints:
    """(rows,) whether a pair stands as its coin's seed has it: 1 yes, -1 no, 0 where the coin does not tell.

    ``coins``, ``items`` : labels by code. Where both orders are shown either is as the coin has it.
    """
    told = {code: seen for code, label in enumerate(coins) if (seen := told_by(label)) is not None}
    first, heads, both = np.full(len(coins), -1), np.zeros(len(coins), dtype=bool), np.zeros(len(coins), dtype=bool)
    if not told:
        return np.zeros(len(coin), dtype=np.int64)
    by_hash = {item_hash(label): code for code, label in enumerate(items)}
    for code, (item, is_heads, are_both) in told.items():
        first[code], heads[code], both[code] = by_hash.get(item, -1), is_heads, are_both
    expected, other = np.where(heads[coin], left, right), np.where(heads[coin], right, left)
    agrees = (expected == first[coin]) | (both[coin] & (other == first[coin]))
    return np.where(first[coin] < 0, 0, np.where(agrees, 1, -1))
