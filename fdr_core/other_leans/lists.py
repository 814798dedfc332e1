"""From coefficients to what people read: the list of a lean, each effect as a share, and how far it can be believed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit

from fdr_core.judges.both_orders import adjusted
from fdr_core.other_leans.features import Feature
from fdr_core.other_leans.placebos import Placebos
from fdr_core.other_leans.regression import Regressions, wald_p_values
from fdr_core.selection import weighted_list
from fdr_core.types import Floats, Ints, Mask

_REACH = 1.959964
#: A flag whose interval holds no lean at all would not be believed.
_MOST_P_VALUE = 0.05


@dataclass(frozen=True)
class LeanList:
    """
    Who leans towards a feature of the items.

    Attributes
    ----------
    lean : name of the feature; chosen : what a positive lean chooses.
    how : "gold", or "goes with" where quality is not known: a description, never a list.
    flagged : labels, strongest first.
    annotators : annotator, answers, effect (share of pairs with the feature in which it decides for its item, beyond
        what the same annotator would choose without the lean) with its 95 % interval low and high, coefficient (log
        odds at a typical difference) with se, p_value against a lean of at most ``least``, q_value, flagged, finding.
        NaN where somebody is not judged.
    promise : what the list promises; reasons : why there is none, or what limits it.
    placebos : what features without meaning gave on the same answers.
    gold_needed : without gold, about how many pairs with gold would settle it.
    """

    lean: str
    chosen: str
    how: str
    flagged: list[Any]
    annotators: pd.DataFrame
    promise: str
    reasons: list[str] = field(default_factory=list)
    placebos: Placebos | None = None
    gold_needed: int | None = None

    def __repr__(self) -> str:
        return f"LeanList({self.lean}: {len(self.flagged)} of {len(self.annotators)} annotators; {self.promise})"


@dataclass(frozen=True)
class Effects:
    """Coefficients of one feature, (m,) each: estimate, error, p-value, share with its interval, answers."""

    coefficient: Floats
    error: Floats
    p_value: Floats
    share: Floats
    low: Floats
    high: Floats
    answers: Ints


def effects(fit: Regressions, x: Floats, who: Ints, k: int, least: float) -> Effects:
    """Effects of the predictor in column k."""
    m = len(fit.coefficient)
    delta, error = fit.coefficient[:, k], fit.error(k)
    told = np.nan_to_num(fit.coefficient)
    without = np.einsum("np,np->n", np.delete(x, k, axis=1), np.delete(told, k, axis=1)[who])
    share, low, high = (_share(without, x[:, k], who, delta + way * _REACH * error) for way in (0, -1, 1))
    p_value = wald_p_values(delta, error, least)
    return Effects(delta, error, p_value, share, low, high, np.bincount(who, minlength=m))


def _share(without: Floats, x: Floats, who: Ints, delta: Floats) -> Floats:
    """Mean of ``P(the feature's item is chosen) - P(... without the lean)`` over pairs that have the feature."""
    change = np.sign(x) * (expit(without + np.nan_to_num(delta)[who] * x) - expit(without))
    count = np.bincount(who, x != 0, len(delta))
    mean = np.bincount(who, change, len(delta)) / np.maximum(count, 1)
    return np.where(np.isnan(delta), np.nan, mean)


def listed(p_values: Sequence[Floats], q: float, scope: str) -> list[tuple[Floats, Mask]]:
    """
    Adjusted p-values and lists, over each lean's annotators, or over all (annotator, lean) at once.

    Each: annotators err independently given gold, so the list estimates how many do not lean. All: the leans of one
    annotator come from one fit and are dependent, so it is Benjamini-Hochberg's own.
    """
    if scope == "all":
        together = np.concatenate(p_values)
        adjusted_p = np.full(len(together), np.nan)
        known = ~np.isnan(together)
        adjusted_p[known] = adjusted(together[known])
        parts = np.split(adjusted_p, np.cumsum([len(p) for p in p_values])[:-1])
    else:
        parts = []
        for p in p_values:
            known, part = ~np.isnan(p), np.full(len(p), np.nan)
            told = np.where(p[known] <= _MOST_P_VALUE, p[known], 1.0)
            ones = np.ones(len(told))
            part[known] = weighted_list(told, ones, q=q, storey=True, plain_p_value=p[known]).q_value
            parts.append(part)
    return [(part, np.nan_to_num(part, nan=1.0) <= q) for part in parts]


def as_table(labels: Any, found: Effects, q_value: Floats, on_list: Mask, feature: Feature) -> pd.DataFrame:
    """One row per annotator, strongest evidence first."""
    table = pd.DataFrame(
        {
            "annotator": labels,
            "answers": found.answers,
            "effect": found.share,
            "low": found.low,
            "high": found.high,
            "coefficient": found.coefficient,
            "se": found.error,
            "p_value": found.p_value,
            "q_value": q_value,
            "flagged": on_list,
            "finding": [_sentence(feature, *one) for one in zip(found.share, found.low, found.high, strict=True)],
        }
    )
    return table.sort_values(["flagged", "p_value"], ascending=[False, True], kind="stable", ignore_index=True)


def _sentence(feature: Feature, share: float, low: float, high: float) -> str:
    if np.isnan(share):
        return "not judged: too few answers, or none that tell the lean from quality and side"
    more = "more" if share >= 0 else "fewer"
    ends = sorted((low, high)) if share >= 0 else sorted((-low, -high))
    return f"chooses {feature.chosen} in {abs(share):.0%} {more} of such pairs ({ends[0]:.0%} to {ends[1]:.0%})"
