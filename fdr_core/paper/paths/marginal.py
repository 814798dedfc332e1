"""The marginal statistic: ``|c|`` at once, for very large crowds and for a first look."""

from __future__ import annotations

import numpy as np

from fdr_core.paper.paths.problem import TIE, Path, PathProblem, Races, no_races


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
