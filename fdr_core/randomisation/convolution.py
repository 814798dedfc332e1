"""Exact distributions of sums of values whose signs are fair and independent: ``T = sum_u s_u g_u``.

Values are rounded to a grid of each owner's own (an odd function of the values is tested as exactly as the values
themselves), so that T lives on whole numbers and its distribution follows from ``E exp(itT) = prod_u cos(t g_u)`` by
one fast Fourier transform.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fdr_core.codes import for_each
from fdr_core.types import Floats, Ints

#: Grid steps for the mean value, and for owners with so many values that rounding averages out. The finer the grid,
#: the closer a p-value comes to any threshold.
GRID, COARSE_GRID, MANY_VALUES = 16, 8, 64
#: With more values than this in all, half as many steps.
FINE_UP_TO = 2_000_000
#: Beyond this many values neighbours are flipped together: a smaller group of flips, hence still an exact test.
MOST_VALUES = 4096
#: Numbers that each thread holds at once while the distributions of many owners are computed.
_BATCH = 200_000
#: A group of owners is work enough for a second thread to pay from so many groups on.
FEW_GROUPS = 4
#: P-values below this are not told apart: the transform carries 16 digits.
SMALLEST_P = 1e-15


@dataclass(frozen=True)
class SignSums:
    """Signed values of many owners on their grids.

    Attributes
    ----------
    owner : (k,) ascending.
    units : (k,) signed values in grid units, none zero.
    unit : (n,) size of each owner's grid unit.
    """

    owner: Ints
    units: Ints
    unit: Floats

    @classmethod
    def of(cls, owner: Ints, value: Floats, n_owners: int) -> SignSums:
        """Round values, given in the order of their owners, to the owners' grids."""
        owner, value = _pooled(owner, value, n_owners)
        count = np.bincount(owner, minlength=n_owners)
        size = np.bincount(owner, np.abs(value), minlength=n_owners)
        steps = count * np.where(count > MANY_VALUES, COARSE_GRID, GRID) // (1 if len(value) <= FINE_UP_TO else 2)
        unit = np.where(size > 1e-12, size / np.maximum(steps, 1), 1.0)
        units = np.rint(value / unit[owner]).astype(np.int64)
        units[size[owner] <= 1e-12] = 0
        return cls(owner[units != 0], units[units != 0], unit)

    @property
    def total(self) -> Ints:
        """T of every owner, in grid units."""
        return self._sum(self.units)

    @property
    def reach(self) -> Ints:
        """Largest possible T of every owner, in grid units."""
        return self._sum(np.abs(self.units))

    def p_values(self) -> Floats:
        """Two-sided p-values ``P(|T| >= |observed|)``."""
        observed = np.abs(self.total)
        p_value = np.ones(len(self.unit))

        def test(block: Block) -> None:
            p_value[block.members] = block.tail_at(observed[block.members])

        self.for_each_block(test)
        return np.clip(p_value, SMALLEST_P, 1.0)

    def for_each_block(self, work: Callable[[Block], None]) -> None:
        """Call ``work`` on the distributions of ``|T|``; owners without values are left out."""
        starts, reach = np.searchsorted(self.owner, np.arange(len(self.unit) + 1)), self.reach
        for_each(lambda group: work(self._block(*group, starts, reach)), list(self._groups(reach)), many=FEW_GROUPS)

    def _groups(self, reach: Ints) -> Iterator[tuple[Ints, int]]:
        """Many owners of about equal reach at a time, and the length of the transform that they need."""
        length = 2 ** np.ceil(np.log2(2 * reach + 2)).astype(np.int64)
        for size in np.unique(length[reach > 0]):
            members = np.flatnonzero((length == size) & (reach > 0))
            step = max(1, _BATCH // int(size))
            for first in range(0, len(members), step):
                yield members[first : first + step], int(size)

    def _block(self, members: Ints, length: int, starts: Ints, reach: Ints) -> Block:
        """``P(|T| = k)`` from ``prod cos(t g)`` on a grid of t; equal values of an owner are taken together."""
        counts = starts[members + 1] - starts[members]
        place = np.repeat(np.arange(len(members)), counts)
        rows = np.arange(len(place)) + np.repeat(starts[members] - np.cumsum(counts) + counts, counts)
        value, which = np.unique(np.abs(self.units[rows]), return_inverse=True)
        shape = (len(members), len(value))
        count = np.bincount(place * shape[1] + which, minlength=shape[0] * shape[1]).reshape(shape).astype(np.float64)
        cosine = np.cos(np.outer(value, 2.0 * np.pi * np.arange(length // 2 + 1) / length))
        spectrum = np.exp(count @ np.log(np.maximum(np.abs(cosine), 1e-300)))
        # signs by parity; counts are whole and small, hence exact in single precision
        spectrum *= 1.0 - 2.0 * ((count.astype(np.float32) @ (cosine < 0).astype(np.float32)) % 2)
        mass = np.fft.irfft(spectrum, n=length, axis=1)[:, : length // 2]
        mass[:, 1:] *= 2.0
        mass[np.arange(length // 2) > reach[members, None]] = 0.0
        return Block(members, mass)

    def _sum(self, values: Ints) -> Ints:
        return np.bincount(self.owner, values, minlength=len(self.unit)).astype(np.int64)


@dataclass(frozen=True)
class Block:
    """``mass[i, k] = P(|T| = k)`` of owner ``members[i]``, k in grid units."""

    members: Ints
    mass: Floats

    def tails(self) -> Floats:
        """``P(|T| >= k)`` per owner and k, with a last column of zeros."""
        tail = np.zeros((self.mass.shape[0], self.mass.shape[1] + 1))
        tail[:, :-1] = np.cumsum(self.mass[:, ::-1], axis=1)[:, ::-1]
        tail[:, 0] = 1.0
        return tail

    def tail_at(self, observed: Ints) -> Floats:
        """``P(|T| >= observed)`` per owner."""
        upper = np.arange(self.mass.shape[1])[None, :] >= observed[:, None]
        return np.where(observed == 0, 1.0, np.einsum("ik,ik->i", self.mass, upper))


def _pooled(owner: Ints, value: Floats, n_owners: int) -> tuple[Ints, Floats]:
    """Add up neighbours of owners who have more than `MOST_VALUES` values."""
    count = np.bincount(owner, minlength=n_owners)
    if not (count > MOST_VALUES).any():
        return owner, value
    place = np.arange(len(owner)) - np.searchsorted(owner, owner)
    group = np.where(count[owner] > MOST_VALUES, place * MOST_VALUES // count[owner], place)
    starts = group_starts(owner, group)
    return owner[starts], np.add.reduceat(value, starts)


def group_starts(*keys: NDArray[np.integer]) -> Ints:
    """Where a new group begins in rows ordered by these keys."""
    if not len(keys[0]):
        return np.zeros(0, dtype=np.int64)
    is_new = np.zeros(len(keys[0]), dtype=bool)
    is_new[0] = True
    for key in keys:
        is_new[1:] |= key[1:] != key[:-1]
    return np.flatnonzero(is_new)
