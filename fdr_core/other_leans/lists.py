"""From coefficients to what people read: the list of a lean, each effect as a share, and how far it can be believed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit

from fdr_core.judges.both_orders import adjusted
from fdr_core.other_leans.features import Feature
from fdr_core.other_leans.placebos import Placebos
from fdr_core.other_leans.regression import wald_p_values
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
    how : "gold"; "crowd" where quality is what all agree on, and a lean one beyond theirs; "others" of agreement; or
        "goes with" where quality is not known: a description, never a list.
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


def effects(delta: Floats, error: Floats, without: Floats, x: Floats, who: Ints, least: float) -> Effects:
    """Effects of a feature x (N,) with coefficients and errors (m,); ``without``: (N,) log odds of left without it."""
    share, low, high = (_share(without, x, who, delta + way * _REACH * error) for way in (0, -1, 1))
    p_value = wald_p_values(delta, error, least)
    return Effects(delta, error, p_value, share, low, high, np.bincount(who, minlength=len(delta)))


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


def as_table(labels: Any, found: Effects, q_value: Floats, on_list: Mask, sentence: Callable[..., str]) -> pd.DataFrame:
    """One row per annotator, strongest evidence first; ``sentence`` tells of a share and its interval."""
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
            "finding": [sentence(*one) for one in zip(found.share, found.low, found.high, on_list, strict=True)],
        }
    )
    strength = table["p_value"].fillna(1.0) - np.abs(table["effect"].fillna(0.0)) * 1e-9
    order = np.lexsort((strength, ~table["flagged"].to_numpy(dtype=bool)))
    return table.iloc[order].reset_index(drop=True)


def sentence_of(feature: Feature, how: str, share: float, low: float, high: float, _on_list: bool) -> str:
    """What is said of somebody."""
    if np.isnan(share):
        return "not judged: too few answers, or none that tell the lean from quality and side"
    size, ends = abs(share), sorted((low, high) if share >= 0 else (-low, -high))
    measured = f"({ends[0]:.0%} to {ends[1]:.0%})"
    if how == "goes with":
        way = "with" if share >= 0 else "against"
        said = f"answers go {way} {feature.chosen} in {size:.0%} of such pairs more than evenly {measured}"
        return f"{said}; which one is better is not known"
    than = " than quality and the crowd's taste explain" if how == "crowd" else ""
    return f"chooses {feature.chosen} in {size:.0%} {'more' if share >= 0 else 'fewer'} of such pairs {measured}{than}"
