"""The answers of the judged annotators, annotator by annotator."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fdr_core.answers import Answers, rows_of
from fdr_core.types import Ints


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
        chosen, position = rows_of(answers, judged, n_annotators)
        order = np.argsort(position, kind="stable")
        return cls(judged, chosen[order], answers.take(chosen[order]), position[order])
