"""Psychophysical comparisons as pwcmp and ASAP keep them: observer, two conditions, and which was selected."""

import numpy as np
import pandas as pd

from fdr_core.inputs import rows
from fdr_core.inputs.columns import RawAnswers
from fdr_core.inputs.formats import Format
from fdr_core.inputs.rows import outcomes_of
from fdr_core.inputs.source import Source

_CONDITIONS = (("condition_1", "condition_2"), ("condition_a", "condition_b"))
_SELECTED_FIRST = ("selected_a", "is_a_selected", "selected_1")


def _lower(source: Source) -> dict[str, str]:
    return {name.lower(): name for name in source.names}


def _recognises(source: Source) -> bool:
    names = _lower(source)
    has_pair = any(first in names and second in names for first, second in _CONDITIONS)
    return has_pair and "observer" in names and any(name in names for name in ("selection", *_SELECTED_FIRST))


def _read(source: Source) -> RawAnswers:
    frame = source.frame(source.names, text=source.names).rename(columns=str.lower)
    first, second = next(pair for pair in _CONDITIONS if pair[0] in frame and pair[1] in frame)
    table = pd.DataFrame({"annotator": frame["observer"], "left": frame[first], "right": frame[second]})
    if "selection" in frame:
        table["outcome"] = outcomes_of(frame["selection"])
    else:
        selected = pd.to_numeric(frame[next(name for name in _SELECTED_FIRST if name in frame)], errors="coerce")
        table["outcome"] = (2.0 * selected - 1.0).where(selected.isin([0, 1]), np.nan)
    if "scene" in frame:
        # A condition is another item in every scene: the same method may do well in one and badly in the next.
        table["left"], table["right"] = (frame["scene"] + ": " + table[side] for side in ("left", "right"))
        table["stratum"] = frame["scene"]
    return rows.from_frame(table, where=source.where)


FORMAT = Format(
    name="pwcmp",
    title="pwcmp comparisons",
    recognises=_recognises,
    read=_read,
    uses={
        name: use
        for lower, use in {
            "observer": "annotator",
            "condition_1": "left item",
            "condition_2": "right item",
            "condition_A": "left item",
            "condition_B": "right item",
            "selection": "answer: 1 or 2",
            "selected_A": "answer: 1 where the first was selected",
            "is_A_selected": "answer: 1 where the first was selected",
            "scene": "stratum, and part of the items' names",
        }.items()
        for name in (lower, lower.capitalize(), lower.title(), lower.lower())
    },
    supports=("Every observer is named.",),
    lacks=("Which condition stood on which side is taken from the order of the columns.",),
)
