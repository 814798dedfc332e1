"""Item scores before and after correction, with standard errors and rank intervals, per connected component."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import ndtr

from fdr_core.answers import Answers, Sums
from fdr_core.consensus.logistic_ranking import logistic_ranking
from fdr_core.design import DENSE_ITEMS, SparseItems, components_of, item_solver
from fdr_core.errors import ConfigurationError
from fdr_core.types import Floats, Ints

#: Standard normal quantile of the 95 % intervals.
Z95 = 1.959963984540054
#: Components of one size are looked at together, up to this many cells of their covariances at a time.
_MOST_CELLS = DENSE_ITEMS**2
_PROBES = 64


class Uncertainty:
    """Covariance of scores that are centred within components.

    Parameters
    ----------
    laplacian : information on the scores, per unit of ``variance``.
    component : (n,) of every item.
    ridge : added to the information.
    covariance : (n, n) of the centred scores where it is known; else that of the item graph is used.
    """

    def __init__(
        self,
        laplacian: sp.csr_array,
        component: Ints,
        *,
        variance: float = 1.0,
        ridge: float = 0.0,
        covariance: Floats | None = None,
    ) -> None:
        self._laplacian, self._variance, self._ridge, self._known = laplacian, variance, ridge, covariance
        self.component = component

    def covariance(self, members: Ints) -> Floats:
        """(k, s, s) covariance within k whole components of s items each, given as (k, s)."""
        if self._known is not None:
            return np.asarray(self._known[members[:, :, None], members[:, None, :]])
        k, s = members.shape
        if s == 2:  # one number: what is known of the difference
            variance = self._variance / (2 * (2 * self._laplacian.diagonal()[members[:, 0]] + self._ridge))
            return np.asarray(variance[:, None, None] * np.array([[1.0, -1.0], [-1.0, 1.0]]))
        rows = self._laplacian[members.ravel()]
        place = np.zeros(rows.shape[1], dtype=np.int64)
        place[members.ravel()] = np.tile(np.arange(s), k)
        pinned = np.full((k * s, s), 1 / s)
        pinned[np.repeat(np.arange(k * s), np.diff(rows.indptr)), place[rows.indices]] += rows.data
        pinned = pinned.reshape(k, s, s) + self._ridge * np.eye(s)
        return np.asarray(self._variance * (np.linalg.inv(pinned) - 1 / s / (1.0 + self._ridge)))

    def diagonal(self, members: Ints) -> Floats:
        """Variances in a component of many items, by random probes."""
        L = sp.csr_array(self._laplacian[members][:, members])
        probes = np.random.default_rng(0).choice([-1.0, 1.0], size=(len(members), _PROBES))
        probes -= probes.mean(axis=0)
        solved = item_solver(L, ridge=self._ridge).solve(probes)
        least = 1.0 / np.maximum(L.diagonal() + self._ridge, 1e-300)
        return np.asarray(self._variance * np.maximum((probes * solved).mean(axis=1), least))

    def of_differences(self, one: Ints, other: Ints, se: Floats) -> Floats:
        """Standard error of ``theta[one] - theta[other]``; from ``se`` alone where no covariance is known."""
        if self._known is not None:
            K = self._known
            return np.sqrt(np.maximum(K[one, one] + K[other, other] - 2 * K[one, other], 0.0))
        is_pair = np.bincount(self.component)[self.component[one]] == 2  # centred, so one score is minus the other
        return np.where(is_pair, se[one] + se[other], np.hypot(se[one], se[other]))


def spread_and_ranks(theta: Floats, uncertainty: Uncertainty) -> tuple[Floats, Ints, Ints]:
    """Standard errors, and the lowest and highest rank of every item within its component."""
    n = len(theta)
    se, low, high = np.zeros(n), np.ones(n, dtype=np.int64), np.ones(n, dtype=np.int64)
    for members in stacks_of(uncertainty.component):
        if members.shape[1] > DENSE_ITEMS:
            (one,) = members
            se[one], low[one], high[one] = _of_many(theta[one], one, uncertainty)
        else:
            se[members], low[members], high[members] = _of_few(theta[members], uncertainty.covariance(members))
    return se, low, high


def stacks_of(component: Ints) -> Iterator[Ints]:
    """Items of whole components, as (k, s): k components of the same size s at a time."""
    size = np.bincount(component)
    order = np.argsort(size[component] * (len(size) + 1) + component, kind="stable")
    first = 0
    for s, n_items in enumerate((np.bincount(size) * np.arange(int(size.max(initial=0)) + 1)).tolist()):
        at_once = s * max(1, _MOST_CELLS // max(s, 1) ** 2)
        for start in range(first, first + n_items, at_once or 1):
            yield order[start : min(start + at_once, first + n_items)].reshape(-1, s)
        first += n_items


def _of_few(theta: Floats, cov: Floats) -> tuple[Floats, Ints, Ints]:
    """Rank intervals from all differences that are clear; of k components of s items, (k, s) and (k, s, s)."""
    variance = np.maximum(np.diagonal(cov, axis1=1, axis2=2), 0.0)
    gap = theta[:, :, None] - theta[:, None, :]
    margin = Z95 * np.sqrt(np.maximum(variance[:, :, None] + variance[:, None, :] - 2 * cov, 0.0))
    low = 1 + (gap < -margin).sum(axis=2)
    high = theta.shape[1] - (gap > margin).sum(axis=2)
    return np.sqrt(variance), low, high


def _of_many(theta: Floats, members: Ints, uncertainty: Uncertainty) -> tuple[Floats, Ints, Ints]:
    """Rank intervals from score intervals that do not overlap."""
    se = np.sqrt(uncertainty.diagonal(members))
    lower, upper = np.sort(theta - Z95 * se), np.sort(theta + Z95 * se)
    low = 1 + len(members) - np.searchsorted(lower, theta + Z95 * se, side="right")
    high = len(members) - np.searchsorted(upper, theta - Z95 * se, side="left")
    return se, low, high


#: How item scores are fitted.
METHODS = ("logistic", "least squares")
#: Items of pairs are not ranked from so many on, where they are at least this share of all.
FEWEST_IN_PAIRS, NEARLY_ALL = 20, 0.95
#: Scores this close are equal: the rest is rounding.
TIE = 1e-9
#: At most this many changed pairs are listed, the clearest first.
MAX_ORDER_CHANGES = 10_000


@dataclass(frozen=True)
class Ranking:
    """Item scores and how sure they are.

    Attributes
    ----------
    theta, raw : (n,) scores with and without the leans of the flagged, centred within components.
    se : (n,) standard errors of theta; rank_low, rank_high : (n,) 95 % interval of every rank within its component.
    component : (n,) of every item; uncertainty : covariances, for the certainty of an order.
    converged, n_iter : of the fit, whether it settled and after how many steps.
    """

    method: str
    theta: Floats
    raw: Floats
    se: Floats
    rank_low: Ints
    rank_high: Ints
    component: Ints
    uncertainty: Uncertainty
    converged: bool
    n_iter: int

    def table(self, items: NDArray[np.object_]) -> pd.DataFrame:
        """The ranking, best first within each component, raw beside corrected.

        Where nearly all items stand in pairs of their own there is nothing to rank: ranks are NaN, and a column
        ``probability`` tells how probably each item of a pair is the better one (normal approximation).
        """
        rank = _ranks(self.theta, self.component)
        frame = pd.DataFrame(
            {
                "item": items,
                "score": self.theta,
                "se": self.se,
                "rank": rank,
                "rank_low": np.minimum(self.rank_low, rank),
                "rank_high": np.maximum(self.rank_high, rank),
                "raw_score": self.raw,
                "raw_rank": _ranks(self.raw, self.component),
                "component": self.component,
            }
        )
        ordered = frame.sort_values(["component", "rank"], kind="stable", ignore_index=True)
        in_pair = np.bincount(self.component)[ordered["component"]] == 2
        if in_pair.sum() < FEWEST_IN_PAIRS or in_pair.mean() < NEARLY_ALL:
            return ordered
        better = ndtr(ordered["score"] / np.maximum(ordered["se"], 1e-12))  # half of the difference, and its error
        unranked = dict.fromkeys(("rank", "rank_low", "rank_high", "raw_rank"), np.nan)
        return ordered.assign(**unranked, probability=np.where(in_pair, better, np.nan))

    def order_changes(self, items: NDArray[np.object_]) -> pd.DataFrame:
        """Pairs whose order the correction turned, the clearest first: ``above`` now ranks over ``below``.

        ``probability``: that this order is right, given the answers (normal approximation).
        """
        above, below = _changed_pairs(self.theta, self.raw, self.component)
        difference = self.theta[above] - self.theta[below]
        keep = np.argsort(-difference, kind="stable")[:MAX_ORDER_CHANGES]
        above, below, difference = above[keep], below[keep], difference[keep]
        spread = self.uncertainty.of_differences(above, below, self.se)
        return pd.DataFrame(
            {
                "above": items[above],
                "below": items[below],
                "raw_difference": self.raw[above] - self.raw[below],
                "difference": difference,
                "probability": ndtr(difference / np.maximum(spread, 1e-12)),
            }
        )


def ranking(
    answers: Answers, sums: Sums, flagged: Ints, *, method: str = "logistic", fallback_ridge: float = 5.0
) -> Ranking:
    """Item scores with the flagged annotators' leans taken out.

    Parameters
    ----------
    answers : the table of answers.
    sums : of the same answers (`sum_answers`), with as many items and annotators as there are labels.
    flagged : codes of the flagged annotators; may be empty, then ``raw`` equals ``theta``.
    method : "logistic" (Bradley-Terry, adjacent categories for grades; scores are log odds), or "least squares" (the
        refit at the end of the paper's section 2.3; scores are mean outcomes).
    fallback_ridge : of "least squares", on theta where item scores absorb the biases.

    Returns
    -------
    Ranking
        ``ranking(...).table(items)`` has the columns item, score, se, rank, rank_low, rank_high, raw_score, raw_rank
        and component; ``.order_changes(items)`` above, below, raw_difference, difference and probability.

    Raises
    ------
    ConfigurationError
        Where the method is unknown.
    """
    if method not in METHODS:
        raise ConfigurationError(f"method is {method!r}; expected one of {', '.join(map(repr, METHODS))}")
    if method == "least squares":
        return ranking_of_refit(refit(sums, flagged, fallback_ridge=fallback_ridge), sums)
    fit = logistic_ranking(answers, flagged, n_items=len(sums.Dy), n_annotators=len(sums.counts))
    component = components_of(sums.laplacian).astype(np.int64)
    theta = _centred(fit.theta, component)
    covariance = None if fit.covariance is None else fit.covariance - _shares(component) / fit.ridge
    uncertainty = Uncertainty(fit.laplacian, component, ridge=fit.ridge, covariance=covariance)
    se, low, high = spread_and_ranks(theta, uncertainty)
    raw = _centred(fit.raw, component)
    return Ranking(method, theta, raw, se, low, high, component, uncertainty, fit.converged, fit.n_iter)


def ranking_of_refit(fit: Refit, sums: Sums) -> Ranking:
    """The ranking that a least-squares refit gives."""
    cov = None if fit.unit_cov is None else fit.variance * fit.unit_cov
    uncertainty = Uncertainty(sums.laplacian, fit.component, variance=fit.variance, covariance=cov)
    se, low, high = spread_and_ranks(fit.theta, uncertainty)
    return Ranking("least squares", fit.theta, fit.raw, se, low, high, fit.component, uncertainty, True, 1)


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
    same = _shares(component)
    reduced = (
        laplacian.toarray() - np.asarray((B * (1.0 / counts)) @ B.T.toarray()) if len(counts) else laplacian.toarray()
    )
    scale = 1.0 / np.sqrt(np.maximum(laplacian.diagonal(), 1.0))
    pinned = reduced + same
    if len(counts) and float(np.linalg.eigvalsh(pinned * scale[:, None] * scale[None, :])[0]) < 1e-6:
        return None
    return np.asarray(np.linalg.inv(pinned) - same)


def _changed_pairs(theta: Floats, raw: Floats, component: Ints) -> tuple[Ints, Ints]:
    """(above, below) of all pairs that ``theta`` orders unlike ``raw``, in components of at most `DENSE_ITEMS`."""
    rows = [(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))]
    for members in stacks_of(component):
        if 1 < members.shape[1] <= DENSE_ITEMS:
            changed = members[(theta[members] != raw[members]).any(axis=1)]
            new, old = (score[changed][:, :, None] - score[changed][:, None, :] for score in (theta, raw))
            of, above, below = np.nonzero((new > 1e-12) & (old < -1e-12))
            rows.append((changed[of, above], changed[of, below]))
    return np.concatenate([above for above, _ in rows]), np.concatenate([below for _, below in rows])


def _shares(component: Ints) -> Floats:
    """(n, n) projection on the components' means."""
    return np.asarray((component[:, None] == component[None, :]) / np.bincount(component)[component])


def _centred(theta: Floats, component: Ints) -> Floats:
    sizes = np.bincount(component)
    return theta - (np.bincount(component, theta) / sizes)[component]


def _ranks(score: Floats, component: Ints) -> Ints:
    """1 for the best of a component; equal scores share the better rank."""
    order = np.lexsort((-score, component))
    position = np.arange(len(order))
    starts = np.ones(len(order), dtype=bool)
    starts[1:] = np.diff(component[order]) != 0
    is_new = starts.copy()
    is_new[1:] |= np.abs(np.diff(score[order])) > TIE
    first = np.maximum.accumulate(np.where(starts, position, 0))
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.maximum.accumulate(np.where(is_new, position, 0)) - first + 1
    return rank
