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
from fdr_core.differences import Opinions
from fdr_core.findings import Facts, findings
from fdr_core.leans import Leans
from fdr_core.options import Options
from fdr_core.types import Floats, Mask


@dataclass(frozen=True)
class Judgement:
    """Both lists and what is behind them, over all annotators; NaN for those who were not judged.

    Attributes
    ----------
    can_judge : whether the deciding method can judge anybody in this design.
    flagged : the list of the method that decides.
    difference : of the two lists, in words; unselectable : the deciding method could not select.
    copies : knockoff copies per annotator, 0 without LBI.
    """

    can_judge: bool
    judged: Mask
    flagged: Mask
    opinions: Opinions
    p_value: Floats
    entry: Floats
    difference: list[str]
    unselectable: Mask
    copies: int


def annotator_table(
    answers: Answers,
    table: AnswerTable,
    audited: Audit,
    judgement: Judgement,
    leans: Leans,
    theta: Floats,
    options: Options,
) -> pd.DataFrame:
    """Lay everything known about each annotator out, worst first.

    Parameters
    ----------
    theta : (n,) scores of the consensus, for the match ratio.
    """
    m, both = len(table.annotators), judgement.opinions
    left, right, ties = evidence.counts_by_choice(answers, m)
    facts = Facts(
        left, right, leans.estimate, leans.low, leans.high, judgement.flagged, judgement.judged, judgement.unselectable
    )
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
            "q_value": both.q_value,
            "exact_list": _opinion(both.exact, both.q_value),
            "lbi_share": both.share,
            "lbi_list": _opinion(both.lbi, both.share),
            "entry": judgement.entry,
            "match_ratio": evidence.match_ratio(answers, theta, m),
            "finding": findings(facts, min_bias=options.min_bias, can_judge=judgement.can_judge),
            "flagged": judgement.flagged,
            "difference": judgement.difference,
            "more_needed": np.where(audited.assessable, 0, audited.more_needed),
            **_evidence_in_time(table),
        }
    )
    ordered: pd.DataFrame = frame.iloc[_worst_first(frame, options)].reset_index(drop=True)
    return ordered


def _opinion(listed: Mask, figure: Floats) -> Any:
    """Who is on a method's list; None for everybody where it judged nobody, which leaves no list to be absent from.

    ``figure`` is the method's own, NaN for those it did not judge.
    """
    return listed if not np.isnan(figure).all() else np.full(len(listed), None, dtype=object)


def _worst_first(frame: pd.DataFrame, options: Options) -> Any:
    """Flagged, then judged, then by the deciding method's strength, then by the size of the bias."""
    by_lbi = [frame["entry"].fillna(0.0), frame["lbi_share"].fillna(0.0)]
    by_exact = [-frame["p_value"].fillna(1.0), -frame["q_value"].fillna(1.0)]
    strength = by_lbi if options.decides_by == "lbi" else by_exact
    keys = [frame["bias"].abs(), *strength, frame["p_value"].notna(), frame["flagged"]]
    return np.lexsort([-np.asarray(key, dtype=np.float64) for key in keys])


def _evidence_in_time(table: AnswerTable) -> dict[str, Any]:
    """First and last answer, median lead time, longest run; None where the data does not tell."""
    c, m = table.comparisons, len(table.annotators)
    known = {} if c is None else evidence.in_time(c.annotator, c.outcome, c.time, c.lead_time, m)
    names = ("first_seen", "last_seen", "median_lead_time", "longest_run")
    return {name: pd.Series(known.get(name, [None] * m), dtype=object) for name in names}
