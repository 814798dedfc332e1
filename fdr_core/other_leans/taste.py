"""The ranking with the crowd's taste for a feature taken out, beside the plain one (as Arena's style control)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import scipy.sparse as sp
from scipy.special import expit
from scipy.stats import rankdata

from fdr_core.comparisons import Comparisons
from fdr_core.design import DENSE_ITEMS
from fdr_core.other_leans.features import Feature, chosen_features, measure
from fdr_core.types import Floats

_RIDGE, _STEPS, _TOLERANCE = 0.25, 50, 1e-8
#: Of a feature at least this share must differ between answers to the same items.
_LEAST_OWN = 0.02


@dataclass(frozen=True)
class WithoutTaste:
    """
    Item scores with and without what the crowd makes of features.

    Attributes
    ----------
    tastes : lean, coefficient (log odds at a typical difference) with se, and share: of such pairs, how many more
        choose the item that has it than would without.
    ranking : item, score, rank (taste taken out), plain_score, plain_rank; best first. Empty where there is a reason.
    reason : why nothing can be taken out.
    """

    tastes: pd.DataFrame
    ranking: pd.DataFrame
    reason: str = ""


def without_taste(data: Comparisons, leans: Sequence[str | Feature]) -> WithoutTaste:
    """Fit ``logit P(left) = theta_left - theta_right + beta'x`` (Bradley and Terry with features), and without x."""
    features = chosen_features(leans)
    x, n, rows = measure(data, features), data.n_items, np.arange(len(data))
    ends = (np.ones(len(data)), (rows, data.left)), (np.ones(len(data)), (rows, data.right))
    design = sp.csr_array(ends[0], shape=(len(data), n)) - sp.csr_array(ends[1], shape=(len(data), n))
    own = [_own_share(design, column) for column in x.T]
    same = [feature.name for feature, share in zip(features, own, strict=True) if share < _LEAST_OWN]
    if same or n > DENSE_ITEMS:
        why = f"{' and '.join(same)} is the same whenever two items meet, so it cannot be told from their quality"
        return WithoutTaste(pd.DataFrame(), pd.DataFrame(), why if same else f"{n:,} items are too many for this")
    y = (1.0 + data.outcome) / 2.0
    plain, _ = _fit(design.toarray(), y, n)
    predictors = np.column_stack([design.toarray(), x])
    fitted, covariance = _fit(predictors, y, n)
    eta, beta = predictors @ fitted, fitted[n:]
    share = [
        float(np.mean((np.sign(f) * (expit(eta) - expit(eta - b * f)))[f != 0])) for f, b in zip(x.T, beta, strict=True)
    ]
    tastes = pd.DataFrame(
        {
            "lean": [f.name for f in features],
            "coefficient": beta,
            "se": np.sqrt(np.diag(covariance)[n:]),
            "share": share,
        }
    )
    table = pd.DataFrame({"item": data.items})
    for name, theta in (("", fitted[:n]), ("plain_", plain)):
        table[f"{name}score"] = theta - theta.mean()
        table[f"{name}rank"] = rankdata(-theta, method="min").astype(int)
    return WithoutTaste(tastes, table.sort_values("rank", kind="stable", ignore_index=True))


def _own_share(design: sp.csr_array, x: Floats) -> float:
    """How much of a feature the items of an answer do not explain."""
    explained = design @ sp.linalg.lsqr(design, x)[0]
    return float(np.sum((x - explained) ** 2) / np.sum(x**2))


def _fit(predictors: Floats, y: Floats, n_items: int) -> tuple[Floats, Floats]:
    """Newton's steps, with a ridge on the items' scores; estimates and covariance."""
    ridge = np.diag(np.where(np.arange(predictors.shape[1]) < n_items, _RIDGE, 0.0))
    at = np.zeros(predictors.shape[1])
    inverse = ridge
    for _ in range(_STEPS):
        mu = expit(predictors @ at)
        inverse = np.linalg.inv((predictors.T * (mu * (1 - mu))) @ predictors + ridge)
        step = inverse @ (predictors.T @ (y - mu) - ridge @ at)
        at = at + step * min(1.0, 1.0 / max(float(np.abs(step).max()), 1e-300))
        if np.abs(step).max() < _TOLERANCE:
            break
    return at, inverse
