"""Work on many rows piece by piece, on two threads where there are many: numpy lets others work while it computes.

A piece is small enough for what is computed on the way to stay in the processor's cache. Pieces write to places of
their own, so results do not depend on which thread was first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

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
