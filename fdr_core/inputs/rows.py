"""Answers gathered one by one, for formats that are not tables."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
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


@dataclass
class Rows:
    """Columns being filled, and what had to be left out, by reason."""

    columns: dict[str, list[Any]] = field(default_factory=dict)
    excluded: Counter[str] = field(default_factory=Counter)

    def add(self, **values: Any) -> None:
        """Add an answer: annotator, left, right, outcome, and whatever else the format tells of every answer.

        An answer that cannot be read, has no items, or compares an item with itself is counted and left out.
        """
        reason = _left_out_because(values)
        if reason:
            self.excluded[reason] += 1
            return
        for name, value in values.items():
            self.columns.setdefault(name, []).append(value)

    def answers(self, where: str) -> RawAnswers:
        """Hand the columns over."""
        columns = {name: pd.Series(values, dtype=object) for name, values in self.columns.items()}
        none = pd.Series([], dtype=object)
        optional: dict[str, Any] = {
            name: columns[name] for name in OPTIONAL if name in columns and columns[name].notna().any()
        }
        return RawAnswers(
            annotator=columns.get("annotator", none),
            left=columns.get("left", none),
            right=columns.get("right", none),
            outcome=np.array(self.columns.get("outcome", []), dtype=np.float64),
            excluded=dict(self.excluded),
            where=where,
            **optional,
        )


def _left_out_because(values: dict[str, Any]) -> str:
    if values["annotator"] in (None, ""):
        return "without annotator"
    if values["left"] in (None, "") or values["right"] in (None, ""):
        return "without items"
    if values["left"] == values["right"]:
        return "same item twice"
    return "unreadable" if np.isnan(values["outcome"]) else ""


def from_frame(frame: pd.DataFrame, *, where: str, excluded: dict[str, int] | None = None) -> RawAnswers:
    """Hand over a table of answers, leaving out and counting what `Rows.add` would."""
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
