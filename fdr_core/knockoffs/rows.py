"""The answers of the judged annotators, annotator by annotator."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fdr_core.statistics import Answers

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class JudgedRows:
    """Rows of an answer table, ordered by judged annotator.

    Attributes
    ----------
    judged : codes of the judged annotators.
    chosen : positions of the rows in the whole table.
    answers : the rows.
    position : which of the judged each row belongs to, ascending.
    """

    judged: Ints
    chosen: Ints
    answers: Answers
    position: Ints

    @classmethod
    def of(cls, answers: Answers, judged: Ints, n_annotators: int) -> JudgedRows:
        """Take the rows of the judged out of a table."""
        position = np.full(n_annotators, -1, dtype=np.int64)
        position[judged] = np.arange(len(judged))
        chosen = np.flatnonzero(position[answers.annotator] >= 0)
        chosen = chosen[np.argsort(position[answers.annotator[chosen]], kind="stable")]
        rows = answers.take(chosen)
        return cls(judged, chosen, rows, position[rows.annotator])
