"""One logistic regression per annotator, all at once: what an answer follows, with quality known.

``logit P(left) = alpha_j z + b_j + sum_f delta_jf x_f`` for annotator j; z the quality of left over right, x_f the
features, each changing its sign with the sides. Fitted with Firth's (1993) penalty, so that an annotator who always
follows z has finite coefficients and an honest error.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit
from scipy.stats import norm

from fdr_core.types import Floats, Ints, Mask

_STEPS, _LONGEST_STEP, _TOLERANCE = 60, 1.0, 1e-5


@dataclass(frozen=True)
class Regressions:
    """
    Coefficients per annotator.

    Attributes
    ----------
    coefficient : (m, p); NaN where they cannot be told apart.
    covariance : (m, p, p)
    is_fitted : (m,) whether all coefficients can be told apart and the steps became small.
    """

    coefficient: Floats
    covariance: Floats
    is_fitted: Mask

    def error(self, k: int) -> Floats:
        """Standard errors of one coefficient."""
        return np.asarray(np.sqrt(self.covariance[:, k, k]))


def regress(
    x: Floats,
    y: Floats,
    who: Ints,
    m: int,
    cluster: Ints | None = None,
    *,
    fewest: int = 0,
    start: Floats | None = None,
) -> Regressions:
    """
    Fit everybody's regression.

    Parameters
    ----------
    x : (N, p) predictors; y : (N,) in [0, 1], 1 for left; who : (N,) in [0, m).
    cluster : (N,) optional
        Answers of one annotator to one pair share a code: their errors are not independent, so the covariance is the
        sandwich over clusters (White 1980), with its correction for few of them.
    fewest : answers below which nobody is fitted.
    start : (m, k <= p) coefficients to begin at.
    """
    order, p = np.argsort(who, kind="stable"), x.shape[1]
    columns, y, who = np.ascontiguousarray(x[order].T), y[order], who[order]
    enough = np.bincount(who, minlength=m) >= fewest
    enough &= _can_be_told_apart(_Symmetric(p).matrices(_SumsBy(who, m).of(_Symmetric(p).products(columns))))
    rows = enough[who]
    columns, y, who = columns[:, rows], y[rows], who[rows]
    sums, upper = _SumsBy(who, m), _Symmetric(p)
    products, beta = upper.products(columns), np.zeros((p, m))
    if start is not None:
        beta[: start.shape[1]] = np.nan_to_num(start.T)
    empty = np.where(enough, 1e-10, 1.0)[:, None, None] * np.eye(p)
    inverse, residual, moved = np.zeros((m, p, p)), y, np.ones(m)
    for _ in range(_STEPS):
        mu = expit(_dot(columns, beta[:, who]))
        weight, residual = mu * (1 - mu), y - mu
        inverse = np.asarray(np.linalg.inv(upper.matrices(sums.of(products * weight)) + empty))
        leverage = weight * _dot(products, upper.entries(inverse)[:, who])
        gradient = sums.of(columns * (residual + leverage * (0.5 - mu)))
        step = np.einsum("mpq,qm->pm", inverse, gradient)
        moved = np.abs(step).max(axis=0, initial=0.0)
        beta = beta + step * np.minimum(1.0, _LONGEST_STEP / np.maximum(moved, 1e-300))
        if (moved < _TOLERANCE).all():
            break
    covariance: Floats = inverse
    if cluster is not None:
        covariance = _sandwich(inverse, columns * residual, cluster[order][rows], who)
    is_fitted = enough & (moved < 1e-3)
    return Regressions(
        np.where(is_fitted[:, None], beta.T, np.nan),
        np.where(is_fitted[:, None, None], covariance, np.nan),
        np.asarray(is_fitted),
    )


def _dot(one: Floats, two: Floats) -> Floats:
    """Products of columns, over rows of both."""
    return np.asarray(np.einsum("pn,pn->n", one, two))


class _SumsBy:
    """Sums over every annotator's answers, which lie together: (k, N) to (k, m)."""

    def __init__(self, who: Ints, m: int) -> None:
        self._m = m
        self._first = np.flatnonzero(np.diff(who, prepend=-1))
        self._who = who[self._first]

    def of(self, value: Floats) -> Floats:
        total = np.zeros((len(value), self._m))
        if len(self._first):
            total[:, self._who] = np.add.reduceat(value, self._first, axis=1)
        return total


class _Symmetric:
    """Symmetric matrices by the entries on and above the diagonal."""

    def __init__(self, p: int) -> None:
        self._row, self._column = np.triu_indices(p)
        self._p = p

    def products(self, columns: Floats) -> Floats:
        """(p, N) to (p (p + 1) / 2, N)."""
        return np.asarray(columns[self._row] * columns[self._column])

    def matrices(self, sums: Floats) -> Floats:
        """(p (p + 1) / 2, m) to (m, p, p)."""
        found = np.empty((sums.shape[1], self._p, self._p))
        found[:, self._row, self._column] = found[:, self._column, self._row] = sums.T
        return found

    def entries(self, matrices: Floats) -> Floats:
        """(m, p, p) to (p (p + 1) / 2, m), entries off the diagonal doubled: for quadratic forms."""
        twice = np.where(self._row == self._column, 1.0, 2.0)
        return np.asarray((matrices[:, self._row, self._column] * twice).T)


def _can_be_told_apart(gram: Floats) -> Mask:
    """Whether the predictors of each annotator are far enough from being combinations of each other."""
    size = np.sqrt(np.einsum("mpp->mp", gram))
    is_there = (size > 1e-9).all(axis=1)
    size[~is_there] = 1.0
    smallest = np.linalg.eigvalsh(gram / size[:, :, None] / size[:, None, :])[:, 0]
    return np.asarray(is_there & (smallest > 1e-3))


def _sandwich(inverse: Floats, score: Floats, cluster: Ints, who: Ints) -> Floats:
    """``V (sum over clusters of u u') V``, with n / (n - p) for the n clusters of an annotator."""
    m, p = inverse.shape[:2]
    order = np.lexsort((cluster, who))
    is_first = (np.diff(cluster[order], prepend=-1) != 0) | (np.diff(who[order], prepend=-1) != 0)
    first = np.flatnonzero(is_first)
    total = np.add.reduceat(score[:, order], first, axis=1) if len(first) else np.zeros((p, 0))
    owner, upper = who[order][first], _Symmetric(p)
    meat = upper.matrices(_SumsBy(owner, m).of(upper.products(total)))
    n = np.bincount(owner, minlength=m)
    return np.asarray(inverse @ meat @ inverse * (n / np.maximum(n - p, 1))[:, None, None])


def wald_p_values(estimate: Floats, error: Floats, least: float) -> Floats:
    """P-values against ``|delta| <= least``: two-sided, and exact at the border of the null for a normal estimate."""
    size = np.abs(estimate)
    return np.asarray(norm.sf((size - least) / error) + norm.sf((size + least) / error))
