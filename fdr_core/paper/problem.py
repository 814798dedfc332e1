"""The problem every path follows: annotators and copies beside the item scores, who stands on a path, who waits."""

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
    no later threshold can pass; without a limit the path is followed to its end. ``cost`` (m,) is what a loss counts
    towards it, 1 by default: less where a win would not have counted.
    """

    def __init__(
        self,
        problem: PathProblem,
        *,
        close: bool,
        limit: float,
        rng: np.random.Generator,
        cost: Floats | None = None,
    ) -> None:
        self._m = problem.m
        self.closes = close
        self.rng = rng
        self._limit = limit + 1e-9  # costs are summed with rounding
        self._cost = np.ones(problem.m) if cost is None else cost
        self._lost = 0.0
        self._decided = np.zeros(problem.m, dtype=bool)
        self.is_open = np.ones(problem.m * problem.lanes, dtype=bool)

    @property
    def over(self) -> bool:
        """Whether every race is decided or no later entry can change the selection."""
        if np.isinf(self._limit):
            return False
        return self._lost > self._limit or bool(self._decided.all())

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
        self._lost += self._cost[j] * bool(columns[winner] >= self._m and not is_draw)
        if not self.closes:
            return np.ones(len(columns), dtype=bool)
        self.is_open[j :: self._m] = False
        self.is_open[columns[winner]] = True
        return np.asarray(np.arange(len(columns)) == winner)


def no_races(problem: PathProblem) -> Races:
    """Races that never close a column nor stop a path: for paths followed for their own sake."""
    return Races(problem, close=False, limit=np.inf, rng=np.random.default_rng(0))


#: A column whose part outside the span of the support is smaller than this (squared) adds nothing to it.
DEPENDENT = 1e-10


class Support:
    """The active columns with the inverse of their Gram matrix; add and remove cost O(k^2 + k n)."""

    def __init__(self, problem: PathProblem) -> None:
        self._problem = problem
        self._capacity = 64
        self._inverse = np.zeros((self._capacity, self._capacity))
        self.columns: Ints = np.zeros(0, dtype=np.int64)

    @property
    def inverse(self) -> Floats:
        """Inverse of ``G`` restricted to the support."""
        k = len(self.columns)
        return self._inverse[:k, :k]

    def add(self, column: int) -> bool:
        """Add a column; return False (and leave the support as it is) when it depends on the columns there."""
        k = len(self.columns)
        own = float(self._problem.gram(np.array([column]), column)[0])
        g = self._problem.gram(self.columns, column)
        u = self.inverse @ g
        schur = own - float(g @ u)
        if schur <= DEPENDENT:
            return False
        self._reserve(k + 1)
        inverse = self._inverse
        inverse[:k, :k] += np.outer(u, u) / schur
        inverse[:k, k] = inverse[k, :k] = -u / schur
        inverse[k, k] = 1.0 / schur
        self.columns = np.append(self.columns, column)
        return True

    def remove(self, position: int) -> None:
        """Remove the column at a position of the support."""
        k = len(self.columns)
        keep = np.delete(np.arange(k), position)
        inverse = self.inverse
        u = inverse[keep, position]
        reduced = inverse[np.ix_(keep, keep)] - np.outer(u, u) / inverse[position, position]
        self._inverse[: k - 1, : k - 1] = reduced
        self.columns = self.columns[keep]

    def _reserve(self, size: int) -> None:
        if size > self._capacity:
            grown = np.zeros((2 * self._capacity, 2 * self._capacity))
            grown[: self._capacity, : self._capacity] = self._inverse
            self._inverse, self._capacity = grown, 2 * self._capacity


#: How many steps one look at all columns should last.
STEPS_PER_LOOK = 40
#: Rounding allowed for where all columns are looked at in single precision; the close ones are computed anew.
ROUNDING = 1e-4
#: From this many numbers on a dense array of rows is looked at in single precision.
LARGE = 1_000_000


class Waiting:
    """``w_i(t) = c_i t + f_i'Z(t)``, Z the time integral of the pull ``z`` of the entered columns.

    A look at all columns at time t0 tells ``w_i`` and its speed; until t it is off the straight line by ``f_i'E``,
    ``E = Z(t) - Z(t0) - z(t0) (t - t0)``. So while ``|E|`` stays below a bound, only columns whose line comes within
    ``|f_i|`` times that bound of 1 can enter; those are followed exactly. With linked lanes (the paper's construction,
    s < 1) all columns are followed.
    """

    def __init__(self, problem: PathProblem, races: Races) -> None:
        self._problem, self._races = problem, races
        self._waits = np.ones(len(problem.c), dtype=bool)
        self._is_linked = problem.link is not None
        self._coarse = problem.rows if self._is_linked else _coarse(problem.rows)
        self._length = _lengths(self._coarse)
        self._allowed = 0.05 / max(float(np.median(self._length)) if len(self._length) else 1.0, 1e-300)
        n = problem.rows.shape[1]
        self._integral, self._last_integral, self._last_pull = np.zeros(n), np.zeros(n), np.zeros(n)
        self._looked_at, self._until = 0.0, -1.0
        self._close: Ints = np.arange(len(problem.c))
        self._w, self._rows, self._c = np.zeros(len(problem.c)), problem.rows, problem.c
        self._v = np.zeros(0)

    def look(self, t: float, pull: Floats, dt: float, *, linked: tuple[Ints, Floats], to_next_entry: bool) -> float:
        """Make sure that all who may enter in the next step are followed; return the length of that step."""
        if self._is_linked:
            return self._follow_all(pull, dt, linked, to_next_entry)
        if to_next_entry or not self._covers(t, pull, dt):
            columns, w, v = self._look_at_all(t, pull)
            step = max(dt, _time_to_next_entry(w, v)) if to_next_entry else dt
            if np.isinf(step):
                return step
            self._follow(columns, w, v, t, pull, step + (STEPS_PER_LOOK - 1) * dt)
        self._v = self._c + self._rows @ pull
        return max(dt, _time_to_next_entry(self._w, self._v)) if to_next_entry else dt

    def move(self, t: float, pull: Floats, step: float) -> tuple[Ints, Floats, Floats]:
        """Go one step; return the columns that reach the path, at which level, and their w."""
        before, v = self._w, self._v
        self._w = before + step * v
        self._integral = self._integral + step * pull
        at = np.flatnonzero(np.abs(self._w) >= 1.0 - 1e-12)
        columns = self._close[at]
        keep = self._waits[columns] & self._races.is_open[columns]
        at, columns = at[keep], columns[keep]
        remaining = (1.0 - before[at] * np.sign(v[at])) / np.abs(v[at])
        return columns, 1.0 / (t + remaining), self._w[at]

    def leave(self, columns: Ints) -> None:
        """Columns that entered wait no more."""
        self._waits[columns] = False

    def _covers(self, t: float, pull: Floats, dt: float) -> bool:
        """Whether the last look lasts for one more step; the bound on ``|E|`` follows what the path needs."""
        if t + dt > self._until * (1.0 + 1e-12):
            self._allowed *= 0.8
            return False
        off = self._integral + dt * pull - self._last_integral - self._last_pull * (t + dt - self._looked_at)
        if float(np.linalg.norm(off)) <= self._allowed:
            return True
        self._allowed *= 1.5
        return False

    def _look_at_all(self, t: float, pull: Floats) -> tuple[Ints, Floats, Floats]:
        """w and speed of every column that may still enter, coarsely."""
        columns = np.flatnonzero(self._waits & self._races.is_open)
        w, v = (np.asarray(self._coarse @ x.astype(self._coarse.dtype)) for x in (self._integral, pull))
        c = self._problem.c[columns]
        return columns, c * t + w[columns], c + v[columns]

    def _follow(self, columns: Ints, w: Floats, v: Floats, t: float, pull: Floats, horizon: float) -> None:
        """Follow the columns that may enter within the horizon, from their exact w."""
        reach = np.maximum(np.abs(w), np.abs(w + horizon * v)) + self._allowed * self._length[columns]
        self._close = columns[reach >= 1.0 - ROUNDING]
        self._rows, self._c = self._problem.rows[self._close], self._problem.c[self._close]
        self._w = self._c * t + self._rows @ self._integral
        self._looked_at, self._until = t, t + horizon
        self._last_integral, self._last_pull = self._integral, pull

    def _follow_all(self, pull: Floats, dt: float, linked: tuple[Ints, Floats], to_next_entry: bool) -> float:
        problem, (entered, gamma) = self._problem, linked
        assert problem.link is not None
        self._v = problem.c + problem.rows @ pull
        self._v[(entered + problem.m) % (2 * problem.m)] -= problem.link[entered % problem.m] * gamma
        open_ = self._waits & self._races.is_open
        return max(dt, _time_to_next_entry(self._w[open_], self._v[open_])) if to_next_entry else dt


def _coarse(rows: Any) -> Any:
    return rows if sp.issparse(rows) or rows.size < LARGE else rows.astype(np.float32)


def _lengths(rows: Any) -> Floats:
    square = rows.multiply(rows).sum(axis=1) if sp.issparse(rows) else np.einsum("ij,ij->i", rows, rows)
    return np.sqrt(np.asarray(square, dtype=np.float64))


def _time_to_next_entry(w: Floats, v: Floats) -> float:
    moving: Mask = v != 0.0
    wait = (1.0 - w[moving] * np.sign(v[moving])) / np.abs(v[moving])
    return float(wait.min(initial=np.inf))
