"""No coin is recorded, but some column may tell which answers stood under one: the likeliest, to be careful with."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from fdr_core.codes import compact_codes, first_rows, joint_codes
from fdr_core.errors import InputError
from fdr_core.types import Ints, Mask

#: Columns of a file that are looked at, the first ones.
MOST_COLUMNS = 20
#: What the last candidate is called: the k-th answer of everybody about a pair, in the order of the rows.
ROW_ORDER = "order of the rows"
#: Share of the answers to repeated questions that may stand the other way round all the same.
_EXCEPTIONS = 0.05
#: How many standard deviations beyond fair coins, and how many repeated questions at least.
_DEVIATIONS, _FEWEST = 4.0, 10
#: Share of answers to pairs that one annotator saw equally often in both orders, from which their number says nothing.
_BOTH_ORDERS = 0.5
#: A column that only says which item stood left has as many values within a pair as there are orders.
_MORE_THAN_ORDERS = 1.1


@dataclass(frozen=True)
class LikelyCoin:
    """``name`` of the column, ``code`` (N,) of every answer's coin, ``labels`` of the codes, and what speaks for it."""

    name: str
    code: Ints
    labels: list[str]
    explained: int
    n_values: int = 0


def one_coin(coin: Ints, n_items: int, source: str, where: str) -> None:
    """Refuse a recorded coin that has one value for everything."""
    if source == "coin" and not coin.any() and len(coin) >= _FEWEST and n_items > 2:
        raise InputError(
            f"{where}the coin has one value in all {len(coin):,} answers about {n_items:,} items, which one toss "
            "cannot have decided; name the column that tells which answers stood under one toss (--map coin=…), or "
            "rename this one"
        )


def likely_coin(annotator: Ints, left: Ints, right: Ints, columns: pd.DataFrame) -> LikelyCoin | None:
    """
    Find the column whose values, together with the pair, stand for one order, where the pair alone stands for both.

    Parameters
    ----------
    annotator, left, right : (N,) codes.
    columns : (N rows) what else is known of every answer.

    Returns
    -------
    LikelyCoin or None
        Of several the one that explains most repeats, then the finest; None where chance explains all of them.
    """
    pair = joint_codes(np.minimum(left, right), np.maximum(left, right))
    forward = left < right
    swapped = np.bincount(pair, forward) * np.bincount(pair, ~forward) > 0
    seen = swapped[pair]
    if not seen.any():
        return None
    found = [
        coin
        for name, value in _candidates(annotator, pair, forward, columns)
        if (coin := _as_coin(name, value, pair, forward, seen, (left, right)))
    ]
    return max(found, key=lambda coin: (coin.explained, len(coin.labels), coin.n_values), default=None)


def _candidates(
    annotator: Ints, pair: Ints, forward: Mask, columns: pd.DataFrame
) -> Iterator[tuple[str, pd.Series[str]]]:
    for name in list(columns)[:MOST_COLUMNS]:
        yield str(name), columns[name].astype(str)
    own = joint_codes(annotator, pair)
    is_balanced = np.bincount(own, forward) == np.bincount(own, ~forward)
    if is_balanced[own].mean() <= _BOTH_ORDERS:  # else everybody saw either order, on purpose
        yield ROW_ORDER, pd.Series(own).groupby(own).cumcount().astype(str)


def _as_coin(
    name: str, value: pd.Series[str], pair: Ints, forward: Mask, seen: Mask, items: tuple[Ints, Ints]
) -> LikelyCoin | None:
    """One coin per value where items keep their side over all pairs under it, else per value and pair, else none."""
    code, labels = pd.factorize(value)
    cell = joint_codes(code, pair)
    orders = len(np.unique(2 * pair[seen] + forward[seen]))
    if len(np.unique(cell[seen])) <= _MORE_THAN_ORDERS * orders:
        return None
    once = np.flatnonzero(seen)[first_rows(compact_codes(2 * cell[seen] + forward[seen]))]
    is_left = np.repeat([True, False], len(once))
    by_item = _keep_one_side(joint_codes(np.tile(code[once], 2), np.concatenate([i[once] for i in items])), is_left)
    if by_item:
        return LikelyCoin(name, np.asarray(code, dtype=np.int64), [str(label) for label in labels], by_item)
    by_pair = _keep_one_side(cell[seen], forward[seen])
    if not by_pair:
        return None
    if int(cell.max()) + 1 == len(labels):  # every value is met with one pair only
        return LikelyCoin(
            name, np.asarray(code, dtype=np.int64), [str(label) for label in labels], by_pair, len(labels)
        )
    first = first_rows(cell)
    named = [f"{labels[one]}|{two}" for one, two in zip(code[first], pair[first], strict=True)]
    return LikelyCoin(name, cell, named, by_pair, len(labels))


def _keep_one_side(code: Ints, is_one: Mask) -> int:
    """How many rows have codes that occur again, on one side only; 0 where chance would do as much."""
    code = compact_codes(code)
    times, ones = np.bincount(code), np.bincount(code, is_one)
    again = times > 1
    kept = again & ((ones == 0) | (ones == times))
    chance = 2.0 ** (1.0 - np.minimum(times[again], 60))
    beyond = int(kept.sum()) - float(chance.sum()) - _DEVIATIONS * math.sqrt(float((chance * (1 - chance)).sum()))
    n_exceptions = np.minimum(ones, times - ones)[again].sum()
    is_rule = int(again.sum()) >= _FEWEST and n_exceptions <= _EXCEPTIONS * times[again].sum()
    return int(times[kept].sum()) if is_rule and beyond > 0 else 0
