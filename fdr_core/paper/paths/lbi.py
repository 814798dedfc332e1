"""Linearized Bregman Iteration (Algorithm 1 of Xu, Xiong, Cao and Yao 2016) in Gram form."""

from __future__ import annotations

import numpy as np

from fdr_core.paper.paths.problem import ActiveRows, Path, PathProblem, Races, no_races
from fdr_core.paper.paths.waiting import Waiting
from fdr_core.types import Floats, Ints

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

    theta follows its least-squares value, so one iteration is one product with the projected Gram matrix, of which only
    the rows of columns that entered or may soon enter are computed. While all entered columns stand at their
    least-squares value the others move at constant speed, and the iteration jumps to the next entry (the first jump
    leads from 0 to the first entry time). Entry times inside a step are exact, because w is linear there.

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
    """The state of the iteration: time, w and gamma of the entered columns, and the columns that wait."""

    def __init__(self, problem: PathProblem, races: Races, kappa: float, record: bool) -> None:
        self._problem, self._races, self._kappa, self._record = problem, races, kappa, record
        self.t = 0.0
        self._entry = np.zeros(len(problem.c))
        self._waiting = Waiting(problem, races)
        self._active = ActiveRows(problem)
        self._w, self._gamma = np.zeros(0), np.zeros(0)
        self._times: list[float] = []
        self._gammas: list[Floats] = []

    def advance(self, dt: float, settled: float) -> None:
        pull = self._active.pull(self._gamma)
        v = self._active.velocity(pull, self._gamma)
        is_settled = not len(v) or bool(np.abs(v).max() <= settled)
        linked = self._active.columns, self._gamma
        step = self._waiting.look(self.t, pull, dt, linked=linked, to_next_entry=is_settled)
        if np.isinf(step):  # nothing will ever enter again
            self.t = np.inf
            return
        self._w = self._w + dt * v  # entered columns relax by one step, however far the others jump
        crossing, levels, w = self._waiting.move(self.t, pull, step)
        self._enter(crossing, levels, w)
        self.t += step
        self._gamma = self._kappa * np.sign(self._w) * np.maximum(np.abs(self._w) - 1.0, 0.0)
        if self._record:
            self._times.append(self.t)
            self._gammas.append(self._full_gamma())

    def path(self, n_iter: int, *, converged: bool, stopped_early: bool) -> Path:
        times, gamma = np.array(self._times), np.array(self._gammas).reshape(len(self._times), len(self._entry))
        return Path(self._entry, n_iter, converged, stopped_early, times, gamma)

    def _enter(self, crossing: Ints, levels: Floats, w: Floats) -> None:
        if not len(crossing):
            return
        enters = self._races.enter(crossing, levels)
        columns = crossing[enters]
        self._entry[columns] = levels[enters]
        self._active.add(columns)
        self._waiting.leave(columns)
        self._w = np.concatenate([self._w, np.sign(w[enters]) * np.maximum(np.abs(w[enters]), 1.0)])

    def _full_gamma(self) -> Floats:
        gamma = np.zeros(len(self._entry))
        gamma[self._active.columns] = self._gamma
        return gamma
