"""Regularisation paths: one method each, one call, one result."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fdr_core.errors import ConfigurationError
from fdr_core.paper.problem import TIE, ActiveRows, Path, PathProblem, Races, Support, Waiting, no_races
from fdr_core.types import Floats, Ints, Mask

__all__ = ["PATHS", "Path", "PathProblem", "Races", "follow", "iss", "lasso", "lbi", "marginal"]


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


def lasso(
    problem: PathProblem,
    *,
    races: Races | None = None,
    record: bool = False,
    floor: float = 0.01,
    max_iter: int = 100_000,
) -> Path:
    """Follow ``minimise 1/2 |y - D theta - X gamma|^2 + lambda |gamma|_1`` as lambda falls from ``max|c|``.

    Reference: Osborne, Presnell, Turlach (2000), A new approach to variable selection in least squares problems.

    Parameters
    ----------
    floor : the path ends when lambda falls below this share of ``max|c|``.
    """
    races = races or no_races(problem)
    top = float(np.abs(problem.c).max(initial=0.0))
    homotopy = _Homotopy(problem, races, record, top)
    n_iter = 0
    while top > 0 and not races.over and homotopy.lam > floor * top and n_iter < max_iter:
        if not homotopy.next_event(floor * top):
            break
        n_iter += 1
    return homotopy.path(n_iter, converged=n_iter < max_iter, stopped_early=races.over)


class _Homotopy:
    """State at a knot: lambda, the support with its signs, the correlations with the residual."""

    def __init__(self, problem: PathProblem, races: Races, record: bool, top: float) -> None:
        self._problem, self._races, self._record = problem, races, record
        size = len(problem.c)
        self.lam = top
        self._entry = np.zeros(size)
        self._support = Support(problem)
        self._signs = np.zeros(0)
        self._barred: list[int] = []  # columns dropped at the current knot
        self._dependent = np.zeros(size, dtype=bool)
        self._times: list[float] = []
        self._gammas: list[Floats] = []
        if top > 0:
            first = np.flatnonzero(np.abs(problem.c) >= top * (1 - TIE))
            self._join(first, np.sign(problem.c[first]))

    def next_event(self, stop_at: float) -> bool:
        """Lower lambda to the next join or drop."""
        gamma, slope = self._coefficients()
        drop_at, dropped = self._next_drop(gamma, slope)
        join_at, joining, signs = self._next_join(gamma, slope)
        level = max(drop_at, join_at, stop_at)
        if level < self.lam:
            self._barred = []
        self.lam = level
        if self._record:
            self._times.append(1.0 / level)
            self._gammas.append(self._full_gamma())
        if level == stop_at and max(drop_at, join_at) < stop_at:
            return False
        if drop_at >= join_at:
            self._barred.append(int(self._support.columns[dropped]))
            self._support.remove(dropped)
            self._signs = np.delete(self._signs, dropped)
            self._dependent[:] = False
        else:
            self._join(joining, signs)
        return True

    def path(self, n_iter: int, *, converged: bool, stopped_early: bool) -> Path:
        times, gamma = np.array(self._times), np.array(self._gammas).reshape(len(self._times), len(self._entry))
        return Path(self._entry, n_iter, converged, stopped_early, times, gamma)

    def _coefficients(self) -> tuple[Floats, Floats]:
        """Gamma on the support at the current lambda and its growth per unit that lambda falls."""
        inverse = self._support.inverse
        return inverse @ (self._problem.c[self._support.columns] - self.lam * self._signs), inverse @ self._signs

    def _next_drop(self, gamma: Floats, slope: Floats) -> tuple[float, int]:
        """Where a coefficient reaches zero: at once for a tied column whose direction has the wrong sign."""
        shrinking = np.flatnonzero(slope * self._signs < -1e-12)
        if not len(shrinking):
            return -np.inf, -1
        fall = np.maximum(-gamma[shrinking] / slope[shrinking], 0.0)
        nearest = int(np.argmin(fall))
        return self.lam - float(fall[nearest]), int(shrinking[nearest])

    def _next_join(self, gamma: Floats, slope: Floats) -> tuple[float, Ints, Floats]:
        full_gamma, full_slope = np.zeros(len(self._entry)), np.zeros(len(self._entry))
        full_gamma[self._support.columns], full_slope[self._support.columns] = gamma, slope
        r = self._problem.velocity(full_gamma)
        a = self._problem.c - self._problem.velocity(full_slope)
        free = self._races.is_open & ~self._dependent
        free[self._support.columns] = False
        candidates = np.flatnonzero(free)
        if not len(candidates):
            return -np.inf, candidates, np.zeros(0)
        r, a = np.clip(r[candidates], -self.lam, self.lam), a[candidates]
        just_dropped = np.isin(candidates, self._barred)  # they move inward and can only join from the other side
        upper = np.where(just_dropped & (r > 0), np.inf, _fall(self.lam - r, 1.0 - a))
        lower = np.where(just_dropped & (r < 0), np.inf, _fall(self.lam + r, 1.0 + a))
        fall = np.minimum(upper, lower)
        join_at = self.lam - float(fall.min())
        tied = self.lam - fall >= join_at * (1 - TIE) if join_at > 0 else fall == fall.min()
        return join_at, candidates[tied], np.where(upper <= lower, 1.0, -1.0)[tied]

    def _join(self, columns: Ints, signs: Floats) -> None:
        first = self._entry[columns] == 0.0
        enters = np.ones(len(columns), dtype=bool)
        enters[first] = self._races.enter(columns[first], np.full(int(first.sum()), self.lam))
        self._entry[columns[first & enters]] = self.lam
        for column, sign in zip(columns[enters], signs[enters], strict=True):
            if self._support.add(int(column)):
                self._signs = np.append(self._signs, sign)
            else:
                self._dependent[column] = True  # an exact copy of the support: it stays tied and adds nothing

    def _full_gamma(self) -> Floats:
        gamma = np.zeros(len(self._entry))
        gamma[self._support.columns] = self._coefficients()[0]
        return gamma


def _fall(gap: Floats, closing: Floats) -> Floats:
    """How far lambda falls until a gap closes at the given speed (infinite when it never does)."""
    reachable = closing > 1e-14
    return np.where(reachable, gap / np.where(reachable, closing, 1.0), np.inf)


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


def marginal(problem: PathProblem, *, races: Races | None = None, record: bool = False) -> Path:
    """Let every column enter at the level of its correlation with the residual."""
    races = races or no_races(problem)
    level = np.abs(problem.c).reshape(problem.lanes, problem.m)
    best = level.max(axis=0)
    lanes = level.copy()
    if races.closes:
        tied = level >= best * (1 - TIE)
        lottery = np.where(tied, races.rng.random(level.shape), -1.0)
        lanes = np.where(lottery == lottery.max(axis=0), level, 0.0)
    entry = lanes.ravel()
    times, gamma = np.zeros(0), np.zeros((0, len(entry)))
    if record:
        times = np.sort(1.0 / entry[entry > 0])
        gamma = np.where(entry[None, :] * times[:, None] >= 1 - TIE, problem.c[None, :], 0.0)
    return Path(entry, n_iter=1, converged=True, stopped_early=False, times=times, gamma=gamma)


PATHS: dict[str, Callable[..., Path]] = {"lbi": lbi, "iss": iss, "lasso": lasso, "marginal": marginal}


def follow(problem: PathProblem, path: str, *, races: Races | None = None, record: bool = False) -> Path:
    """Follow the named path; ``races`` closes decided races and stops early, ``record`` keeps gamma for plotting."""
    if path not in PATHS:
        raise ConfigurationError(f"path was {path!r}; expected one of {', '.join(sorted(PATHS))}")
    return PATHS[path](problem, races=races, record=record)
