"""Item scores before and after correction, with standard errors and rank intervals, per connected component."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import scipy.sparse as sp
from numpy.typing import NDArray

from fdr_core.design import DENSE_ITEMS, SparseItems, components_of, item_solver
from fdr_core.statistics import Sums

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Standard normal quantile of the 95 % intervals.
Z95 = 1.959963984540054
#: At most this many changed pairs are listed, the clearest first.
MAX_ORDER_CHANGES = 10_000
_PROBES = 64


@dataclass(frozen=True)
class Refit:
    """Least squares on theta and the biases of the flagged annotators (end of the paper's section 2.3).

    Attributes
    ----------
    theta : (n,) scores, centred within components; raw : (n,) the same without any bias term.
    gamma : (k,) biases of the flagged annotators; variance : noise variance; component : (n,) of every item.
    unit_cov : (n, n) covariance of theta per unit of variance, or None where only that of the item graph is known.
    """

    theta: Floats
    raw: Floats
    gamma: Floats
    variance: float
    component: Ints
    unit_cov: Floats | None


def refit(sums: Sums, flagged: Ints, *, fallback_ridge: float) -> Refit:
    """Refit with the flagged annotators' biases as free parameters.

    The biases are eliminated: ``(L - B N^{-1} B') theta = D'y - B N^{-1} A'y``, so that nothing grows with their number
    but sums. Where item scores absorb the biases (unique pairs), and beyond ``DENSE_ITEMS`` items, the biases are
    estimated with ``fallback_ridge`` on theta.
    """
    laplacian = sums.laplacian
    component = components_of(laplacian).astype(np.int64)
    solver = item_solver(laplacian)
    raw = _centred(solver.solve(sums.Dy), component)
    B, counts, Ay = sums.B[:, flagged], sums.counts[flagged], sums.Ay[flagged]
    right = sums.Dy - B @ (Ay / counts)
    unit_cov = None if isinstance(solver, SparseItems) else _unit_covariance(laplacian, B, counts, component)
    if unit_cov is not None:
        theta = _centred(unit_cov @ right, component)
        gamma = (Ay - B.T @ theta) / counts
    else:
        gamma = (Ay - B.T @ SparseItems(laplacian, fallback_ridge).solve_reduced(B, counts, right)) / counts
        theta = _centred(solver.solve(sums.Dy - B @ gamma), component)
    rss = sums.yy - 2 * float(theta @ sums.Dy + gamma @ Ay)
    rss += float(theta @ (laplacian @ theta)) + 2 * float(theta @ (B @ gamma)) + float(gamma**2 @ counts)
    df = max(sums.n - solver.rank - len(flagged), 1.0)
    return Refit(theta, raw, gamma, max(rss, 0.0) / df, component, unit_cov)


def _unit_covariance(laplacian: sp.csr_array, B: sp.csr_array, counts: Floats, component: Ints) -> Floats | None:
    """Pseudo-inverse of ``L - B N^{-1} B'``; None where item scores absorb the biases."""
    same = (component[:, None] == component[None, :]) / np.bincount(component)[component]
    reduced = (
        laplacian.toarray() - np.asarray((B * (1.0 / counts)) @ B.T.toarray()) if len(counts) else laplacian.toarray()
    )
    scale = 1.0 / np.sqrt(np.maximum(laplacian.diagonal(), 1.0))
    pinned = reduced + same
    if len(counts) and float(np.linalg.eigvalsh(pinned * scale[:, None] * scale[None, :])[0]) < 1e-6:
        return None
    return np.asarray(np.linalg.inv(pinned) - same)


def ranking_table(fit: Refit, sums: Sums, items: NDArray[np.object_]) -> pd.DataFrame:
    """The ranking, best first within each component, raw beside corrected."""
    n = len(items)
    spread = _Spread(fit, sums)
    se, low, high = np.zeros(n), np.ones(n, dtype=np.int64), np.ones(n, dtype=np.int64)
    rank, raw_rank = np.ones(n, dtype=np.int64), np.ones(n, dtype=np.int64)
    order = np.argsort(fit.component, kind="stable")
    for members in np.split(order, np.flatnonzero(np.diff(fit.component[order])) + 1) if n else []:
        rank[members] = _ranks(fit.theta[members])
        raw_rank[members] = _ranks(fit.raw[members])
        se[members], low[members], high[members] = spread.of(members)
    frame = pd.DataFrame(
        {
            "item": items,
            "score": fit.theta,
            "se": se,
            "rank": rank,
            "rank_low": np.minimum(low, rank),
            "rank_high": np.maximum(high, rank),
            "raw_score": fit.raw,
            "raw_rank": raw_rank,
            "component": fit.component,
        }
    )
    return frame.sort_values(["component", "rank"], kind="stable", ignore_index=True)


def order_changes(fit: Refit, items: NDArray[np.object_]) -> pd.DataFrame:
    """Pairs whose order the correction turned, the clearest first: ``above`` now ranks over ``below``."""
    rows: list[tuple[Ints, Ints]] = []
    order = np.argsort(fit.component, kind="stable")
    for members in np.split(order, np.flatnonzero(np.diff(fit.component[order])) + 1) if len(items) else []:
        if 1 < len(members) <= DENSE_ITEMS and not np.array_equal(fit.theta[members], fit.raw[members]):
            new = fit.theta[members][:, None] - fit.theta[members][None, :]
            old = fit.raw[members][:, None] - fit.raw[members][None, :]
            above, below = np.nonzero((new > 1e-12) & (old < -1e-12))
            rows.append((members[above], members[below]))
    above = np.concatenate([np.zeros(0, dtype=np.int64), *(a for a, _ in rows)])
    below = np.concatenate([np.zeros(0, dtype=np.int64), *(b for _, b in rows)])
    difference = fit.theta[above] - fit.theta[below]
    keep = np.argsort(-difference, kind="stable")[:MAX_ORDER_CHANGES]
    above, below = above[keep], below[keep]
    return pd.DataFrame(
        {
            "above": items[above],
            "below": items[below],
            "raw_difference": fit.raw[above] - fit.raw[below],
            "difference": difference[keep],
        }
    )


class _Spread:
    """Standard errors and rank intervals of one component at a time."""

    def __init__(self, fit: Refit, sums: Sums) -> None:
        self._fit = fit
        self._laplacian = sums.laplacian

    def of(self, members: Ints) -> tuple[Floats, Ints, Ints]:
        if len(members) == 1:
            return np.zeros(1), np.ones(1, dtype=np.int64), np.ones(1, dtype=np.int64)
        if len(members) > DENSE_ITEMS:
            return self._large(members)
        cov = self._covariance(members)
        variance = np.diag(cov)
        gap = self._fit.theta[members][:, None] - self._fit.theta[members][None, :]
        margin = Z95 * np.sqrt(np.maximum(variance[:, None] + variance[None, :] - 2 * cov, 0.0))
        low = 1 + (gap < -margin).sum(axis=1)
        high = len(members) - (gap > margin).sum(axis=1)
        return np.sqrt(np.maximum(variance, 0.0)), low, high

    def _covariance(self, members: Ints) -> Floats:
        """``sigma^2 (L - B N^{-1} B')^+``: theta is less certain for the correction; else that of the item graph."""
        if self._fit.unit_cov is not None:
            return np.asarray(self._fit.variance * self._fit.unit_cov[np.ix_(members, members)])
        size = len(members)
        L = self._laplacian[members][:, members].toarray()
        return np.asarray(self._fit.variance * (np.linalg.inv(L + 1.0 / size) - 1.0 / size))

    def _large(self, members: Ints) -> tuple[Floats, Ints, Ints]:
        """Many items: the diagonal of L^+ by random probes, rank intervals from intervals that do not overlap."""
        L = sp.csr_array(self._laplacian[members][:, members])
        probes = np.random.default_rng(0).choice([-1.0, 1.0], size=(len(members), _PROBES))
        probes -= probes.mean(axis=0)
        solved = item_solver(L).solve(probes)
        diagonal = np.maximum((probes * solved).mean(axis=1), 1.0 / np.maximum(L.diagonal(), 1.0))
        se = np.sqrt(self._fit.variance * diagonal)
        theta = self._fit.theta[members]
        lower, upper = np.sort(theta - Z95 * se), np.sort(theta + Z95 * se)
        low = 1 + len(members) - np.searchsorted(lower, theta + Z95 * se, side="right")
        high = len(members) - np.searchsorted(upper, theta - Z95 * se, side="left")
        return se, low, high


def _centred(theta: Floats, component: Ints) -> Floats:
    sizes = np.bincount(component)
    return theta - (np.bincount(component, theta) / sizes)[component]


def _ranks(score: Floats) -> Ints:
    """1 for the best; equal scores share the better rank."""
    ordered = np.sort(-score)
    return np.searchsorted(ordered, -score, side="left") + 1
