"""Inverse scale space: the exact limit of LBI (kappa to infinity, dt to 0), event by event."""

from __future__ import annotations

import numpy as np

from fdr_core.paper.paths.problem import TIE, Path, PathProblem, Races, no_races
from fdr_core.paper.paths.support import Support
from fdr_core.types import Floats, Ints, Mask


def iss(
    problem: PathProblem,
    *,
    races: Races | None = None,
    record: bool = False,
    floor: float = 0.01,
    max_iter: int = 100_000,
) -> Path:
    """Follow ``dp/dt = X'(y - D theta - X gamma)``, p in the subgradient of ``|gamma|_1``.

    Between events gamma is constant: the least-squares solution on the columns with ``|p_i| = 1`` whose signs agree
    with p. Reference: Osher, Ruan, Xiong, Yao, Yin (2016), Sparse recovery via differential inclusions.

    Parameters
    ----------
    floor : the path ends when the entry level ``1/t`` falls below this share of ``max|c|``.
    """
    races = races or no_races(problem)
    flow = _Flow(problem, races, record)
    top = float(np.abs(problem.c).max(initial=0.0))
    n_iter = 0
    while top > 0 and not races.over and flow.t * top * floor < 1.0 and n_iter < max_iter:
        if not flow.next_event():
            break
        n_iter += 1
    return flow.path(n_iter, converged=n_iter < max_iter, stopped_early=races.over)


class _Flow:
    """State between two events: time, p, the support and gamma on it."""

    def __init__(self, problem: PathProblem, races: Races, record: bool) -> None:
        self._problem, self._races, self._record = problem, races, record
        size = len(problem.c)
        self.t = 0.0
        self._p = np.zeros(size)
        self._entry = np.zeros(size)
        self._support = Support(problem)
        self._gamma = np.zeros(0)
        self._velocity = problem.c.copy()
        self._times: list[float] = []
        self._gammas: list[Floats] = []

    def next_event(self) -> bool:
        """Move to the next time at which columns reach ``|p| = 1``; return False when none ever will."""
        v = self._velocity.copy()
        v[~self._races.is_open] = 0.0
        v[self._support.columns] = 0.0
        moving = np.flatnonzero(np.abs(v) > 1e-13 * np.abs(self._problem.c).max())
        wait = (np.sign(v[moving]) - self._p[moving]) / v[moving]
        outward = wait > 1e-12 * max(self.t, 1e-300)  # a column just taken out moves inward first
        moving, wait = moving[outward], wait[outward]
        if not len(moving):
            return False
        tau = float(wait.min())
        arriving = moving[self.t + wait <= (self.t + tau) * (1 + TIE)]
        self.t += tau
        self._p += tau * v
        self._p[arriving] = np.sign(v[arriving])
        self._let_in(arriving)
        self._settle()
        if self._record:
            self._times.append(self.t)
            self._gammas.append(self._full_gamma())
        return True

    def path(self, n_iter: int, *, converged: bool, stopped_early: bool) -> Path:
        times, gamma = np.array(self._times), np.array(self._gammas).reshape(len(self._times), len(self._p))
        return Path(self._entry, n_iter, converged, stopped_early, times, gamma)

    def _let_in(self, arriving: Ints) -> None:
        first = arriving[self._entry[arriving] == 0.0]
        if len(first):
            enters = self._races.enter(first, np.full(len(first), 1.0 / self.t))
            self._entry[first[enters]] = 1.0 / self.t
            arriving = arriving[self._entry[arriving] > 0.0]
        for column in arriving:
            self._add(int(column))

    def _add(self, column: int) -> None:
        if self._support.add(column):
            self._gamma = np.append(self._gamma, 0.0)

    def _settle(self) -> None:
        """Sign-constrained least squares over the columns at the boundary (Lawson-Hanson, warm start)."""
        for _ in range(10 * (len(self._support.columns) + 10)):
            target = self._support.inverse @ self._problem.c[self._support.columns]
            wrong = target * self._p[self._support.columns] < 0
            if wrong.any():
                self._step_towards(target, wrong)
                continue
            self._gamma = target
            self._velocity = self._problem.velocity(self._full_gamma())
            waiting = self._pushing_out()
            if waiting is None:
                return
            self._add(waiting)

    def _step_towards(self, target: Floats, wrong: Mask) -> None:
        """Go to the first zero crossing and take that column out of the support."""
        gap = self._gamma[wrong] - target[wrong]
        share = self._gamma[wrong] / np.where(gap == 0.0, 1.0, gap)
        out = int(np.flatnonzero(wrong)[np.argmin(share)])
        moved = self._gamma + float(share.min()) * (target - self._gamma)
        self._support.remove(out)
        self._gamma = np.delete(moved, out)

    def _pushing_out(self) -> int | None:
        """A column at the boundary, outside the support, whose p would leave [-1, 1]."""
        boundary = (np.abs(self._p) >= 1.0 - 1e-12) & self._races.is_open & (self._entry > 0.0)
        boundary[self._support.columns] = False
        push = np.where(boundary, self._velocity * self._p, 0.0)
        worst = int(np.argmax(push))
        if push[worst] <= 1e-9 * np.abs(self._problem.c).max():
            return None
        return worst if self._is_independent(worst) else None

    def _is_independent(self, column: int) -> bool:
        g = self._problem.gram(self._support.columns, column)
        own = float(self._problem.gram(np.array([column]), column)[0])
        return own - float(g @ self._support.inverse @ g) > 1e-10

    def _full_gamma(self) -> Floats:
        gamma = np.zeros(len(self._p))
        gamma[self._support.columns] = self._gamma
        return gamma
