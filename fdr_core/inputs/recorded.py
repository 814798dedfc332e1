"""The log that `fdr_core.judges.record` writes: judge, what was shown first and second, answer, coin."""

from typing import Any

import numpy as np
import pandas as pd

from fdr_core.errors import InputError
from fdr_core.inputs import rows
from fdr_core.inputs.columns import RawAnswers
from fdr_core.inputs.formats import Format
from fdr_core.inputs.rows import outcome_of
from fdr_core.inputs.source import Source

COLUMNS = ("judge", "shown_first", "shown_second", "answer", "coin", "time", "stratum")


def _read(source: Source) -> RawAnswers:
    frame = source.frame(COLUMNS, text=tuple(name for name in COLUMNS if name != "time"))
    _refuse_two_recordings(frame, source.where)
    outcome = [_outcome(answer) for answer in frame["answer"]]
    names = {"judge": "annotator", "shown_first": "left", "shown_second": "right"}
    return rows.from_frame(
        frame.drop(columns="answer").rename(columns=names).assign(outcome=outcome), where=source.where
    )


def _refuse_two_recordings(frame: pd.DataFrame, where: str) -> None:
    """A coin of one judge shows one pair, once in an order: more are two recordings, perhaps of two judges."""
    shown = [name for name in ("judge", "coin", "shown_first", "shown_second") if name in frame]
    if "coin" not in shown:
        return
    twice = np.flatnonzero(frame.duplicated(shown) & frame["coin"].notna())
    if len(twice):
        row = frame.iloc[twice[0]]
        raise InputError(
            f"{where}row {twice[0] + 1}: {row['judge']} was asked twice in one order under the coin {row['coin']} "
            f"({len(twice):,} such rows); these are two recordings under one name: give each judge a name of its own, "
            "and one log per recording"
        )


def _outcome(answer: Any) -> float:
    """A grade from 1 (first) to -1 (second), or a word."""
    if isinstance(answer, (int, float)) and not isinstance(answer, bool):
        return float(answer) if -1 <= answer <= 1 else np.nan
    return outcome_of(answer)


FORMAT = Format(
    name="recorder",
    title="log of the Evenhand recorder",
    recognises=lambda source: {"judge", "shown_first", "shown_second", "answer"} <= set(source.names),
    read=_read,
    uses={
        "judge": "annotator",
        "shown_first": "left item: shown first",
        "shown_second": "right item: shown second",
        "answer": "answer: first, second or tie",
        "coin": "coin that decided the order",
        "time": "time",
        "stratum": "stratum",
    },
    supports=("A recorded coin decided the order of every pair: a lean is told exactly.",),
)
