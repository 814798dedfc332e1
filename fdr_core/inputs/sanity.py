"""Answers that look like a broken reading and not like people: every answer of one kind, or one side never chosen."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fdr_core.types import Floats

#: Fewer annotators, or answers each, can be one-sided by themselves.
LEAST_ANNOTATORS = LEAST_ANSWERS = 5
MEANT = "if that is meant, say --one-sided; else check the file, and what its answers mean (--answers, --map)"


def looks_broken(annotator: NDArray[np.integer[Any]], outcome: Floats) -> str:
    """Say what was seen where answers look as a wrong reading makes them; "" where they do not."""
    side = np.sign(outcome).astype(np.int64)
    per = np.bincount(annotator)
    n = int((per >= LEAST_ANSWERS).sum())
    if n < LEAST_ANNOTATORS:
        return ""
    for value, name in ((1, "left"), (-1, "right")):
        if not (side == value).any():
            others = "right" if value == 1 else "left"
            ties = int((side == 0).sum())
            return (
                f"none of {per.size:,} annotators ever chose the {name} side: {side.size - ties:,} answers for the "
                f"{others}, {ties:,} ties"
            )
    kinds = np.bincount(annotator * 3 + side + 1, minlength=3 * per.size).reshape(-1, 3)
    if ((kinds > 0).sum(axis=1) == 1)[per >= LEAST_ANSWERS].all():
        return f"each of {n:,} annotators has only one answer throughout"
    return ""
