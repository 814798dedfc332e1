"""The columns of an LBI path that have not entered: only those that may soon enter are followed step by step."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from fdr_core.paper.paths.problem import PathProblem, Races
from fdr_core.types import Floats, Ints, Mask

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
