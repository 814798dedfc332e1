"""Crowds that break what a method may assume: who leans when, how tastes differ, where items and coins come from.

Own coins, item scores N(0, 1.5^2), logistic noise and clicks with probability .5 unless said otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.random import Generator

from fdr_core.codes import compact_codes
from fdr_core.comparisons import Comparisons
from fdr_core.simulate import Simulated, small_team
from fdr_core.types import Floats, Ints
from harness import crowds as scenarios
from harness.scenarios import SCENARIOS, Scenario
from harness.sides import opposite_batches

SPREAD = 1.5


@dataclass(frozen=True)
class Draft:
    """Who answers which pair, and who leans where, before anybody answers."""

    annotator: Ints
    left: Ints
    right: Ints
    theta: Floats
    side: Ints
    rng: Generator

    @classmethod
    def of(
        cls, rng: Generator, m: int, each: int | Ints, n_items: int, n_leaning: int, *, one_way: bool = False
    ) -> Draft:
        """Draw pairs at random, sides by coins, and the leaners' sides: their own, or left for all."""
        annotator = np.repeat(np.arange(m), each)
        left = rng.integers(n_items, size=annotator.size)
        right = (left + rng.integers(1, n_items, size=annotator.size)) % n_items
        side = np.zeros(m, dtype=np.int64)
        side[rng.permutation(m)[:n_leaning]] = 1 if one_way else rng.choice([-1, 1], size=n_leaning)
        return cls(annotator, left, right, rng.normal(scale=SPREAD, size=n_items), side, rng)

    @property
    def gap(self) -> Floats:
        """Score of the left item less that of the right one, by answer."""
        return np.asarray(self.theta[self.left] - self.theta[self.right])

    def judged(self, gap: Floats | None = None) -> Floats:
        """Answers of people who judge."""
        logit = self.gap if gap is None else gap
        return np.where(logit + self.rng.logistic(size=logit.size) > 0, 1.0, -1.0)

    def answered(self, honest: Floats, click: float | Floats = 0.5, **ids: Ints) -> Simulated:
        """Let the leaning click their side, and keep the truth."""
        own = self.side[self.annotator].astype(float)
        clicks = (own != 0) & (self.rng.random(own.size) < click)
        comparisons = Comparisons.from_arrays(
            self.annotator, self.left, self.right, np.where(clicks, own, honest), **ids
        )
        who, what = comparisons.annotators.astype(np.int64), comparisons.items.astype(np.int64)
        return Simulated(comparisons, self.side[who] != 0, self.theta[what], self.side[who])


def late_lean(*, rng: Generator) -> Simulated:
    """Sixty annotators, ten of whom begin to click, always, in the last quarter of their 80 answers."""
    draft = Draft.of(rng, 60, 80, 40, 10)
    is_late = np.tile(np.arange(80) >= 60, 60)
    return draft.answered(draft.judged(), np.where(is_late, 1.0, 0.0))


def all_sizes(*, rng: Generator) -> Simulated:
    """A hundred annotators with 3 to 5,000 answers, evenly on the log scale; fifteen lean."""
    sizes = np.rint(np.exp(np.linspace(np.log(3), np.log(5000), 100))).astype(np.int64)
    draft = Draft.of(rng, 100, rng.permutation(sizes), 60, 15)
    return draft.answered(draft.judged())


def tastes(*, rng: Generator, kind: str) -> Simulated:
    """A hundred annotators, fifteen lean; honest tastes differ.

    ``kind``: "groups" (forty judge by scores of their own), "contrarians" (fifteen prefer the worse item) or
    "promoters" (fifteen always choose one item of their own, on whichever side it stands).
    """
    draft = Draft.of(rng, 100, 60, 40, 15)
    others = rng.permutation(np.flatnonzero(draft.side == 0))[: 40 if kind == "groups" else 15]
    is_other = np.isin(draft.annotator, others)
    gap = draft.gap
    if kind == "groups":
        own = rng.normal(scale=SPREAD, size=len(draft.theta))
        gap = np.where(is_other, own[draft.left] - own[draft.right], gap)
    elif kind == "contrarians":
        gap = np.where(is_other, -gap, gap)
    else:
        pet = rng.integers(len(draft.theta), size=100)[draft.annotator]
        gap = np.where(is_other & (draft.left == pet), 50.0, np.where(is_other & (draft.right == pet), -50.0, gap))
    return draft.answered(draft.judged(gap))


def near_duplicates(*, rng: Generator) -> Simulated:
    """Forty items that come in twenty pairs of nearly the same; half of the answers compare such a pair."""
    draft = Draft.of(rng, 60, 60, 40, 10)
    theta = np.repeat(draft.theta[::2], 2) + rng.normal(scale=0.02, size=40)
    twin = rng.random(draft.left.size) < 0.5
    right = np.where(twin, draft.left ^ 1, draft.right)
    draft = Draft(draft.annotator, draft.left, right, theta, draft.side, rng)
    return draft.answered(draft.judged())


def with_ties(*, rng: Generator) -> Simulated:
    """Sixty annotators who call close pairs a tie (two answers in five); ten lean."""
    draft = Draft.of(rng, 60, 60, 40, 10)
    latent = draft.gap + rng.logistic(size=draft.left.size)
    return draft.answered(np.where(np.abs(latent) < 1.2, 0.0, np.sign(latent)))


def grades(*, rng: Generator) -> Simulated:
    """Sixty annotators who answer in seven grades, each with a way of its own to use them; ten lean."""
    draft = Draft.of(rng, 60, 60, 40, 10)
    stretch = np.exp(rng.normal(scale=0.5, size=60))[draft.annotator]
    latent = stretch * (draft.gap + rng.logistic(size=draft.left.size))
    return draft.answered(np.clip(np.rint(latent), -3, 3) / 3)


def colluders(*, rng: Generator) -> Simulated:
    """Ten of forty copy one another's answers on the same 60 tasks in the same order; nobody leans."""
    draft = Draft.of(rng, 40, 60, 40, 0)
    left, right, outcome = draft.left.copy(), draft.right.copy(), draft.judged()
    for copy in range(1, 10):
        to, source = slice(60 * copy, 60 * copy + 60), slice(0, 60)
        left[to], right[to], outcome[to] = left[source], right[source], outcome[source]
    task = np.arange(left.size)
    task[: 10 * 60] = np.tile(np.arange(60), 10)
    draft = Draft(draft.annotator, left, right, draft.theta, draft.side, rng)
    return draft.answered(outcome, task=task)


def one_sided_crowd(*, rng: Generator, coins: str) -> Simulated:
    """Eighteen of thirty lean left, 100 answers each.

    ``coins``: "own"; "shared" (the same 100 tasks on 30 items in one order for all); "unique" (the same, every task
    with two items of its own).
    """
    draft = Draft.of(rng, 30, 100, 200 if coins == "unique" else 30, 18, one_way=True)
    if coins == "own":
        return draft.answered(draft.judged())
    task = np.tile(np.arange(100), 30)
    left, right = (2 * task, 2 * task + 1) if coins == "unique" else (draft.left[task], draft.right[task])
    draft = Draft(draft.annotator, left, right, draft.theta, draft.side, rng)
    return draft.answered(draft.judged(), coin=task)


def one_order_for_all(*, rng: Generator, m: int, n_leaning: int, n_tasks: int) -> Simulated:
    """Everybody answers the same tasks on 20 items, each in one order for all; the leaning each have a side."""
    draft = Draft.of(rng, m, n_tasks, 20, n_leaning)
    task = np.tile(np.arange(n_tasks), m)
    draft = Draft(draft.annotator, draft.left[task], draft.right[task], draft.theta, draft.side, rng)
    return draft.answered(draft.judged(), coin=task)


def many_items(*, rng: Generator) -> Simulated:
    """A hundred annotators, fifteen lean, 2,200 items, own coins."""
    draft = Draft.of(rng, 100, 60, 2200, 15)
    return draft.answered(draft.judged())


def batch_coins(*, rng: Generator, n_leaning: int = 0, of: int = 10, every: int = 1) -> Simulated:
    """One recorded coin per batch ``of`` an annotator's answers: the better item stands on one side in all of them.

    ``every``: only every so many annotators have such coins, the others one per answer.
    """
    draft = Draft.of(rng, 60, 60, 40, n_leaning)
    row = np.arange(draft.left.size)
    batch = compact_codes(np.where(draft.annotator % every == 0, row - row % of, row))
    better_left = rng.random(batch[-1] + 1) < 0.5
    turned = (draft.gap > 0) != better_left[batch]
    left, right = np.where(turned, draft.right, draft.left), np.where(turned, draft.left, draft.right)
    draft = Draft(draft.annotator, left, right, draft.theta, draft.side, rng)
    return draft.answered(draft.judged(), coin=batch)


def repeats_with_ids(*, rng: Generator) -> Simulated:
    """Forty annotators asked four times about each of 30 pairs in one order, coins recorded; nobody leans."""
    truth = scenarios.repeats(rng=rng)
    c = truth.comparisons
    labels = (c.annotators[c.annotator], c.items[c.left], c.items[c.right])
    recorded = Comparisons.from_arrays(*labels, c.outcome, coin=np.arange(len(c)) // 4)
    return Simulated(recorded, truth.is_biased, truth.theta, truth.side)


def placed(*, rng: Generator, how: str) -> Simulated:
    """Fifteen of a hundred lean; the better item stands left in 55 %, or by batch in 80 and 20 %."""
    draft = Draft.of(rng, 100, 60, 40, 15)
    heads = opposite_batches(100, 60) if how == "batches" else np.full(draft.left.size, 0.55)
    turned = (draft.gap > 0) != (rng.random(heads.size) < heads)
    left, right = np.where(turned, draft.right, draft.left), np.where(turned, draft.left, draft.right)
    draft = Draft(draft.annotator, left, right, draft.theta, draft.side, rng)
    return draft.answered(draft.judged())


def four_items(*, rng: Generator) -> Simulated:
    """Four items, forty annotators with 60 answers; eight lean."""
    draft = Draft.of(rng, 40, 60, 4, 8)
    return draft.answered(draft.judged())


_SHIFT = scenarios.shift_leaners
_FIXED = "not random"
BREAKERS = (
    Scenario("shift", "lean when unsure, 5 of 30, 200 answers", _SHIFT, min_bias=0.0, floor=0.90),
    Scenario(
        "shift-gaps",
        "lean when unsure, huge gaps between items",
        partial(_SHIFT, 40, 8, 150, gamma=1.5, spread=6.0),
        min_bias=0.0,
        floor=0.87,
    ),
    Scenario(
        "shift-short",
        "lean when unsure, 15 of 100, 20 to 40 answers",
        partial(_SHIFT, 100, 15, (20, 40), gamma=1.5, n_items=80),
        floor=0.62,
    ),
    Scenario("late-lean", "lean only in the last quarter", late_lean),
    Scenario("all-sizes", "3 to 5,000 answers each", all_sizes),
    Scenario("taste-groups", "two tastes, 40 of 100 in the second", partial(tastes, kind="groups")),
    Scenario("contrarians", "15 of 100 prefer the worse item", partial(tastes, kind="contrarians")),
    Scenario("promoters", "15 of 100 promote one item each", partial(tastes, kind="promoters")),
    Scenario("near-duplicates", "half of the pairs nearly the same", near_duplicates),
    Scenario("four-items", "four items only", four_items),
    Scenario("ties", "two answers in five are ties", with_ties),
    Scenario("grades", "seven grades, used in own ways", grades),
    Scenario("colluders", "10 of 40 copy each other, nobody leans", colluders, "shared", is_null=True),
    Scenario("one-sided-own", "18 of 30 lean left, own coins", partial(one_sided_crowd, coins="own")),
    Scenario(
        "one-sided-shared", "18 of 30 lean left, one order for all", partial(one_sided_crowd, coins="shared"), "shared"
    ),
    Scenario("one-sided-unique", "the same, unique pairs", partial(one_sided_crowd, coins="unique"), "shared"),
    Scenario("batch-coins", "one coin for ten answers, 10 of 60 lean", partial(batch_coins, n_leaning=10), floor=0.75),
    Scenario(
        "few-coins", "one coin for thirty answers, 10 of 60 lean", partial(batch_coins, n_leaning=10, of=30), _FIXED
    ),
    Scenario(
        "few-coins-some",
        "the same of every third annotator",
        partial(batch_coins, n_leaning=10, of=30, every=3),
        _FIXED,
    ),
    Scenario(
        "few-coins-null",
        "the same, nobody leans",
        partial(batch_coins, of=30, every=3),
        _FIXED,
        is_null=True,
    ),
    Scenario("batch-coins-null", "one coin for ten answers, nobody leans", batch_coins, is_null=True),
    Scenario("repeats", "pairs asked again, no ids, nobody leans", scenarios.repeats, is_null=True),
    Scenario("repeats-ids", "pairs asked again, coins recorded, nobody leans", repeats_with_ids, is_null=True),
    Scenario("calibration", "90 shared tasks, 40 of 100 lean left", scenarios.calibration_tasks, "shared"),
    Scenario(
        "calibration-null",
        "90 shared tasks, nobody leans",
        partial(scenarios.calibration_tasks, n_leaning=0),
        "shared",
        is_null=True,
    ),
    Scenario("better-left-55", "better item left in 55 %", partial(placed, how="55"), _FIXED),
    Scenario("better-left-batches", "better item left in 80 %, then 20 %", partial(placed, how="batches"), _FIXED),
    Scenario("mild-08", "25 big mild leaners (.08), 120 small honest", scenarios.mild_big_leaners),
    Scenario("mild-16", "the same, clicking with .16", partial(scenarios.mild_big_leaners, click=0.16), floor=0.95),
    Scenario(
        "judges-click",
        "six judges, one order for all, clicks",
        scenarios.six_judges,
        "shared",
        min_bias=0.0,
        floor=0.72,
    ),
    Scenario(
        "judges-shift",
        "six judges, one order for all, shifts",
        partial(scenarios.six_judges, lean="shift"),
        "shared",
        min_bias=0.0,
        floor=0.90,
    ),
    Scenario("both-orders", "both orders shown, 3 of 12 lean", scenarios.both_orders),
    *(
        Scenario(
            f"null-{m}",
            f"{m:,} people, 40 answers, nobody leans",
            partial(small_team, m, 0, 40, n_items=40),
            is_null=True,
        )
        for m in (5, 12, 30, 100, 300, 1000)
    ),
)
#: One order per task for everybody: what part of the list holds with a proof.
PROOFS = (
    *(
        Scenario(
            f"shared-{m}x{n_tasks}",
            f"{m} people, the same {n_tasks} tasks, {n_leaning or 'nobody'} lean{'' if n_leaning else 's'}",
            partial(one_order_for_all, m=m, n_leaning=n_leaning, n_tasks=n_tasks),
            "shared",
            is_null=not n_leaning,
            floor=floor,
        )
        for m, n_tasks, n_leaning, floor in ((6, 300, 2, 0.95), (30, 100, 5, 0.85), (31, 100, 0, None))
    ),
)
#: Every crowd by its name.
CROWDS = {**SCENARIOS, **{scenario.name: scenario for scenario in BREAKERS}}
