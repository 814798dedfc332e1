"""Crowds that grow, watched by lasting flags: how many of these are false, how many leaners get one, and how soon."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from fdr_core.comparisons import Comparisons
from fdr_core.detection import Detection, detect
from fdr_core.simulate import Simulated, growing
from fdr_core.spending import LastingFlags
from fdr_core.statistics import SufficientStatistics
from fdr_core.types import Floats, Ints

Q = 0.1
SEED = 5000
#: A project that somebody joins late: people, answers each, and items.
OLD_CROWD, OLD_ANSWERS, OLD_ITEMS = 300, 333, 100


def look(lasting: LastingFlags, result: Detection, only: Hashable | None = None) -> set[Hashable]:
    """Let the tests of a run count towards lasting flags, of everybody or of one annotator only."""
    tests = result.exact.annotators
    if only is not None:
        tests = tests[tests["annotator"] == only]
    answers = result.annotators.set_index("annotator")["comparisons"][tests["annotator"]]
    p_values, weights = tests["listed_p_value"], tests["weight"]
    return lasting.look(list(tests["annotator"]), answers, p_values, weights, independent=result.exact.independent)


def watch(whole: Comparisons, ends: Ints) -> Iterator[set[Hashable]]:
    """Everybody with a lasting flag after each look; the k-th look sees the answers up to ``ends[k]``."""
    statistics, lasting, start = SufficientStatistics(), LastingFlags(Q), 0
    for end in ends.tolist():
        statistics.add(whole.take(np.arange(start, end)))
        yield look(lasting, detect(statistics, q=Q, draws=0))
        start = end


@dataclass(frozen=True)
class Measured:
    """False discovery proportion and power of all lasting flags together, run by run."""

    fdp: Floats
    power: Floats

    def __str__(self) -> str:
        error = self.fdp.std() / np.sqrt(len(self.fdp))
        return f"FDR {self.fdp.mean():.3f} (SE {error:.3f}), power {self.power.mean():.3f}, {len(self.fdp)} data sets"


def measure(make: Callable[[Generator], Simulated], looks: int, runs: int) -> Measured:
    """Watch simulated crowds grow."""
    fdp, power = np.zeros(runs), np.zeros(runs)
    for run in range(runs):
        truth = make(np.random.default_rng([SEED + run, looks]))
        ends = np.linspace(0, len(truth.comparisons), looks + 1).astype(int)[1:]
        for found in watch(truth.comparisons, ends):
            lasting = found
        fdp[run], power[run] = truth.false_discovery_proportion(lasting), truth.power(lasting)
    return Measured(fdp, power)


def together(n_biased: int, n_answers: int = 60, bias: float = 0.4) -> Callable[[Generator], Simulated]:
    """Forty people who work side by side."""
    return lambda rng: growing(40, n_biased, n_answers, rng=rng, bias=bias)


def joining(n_biased: int, n_answers: int = 60) -> Callable[[Generator], Simulated]:
    """Forty people who join one after the other, each with a stretch of work that overlaps with others'."""

    def make(rng: Generator) -> Simulated:
        truth = growing(40, n_biased, n_answers, rng=rng)
        c = truth.comparisons
        joined = rng.random(c.n_annotators)
        when = joined[c.annotator] + rng.random(len(c))
        mixed = c.take(np.argsort(when, kind="stable"))  # renumbers by first appearance: the truth follows
        who, what = _places(mixed.annotators, c.annotators), _places(mixed.items, c.items)
        return Simulated(mixed, truth.is_biased[who], truth.theta[what], truth.side[who])

    return make


def _places(labels: NDArray[np.object_], among: NDArray[np.object_]) -> Ints:
    place = {label: k for k, label in enumerate(among)}
    return np.array([place[label] for label in labels], dtype=np.int64)


def newcomer(rng: Generator) -> int:
    """Answers until a one-sided clicker who joins a large old project has a lasting flag, one look per answer."""
    size = OLD_CROWD * OLD_ANSWERS
    left = rng.integers(OLD_ITEMS, size=size)
    right = (left + rng.integers(1, OLD_ITEMS, size=size)) % OLD_ITEMS
    theta = rng.normal(size=OLD_ITEMS)
    y = np.where(1.5 * (theta[left] - theta[right]) + rng.logistic(size=size) > 0, 1.0, -1.0)
    old = Comparisons.from_arrays(np.tile(np.arange(OLD_CROWD), OLD_ANSWERS), left, right, y)
    statistics, lasting = SufficientStatistics().add(old), LastingFlags(Q)
    look(lasting, detect(statistics, q=Q, draws=0))
    for n in range(1, 101):
        one, two = rng.choice(OLD_ITEMS, size=2, replace=False)
        statistics.add("newcomer", int(one), int(two), 1.0)
        if n >= 10 and "newcomer" in look(lasting, detect(statistics, q=Q, draws=0), "newcomer"):
            return n
    return 101
