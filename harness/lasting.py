"""Crowds that grow, watched by lasting flags: how many of these are false, how many leaners get one, and how soon."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from fdr_core.comparisons import Comparisons
from fdr_core.detection import Detection, detect
from fdr_core.live import LiveConsensus, LiveCrowd
from fdr_core.simulate import Simulated, growing
from fdr_core.spending import LastingFlags
from fdr_core.statistics import SufficientStatistics
from fdr_core.types import Floats, Ints
from harness.scenarios import LISTS_ALONE

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
        yield look(lasting, detect(statistics, q=Q, **LISTS_ALONE))
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
        return _in_order(truth, np.argsort(when, kind="stable"))

    return make


def one_order(n_biased: int, n_answers: int = 60) -> Callable[[Generator], Simulated]:
    """Forty people who work side by side on the same tasks, each of which stands in one order for everybody."""

    def make(rng: Generator) -> Simulated:
        m, n_tasks, n_items = 40, 2 * n_answers, 20
        one, two = rng.integers(n_items, size=n_tasks), rng.integers(1, n_items, size=n_tasks)
        task = np.concatenate([rng.permutation(n_tasks)[:n_answers] for _ in range(m)])
        left, right = one[task], (one[task] + two[task]) % n_items
        return _answered(left, right, n_biased, rng, m=m, n_items=n_items, coin=task)

    return make


def better_left(n_biased: int, n_answers: int = 60) -> Callable[[Generator], Simulated]:
    """Forty people who work side by side; the better item stands left in four of five answers."""

    def make(rng: Generator) -> Simulated:
        m, n_items = 40, 20
        one, two = rng.integers(n_items, size=m * n_answers), rng.integers(1, n_items, size=m * n_answers)
        low, high = np.sort([one, (one + two) % n_items], axis=0)  # scores rise with the items
        is_placed = rng.random(low.size) < 0.8
        left, right = np.where(is_placed, high, low), np.where(is_placed, low, high)
        return _answered(left, right, n_biased, rng, m=m, n_items=n_items)

    return make


def _answered(
    left: Ints, right: Ints, n_biased: int, rng: Generator, *, m: int, n_items: int, coin: Ints | None = None
) -> Simulated:
    """Answers of the small team of `fdr_core.simulate`, in mixed order: everybody has as many, and some click."""
    annotator = np.repeat(np.arange(m), left.size // m)
    theta, side = np.linspace(-1, 1, n_items), np.zeros(m, dtype=np.int64)
    side[rng.permutation(m)[:n_biased]] = rng.choice([-1, 1], size=n_biased)
    judged = np.where(3 * (theta[left] - theta[right]) + rng.logistic(size=left.size) > 0, 1, -1)
    own = side[annotator]
    outcome = np.where((own != 0) & (rng.random(left.size) < 0.4), own, judged).astype(np.float64)
    comparisons = Comparisons.from_arrays(annotator, left, right, outcome, coin=coin)
    who, what = comparisons.annotators.astype(np.int64), comparisons.items.astype(np.int64)
    truth = Simulated(comparisons, side[who] != 0, theta[what], side[who])
    return _in_order(truth, rng.permutation(left.size))


def _in_order(truth: Simulated, order: Ints) -> Simulated:
    """The same answers in another order; codes follow first appearance, and the truth follows the codes."""
    c = truth.comparisons
    mixed = c.take(order)
    who, what = _places(mixed.annotators, c.annotators), _places(mixed.items, c.items)
    return Simulated(mixed, truth.is_biased[who], truth.theta[what], truth.side[who])


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
    look(lasting, detect(statistics, q=Q, **LISTS_ALONE))
    for n in range(1, 101):
        one, two = rng.choice(OLD_ITEMS, size=2, replace=False)
        statistics.add("newcomer", int(one), int(two), 1.0)
        if n >= 10 and "newcomer" in look(lasting, detect(statistics, q=Q, **LISTS_ALONE), "newcomer"):
            return n
    return 101


def watch_paused(whole: Comparisons, looks: int, by: str) -> tuple[set[Hashable], set[Hashable]]:
    """The last list, and everybody with a lasting flag or an early warning, where whoever has one answers no more.

    ``by`` : who is paused after a look: "list" (what not to do), or "lasting" (lasting flags and early warnings).
    """
    statistics, lasting, live = SufficientStatistics(), LastingFlags(Q), LiveCrowd(q=Q)
    consensus, held, listed = LiveConsensus(statistics), set[Hashable](), set[Hashable]()
    paused: set[Hashable] = set()
    ends = np.linspace(0, len(whole), looks + 1).astype(int)
    for start, end in pairwise(ends.tolist()):
        rows = np.arange(start, end)
        is_paused = np.array([label in paused for label in whole.annotators], dtype=bool)
        rows = rows[~is_paused[whole.annotator[rows]]]
        for k in rows.tolist():
            p_left = consensus.probability_left(whole.items[whole.left[k]], whole.items[whole.right[k]])
            live.observe(whole.annotators[whole.annotator[k]], float(whole.outcome[k]), p_left)
        live.warn()
        if len(rows):
            statistics.add(whole.take(rows))
        result = detect(statistics, q=Q, **LISTS_ALONE)
        listed, held = set(result.flagged), look(lasting, result) | set(live.warned)
        paused |= listed if by == "list" else held
        flagged = result.annotators[result.annotators["flagged"]]
        consensus = LiveConsensus(statistics, dict(zip(flagged["annotator"], flagged["bias"], strict=True)))
    return listed, held


def paused_once(looks: int, by: str, number: int) -> tuple[tuple[float, float], tuple[float, float]]:
    """FDP and power of the last list, and of lasting flags with early warnings, in a crowd where nobody leans."""
    truth = together(0)(np.random.default_rng([number, looks]))
    listed, held = watch_paused(truth.comparisons, looks, by)
    first, second = ((truth.false_discovery_proportion(one), truth.power(one)) for one in (listed, held))
    return first, second
