"""FastChat's logs of pairwise judges: one line per question and pair, both orders asked."""

from typing import Any

import numpy as np

from fdr_core.inputs.columns import RawAnswers
from fdr_core.inputs.formats import Format, has_columns
from fdr_core.inputs.rows import Rows
from fdr_core.inputs.source import Record, Source

_FIRST_WON = {"model_1": 1.0, "model_2": -1.0, "tie": 0.0}


def _read(source: Source) -> RawAnswers:
    rows = Rows()
    for record in source.records:
        if "m1_score" in record:
            rows.excluded["graded one by one"] += 1
            continue
        _add_games(rows, record)
    return rows.answers(source.where)


def _add_games(rows: Rows, record: Record) -> None:
    """Two answers under one coin.

    In the first game model_1 is shown first, in the second model_2. FastChat writes both winners in the frame of the
    models (``model_1`` is the same model in both), so in the second game a win of model_1 is one of the *second* shown.
    """
    one, two = record.get("model_1"), record.get("model_2")
    coin = "|".join(str(part) for part in (_judge(record), record.get("question_id"), record.get("turn"), one, two))
    shared = {"annotator": _judge(record), "coin": coin, "time": record.get("tstamp")}
    rows.add(**shared, left=one, right=two, outcome=_FIRST_WON.get(str(record.get("g1_winner")), np.nan))
    rows.add(**shared, left=two, right=one, outcome=-_FIRST_WON.get(str(record.get("g2_winner")), np.nan))


def _judge(record: Record) -> str:
    """Name the judge with its prompt: the same model asked otherwise is another judge."""
    judge: Any = record.get("judge")
    return f"{judge[0]} ({judge[1]})" if isinstance(judge, list) and len(judge) == 2 else str(judge or "")


FORMAT = Format(
    name="fastchat-pairs",
    title="FastChat pairwise judgments, both orders",
    recognises=has_columns("model_1", "model_2", "g1_winner", "g2_winner"),
    read=_read,
    uses={
        "judge": "annotator: model and prompt",
        "model_1": "item: first in game 1, second in game 2",
        "model_2": "item: second in game 1, first in game 2",
        "g1_winner": "answer with model_1 first",
        "g2_winner": "answer with model_2 first, told in the frame of the models",
        "question_id": "coin: both games of a question and pair share it",
        "turn": "coin",
        "tstamp": "time",
    },
    supports=("Both orders of every pair were asked, so a lean is told exactly and no coin is needed.",),
    lacks=("Lines with m1_score were graded one by one, without any order: they are left out.",),
)
