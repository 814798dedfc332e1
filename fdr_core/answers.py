"""Tables of answers, and the additive sums that everything follows from.

Notation (design matrices are never built): ``D`` has one row per answer with +1 at the left and -1 at the right item,
``A`` one row per answer with a 1 at its annotator; ``y`` holds the outcomes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from fdr_core.types import Floats, Ints, Mask

#: Up to this many items, sums over pairs of them are held in a table while they are computed.
_MOST_TABLED = 2000


@dataclass(frozen=True)
class Answers:
    """Answers summed per (annotator, coin, left, right, outcome); ``weight`` counts them."""

    annotator: Ints
    left: Ints
    right: Ints
    outcome: Floats
    coin: Ints
    weight: Floats

    def __len__(self) -> int:
        return len(self.annotator)

    def take(self, chosen: NDArray[Any]) -> Answers:
        """Return the chosen rows (a mask or indices)."""
        if chosen.dtype == bool:
            chosen = np.flatnonzero(chosen)  # once for all columns
        return Answers(
            self.annotator[chosen],
            self.left[chosen],
            self.right[chosen],
            self.outcome[chosen],
            self.coin[chosen],
            self.weight[chosen],
        )

    def with_coin(self, coin: Ints) -> Answers:
        """Return the same answers under other coins."""
        return Answers(self.annotator, self.left, self.right, self.outcome, coin, self.weight)

    def relabel(self, annotator: Ints, item: Ints) -> Answers:
        """Return the same answers with other codes."""
        return Answers(
            annotator[self.annotator], item[self.left], item[self.right], self.outcome, self.coin, self.weight
        )

    @staticmethod
    def concatenate(parts: Sequence[Answers]) -> Answers:
        """Stack several tables of answers."""
        columns = ("annotator", "left", "right", "outcome", "coin", "weight")
        return Answers(*(np.concatenate([getattr(part, name) for part in parts]) for name in columns))

    @staticmethod
    def empty() -> Answers:
        """Return a table without rows."""
        none, nothing = np.zeros(0, dtype=np.int64), np.zeros(0)
        return Answers(none, none, none, nothing, none, nothing)


@dataclass(frozen=True)
class Skipped:
    """Presentations that were skipped instead of answered, and how often; ``annotator`` is -1 where it is not known."""

    annotator: Ints
    left: Ints
    right: Ints
    count: Floats

    @classmethod
    def of(cls, counts: Mapping[tuple[int, int, int], int]) -> Skipped:
        """From numbers by (annotator, left, right); whatever was taken back again is left out."""
        kept = [(*key, count) for key, count in counts.items() if count > 0]
        table = np.array(kept, dtype=np.int64).reshape(-1, 4)
        return cls(table[:, 0], table[:, 1], table[:, 2], table[:, 3].astype(np.float64))

    def take(self, chosen: Mask) -> Skipped:
        """Return the chosen ones."""
        return Skipped(self.annotator[chosen], self.left[chosen], self.right[chosen], self.count[chosen])

    def relabel(self, annotator: Ints, item: Ints) -> Skipped:
        """Return the same with other codes; those of items without one (-1) are left out."""
        known = self.take((item[self.left] >= 0) & (item[self.right] >= 0))
        who = np.where(known.annotator >= 0, annotator[known.annotator], -1)
        return Skipped(who, item[known.left], item[known.right], known.count)


def rows_of(answers: Answers, annotators: Ints, n_annotators: int) -> tuple[Ints, Ints]:
    """Positions of the rows of these annotators (codes), in the table's order, and which of them each belongs to."""
    place = np.full(n_annotators, -1, dtype=np.int64)
    place[annotators] = np.arange(len(annotators))
    position = place[answers.annotator]
    rows = np.flatnonzero(position >= 0)
    return rows, position[rows]


def summed_over_annotators(answers: Answers, n_items: int) -> Answers:
    """Yes/no answers of everybody together, as one annotator's: one row per (left, right, outcome)."""
    is_left, size = answers.outcome > 0, np.abs(answers.outcome[:1])
    weight = _totals((answers.left * n_items + answers.right) * 2 + is_left, answers.weight, 2 * n_items**2)
    given = np.flatnonzero(weight)
    pair = given // 2
    row = np.arange(len(given))
    outcome = np.where(given % 2, size, -size)
    return Answers(np.zeros_like(row), pair // n_items, pair % n_items, outcome, row, weight[given])


def pair_sums(left: Ints, right: Ints, value: Floats, n_items: int) -> sp.csr_array:
    """Sums of a figure per answer over every (left, right): in a table where there are few items, else sparse."""
    if n_items <= _MOST_TABLED:
        return sp.csr_array(_totals(left * n_items + right, value, n_items**2).reshape(n_items, n_items))
    return sp.coo_array((value, (left, right)), shape=(n_items, n_items)).tocsr()


def laplacian_of(pairs: sp.csr_array) -> sp.csr_array:
    """``D'WD`` of the sums of weights per (left, right)."""
    links = pairs + pairs.T
    degree = np.asarray(links.sum(axis=1)).ravel()
    return sp.csr_array(sp.diags_array(degree) - links)


def item_pull(left: Ints, right: Ints, value: Floats, n_items: int) -> Floats:
    """``D'v``: what every item gains and loses."""
    return _totals(left, value, n_items) - _totals(right, value, n_items)


@dataclass(frozen=True)
class Sums:
    """``pairs`` (left x right counts, hence L), ``B = D'A``, ``n_j``, ``D'y``, ``A'y``, ``y'y`` and N."""

    pairs: sp.csr_array
    B: sp.csr_array
    counts: Floats
    Dy: Floats
    Ay: Floats
    yy: float
    n: float

    @property
    def laplacian(self) -> sp.csr_array:
        """Item Laplacian ``L = D'D``."""
        return laplacian_of(self.pairs)

    def __add__(self, other: Sums) -> Sums:
        shape_items = max(self.pairs.shape[0], other.pairs.shape[0])
        n_annotators = max(len(self.counts), len(other.counts))
        a, b = self._grown(shape_items, n_annotators), other._grown(shape_items, n_annotators)
        return Sums(
            a.pairs + b.pairs,
            a.B + b.B,
            a.counts + b.counts,
            a.Dy + b.Dy,
            a.Ay + b.Ay,
            a.yy + b.yy,
            a.n + b.n,
        )

    def _grown(self, n_items: int, n_annotators: int) -> Sums:
        if self.pairs.shape[0] == n_items and len(self.counts) == n_annotators:
            return self
        pairs, B = self.pairs.copy(), self.B.copy()
        pairs.resize((n_items, n_items))
        B.resize((n_items, n_annotators))
        pad_items, pad_annotators = n_items - len(self.Dy), n_annotators - len(self.counts)
        return Sums(
            pairs,
            B,
            np.pad(self.counts, (0, pad_annotators)),
            np.pad(self.Dy, (0, pad_items)),
            np.pad(self.Ay, (0, pad_annotators)),
            self.yy,
            self.n,
        )


def sum_answers(answers: Answers, n_items: int, n_annotators: int) -> Sums:
    """Compute all sums of a table of answers in one pass."""
    left, right, annotator, weight = answers.left, answers.right, answers.annotator, answers.weight
    pull = weight * answers.outcome
    return Sums(
        pairs=pair_sums(left, right, weight, n_items),
        B=_item_sums(answers, n_items, n_annotators),
        counts=_totals(annotator, weight, n_annotators),
        Dy=item_pull(left, right, pull, n_items),
        Ay=_totals(annotator, pull, n_annotators),
        yy=float(pull @ answers.outcome),
        n=float(weight.sum()),
    )


def _item_sums(answers: Answers, n_items: int, n_annotators: int) -> sp.csr_array:
    """``D'A``: in a table where it has no more cells than the answers have items, else sparse."""
    left, right, annotator, weight = answers.left, answers.right, answers.annotator, answers.weight
    n_cells = n_items * n_annotators
    if n_cells <= 2 * len(answers):
        table = _totals(left * n_annotators + annotator, weight, n_cells)
        table -= _totals(right * n_annotators + annotator, weight, n_cells)
        filled = np.flatnonzero(table)
        starts = np.searchsorted(filled, np.arange(n_items + 1) * n_annotators)
        return sp.csr_array((table[filled], filled % n_annotators, starts), shape=(n_items, n_annotators))
    items, people = np.concatenate([left, right]), np.concatenate([annotator, annotator])
    signed = np.concatenate([weight, -weight])
    return sp.coo_array((signed, (items, people)), shape=(n_items, n_annotators)).tocsr()


def _totals(code: Ints, value: Floats, size: int) -> Floats:
    return np.asarray(np.bincount(code, value, minlength=size), dtype=np.float64)
