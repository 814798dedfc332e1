"""Answers that look like a broken reading and not like people: one side never chosen, rows and names that repeat."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fdr_core.types import Floats

if TYPE_CHECKING:
    from fdr_core.comparisons import Comparisons

#: Fewer annotators, or answers each, can be one-sided by themselves.
LEAST_ANNOTATORS = LEAST_ANSWERS = 5
#: Beyond so many, names are texts rather than names.
MOST_NAMES = 100_000
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


def repeats(comparisons: Comparisons) -> Iterator[str]:
    """Say how many rows say what an earlier one says, and which names differ by type or blanks only."""
    c = comparisons
    columns = {"annotator": c.annotator, "left": c.left, "right": c.right, "outcome": c.outcome, "time": c.time}
    if c.coin_source in ("coin", "task"):
        columns["coin"] = c.coin
    rows = pd.DataFrame({name: column for name, column in columns.items() if column is not None})
    if again := int(rows.duplicated().sum()):
        yield (
            f"{again:,} of {len(rows):,} rows say what an earlier row says: same annotator, sides and answer; "
            "remove them, unless pairs were asked again"
        )
    for noun, labels in (("annotators", c.annotators), ("items", c.items)):
        alike = defaultdict(list)
        for label in labels.tolist() if labels.size <= MOST_NAMES else ():
            alike[_plain(label)].append(label)
        pairs = [names for names in alike.values() if len(names) > 1]
        if pairs:
            shown = ", ".join(repr(name) for name in pairs[0])
            yield f"{noun} {shown} differ by type or blanks only ({len(pairs):,} such in all); write each in one way"


def _plain(label: object) -> str:
    """A name without what types and blanks add to it."""
    text = str(label).strip()
    return text.removesuffix(".0") if text.removesuffix(".0").isdecimal() else text
