"""Nothing that decides knows the sides: shown by turning coins every way, not by simulation.

The choices (who chose which item in which pair) stay; only the sides turn. Who is judged, how, and every plan must stay
where they are, weights may know how many p-values lie above one half, and an honest p-value keeps its promise exactly.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import pandas as pd
import pytest
from numpy.random import Generator
from numpy.typing import NDArray

from fdr_core import Comparisons, detect, least_evidence
from fdr_core.audit import decision
from fdr_core.detection import Detection
from fdr_core.leans import Leans
from fdr_core.types import Floats, Ints

Q = 0.3


@pytest.fixture(autouse=True)
def little_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three coins and any p-value up to one half may flag, whatever the interval: small crowds reach no more."""
    monkeypatch.setattr(least_evidence, "UNITS", 3)
    monkeypatch.setattr(least_evidence, "P_VALUE", 0.5)
    monkeypatch.setattr(Leans, "side_of_interest", lambda found, _min_bias: np.sign(found.estimate).astype(np.int64))


@dataclass(frozen=True)
class Crowd:
    """Choices, and who leans; a row per answer."""

    annotator: Ints
    left: Ints
    right: Ints
    outcome: Floats
    coin: Ints
    leans: frozenset[int] = frozenset()
    time: Floats | None = None

    def turned(self, coins: Ints) -> "Crowd":
        """The same choices with these coins fallen otherwise."""
        turn = np.isin(self.coin, coins)
        left, right = np.where(turn, self.right, self.left), np.where(turn, self.left, self.right)
        return replace(self, left=left, right=right, outcome=np.where(turn, -self.outcome, self.outcome))

    def falls(self, coins: Ints) -> Iterator["Crowd"]:
        """All 2^k falls of k coins."""
        for falls in product((False, True), repeat=len(coins)):
            yield self.turned(coins[np.array(falls)])

    def falls_but_for_the_mirror(self) -> Iterator["Crowd"]:
        """All falls of all coins, one of each two that are each other's mirror image: nothing tells left from right."""
        _, *others = np.unique(self.coin)
        mirror = self.turned(np.unique(self.coin)).detected().annotators
        for column in ("p_value", "q_value", "flagged"):
            pd.testing.assert_series_equal(mirror[column], self.detected().annotators[column], rtol=1e-6, atol=1e-9)
        return self.falls(np.array(others))

    def detected(self, sides: str = "audit", q: float = Q) -> Detection:
        data = Comparisons.from_arrays(
            self.annotator, self.left, self.right, self.outcome, coin=self.coin, time=self.time
        )
        return detect(data, q=q, min_bias=0.0, sides=sides, consensus="least squares", lbi=None)


def own_coins(rng: Generator, sizes: tuple[int, ...], n_items: int, *, n_leaning: int = 0) -> Crowd:
    """People with own coins; the last of them always choose their side."""
    annotator = np.repeat(np.arange(len(sizes)), sizes)
    left = rng.integers(n_items, size=annotator.size)
    right = (left + rng.integers(1, n_items, size=annotator.size)) % n_items
    latent = 1.5 * rng.normal(size=n_items)[np.stack([left, right])] + rng.gumbel(size=(2, annotator.size))
    leaning = annotator >= len(sizes) - n_leaning
    outcome = np.where(leaning | (latent[0] > latent[1]), 1.0, -1.0)
    coin = np.arange(annotator.size)
    return Crowd(annotator, left, right, outcome, coin, frozenset(np.unique(annotator[leaning]).tolist()))


def versions(rng: Generator, n_people: int, n_answers: int) -> Crowd:
    """Everybody compares consecutive versions of a document of its own, and prefers the later one."""
    annotator = np.repeat(np.arange(n_people), n_answers)
    older = (n_answers + 1) * annotator + np.tile(np.arange(n_answers), n_people)
    is_left = rng.random(annotator.size) < 0.5
    left, right = np.where(is_left, older + 1, older), np.where(is_left, older, older + 1)
    return Crowd(annotator, left, right, np.where(is_left, 1.0, -1.0), np.arange(annotator.size))


def with_versions(rng: Generator) -> Crowd:
    """Three people with versions of their own beside six ordinary ones; person 0 is one of the three."""
    own, others = versions(rng, 3, 4), own_coins(rng, (8,) * 6, 5)
    return Crowd(
        np.concatenate([own.annotator, others.annotator + 3]),
        np.concatenate([own.left, others.left + 100]),
        np.concatenate([own.right, others.right + 100]),
        np.concatenate([own.outcome, others.outcome]),
        np.arange(len(own.annotator) + len(others.annotator)),
    )


def both_orders(rng: Generator, n_people: int, n_pairs: int) -> Crowd:
    """Pairs shown in both orders under one coin; close pairs are answered at random each time."""
    annotator = np.tile(np.repeat(np.arange(n_people), n_pairs), 2)
    one = rng.integers(5, size=n_people * n_pairs)
    other = (one + rng.integers(1, 5, size=one.size)) % 5
    left, right = np.concatenate([one, other]), np.concatenate([other, one])
    coin = np.tile(np.arange(one.size), 2)
    outcome = np.where(0.3 * (left - right) + rng.logistic(size=left.size) > 0, 1.0, -1.0)
    time = np.concatenate([np.arange(one.size), one.size + rng.permutation(one.size)]).astype(float)
    return Crowd(annotator, left, right, outcome, coin, time=time)


def shared_tasks(rng: Generator, n_people: int, n_tasks: int) -> Crowd:
    """One order per task for everybody, by a recorded coin."""
    task = np.tile(np.arange(n_tasks), n_people)
    one = rng.integers(4, size=n_tasks)
    two = (one + rng.integers(1, 4, size=n_tasks)) % 4
    left, right = one[task], two[task]
    outcome = np.where(0.5 * (left - right) + rng.logistic(size=task.size) > 0, 1.0, -1.0)
    return Crowd(np.repeat(np.arange(n_people), n_tasks), left, right, outcome, task)


def twelve(rng: Generator) -> Crowd:
    """A crowd of twelve with few items, where the audit has much to say on how coins fell."""
    return own_coins(rng, (7, *(20,) * 11), 6)


CROWDS: Mapping[str, Callable[[Generator], Crowd]] = {
    "three": lambda rng: own_coins(rng, (5, 4, 6), 3),
    "eight": lambda rng: own_coins(rng, (6, 3, 4, 7, 5, 9, 3, 6), 5, n_leaning=1),
    "versions": lambda rng: versions(rng, 6, 5),
    "mixed": with_versions,
    "twelve": twelve,
    "orders": lambda rng: both_orders(rng, 4, 6),
}


@dataclass(frozen=True)
class Seen:
    """What a detection decided: how, on whom, with which p-values and weights; refused: nobody was judged."""

    how: str
    judged: frozenset[object]
    p_value: dict[object, float]
    weight: dict[object, float]
    flagged: frozenset[object]

    @classmethod
    def of(cls, found: Detection) -> "Seen":
        table = found.exact.annotators.set_index("annotator")
        p, weight = table["p_value"].to_dict(), table["weight"].to_dict()
        return cls(found.audit.how, frozenset(p), p, weight, frozenset(found.flagged))

    @property
    def above_half(self) -> tuple[bool, ...]:
        return tuple(self.p_value[label] > 0.5 + 1e-9 for label in sorted(self.p_value, key=str))


def assert_only_the_audit_may_refuse(seen: list[Seen]) -> list[Seen]:
    """Nobody is flagged where the audit refused; all the others are tested alike, on the same people."""
    refused = [one for one in seen if one.how == "none"]
    assert not any(one.flagged for one in refused)
    kept = [one for one in seen if one.how != "none"]
    assert kept
    assert len({(one.how, one.judged) for one in kept}) == 1
    return kept


def assert_weights_know_counts_only(seen: list[Seen]) -> None:
    """Where the same people have p-values above one half, weights are the same."""
    first: dict[tuple[bool, ...], Seen] = {}
    for one in seen:
        same = first.setdefault(one.above_half, one)
        assert one.weight == pytest.approx(same.weight, rel=1e-6)


def assert_valid(p: NDArray[np.float64]) -> None:
    """P(p <= t) <= t at every t that is attained; a refusal counts as p = 1."""
    for level in np.unique(p):
        assert (p <= level + 1e-9).mean() <= level + 1e-6


@pytest.mark.parametrize(
    ("name", "seed"),
    [("three", 1), ("eight", 2), ("versions", 1), ("mixed", 1), ("mixed", 2), ("twelve", 2), ("orders", 1)],
)
def test_all_falls_of_one_honest_persons_coins_move_its_own_p_value_only(name: str, seed: int) -> None:
    crowd = CROWDS[name](np.random.default_rng(seed))
    mine = np.unique(crowd.coin[crowd.annotator == 0])
    seen = [Seen.of(fallen.detected()) for fallen in crowd.falls(mine)]
    kept = assert_only_the_audit_may_refuse(seen)
    assert_weights_know_counts_only(kept)
    others = [{who: p for who, p in one.p_value.items() if who != 0} for one in kept]
    assert all(other == pytest.approx(others[0], abs=1e-9) for other in others)
    assert 0 in kept[0].judged
    assert_valid(np.array([one.p_value.get(0, 1.0) for one in seen]))


def test_all_falls_of_shared_coins_are_fair_to_everybody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Six tasks, one order for all, five honest people: every coin is turned for all who met it."""
    monkeypatch.setattr(decision, "FEWEST_SHARED_COINS", 5)
    crowd = shared_tasks(np.random.default_rng(1), 5, 6)
    seen = [Seen.of(fallen.detected()) for fallen in crowd.falls_but_for_the_mirror()]
    kept = assert_only_the_audit_may_refuse(seen)
    assert {one.how for one in kept} == {"shared coins"}
    assert all(one.weight == pytest.approx(kept[0].weight, rel=1e-6) for one in kept)
    for who in kept[0].judged:
        assert_valid(np.array([one.p_value.get(who, 1.0) for one in seen]))


TINY: Mapping[str, Callable[[Generator], Crowd]] = {
    "nobody": lambda rng: own_coins(rng, (3, 3, 3), 3),
    "one of three": lambda rng: own_coins(rng, (3, 3, 6), 4, n_leaning=1),
    "two of four": lambda rng: own_coins(rng, (3, 3, 7, 5), 3, n_leaning=2),
    "versions": lambda rng: versions(rng, 2, 3),
}


@pytest.mark.parametrize("name", TINY)
def test_share_of_false_flags_over_all_falls_is_at_most_q(name: str) -> None:
    """All honest people's coins, every way: the theorem itself, with the audit in it."""
    crowd = TINY[name](np.random.default_rng(3))
    honest = np.unique(crowd.coin[~np.isin(crowd.annotator, list(crowd.leans))])
    falls = crowd.falls(honest) if crowd.leans else crowd.falls_but_for_the_mirror()
    found = [fallen.detected().annotators.set_index("annotator")["q_value"] for fallen in falls]
    for q in (0.1, 0.3, 0.5):
        lists = [{who for who, value in q_value.items() if value <= q} for q_value in found]
        share = [len(flagged - crowd.leans) / max(len(flagged), 1) for flagged in lists]
        assert float(np.mean(share)) <= q + 1e-9
    assert any(map(len, lists)), "nobody is ever flagged, which proves nothing"
