"""Repeated detection on simulated crowds with known truth."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.random import Generator

from fdr_core import KnockoffLBI, detect
from fdr_core.simulate import Simulated
from harness.scenarios import LISTS_ALONE

#: The rate that all tests ask for.
Q = 0.1


def runs_beside(few: int, full: int) -> int:
    """How many crowds to simulate where each takes long or the method does not decide: all only in `make trials`."""
    return full if os.environ.get("EVENHAND_TRIALS") else few


@dataclass(frozen=True)
class Measured:
    """False discovery proportion, power and number of flags, run by run."""

    fdp: np.ndarray
    power: np.ndarray
    found: np.ndarray
    constructions: Counter[str]

    @property
    def fdr(self) -> float:
        """Mean false discovery proportion."""
        return float(self.fdp.mean())

    @property
    def margin(self) -> float:
        """Three standard errors of the mean, from the spread at the bound where no run had an error."""
        n = len(self.fdp)
        return float(3.0 * max(float(self.fdp.std()), 0.02) / np.sqrt(n))

    def holds(self, bound: float = Q) -> bool:
        """Whether the rate is at most the bound, give or take three standard errors."""
        return self.fdr <= bound + self.margin

    def __str__(self) -> str:
        return (
            f"FDR {self.fdr:.3f} (3 SE {self.margin:.3f}), power {self.power.mean():.3f}, any flag "
            f"{(self.found > 0).mean():.3f}, {len(self.fdp)} runs, {dict(self.constructions)}"
        )


def measure(
    make: Callable[[Generator], Simulated], runs: int, *, seed: int, lbi: KnockoffLBI | None = None, **options: Any
) -> Measured:
    """Simulate, detect and compare with the truth, ``runs`` times; with ``lbi`` it decides."""
    fdp, power, found = np.zeros(runs), np.zeros(runs), np.zeros(runs)
    constructions: Counter[str] = Counter()
    for run in range(runs):
        truth = make(np.random.default_rng([seed, run]))
        beside = None if lbi is None else replace(lbi, seed=run)
        asked = {**LISTS_ALONE, "lbi": beside, "decide_by": "lbi" if beside else "exact", **options}
        result = detect(truth.comparisons, q=Q, **asked)
        fdp[run] = truth.false_discovery_proportion(result.flagged)
        power[run] = truth.power(result.flagged)
        found[run] = len(result.flagged)
        constructions[result.audit.construction] += 1
    return Measured(fdp, power, found, constructions)
