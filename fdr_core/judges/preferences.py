"""From comparisons to clean preference pairs: who wins each pair once the leans are taken out, and how surely."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.stats import norm

from fdr_core.comparisons import Comparisons
from fdr_core.detection import Detection
from fdr_core.types import Floats, Ints


@dataclass(frozen=True)
class Preferences:
    """
    Pairs and their lean-corrected winners.

    Attributes
    ----------
    table : DataFrame
        chosen, rejected (labels of items), margin (difference of the corrected scores), probability (that the order is
        right, given the answers), answers, votes (share of answers for the chosen), turned (whether a plain majority
        had it the other way round).
    again : DataFrame
        The pairs to label again: those less certain than asked for, least certain first, with the reason.
    """

    table: pd.DataFrame
    again: pd.DataFrame


def preferences(comparisons: Comparisons, detection: Detection, *, min_probability: float = 0.75) -> Preferences:
    """
    Settle every pair that was compared.

    Parameters
    ----------
    comparisons : Comparisons
        The answers.
    detection : Detection
        What `detect` found in them; its ranking takes the leans of the flagged out.
    min_probability : float
        Less certain pairs go to the list to label again; 0.5 keeps all.

    Returns
    -------
    Preferences
    """
    pairs, code = _pairs(comparisons)
    score, error = _scores(comparisons, detection)
    margin = score[pairs[:, 0]] - score[pairs[:, 1]]
    # The errors of two items may be opposed (they are, in pairs of their own), so their sum is the safe bound.
    spread = error[pairs[:, 0]] + error[pairs[:, 1]]
    table = _table(comparisons, pairs, code, margin, norm.cdf(np.abs(margin) / np.maximum(spread, 1e-12)))
    is_sure = (table["probability"] >= min_probability) & (table["margin"] > 0)
    again = table[~is_sure].sort_values("probability", kind="stable", ignore_index=True)
    reason = np.where(again["turned"], "the leans of flagged annotators had decided it", "too close to call")
    return Preferences(table[is_sure].reset_index(drop=True), again.assign(reason=reason))


def _pairs(comparisons: Comparisons) -> tuple[Ints, Ints]:
    """Unordered pairs of items, and the pair of every answer."""
    ends = np.stack([comparisons.left, comparisons.right], axis=1).astype(np.int64)
    pairs, code = np.unique(np.sort(ends, axis=1), axis=0, return_inverse=True)
    return pairs, code.ravel()


def _scores(comparisons: Comparisons, detection: Detection) -> tuple[Floats, Floats]:
    """Corrected score and its standard error of every item."""
    ranking = detection.ranking.set_index("item").loc[list(comparisons.items)]
    return ranking["score"].to_numpy(dtype=np.float64), ranking["se"].to_numpy(dtype=np.float64)


def _table(comparisons: Comparisons, pairs: Ints, code: Ints, margin: Floats, probability: Floats) -> pd.DataFrame:
    n = len(pairs)
    towards_first = np.where(comparisons.left == pairs[code, 0], 1.0, -1.0) * comparisons.outcome
    answers = np.bincount(code, minlength=n)
    votes = np.bincount(code, np.sign(towards_first), minlength=n)
    is_first = margin >= 0
    chosen = np.where(is_first, pairs[:, 0], pairs[:, 1])
    rejected = np.where(is_first, pairs[:, 1], pairs[:, 0])
    share = (1 + np.where(is_first, votes, -votes) / answers) / 2
    return pd.DataFrame(
        {
            "chosen": comparisons.items[chosen],
            "rejected": comparisons.items[rejected],
            "margin": np.abs(margin),
            "probability": probability,
            "answers": answers,
            "votes": share,
            "turned": share < 0.5,
        }
    )
