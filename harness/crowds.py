"""Crowds that break what a method may assume about leaning, sides or sizes; own coins unless stated otherwise."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from fdr_core import simulate
from fdr_core.comparisons import Comparisons
from fdr_core.simulate import Simulated
from fdr_core.types import Floats, Ints

#: Spread of the item scores, on the logit scale.
SPREAD = 1.5


def shift_leaners(
    n_annotators: int = 30,
    n_leaning: int = 5,
    n_answers: int | tuple[int, int] = 200,
    *,
    rng: Generator,
    gamma: float = 0.7,
    n_items: int = 60,
    spread: float = SPREAD,
) -> Simulated:
    """Simulate annotators who lean when unsure: P(left) = logistic(difference + gamma), or - gamma for the right side.

    Parameters
    ----------
    n_annotators, n_leaning : int
        People, and how many of them lean.
    n_answers : int or (low, high)
        Answers of each, or their range.
    rng : Generator
        Source of all randomness.
    gamma : float
        The lean, on the logit scale.
    n_items, spread
        Items and the standard deviation of their scores.
    """
    low, high = (n_answers, n_answers) if isinstance(n_answers, int) else n_answers
    annotator = np.repeat(np.arange(n_annotators), rng.integers(low, high + 1, size=n_annotators))
    left, right = _pairs(len(annotator), n_items, rng)
    theta = rng.normal(scale=spread, size=n_items)
    side = _sides(n_annotators, n_leaning, rng)
    outcome = _judge(theta[left] - theta[right] + gamma * side[annotator], rng)
    return _known(Comparisons.from_arrays(annotator, left, right, outcome), theta, side)


def six_judges(*, rng: Generator, lean: str = "click", n_tasks: int = 1500, n_items: int = 20) -> Simulated:
    """Simulate six judges who answer every task in one order for all, in five grades, each with a taste of its own.

    ``lean``: "click" (four click their side with .02, .05, .12 and .2) or "shift" (three shift by .1, .2 and .4).
    """
    strengths = {"click": [0.02, 0.05, 0.12, 0.2], "shift": [0.1, 0.2, 0.4]}[lean]
    judge, task = np.divmod(np.arange(6 * n_tasks), n_tasks)
    task_left, task_right = _pairs(n_tasks, n_items, rng)
    left, right = task_left[task], task_right[task]
    theta = rng.normal(scale=SPREAD, size=n_items)
    taste = theta + rng.normal(scale=0.7, size=(6, n_items))
    size = np.zeros(6)
    size[rng.permutation(6)[: len(strengths)]] = strengths
    side = np.where(size > 0, rng.choice([-1, 1], size=6), 0)
    shift = side * size if lean == "shift" else np.zeros(6)
    latent = taste[judge, left] - taste[judge, right] + shift[judge] + rng.logistic(size=len(judge))
    outcome = np.clip(np.rint(latent / SPREAD), -2, 2) / 2
    if lean == "click":
        clicks = rng.random(len(judge)) < size[judge]
        outcome = np.where(clicks, side[judge] * rng.integers(1, 3, size=len(judge)) / 2, outcome)
    return _known(Comparisons.from_arrays(judge, left, right, outcome, task=task), theta, side)


def mild_big_leaners(*, rng: Generator, click: float = 0.08, n_items: int = 60) -> Simulated:
    """Simulate 25 annotators with 2,500 answers who click rarely, beside 120 honest ones with 8 to 16 answers."""
    n_leaning, n_honest = 25, 120
    sizes = np.append(np.full(n_leaning, 2500), rng.integers(8, 17, size=n_honest))
    annotator = np.repeat(np.arange(n_leaning + n_honest), sizes)
    left, right = _pairs(len(annotator), n_items, rng)
    theta = rng.normal(scale=SPREAD, size=n_items)
    side = np.append(rng.choice([-1, 1], size=n_leaning), np.zeros(n_honest, dtype=np.int64))
    outcome = _clicked(_judge(theta[left] - theta[right], rng), annotator, side, click, rng)
    return _known(Comparisons.from_arrays(annotator, left, right, outcome), theta, side)


def calibration_tasks(*, rng: Generator, n_leaning: int = 40) -> Simulated:
    """Simulate 100 annotators with 90 tasks in one order for all and 110 own pairs each; 40 lean left with .5."""
    m, n_shared, n_own, n_items = 100, 90, 110, 40
    shared = _pairs(n_shared, n_items, rng)
    own = _pairs(m * n_own, n_items, rng)
    left, right = (np.concatenate([np.tile(s, m), o]) for s, o in zip(shared, own, strict=True))
    annotator = np.concatenate([np.repeat(np.arange(m), n_shared), np.repeat(np.arange(m), n_own)])
    task = np.concatenate([np.tile(np.arange(n_shared), m), n_shared + np.arange(m * n_own)])
    theta = rng.normal(scale=SPREAD, size=n_items)
    side = np.abs(_sides(m, n_leaning, rng))
    outcome = _clicked(_judge(theta[left] - theta[right], rng), annotator, side, 0.5, rng)
    return _known(Comparisons.from_arrays(annotator, left, right, outcome, task=task), theta, side)


def repeats(*, rng: Generator, n_annotators: int = 40, n_pairs: int = 30, n_repeats: int = 4) -> Simulated:
    """Simulate annotators who meet each of their pairs several times in the order first drawn; nobody leans.

    There are no ids of coins, and everybody has a taste of its own (scale 1) about every pair.
    """
    n_items = 20
    unit = np.repeat(np.arange(n_annotators * n_pairs), n_repeats)
    left, right = (items[unit] for items in _pairs(n_annotators * n_pairs, n_items, rng))
    theta = rng.normal(scale=SPREAD, size=n_items)
    taste = rng.normal(size=n_annotators * n_pairs)
    outcome = _judge(theta[left] - theta[right] + taste[unit], rng)
    side = np.zeros(n_annotators, dtype=np.int64)
    return _known(Comparisons.from_arrays(unit // n_pairs, left, right, outcome), theta, side)


def both_orders(
    n_annotators: int = 12, n_leaning: int = 3, n_pairs: int = 80, *, rng: Generator, click: float = 0.4
) -> Simulated:
    """Simulate annotators who meet each of their pairs in both orders; one coin per annotator and pair."""
    n_items = 20
    unit = np.tile(np.arange(n_annotators * n_pairs), 2)
    one, two = (items[unit] for items in _pairs(n_annotators * n_pairs, n_items, rng))
    turned = np.repeat([False, True], n_annotators * n_pairs)
    left, right = np.where(turned, two, one), np.where(turned, one, two)
    theta = rng.normal(scale=SPREAD, size=n_items)
    side = _sides(n_annotators, n_leaning, rng)
    annotator = unit // n_pairs
    outcome = _clicked(_judge(theta[left] - theta[right], rng), annotator, side, click, rng)
    return _known(Comparisons.from_arrays(annotator, left, right, outcome, coin=unit), theta, side)


def _pairs(size: int, n_items: int, rng: Generator) -> tuple[Ints, Ints]:
    left = rng.integers(n_items, size=size)
    return left, (left + rng.integers(1, n_items, size=size)) % n_items


def _sides(m: int, n_leaning: int, rng: Generator) -> Ints:
    side = np.zeros(m, dtype=np.int64)
    side[rng.permutation(m)[:n_leaning]] = rng.choice([-1, 1], size=n_leaning)
    return side


def _judge(logit: Floats, rng: Generator) -> Floats:
    return np.where(logit + rng.logistic(size=len(logit)) > 0, 1.0, -1.0)


def _clicked(honest: Floats, annotator: Ints, side: Ints, click: float, rng: Generator) -> Floats:
    own = side[annotator]
    return np.where((own != 0) & (rng.random(len(honest)) < click), own.astype(float), honest)


def _known(comparisons: Comparisons, theta: Floats, side: Ints) -> Simulated:
    """Bring the truth into the order of the codes."""
    who, what = comparisons.annotators.astype(np.int64), comparisons.items.astype(np.int64)
    return Simulated(comparisons, side[who] != 0, theta[what], side[who])


def shaped(
    n_annotators: int,
    n_items: int,
    n_comparisons: int,
    *,
    rng: Generator,
    biased_share: float = 0.1,
    bias: float = 0.5,
) -> Simulated:
    """
    Simulate a crowd of any size for benchmarks: random pairs, scores N(0, 1), own coins.

    Parameters
    ----------
    n_annotators, n_items, n_comparisons : int
        The shape; with few comparisons some labels may not occur.
    rng : Generator
        Source of all randomness.
    biased_share, bias : float
        Share of annotators who click a side, and how often they do.
    """
    annotator = rng.integers(n_annotators, size=n_comparisons)
    left, right = simulate._random_pairs(n_comparisons, n_items, rng=rng)
    theta = rng.normal(size=n_items)
    side = simulate._sides(n_annotators, round(biased_share * n_annotators), rng=rng)
    honest = simulate._honest(left, right, 1.5 * theta, rng=rng)
    outcome = simulate._click(honest, annotator, side, bias, rng=rng)
    return simulate._simulated(annotator, left, right, outcome, theta, side)
