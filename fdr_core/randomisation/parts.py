"""A lean may show in a part of the answers that the rest hides: late ones, close pairs, long texts.

A part is fixed before the side is answered: by the order of arrival, by what *other* answers say of the pair, or by the
texts. So an honest annotator's sides are fair coins within it as within the whole, each part has an exact p-value, and
the smallest of ``p_h / share_h`` is one again (weighted Bonferroni). Time on task follows the side and makes no part.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from fdr_core.randomisation.convolution import SignSums
from fdr_core.randomisation.units import UnitRows
from fdr_core.selection import HALF
from fdr_core.types import Floats, Ints, Mask

WHOLE, LATE, CLOSE, LONG = range(4)
#: Of the error rate within one annotator; the whole has what is left, also where a part cannot be told.
SHARES: Mapping[int, float] = MappingProxyType({LATE: 0.15, CLOSE: 0.15, LONG: 0.15})


@dataclass(frozen=True)
class Told:
    """What is known of every row before it was answered; NaN where it is not, None where nothing is."""

    time: Floats | None = None
    length: Floats | None = None


@dataclass(frozen=True)
class Spoken:
    """
    Which part of an annotator's answers speaks most, for the judged.

    Attributes
    ----------
    p_value : combined; 1 where the whole's is above one half, because those tell how many are honest.
    side : of the part that speaks; part : which one; n_units : that it rests on.
    rows : by part, whether a row of the table belongs to it.
    """

    p_value: Floats
    side: Ints
    part: Ints
    n_units: Ints
    rows: Mapping[int, Mask]

    def of(self, chosen: Mask) -> Spoken:
        """Those of some of the judged."""
        return Spoken(self.p_value[chosen], self.side[chosen], self.part[chosen], self.n_units[chosen], self.rows)


def smallest_of(
    whole: tuple[Floats, Ints, Ints], units: UnitRows, value: Floats, support: Floats, told: Told, n_rows: int
) -> Spoken:
    """
    Combine the whole (p-values, sides, numbers of units) with the parts that can be told.

    Parameters
    ----------
    value : (units,) signed; support : (rows of units,) of the chosen item by others: pairs are close where it is small.
    """
    p_value, side, n_units = whole
    m, owner = len(p_value), units.position[units.starts]
    sizes = np.diff(np.append(units.starts, len(units.rows)))
    known = {CLOSE: -np.abs(support), **{
        part: column[units.rows] for part, column in ((LATE, told.time), (LONG, told.length)) if column is not None
    }}  # fmt: skip
    parts = {part: _upper_half(owner, units.sums(column) / sizes, m) for part, column in known.items()}
    parts = {part: is_in for part, is_in in sorted(parts.items()) if is_in.any()}
    best = p_value / (1 - sum(SHARES[part] for part in parts))
    spoken, rows = np.zeros(m, dtype=np.int64), {}
    for part, is_in in parts.items():
        sums = SignSums.of(owner, np.where(is_in, value, 0.0), m)
        own = sums.p_values() / SHARES[part]
        is_best = own < best
        best, spoken = np.where(is_best, own, best), np.where(is_best, part, spoken)
        side = np.where(is_best, np.sign(sums.total), side)
        n_units = np.where(is_best, np.bincount(sums.owner, minlength=m), n_units)
        rows[part] = np.zeros(n_rows, dtype=bool)
        rows[part][units.rows[np.repeat(is_in, sizes)]] = True
    return Spoken(np.where(p_value <= HALF, np.minimum(best, 1.0), 1.0), side, spoken, n_units, rows)


def _upper_half(owner: Ints, value: Floats, m: int) -> Mask:
    """The half of each owner's units with the larger values; nobody's where some are not known or all are the same."""
    unknown = np.bincount(owner, ~np.isfinite(value), m) > 0
    value = np.where(unknown[owner], 0.0, value)
    order = np.lexsort((value, owner))
    n = np.bincount(owner, minlength=m)
    rank = np.empty(len(owner), dtype=np.int64)
    rank[order] = np.arange(len(owner)) - np.repeat(np.cumsum(n) - n, n)
    least, most = (np.full(m, end) for end in (np.inf, -np.inf))
    np.minimum.at(least, owner, value)
    np.maximum.at(most, owner, value)
    return np.asarray((2 * rank >= n[owner]) & (most > least)[owner])
