"""Battles of models as Chatbot Arena and MT-bench publish them: model_a, model_b and who won."""

import numpy as np
import pandas as pd

from fdr_core.inputs import rows
from fdr_core.inputs.columns import RawAnswers
from fdr_core.inputs.formats import POOLED, Format, has_columns
from fdr_core.inputs.rows import outcomes_of
from fdr_core.inputs.source import Source
from fdr_core.types import Floats

_JUDGES = ("judge", "evaluation_session_id")
_ONE_HOT = ("winner_model_a", "winner_model_b", "winner_tie")
_TIMES = ("tstamp", "timestamp")
#: MT-bench's answers of a judge that saw both orders: what is published is their sum, which has no side.
_BOTH_ORDERS = "gpt4_pair"


def _is_mt_bench(source: Source) -> bool:
    battles = {"model_a", "model_b", "winner", "judge", "turn", "question_id"} <= set(source.names)
    return battles and not {"anony", "tstamp", "language"} & set(source.names)


def _is_arena(source: Source) -> bool:
    names = set(source.names)
    return {"model_a", "model_b"} <= names and ("winner" in names or set(_ONE_HOT) <= names)


def _read_arena(source: Source) -> RawAnswers:
    frame = source.frame(("model_a", "model_b", "winner", *_JUDGES, *_ONE_HOT, *_TIMES), text=("winner", *_JUDGES))
    return rows.from_frame(_battles(frame), where=source.where)


def _battles(frame: pd.DataFrame) -> pd.DataFrame:
    who = next((name for name in _JUDGES if name in frame), None)
    when = next((name for name in _TIMES if name in frame), None)
    battles = pd.DataFrame({"left": frame["model_a"], "right": frame["model_b"], "outcome": _winners(frame)})
    battles["annotator"] = POOLED if who is None else frame[who]
    return battles if when is None else battles.assign(time=frame[when])


def _winners(frame: pd.DataFrame) -> Floats:
    """Who won, in words (model_a, model_b, tie, both_bad) or as three columns of which one holds a 1."""
    if "winner" in frame:
        return outcomes_of(frame["winner"])
    shares = frame[list(_ONE_HOT)].apply(pd.to_numeric, errors="coerce")
    won = shares["winner_model_a"] - shares["winner_model_b"]
    return np.asarray(won.where(shares.sum(axis=1) == 1, np.nan), dtype=np.float64)


def _read_mt_bench(source: Source) -> RawAnswers:
    wanted = ("question_id", "model_a", "model_b", "winner", "judge", "turn")
    frame = source.frame(wanted, text=("question_id", "winner", "judge", "turn"))
    judge = frame["judge"].map(lambda value: value if isinstance(value, str) else str(value))
    is_summed = judge.str.contains(_BOTH_ORDERS, regex=False)
    battles = pd.DataFrame(
        {
            "annotator": judge,
            "left": frame["model_a"],
            "right": frame["model_b"],
            "outcome": outcomes_of(frame["winner"]),
            "stratum": frame["question_id"].astype(str),
        }
    )[~is_summed]
    return rows.from_frame(battles, where=source.where, excluded={"summed over both orders": int(is_summed.sum())})


ARENA = Format(
    name="chatbot-arena",
    title="Chatbot Arena battles (33k, 55k, 140k)",
    recognises=_is_arena,
    read=_read_arena,
    uses={
        "model_a": "left item: shown on the left",
        "model_b": "right item: shown on the right",
        "winner": "answer: model_a, model_b, tie or both_bad",
        "winner_model_a": "answer: 1 where the left model won",
        "winner_model_b": "answer: 1 where the right model won",
        "winner_tie": "answer: 1 where nobody won",
        "judge": "annotator",
        "evaluation_session_id": "annotator: one session of one visitor",
        "tstamp": "time",
        "timestamp": "time",
    },
    supports=("Models were drawn for both sides by chance, a fresh coin for every battle.",),
)
MT_BENCH = Format(
    name="mt-bench",
    title="MT-bench human judgments",
    recognises=_is_mt_bench,
    read=_read_mt_bench,
    uses={
        "model_a": "left item: shown first",
        "model_b": "right item: shown second",
        "winner": "answer: model_a, model_b or tie",
        "judge": "annotator",
        "question_id": "stratum",
        "turn": "not needed: each turn is an answer of its own",
    },
    supports=("Every judge is named, so that each can be judged.",),
    lacks=(
        "Answers of the judge gpt4_pair are sums over both orders and have no side: they are left out; "
        "FastChat's own log of them (g1_winner, g2_winner) has both.",
    ),
)
EVALICA = Format(
    name="evalica",
    title="evalica comparisons",
    recognises=has_columns("left", "right", "winner"),
    read=lambda source: rows.from_frame(_evalica(source), where=source.where),
    uses={
        "left": "left item",
        "right": "right item",
        "winner": "answer: left, right or tie (x, y, draw)",
        "judge": "annotator",
        "annotator": "annotator",
        "worker": "annotator",
    },
)


def _evalica(source: Source) -> pd.DataFrame:
    people = ("annotator", "judge", "worker")
    frame = source.frame(("left", "right", "winner", *people), text=("left", "right", "winner", *people))
    who = next((name for name in people if name in frame), None)
    table = pd.DataFrame({"left": frame["left"], "right": frame["right"], "outcome": outcomes_of(frame["winner"])})
    return table.assign(annotator=POOLED if who is None else frame[who])
