"""The simulated crowds that every table speaks of, with what an oracle may know about them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from fdr_core.comparisons import Comparisons
from fdr_core.simulate import (
    Simulated,
    large_crowd,
    null_crowd,
    repeated_judges,
    small_team,
    unique_pairs,
)

Floats = NDArray[np.float64]

SEED = 2016
Q = 0.1
#: Items are ranked after the lists are made, which by default takes two thirds of a run without draws.
LISTS_ALONE: dict[str, Any] = {"lbi": None, "consensus": "least squares"}


@dataclass(frozen=True)
class Scenario:
    """
    One kind of crowd.

    Attributes
    ----------
    coins : "own" (the flips' theorem applies), "shared" (an approximation) or "not random" (flips do not apply).
    bias : how often a biased annotator clicks the own side.
    steepness : logit of an honest answer per unit of score difference, before an annotator's own slope.
    graded : whether answers have seven points.
    own_slopes : whether every annotator has a slope of its own.
    is_null : whether nobody leans.
    min_bias : limit of interest that `detect` is given; 0 where leans are stated on the logit scale.
    floor : power that was aimed at before measuring; None where nothing was.
    """

    name: str
    label: str
    make: Callable[..., Simulated]
    coins: str = "own"
    bias: float = 0.5
    steepness: float = 1.5
    graded: bool = False
    own_slopes: bool = False
    is_null: bool = False
    min_bias: float = 0.1
    floor: float | None = None

    def simulate(self, run: int, *stream: int) -> Simulated:
        """Make data set number ``run``, of a further stream if one is named; the same for every method."""
        return self.make(rng=generator(run, *stream))

    def slopes(self, run: int, n_annotators: int) -> Floats:
        """Give the annotators' slopes, which the crowd with own slopes draws first of all."""
        if not self.own_slopes:
            return np.ones(n_annotators)
        return np.exp(generator(run).normal(size=n_annotators))


def generator(run: int, *more: int) -> Generator:
    """Give the source of randomness of a data set."""
    return np.random.default_rng([SEED, run, *more])


def _placed_team(place: str, *, rng: Generator) -> Simulated:
    """
    A small team (30 annotators, 5 lean at .4, 60 answers each) whose sides were not decided by coins.

    ``place``: "better left" in eight of ten answers, or "never swapped": half of the items always left, half right.
    """
    m, n_answers, n_items = 30, 60, 20
    annotator = np.repeat(np.arange(m), n_answers)
    theta = rng.permutation(np.linspace(-1, 1, n_items))
    one = rng.integers(n_items, size=annotator.size)
    two = (one + rng.integers(1, n_items, size=annotator.size)) % n_items
    if place == "never swapped":
        half = n_items // 2
        left, right = one % half, half + two % half
    else:
        first_better = theta[one] > theta[two]
        turn = first_better != (rng.random(annotator.size) < 0.8)
        left, right = np.where(turn, two, one), np.where(turn, one, two)
    side = np.zeros(m, dtype=np.int64)
    side[rng.permutation(m)[:5]] = rng.choice([-1, 1], size=5)
    honest = np.where(3 * (theta[left] - theta[right]) + rng.logistic(size=annotator.size) > 0, 1.0, -1.0)
    clicks = (side[annotator] != 0) & (rng.random(annotator.size) < 0.4)
    comparisons = Comparisons.from_arrays(annotator, left, right, np.where(clicks, side[annotator], honest))
    who, what = comparisons.annotators.astype(np.int64), comparisons.items.astype(np.int64)
    return Simulated(comparisons, side[who] != 0, theta[what], side[who])


def _unrecorded_pairs(*, rng: Generator) -> Simulated:
    """Unique pairs whose coins nobody recorded: only the task is known."""
    truth = unique_pairs(rng=rng)
    c = truth.comparisons
    plain = Comparisons.from_arrays(
        c.annotators[c.annotator], c.items[c.left], c.items[c.right], c.outcome, task=c.coin
    )
    return Simulated(plain, truth.is_biased, truth.theta, truth.side)


LARGE = (
    Scenario("H1", "H1: 300 annotators, 45 lean", partial(large_crowd, "H1"), floor=0.88),
    Scenario("H2", "H2: weaker lean (.3)", partial(large_crowd, "H2"), bias=0.3, floor=0.40),
    Scenario("H3", "H3: log-normal sizes", partial(large_crowd, "H3"), floor=0.65),
    Scenario("H4", "H4: 500 items", partial(large_crowd, "H4")),
    Scenario("H5", "H5: seven-point answers", partial(large_crowd, "H5"), bias=0.4, graded=True),
    Scenario("H6", "H6: own slopes", partial(large_crowd, "H6"), own_slopes=True, floor=0.80),
    Scenario("H7", "H7: 90 bots of 300", partial(large_crowd, "H7"), bias=1.0, steepness=0.75, floor=0.94),
    Scenario("H8", "H8: better item left in 80 %", partial(large_crowd, "H8"), coins="not random"),
    Scenario("H9", "H9: steep (slope 3)", partial(large_crowd, "H9"), steepness=4.5, floor=0.97),
    Scenario("H10", "H10: 9 of 300 lean", partial(large_crowd, "H10"), bias=0.6, floor=0.88),
)
SMALL = (
    Scenario("team-30", "30 annotators, 5 lean", partial(small_team, 30, 5, 60), bias=0.4, steepness=3.0, floor=0.96),
    Scenario("team-12", "12 annotators, 2 lean", partial(small_team, 12, 2, 100), bias=0.4, steepness=3.0, floor=0.95),
    Scenario(
        "team-null",
        "12 annotators, nobody leans",
        partial(small_team, 12, 0, 100),
        bias=0.4,
        steepness=3.0,
        is_null=True,
    ),
    Scenario("unique-pairs", "unique pairs, one order for all", unique_pairs, coins="shared", steepness=3.0),
)
EXTRA = (
    Scenario(
        "unique-pairs-harder",
        "unique pairs, 12 of 30 lean left, all answer all",
        partial(unique_pairs, harder=True),
        coins="shared",
        steepness=3.0,
    ),
    Scenario("repeated-judges", "judges asked five times, nobody leans", repeated_judges, coins="shared", is_null=True),
    Scenario(
        "three-answers",
        "100 people, three answers each, nobody leans",
        null_crowd,
        bias=0.4,
        steepness=3.0,
        is_null=True,
    ),
)
AUDITED = (
    Scenario(
        "team-better-left",
        "30 annotators, better item left in 80 %",
        partial(_placed_team, "better left"),
        "not random",
        floor=0.80,
    ),
    Scenario(
        "never-swapped",
        "items that never change sides",
        partial(_placed_team, "never swapped"),
        "not random",
        floor=0.80,
    ),
    Scenario("unrecorded", "unique pairs, coins not recorded", _unrecorded_pairs, "not random"),
)
SCENARIOS = {scenario.name: scenario for scenario in (*LARGE, *SMALL, *EXTRA, *AUDITED)}
