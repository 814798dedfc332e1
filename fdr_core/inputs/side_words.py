"""The words by which people and judges say which of two stood first, second, or neither."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

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
