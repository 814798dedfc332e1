"""Standard errors and rank intervals of item scores, per connected component, densely for few items."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp

from fdr_core.design import DENSE_ITEMS, item_solver
from fdr_core.types import Floats, Ints, Mask

#: Standard normal quantile of the 95 % intervals.
Z95 = 1.959963984540054
#: Small components are looked at together, this many items at a time.
_BATCH = 64
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
        """Covariance among the items of whole components."""
        if self._known is not None:
            return np.asarray(self._known[np.ix_(members, members)])
        same = same_component(self.component[members])
        share = same / same.sum(axis=1)
        pinned = self._laplacian[members][:, members].toarray() + share
        pinned[np.diag_indices_from(pinned)] += self._ridge
        return np.asarray(self._variance * (np.linalg.inv(pinned) - share / (1.0 + self._ridge)))

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
    for members in batches_of(uncertainty.component):
        of_batch = _of_many if len(members) > DENSE_ITEMS else _of_few
        se[members], low[members], high[members] = of_batch(theta[members], members, uncertainty)
    return se, low, high


def batches_of(component: Ints) -> Iterator[Ints]:
    """Items of whole components, small components together."""
    order = np.argsort(component, kind="stable")
    starts = np.flatnonzero(np.diff(component[order], prepend=-1))
    ends = np.append(starts[1:], len(order))
    first = 0
    for k, end in enumerate(ends):
        if k + 1 == len(ends) or ends[k + 1] - starts[first] > _BATCH:
            yield order[starts[first] : end]
            first = k + 1


def same_component(component: Ints) -> Mask:
    """Whether two items can be compared."""
    return np.asarray(component[:, None] == component[None, :])


def _of_few(theta: Floats, members: Ints, uncertainty: Uncertainty) -> tuple[Floats, Ints, Ints]:
    """Rank intervals from all differences that are clear."""
    cov = uncertainty.covariance(members)
    same = same_component(uncertainty.component[members])
    variance = np.maximum(np.diag(cov), 0.0)
    gap = theta[:, None] - theta[None, :]
    margin = Z95 * np.sqrt(np.maximum(variance[:, None] + variance[None, :] - 2 * cov, 0.0))
    low = 1 + ((gap < -margin) & same).sum(axis=1)
    high = same.sum(axis=1) - ((gap > margin) & same).sum(axis=1)
    return np.sqrt(variance), low, high


def _of_many(theta: Floats, members: Ints, uncertainty: Uncertainty) -> tuple[Floats, Ints, Ints]:
    """Rank intervals from score intervals that do not overlap."""
    se = np.sqrt(uncertainty.diagonal(members))
    lower, upper = np.sort(theta - Z95 * se), np.sort(theta + Z95 * se)
    low = 1 + len(members) - np.searchsorted(lower, theta + Z95 * se, side="right")
    high = len(members) - np.searchsorted(upper, theta - Z95 * se, side="left")
    return se, low, high
