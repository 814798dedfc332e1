"""Answers gathered one by one, for formats that are not tables."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from fdr_core.inputs import OPTIONAL, tables
from fdr_core.inputs.columns import RawAnswers
from fdr_core.types import Floats

_FIRST = ("left", "a", "first", "1", "x", "model_a", "response_a", "answer_a", "output_a", "option_a", "model a")
_SECOND = ("right", "b", "second", "2", "y", "model_b", "response_b", "answer_b", "output_b", "option_b", "model b")
_NEITHER = ("tie", "draw", "equal", "c", "both", "neither", "both_bad", "tie (bothbad)", "bothbad", "0")
#: From a word in lower case to an outcome: 1 first (left), -1 second (right), 0 neither.
OUTCOMES: Mapping[str, float] = {
    **dict.fromkeys(_FIRST, 1.0),
    **dict.fromkeys(_SECOND, -1.0),
    **dict.fromkeys(_NEITHER, 0.0),
}


def outcome_of(word: Any, outcomes: Mapping[str, float] = OUTCOMES) -> float:
    """The outcome of a word, NaN for one that says nothing about a side."""
    if word is None or isinstance(word, bool):
        return np.nan
    if isinstance(word, float) and word.is_integer():
        word = int(word)
    return outcomes.get(str(word).strip().strip("[]").strip().lower(), np.nan)


def outcomes_of(words: Iterable[Any], outcomes: Mapping[str, float] = OUTCOMES) -> Floats:
    """The outcomes of many words."""
    series = words if isinstance(words, pd.Series) else pd.Series(list(words), dtype=object)
    try:
        codes, unique = pd.factorize(series)
    except TypeError:  # lists and the like have no hash
        codes, unique = pd.factorize(series.map(str))
    return np.array([*(outcome_of(word, outcomes) for word in unique), np.nan], dtype=np.float64)[codes]


_NEEDED = ("annotator", "left", "right", "outcome")


def gathered(
    answers: Iterable[Mapping[str, Any]], *, where: str, excluded: Mapping[str, int] | None = None
) -> RawAnswers:
    """Hand over answers found one by one, each with annotator, left, right, outcome and what else the format tells."""
    found = list(answers)
    frame = pd.DataFrame(found, columns=None if found else _NEEDED, dtype=object)
    return from_frame(frame.where(frame.notna() & (frame != ""), None), where=where, excluded=dict(excluded or {}))


def from_frame(frame: pd.DataFrame, *, where: str, excluded: dict[str, int] | None = None) -> RawAnswers:
    """Hand over a table of answers, leaving out and counting what cannot be read, has no items, or one item twice."""
    frame = frame.reset_index(drop=True)
    is_out = {
        "without annotator": frame["annotator"].isna(),
        "without items": frame["left"].isna() | frame["right"].isna(),
        "same item twice": (frame["left"] == frame["right"]) & frame["left"].notna(),
        "unreadable": frame["outcome"].isna(),
    }
    counts, kept = Counter(excluded or {}), pd.Series(True, index=frame.index)
    for reason, mask in is_out.items():
        counts[reason] += int((mask & kept).sum())
        kept &= ~mask
    frame = frame[kept].reset_index(drop=True)
    optional: dict[str, Any] = {name: frame[name] for name in OPTIONAL if name in frame and frame[name].notna().any()}
    told = tables.feature_columns(list(frame.columns))
    return RawAnswers(
        annotator=frame["annotator"],
        left=frame["left"],
        right=frame["right"],
        outcome=frame["outcome"].to_numpy(dtype=np.float64),
        excluded=dict(+counts),
        features=frame[told] if told else None,
        where=where,
        kept=kept.to_numpy(dtype=bool),
        **optional,
    )
