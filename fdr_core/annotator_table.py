"""The table of annotators that `detect` returns: findings, both lists, and the evidence behind them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from fdr_core import evidence
from fdr_core.answer_table import AnswerTable
from fdr_core.answers import Answers
from fdr_core.audit import Audit
from fdr_core.findings import Facts, findings
from fdr_core.guarantee import Guarantee
from fdr_core.leans import Leans
from fdr_core.opinions import Opinions
from fdr_core.types import Floats, Ints, Mask


@dataclass(frozen=True)
class Decision:
    """What one method says of all annotators; the method that decides is one of these.

    Attributes
    ----------
    listed : its list; judged : whom it judges; unselectable : it could not select, whatever the answers.
    can_judge : whether it can judge anybody in this design.
    smallest_list : the fewest that it can list.
    strength : keys that order annotators, the larger the worse, the most important last.
    shown : its two figures for the table; NaN for those it did not judge.
    """

    listed: Mask
    judged: Mask
    unselectable: Mask
    can_judge: bool
    smallest_list: int
    guarantee: Guarantee
    strength: tuple[Floats, Floats]
    shown: tuple[Floats, Floats]


@dataclass(frozen=True)
class Judgement:
    """Both lists and what is behind them, over all annotators; NaN for those who were not judged.

    Attributes
    ----------
    decision : of the method that decides.
    proven : on the exact list with a proof; part : of its answers that speaks for it.
    difference : of the two lists, in words.
    copies : knockoff copies per annotator, 0 without LBI.
    """

    decision: Decision
    opinions: Opinions
    proven: Mask
    part: Ints
    p_value: Floats
    entry: Floats
    difference: list[str]
    copies: int


def annotator_table(
    answers: Answers,
    table: AnswerTable,
    audited: Audit,
    judgement: Judgement,
    leans: Leans,
    theta: Floats,
    min_bias: float,
) -> pd.DataFrame:
    """Lay everything known about each annotator out, worst first.

    Parameters
    ----------
    theta : (n,) scores of the consensus, for the match ratio.
    """
    m, both, by = len(table.annotators), judgement.opinions, judgement.decision
    left, right, ties = evidence.counts_by_choice(answers, m)
    lean, skips = (leans.estimate, leans.low, leans.high), audited.skips_by_side
    facts = Facts(left, right, *lean, by.listed, by.judged, by.unselectable, skips, judgement.part)
    frame = pd.DataFrame(
        {
            "annotator": table.annotators,
            "comparisons": left + right + ties,
            "left": left,
            "right": right,
            "ties": ties,
            "bias": leans.estimate,
            "bias_low": leans.low,
            "bias_high": leans.high,
            "p_value": judgement.p_value,
            # A person's own p-value is never above the one adjusted for many, or the two would contradict each other.
            "q_value": np.fmax(both.q_value, np.where(np.isnan(both.q_value), np.nan, judgement.p_value)),
            "exact_list": _opinion(both.exact, both.q_value),
            "proven": _opinion(judgement.proven, both.q_value),
            "lbi_share": both.share,
            "lbi_list": _opinion(both.lbi, both.share),
            "entry": judgement.entry,
            "match_ratio": evidence.match_ratio(answers, theta, m),
            "finding": findings(facts, min_bias=min_bias, can_judge=by.can_judge),
            "flagged": by.listed,
            "difference": judgement.difference,
            "more_needed": np.where(audited.assessable, 0, audited.more_needed),
            **_evidence_in_time(table),
        }
    )
    keys = [frame["bias"].abs(), *by.strength, frame["p_value"].notna(), by.listed]  # flagged, then judged, then ...
    ordered: pd.DataFrame = frame.iloc[np.lexsort([-np.asarray(key, dtype=np.float64) for key in keys])].reset_index(
        drop=True
    )
    return ordered


def _opinion(listed: Mask, figure: Floats) -> Any:
    """Who is on a method's list; None for everybody where it judged nobody, which leaves no list to be absent from.

    ``figure`` is the method's own, NaN for those it did not judge.
    """
    return listed if not np.isnan(figure).all() else np.full(len(listed), None, dtype=object)


def _evidence_in_time(table: AnswerTable) -> dict[str, Any]:
    """First and last answer, median lead time, longest run; None where the data does not tell."""
    c, m = table.comparisons, len(table.annotators)
    known = {} if c is None else evidence.in_time(c.annotator, c.outcome, c.time, c.lead_time, m)
    names = ("first_seen", "last_seen", "median_lead_time", "longest_run")
    return {name: pd.Series(known.get(name, [None] * m), dtype=object) for name in names}
