"""Codes of rows: numbered without gaps, joined, counted; by tables where codes are dense, else by sorting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np

from fdr_core.types import Ints, Words

#: Codes up to this many times the number of rows are looked up in a table instead of sorted.
_DENSE_FACTOR = 4


_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MULTIPLIERS = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_SHIFTS = (np.uint64(30), np.uint64(27), np.uint64(31))


def distinct_partners(who: Ints, partner: Ints, n: int) -> Ints:
    """How many different partners each code met."""
    if not (are_all_different(partner) or are_all_different(who)):
        who, _ = distinct_pairs(who, partner)
    return np.bincount(who, minlength=n)


def distinct_pairs(one: Ints, other: Ints) -> tuple[Ints, Ints]:
    """The different pairs of codes, in order."""
    span = int(other.max(initial=0)) + 1
    met = one.astype(np.int64) * span + other
    if (met[1:] < met[:-1]).any():
        met.sort()  # np.unique would hash, slowly and in much memory
    first = np.ones(len(met), dtype=bool)
    first[1:] = met[1:] != met[:-1]
    return np.divmod(met[first], span)


def are_all_different(code: Ints) -> bool:
    """Whether no code occurs twice; codes with large gaps are not looked at, and count as if one did."""
    return _is_dense(code) and int(np.bincount(code).max(initial=0)) <= 1


def joint_codes(one: Ints, other: Ints) -> Ints:
    """Compact codes of the pairs of two codes."""
    return compact_codes(one.astype(np.int64) * (int(other.max(initial=0)) + 1) + other)


def compact_codes(code: Ints) -> Ints:
    """Codes without gaps, in the same order."""
    return distinct_codes(code)[1]


def distinct_codes(code: Ints) -> tuple[Ints, Ints]:
    """The different codes in order, and the place of every row's among them."""
    if not _is_dense(code):
        return _sorted_codes(code)
    occurs = np.zeros(int(code.max(initial=-1)) + 1, dtype=bool)
    occurs[code] = True
    return np.flatnonzero(occurs), np.asarray((np.cumsum(occurs) - 1)[code], dtype=np.int64)


def _sorted_codes(code: Ints) -> tuple[Ints, Ints]:
    """The same by sorting: codes with their rows in one number where they fit, which is faster than an argsort."""
    bits = len(code).bit_length()
    if int(code.min()) < 0 or int(code.max()) >> (63 - bits):
        distinct, place = np.unique(code, return_inverse=True)
        return distinct, np.asarray(place, dtype=np.int64)
    ordered = (code.astype(np.int64) << bits) | np.arange(len(code))
    ordered.sort()
    row = ordered & ((1 << bits) - 1)
    ordered >>= bits
    is_first = np.ones(len(code), dtype=bool)
    is_first[1:] = ordered[1:] != ordered[:-1]
    place = np.empty(len(code), dtype=np.int64)
    place[row] = np.cumsum(is_first) - 1
    return ordered[is_first], place


def order_by(*codes: Ints) -> Ints:
    """Rows by the first code, among equals by the next, equal rows as they stood.

    Dense codes are counted, not sorted: a matrix with an entry per row, read along its other axis.
    """
    from scipy.sparse import csc_array  # here: who only reads files should not wait for it

    order: Ints | None = None
    for code in reversed(codes):
        now = code if order is None else code[order]
        if _is_dense(now):
            n, size = len(now), int(now.max(initial=-1)) + 1
            entries = csc_array((np.zeros(n, dtype=np.int8), now, np.arange(n + 1)), shape=(size, n))
            found = entries.tocsr().indices
        else:
            found = np.argsort(now, kind="stable")
        order = found if order is None else order[found]
    return np.asarray(order, dtype=np.int64)


def first_rows(code: Ints) -> Ints:
    """The first row of every compact code, in the order of the codes."""
    first = np.empty(int(code.max(initial=-1)) + 1, dtype=np.int64)
    first[code[::-1]] = np.arange(len(code))[::-1]  # of several rows the last to be written stays
    return first


def smallest_by(code: Ints, key: Words) -> Words:
    """The smallest key among the rows of every compact code."""
    smallest = np.full(int(code.max(initial=-1)) + 1, np.iinfo(np.uint64).max, dtype=np.uint64)
    np.minimum.at(smallest, code, key)
    return smallest


def _is_dense(code: Ints) -> bool:
    """Whether a table over all codes takes no more room than a few columns, so that nothing needs to be sorted."""
    return bool(int(code.max(initial=-1)) < _DENSE_FACTOR * len(code) + _DENSE_FACTOR and int(code.min(initial=0)) >= 0)


def mix(x: Words) -> Words:
    """The finaliser of SplitMix64 (Steele, Lea, Flood 2014): every input bit reaches every output bit."""
    x = x + _GOLDEN
    x ^= x >> _SHIFTS[0]
    x *= _MULTIPLIERS[0]
    x ^= x >> _SHIFTS[1]
    x *= _MULTIPLIERS[1]
    x ^= x >> _SHIFTS[2]
    return x


Piece = TypeVar("Piece")

#: Rows of a piece.
ROWS = 65_536
#: Threads, and the pieces from which on they pay.
_THREADS, _MANY = 2, 16


def by_rows(work: Callable[[slice], None], n: int) -> None:
    """Call ``work`` on slices that together are the rows 0 to n."""
    for_each(work, [slice(start, min(start + ROWS, n)) for start in range(0, n, ROWS)])


def for_each(work: Callable[[Piece], None], pieces: Sequence[Piece], *, many: int = _MANY) -> None:
    """Call ``work`` on every piece; an error that a piece raises is raised when both threads have ended."""
    if len(pieces) < many:
        for piece in pieces:
            work(piece)
        return

    def share(first: int) -> None:
        for piece in pieces[first::_THREADS]:
            work(piece)

    with ThreadPoolExecutor(_THREADS) as pool:
        for _ in pool.map(share, range(_THREADS)):
            pass
