"""LASSO by exact homotopy: every entry point exact, ties included."""

from __future__ import annotations

import numpy as np

from fdr_core.paper.paths.problem import TIE, Path, PathProblem, Races, no_races
from fdr_core.paper.paths.support import Support
from fdr_core.types import Floats, Ints


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
