"""What all paths share: the problem in Gram form, the races between an annotator's columns, the result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from fdr_core.design import DENSE_ITEMS, ItemSolver
from fdr_core.types import Floats, Ints, Mask

#: Columns that enter within this relative distance are tied.
TIE = 1e-9


@dataclass(frozen=True)
class PathProblem:
    """``minimise 1/2 |y - D theta - X gamma|^2`` with theta at its least-squares value, known by Gram matrix only.

    The columns of X stand in ``lanes`` blocks of ``m`` (column ``k m + j`` is lane k of annotator j; lane 0 is the
    annotator's own column). The Gram matrix is ``G = I + link - F'F``: ``rows = F'``, and ``link`` couples lane 0 and
    lane 1 of the same annotator (``1 - s`` in the paper's construction, nothing for coin flips).

    Parameters
    ----------
    c : (lanes * m,) correlations ``X'(y - D theta_hat)``.
    rows : (lanes * m, n) array, dense or sparse; together with a ``solver``, ``F'F = rows K^{-1} rows'``.
    link : (m,) coupling of the two lanes of an annotator, or None.
    """

    c: Floats
    rows: Any
    m: int
    lanes: int
    link: Floats | None = None
    solver: ItemSolver | None = None

    @property
    def norm_bound(self) -> float:
        """An upper bound of the largest eigenvalue of G among columns that may be active together."""
        return 1.0 if self.link is None else 1.0 + float(np.abs(self.link).max(initial=0.0))

    def pull(self, columns: Ints, gamma: Floats) -> Floats:
        """Return ``r = F gamma`` for the given nonzero columns."""
        r = np.asarray(self.rows[columns].T @ gamma)
        return r if self.solver is None else self.solver.solve(r)

    def velocity(self, gamma: Floats) -> Floats:
        """Return ``c - G gamma``, the correlations with the residual."""
        active = np.flatnonzero(gamma)
        v = self.c - gamma
        if len(active):
            v += self.rows @ self.pull(active, gamma[active])
            if self.link is not None:
                v -= self._linked(gamma)
        return v

    def gram(self, one: Ints, other: int) -> Floats:
        """Return ``G[one, other]``."""
        r = self.row(other) if self.solver is None else self.solver.solve(self.row(other))
        g = -np.asarray(self.rows[one] @ r)
        g[one == other] += 1.0
        if self.link is not None:
            g[one == (other + self.m) % (2 * self.m)] += self.link[other % self.m]
        return g

    def row(self, index: int) -> Floats:
        """Return one row of ``F'`` as a dense vector."""
        row = self.rows[[index]]
        return np.asarray(row.toarray() if sp.issparse(row) else row).ravel()

    def _linked(self, gamma: Floats) -> Floats:
        assert self.link is not None
        own, other = gamma[: self.m], gamma[self.m :]
        return np.concatenate([self.link * other, self.link * own])


class ActiveRows:
    """The rows of F' of the columns that entered so far, side by side, so that ``F gamma`` is one product."""

    def __init__(self, problem: PathProblem) -> None:
        self._problem = problem
        self._n = problem.rows.shape[1]
        self._is_dense = self._n <= DENSE_ITEMS
        self._buffer: Any = np.empty((64, self._n)) if self._is_dense else sp.csr_array((0, self._n))
        self.columns: Ints = np.zeros(0, dtype=np.int64)
        self._c = np.zeros(0)

    def add(self, columns: Ints) -> None:
        """Append columns that enter now."""
        n_before, n_after = len(self.columns), len(self.columns) + len(columns)
        self.columns = np.concatenate([self.columns, columns])
        self._c = self._problem.c[self.columns]
        rows = self._problem.rows[columns]
        if not self._is_dense:
            self._buffer = sp.vstack([self._buffer, rows], format="csr")
            return
        if n_after > len(self._buffer):
            self._buffer = np.concatenate([self._buffer, np.empty((n_after, self._n))])
        self._buffer[n_before:n_after] = rows.toarray() if sp.issparse(rows) else rows

    def pull(self, gamma: Floats) -> Floats:
        """Return ``F gamma`` of the entered columns, or with a solver ``K^{-1} F gamma``."""
        if not len(gamma):
            return np.zeros(self._n)
        r = np.asarray(gamma @ self._rows)
        return r if self._problem.solver is None else self._problem.solver.solve(r)

    def velocity(self, pull: Floats, gamma: Floats) -> Floats:
        """Return ``c - G gamma`` on the entered columns."""
        v = self._c + self._rows @ pull - gamma
        link, m = self._problem.link, self._problem.m
        if link is not None:
            full = np.zeros(2 * m)
            full[self.columns] = gamma
            v -= link[self.columns % m] * full[(self.columns + m) % (2 * m)]
        return np.asarray(v)

    @property
    def _rows(self) -> Any:
        return self._buffer[: len(self.columns)] if self._is_dense else self._buffer


@dataclass(frozen=True)
class Path:
    """Where every column entered.

    ``entry`` is the level (``1/t`` or ``lambda``; 0 where the column did not enter before the path ended), ``times``
    and ``gamma`` the recorded path (``1/level`` for LASSO), ``stopped_early`` tells that no later entry could matter.
    """

    entry: Floats
    n_iter: int
    converged: bool
    stopped_early: bool
    times: Floats
    gamma: Floats


class Races:
    """One race per annotator: which of its columns enters first.

    With ``close`` a decided race takes the annotator's other columns out of the path, so that at most one column of an
    annotator is ever active; columns are treated alike, which is all that the validity of coin flips needs. Ties
    (relative 1e-9) are drawn uniformly. ``limit`` is the exact early stop: once more than that many races were lost,
    no later threshold can pass; without a limit the path is followed to its end.
    """

    def __init__(self, problem: PathProblem, *, close: bool, limit: float, rng: np.random.Generator) -> None:
        self._m = problem.m
        self.closes = close
        self.rng = rng
        self._limit = limit
        self._losses = 0
        self._decided = np.zeros(problem.m, dtype=bool)
        self.is_open = np.ones(problem.m * problem.lanes, dtype=bool)

    @property
    def over(self) -> bool:
        """Whether every race is decided or no later entry can change the selection."""
        if np.isinf(self._limit):
            return False
        return self._losses > self._limit or bool(self._decided.all())

    def enter(self, columns: Ints, levels: Floats) -> Mask:
        """Take columns that reach the path now; return which of them really enter."""
        annotator = columns % self._m
        enters = np.ones(len(columns), dtype=bool)
        for j in sorted(set(annotator[~self._decided[annotator]].tolist())):
            contenders = np.flatnonzero(annotator == j)
            enters[contenders] = self._decide(j, columns[contenders], levels[contenders])
        return enters

    def _decide(self, j: int, columns: Ints, levels: Floats) -> Mask:
        """Decide one race; return which of the columns that reach the path enter."""
        self._decided[j] = True
        winner, is_draw = 0, False
        if len(columns) > 1:
            tied = np.flatnonzero(levels >= levels.max() * (1 - TIE))
            winner = int(tied[0]) if len(tied) == 1 else int(tied[self.rng.integers(len(tied))])
            is_draw = len(tied) > 1 and not self.closes  # W = 0: neither a win nor a loss
        self._losses += bool(columns[winner] >= self._m and not is_draw)
        if not self.closes:
            return np.ones(len(columns), dtype=bool)
        self.is_open[j :: self._m] = False
        self.is_open[columns[winner]] = True
        return np.asarray(np.arange(len(columns)) == winner)


def no_races(problem: PathProblem) -> Races:
    """Races that never close a column nor stop a path: for paths followed for their own sake."""
    return Races(problem, close=False, limit=np.inf, rng=np.random.default_rng(0))
