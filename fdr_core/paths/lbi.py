"""Linearized Bregman Iteration (Algorithm 1 of Xu, Xiong, Cao and Yao 2016) in Gram form."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fdr_core.paths.problem import ActiveRows, Path, PathProblem, Races, no_races

Floats = NDArray[np.float64]

#: Velocity of the entered columns, relative to max|c|, below which they count as settled.
SETTLED = 1e-4


def lbi(
    problem: PathProblem,
    *,
    races: Races | None = None,
    record: bool = False,
    kappa: float = 100.0,
    step: float = 1.0,
    floor: float = 0.01,
    max_iter: int = 100_000,
) -> Path:
    """Iterate ``w += dt X'(y - D theta - X gamma)``, ``gamma = kappa shrink(w, 1)``.

    theta follows its least-squares value, so one iteration is one product with the projected Gram matrix. While all
    entered columns stand at their least-squares value the others move at constant speed, and the iteration jumps to the
    next entry (the first jump leads from 0 to the first entry time). Entry times inside a step are exact, because w is
    linear there.

    Parameters
    ----------
    kappa : damping, relative to ``max|c|``; 100 gives entry levels within 1e-2 of the ISS limit.
    step : ``dt`` relative to ``1 / (kappa max|c| |G|)``; stable below 2.
    floor : the path ends when the entry level falls below this share of ``max|c|``.
    """
    races = races or no_races(problem)
    top = float(np.abs(problem.c).max(initial=0.0))
    iteration = _Iteration(problem, races, kappa * top, record)
    dt = step / (kappa * top * problem.norm_bound) if top > 0 else 0.0
    n_iter = 0
    while top > 0 and not races.over and iteration.t * top * floor < 1.0 and n_iter < max_iter:
        iteration.advance(dt, settled=SETTLED * top)
        n_iter += 1
    return iteration.path(n_iter, converged=n_iter < max_iter, stopped_early=races.over)


class _Iteration:
    """The state of the iteration: time, w, gamma, and which columns entered when."""

    def __init__(self, problem: PathProblem, races: Races, kappa: float, record: bool) -> None:
        self._problem, self._races, self._kappa, self._record = problem, races, kappa, record
        size = len(problem.c)
        self.t = 0.0
        self._w = np.zeros(size)
        self._entry = np.zeros(size)
        self._is_waiting = np.ones(size, dtype=bool)
        self._active = ActiveRows(problem)
        self._gamma = np.zeros(0)
        self._times: list[float] = []
        self._gammas: list[Floats] = []

    def advance(self, dt: float, settled: float) -> None:
        v = self._velocity()
        entered = self._active.columns
        step = dt
        if not len(entered) or np.abs(v[entered]).max() <= settled:
            step = max(dt, self._time_to_next_entry(v))
        if np.isinf(step):  # nobody will ever enter any more
            self.t = np.inf
            return
        before = self._w[entered] + dt * v[entered]  # entered columns relax by one step, however far the others jump
        w = self._w + step * v
        w[entered] = before
        crossing = np.flatnonzero(self._is_waiting & (np.abs(w) >= 1.0 - 1e-12))
        if len(crossing):
            self._enter(crossing, v, w)
        self._w = w
        self.t += step
        self._gamma = self._shrink()
        if self._record:
            self._times.append(self.t)
            self._gammas.append(self._full_gamma())

    def path(self, n_iter: int, *, converged: bool, stopped_early: bool) -> Path:
        times, gamma = np.array(self._times), np.array(self._gammas).reshape(len(self._times), len(self._w))
        return Path(self._entry, n_iter, converged, stopped_early, times, gamma)

    def _velocity(self) -> Floats:
        """``c - G gamma``; closed columns stand still."""
        problem, entered = self._problem, self._active.columns
        if not len(entered):
            return problem.c.copy()
        v: Floats = problem.c + problem.rows @ self._active.pull(self._gamma)
        v[entered] -= self._gamma
        if problem.link is not None:
            v[(entered + problem.m) % (2 * problem.m)] -= problem.link[entered % problem.m] * self._gamma
        v[~self._races.is_open] = 0.0
        return v

    def _time_to_next_entry(self, v: Floats) -> float:
        waiting = np.flatnonzero(self._is_waiting & (v != 0.0))
        if not len(waiting):
            return np.inf
        speed = np.abs(v[waiting])
        return float(((1.0 - self._w[waiting] * np.sign(v[waiting])) / speed).min())

    def _enter(self, crossing: NDArray[np.int64], v: Floats, w: Floats) -> None:
        remaining = 1.0 - self._w[crossing] * np.sign(v[crossing])
        levels = 1.0 / (self.t + remaining / np.abs(v[crossing]))
        enters = self._races.enter(crossing, levels)
        columns = crossing[enters]
        self._entry[columns] = levels[enters]
        self._active.add(columns)
        self._is_waiting[columns] = False
        self._is_waiting &= self._races.is_open
        w[columns] = np.sign(w[columns]) * np.maximum(np.abs(w[columns]), 1.0)

    def _shrink(self) -> Floats:
        w = self._w[self._active.columns]
        return np.asarray(self._kappa * np.sign(w) * np.maximum(np.abs(w) - 1.0, 0.0))

    def _full_gamma(self) -> Floats:
        gamma = np.zeros(len(self._w))
        gamma[self._active.columns] = self._gamma
        return gamma
