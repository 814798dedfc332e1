"""The answers of the judged by unit: what one coin decided for one annotator."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fdr_core.answers import Answers, rows_of
from fdr_core.codes import joint_codes, order_by
from fdr_core.randomisation.convolution import group_starts
from fdr_core.types import Floats, Ints, Mask


@dataclass(frozen=True)
class UnitRows:
    """Rows of the judged, ordered by annotator and coin.

    Attributes
    ----------
    rows : positions in the whole table.
    position : (rows,) which of the judged each row belongs to, ascending.
    starts : first row of every unit.
    share : (rows,) weight of the row among those of its unit about its pair, summing to 1: what such answers say about
        the *choices* of an annotator is the same thing said again. About the side, their one sign, they add up.
    """

    rows: Ints
    position: Ints
    starts: Ints
    share: Floats

    @classmethod
    def of(cls, answers: Answers, judged: Ints, n_annotators: int) -> UnitRows:
        """Take the rows of the judged out of a table."""
        rows, position = rows_of(answers, judged, n_annotators)
        order = order_by(position, answers.coin[rows])
        return cls._ordered(answers, rows[order], position[order])

    @classmethod
    def _ordered(cls, answers: Answers, rows: Ints, position: Ints) -> UnitRows:
        starts = group_starts(position, answers.coin[rows])
        share = np.ones(len(rows))
        if len(starts) < len(rows):
            left, right, weight = answers.left[rows], answers.right[rows], answers.weight[rows]
            pair = joint_codes(np.minimum(left, right), np.maximum(left, right))
            unit = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(rows))))
            said = joint_codes(unit, pair)
            share = weight / np.bincount(said, weight)[said]
        return cls(rows, position, starts, share)

    def only(self, answers: Answers, is_wanted: Mask) -> UnitRows:
        """Keep the units of the wanted rows of the table."""
        kept = is_wanted[self.rows]
        return self._ordered(answers, self.rows[kept], self.position[kept])

    def sums(self, value: Floats) -> Floats:
        """Sums of a figure per row over every unit."""
        return np.add.reduceat(value, self.starts) if len(self.starts) else np.zeros(0)
