"""Crowds that break a premise of the theorem: whose sides, answers or presence something else than coins of their own
decided."""

from __future__ import annotations

from functools import partial
from itertools import count

import numpy as np
from numpy.random import Generator

from fdr_core.comparisons import Comparisons
from fdr_core.inputs.item_keys import drawn_coin
from fdr_core.simulate import Simulated
from fdr_core.types import Floats, Ints
from harness.breakers import CROWDS, PROOFS, one_order_for_all
from harness.scenarios import Scenario


def _nobody_leans(comparisons: Comparisons) -> Simulated:
    nobody = np.zeros(comparisons.n_annotators, dtype=np.int64)
    return Simulated(comparisons, nobody != 0, np.zeros(comparisons.n_items), nobody)


def naming_their_seed(made: Comparisons, *, both_orders: bool = False) -> Comparisons:
    """The same answers under recorded coins that tell how they fell, as `evenhand prepare` and `record` name them."""
    names, (coin, first) = {}, np.unique(made.coin, return_index=True)
    for code, row in zip(coin.tolist(), first.tolist(), strict=True):
        left = made.items[made.left[row]]
        drawn = (drawn_coin(1, (code, attempt), left, both_orders=both_orders) for attempt in count())
        names[code] = next(name for name, is_heads in drawn if is_heads)
    return Comparisons.from_frame(made.to_frame().assign(coin=[names[code] for code in made.coin.tolist()]))


def versions(*, rng: Generator, m: int, each: int, ordinary: int = 0, answers: int = 30) -> Simulated:
    """Consecutive versions of documents of their own, the later one preferred; recorded coins; others beside them."""
    writer = np.repeat(np.arange(m), each)
    older = (each + 1) * writer + np.tile(np.arange(each), m)
    later_left = rng.random(writer.size) < 0.5
    left, right = np.where(later_left, older + 1, older), np.where(later_left, older, older + 1)
    outcome = np.where(later_left, 1.0, -1.0)
    who = np.repeat(m + np.arange(ordinary), answers)
    n_items, first = 60, (each + 1) * m
    one = rng.integers(n_items, size=who.size)
    two = (one + rng.integers(1, n_items, size=who.size)) % n_items
    theta = rng.normal(scale=1.5, size=n_items)
    judged = np.where(theta[one] - theta[two] + rng.logistic(size=who.size) > 0, 1.0, -1.0)
    coin = np.arange(writer.size + who.size)
    made = Comparisons.from_arrays(
        np.concatenate([writer, who]),
        np.concatenate([left, first + one]),
        np.concatenate([right, first + two]),
        np.concatenate([outcome, judged]),
        coin=coin,
    )
    return _nobody_leans(naming_their_seed(made))


def new_items_left(*, rng: Generator, heads: float, recorded: bool, m: int = 60, each: int = 40) -> Simulated:
    """New and old items of equal worth, the new one left in ``heads``; honest tastes for new differ."""
    who = np.repeat(np.arange(m), each)
    new, old = rng.integers(20, size=who.size), 20 + rng.integers(20, size=who.size)
    is_left = rng.random(who.size) < heads
    taste = rng.normal(size=m)[who] + rng.logistic(size=who.size)
    left, right = np.where(is_left, new, old), np.where(is_left, old, new)
    outcome = np.where((taste > 0) == is_left, 1.0, -1.0)
    return _nobody_leans(
        Comparisons.from_arrays(who, left, right, outcome, coin=np.arange(who.size) if recorded else None)
    )


def drift_between_orders(*, rng: Generator, first: str, m: int = 30, each: int = 40) -> Simulated:
    """Both orders; tastes for what is new grow, for each in its way, before the second.

    ``first`` : "original" comes first always; or a coin draws it: "own" for everybody alone, "shared" for a pair.
    """
    who, pair = np.repeat(np.arange(m), each), np.tile(np.arange(each), m)
    growth = rng.normal(scale=1.5, size=m)[who]

    def chosen(drift: Floats | float) -> Ints:
        return np.where(drift + rng.logistic(size=who.size) > 0, 1, -1)

    fell = {
        "original": np.zeros(who.size),
        "own": rng.integers(2, size=who.size),
        "shared": rng.integers(2, size=each)[pair],
    }
    is_new_left = fell[first] > 0
    left, right = 2 * pair + is_new_left, 2 * pair + 1 - is_new_left
    new = np.concatenate([chosen(0.0), chosen(growth)])  # 1 where the new item is chosen
    outcome = new * np.where(np.concatenate([is_new_left, ~is_new_left]), 1.0, -1.0)
    time = np.concatenate([np.arange(who.size), who.size + rng.permutation(who.size)]).astype(np.float64)
    coin = np.tile(pair if first == "shared" else np.arange(who.size), 2)
    made = Comparisons.from_arrays(
        np.tile(who, 2), np.concatenate([left, right]), np.concatenate([right, left]), outcome, coin=coin, time=time
    )
    return _nobody_leans(made if first == "original" else naming_their_seed(made, both_orders=True))


def null(name: str, label: str, make: partial[Simulated], coins: str = "own") -> Scenario:
    """A crowd in which nobody leans."""
    return Scenario(name, label, make, coins, is_null=True)


PREMISES = (
    *(
        null(
            f"versions-{m}x{each}",
            f"{m} people, {each} versions of a document of their own",
            partial(versions, m=m, each=each),
        )
        for m, each in ((40, 3), (20, 8), (100, 12))
    ),
    *(
        null(
            f"versions-{m}x{each}-{ordinary}x{answers}",
            f"the same beside {ordinary} ordinary people with {answers} answers",
            partial(versions, m=m, each=each, ordinary=ordinary, answers=answers),
        )
        for m, each, ordinary, answers in ((40, 3, 60, 30), (20, 8, 30, 40), (60, 12, 40, 20))
    ),
    *(
        null(
            f"new-left-{100 * heads:.0f}{'-recorded' if recorded else ''}",
            f"new items left in {heads:g}{', coins recorded' if recorded else ''}",
            partial(new_items_left, heads=heads, recorded=recorded),
        )
        for heads in (0.75, 0.6)
        for recorded in (False, True)
    ),
    *(
        null(f"orders-drift{suffix}", f"both orders, {words}, tastes drift", partial(drift_between_orders, first=first))
        for suffix, first, words in (
            ("", "original", "the original first"),
            ("-drawn", "own", "the first drawn for everybody alone"),
            ("-drawn-shared", "shared", "the first drawn for each pair"),
        )
    ),
    *(
        null(
            f"null-shared-{m}",
            f"{m:,} people, the same 100 tasks in one order for all, nobody leans",
            partial(one_order_for_all, m=m, n_leaning=0, n_tasks=100),
            "shared",
        )
        for m in (5, 12, 30, 100, 300, 1000)
    ),
)  # fmt: skip
#: Every simulated crowd by its name.
EVERY = {**CROWDS, **{crowd.name: crowd for crowd in (*PREMISES, *PROOFS)}}
