"""Crowds with known truth: the paper's simulation, the scenarios of the method's tests, and a user's own design."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.sparse.linalg import cg
from scipy.special import expit

from fdr_core.comparisons import Comparisons
from fdr_core.errors import ConfigurationError
from fdr_core.types import Floats, Ints, Mask

VARIANTS = tuple(f"H{k}" for k in range(1, 11))


@dataclass(frozen=True)
class Simulated:
    """
    Answers and the truth behind them.

    Attributes
    ----------
    comparisons : Comparisons
        The answers.
    is_biased : (m,) bool
        Who clicks a side, by annotator code.
    theta : (n,) float
        True scores, by item code.
    side : (m,) int
        The side a biased annotator clicks: 1 left, -1 right; 0 for the others.
    """

    comparisons: Comparisons
    is_biased: Mask
    theta: Floats
    side: Ints

    def false_discovery_proportion(self, flagged: Any) -> float:
        """Give the share of false flags among the flagged labels, 0 for none."""
        is_flagged = self._is_flagged(flagged)
        return float((is_flagged & ~self.is_biased).sum() / max(1, is_flagged.sum()))

    def power(self, flagged: Any) -> float:
        """Give the share of the biased who are among the flagged labels, 0 if nobody is biased."""
        return float((self._is_flagged(flagged) & self.is_biased).sum() / max(1, self.is_biased.sum()))

    def _is_flagged(self, flagged: Any) -> Mask:
        """Mark the flagged by code."""
        wanted = set(flagged)
        return np.array([label in wanted for label in self.comparisons.annotators], dtype=bool)


def paper_study(
    p1: float, p2: float, *, rng: Generator, n_items: int = 16, n_good: int = 100, n_biased: int = 50
) -> Simulated:
    """
    Simulate section 3.1 of Xu, Xiong, Cao and Yao (2016).

    Everybody answers every pair once, sides by coin. A good annotator errs with probability p1; a biased one clicks
    one own side with probability p2 and otherwise errs with probability p1.

    Parameters
    ----------
    p1, p2 : float
        Probabilities of an error and of a click on the own side.
    rng : Generator
        Source of all randomness.
    n_items, n_good, n_biased : int
        The paper's sizes by default.
    """
    _check_probability(p1=p1, p2=p2)
    m = n_good + n_biased
    first, second = np.triu_indices(n_items, k=1)
    annotator = np.repeat(np.arange(m), first.size)
    left, right = _toss(np.tile(first, m), np.tile(second, m), rng=rng)
    theta = rng.permutation(np.linspace(-1, 1, n_items))
    is_left_better = theta[left] > theta[right]
    is_left_chosen = is_left_better ^ (rng.random(left.size) < p1)
    side = _sides(m, n_biased, rng=rng)
    outcome = _click(np.where(is_left_chosen, 1.0, -1.0), annotator, side, p2, rng=rng)
    return _simulated(annotator, left, right, outcome, theta, side)


def large_crowd(variant: str = "H1", *, rng: Generator) -> Simulated:
    """
    Simulate the large crowd: 300 annotators with few answers each, own coins.

    Parameters
    ----------
    variant : {"H1", ..., "H10"}
        H1 45 biased at .5, 20 to 40 answers each, 200 items; H2 bias .3; H3 log-normal sizes; H4 500 items; H5
        seven-point answers, bias .4; H6 own slopes; H7 bots: 90 always on one side; H8 the better item stands left
        with probability .8; H9 slope 3; H10 nine biased at .6.
    rng : Generator
        Source of all randomness.
    """
    if variant not in VARIANTS:
        raise ConfigurationError(f"variant is {variant!r}; expected one of {', '.join(VARIANTS)}")
    m, n_items = 300, 500 if variant == "H4" else 200
    n_biased = {"H7": 90, "H10": 9}.get(variant, 45)
    bias = {"H2": 0.3, "H5": 0.4, "H7": 1.0, "H10": 0.6}.get(variant, 0.5)
    slope = np.full(m, {"H7": 0.5, "H9": 3.0}.get(variant, 1.0))
    if variant == "H6":
        slope *= np.exp(rng.normal(size=m))
    sizes = _log_normal_sizes(m, rng=rng) if variant in ("H3", "H7") else rng.integers(20, 41, size=m)
    annotator = np.repeat(np.arange(m), sizes)
    theta = rng.normal(size=n_items)
    left, right = _random_pairs(annotator.size, n_items, rng=rng)
    if variant == "H8":
        left, right = _toss(*_better_first(left, right, theta), rng=rng, heads=0.8)
    latent = 1.5 * slope[annotator] * (theta[left] - theta[right]) + rng.logistic(size=left.size)
    side = _sides(m, n_biased, rng=rng)
    if variant == "H5":
        honest = np.clip(np.rint(latent / 1.5), -3, 3) / 3
        outcome = _click(honest, annotator, side, bias, rng=rng, strength=rng.integers(1, 4, size=left.size) / 3)
    else:
        outcome = _click(np.where(latent > 0, 1.0, -1.0), annotator, side, bias, rng=rng)
    return _simulated(annotator, left, right, outcome, theta, side)


def small_team(
    n_annotators: int = 30,
    n_biased: int = 5,
    n_answers: int = 60,
    *,
    rng: Generator,
    bias: float = 0.4,
    n_items: int = 20,
) -> Simulated:
    """
    Simulate a small team: items evenly spaced in [-1, 1], left with probability logistic(3 x difference), own coins.

    Parameters
    ----------
    n_annotators, n_biased, n_answers : int
        People, how many of them click a side, and answers of each.
    rng : Generator
        Source of all randomness.
    bias : float
        Probability of a click on the own side.
    n_items : int
        Number of items.
    """
    _check_probability(bias=bias)
    _check_counts(n_annotators, n_biased)
    annotator = np.repeat(np.arange(n_annotators), n_answers)
    left, right = _random_pairs(annotator.size, n_items, rng=rng)
    theta = np.linspace(-1, 1, n_items)
    side = _sides(n_annotators, n_biased, rng=rng)
    outcome = _click(_honest(left, right, 3 * theta, rng=rng), annotator, side, bias, rng=rng)
    return _simulated(annotator, left, right, outcome, theta, side)


def null_crowd(n_annotators: int = 100, n_answers: int = 3, *, rng: Generator, n_items: int = 20) -> Simulated:
    """Simulate a team in which nobody is biased, by default with three answers each."""
    return small_team(n_annotators, 0, n_answers, rng=rng, n_items=n_items)


def growing(
    n_annotators: int = 30, n_biased: int = 3, n_answers: int = 100, *, rng: Generator, bias: float = 0.4
) -> Simulated:
    """
    Simulate a small team whose answers arrive in mixed order, one per second.

    `comparisons.take(np.arange(k))` is the state after k answers; `time` runs from 1 to N.
    """
    whole = small_team(n_annotators, n_biased, n_answers, rng=rng, bias=bias)
    mixed = whole.comparisons.take(rng.permutation(len(whole.comparisons)))
    code_of_annotator = {label: code for code, label in enumerate(whole.comparisons.annotators)}
    code_of_item = {label: code for code, label in enumerate(whole.comparisons.items)}
    who = np.array([code_of_annotator[label] for label in mixed.annotators])
    what = np.array([code_of_item[label] for label in mixed.items])
    timed = replace(mixed, time=np.arange(1.0, len(mixed) + 1))
    return Simulated(timed, whole.is_biased[who], whole.theta[what], whole.side[who])


def unique_pairs(*, rng: Generator, harder: bool = False) -> Simulated:
    """
    Simulate preference data in Label Studio: every task has two items of its own and one orientation for all.

    Parameters
    ----------
    rng : Generator
        Source of all randomness.
    harder : bool
        12 of 30 annotators lean left, 200 tasks, everybody answers all; otherwise 6 of 30, 300 tasks, 60 of them each.
    """
    m, bias = 30, 0.5
    n_biased, n_tasks, n_answers = (12, 200, 200) if harder else (6, 300, 60)
    task = np.concatenate([rng.permutation(n_tasks)[:n_answers] for _ in range(m)])
    annotator = np.repeat(np.arange(m), n_answers)
    theta = rng.normal(scale=0.5, size=2 * n_tasks)
    left, right = 2 * task, 2 * task + 1
    side = np.abs(_sides(m, n_biased, rng=rng))
    outcome = _click(_honest(left, right, 3 * theta, rng=rng), annotator, side, bias, rng=rng)
    return _simulated(annotator, left, right, outcome, theta, side, coin=task)


def repeated_judges(
    *, rng: Generator, n_judges: int = 30, n_tasks: int = 200, n_repeats: int = 5, n_items: int = 20
) -> Simulated:
    """
    Simulate LLM judges asked several times per task, in one orientation for all; nobody is biased.

    Each judge has its own taste per task (normal, scale 2, on the logit), so that its repeated answers agree with
    each other more than with anybody else's.
    """
    theta = np.linspace(-1, 1, n_items)
    task_left, task_right = _random_pairs(n_tasks, n_items, rng=rng)
    taste = rng.normal(scale=2.0, size=(n_judges, n_tasks))
    logit = 3 * (theta[task_left] - theta[task_right]) + taste
    judge, task = np.divmod(np.repeat(np.arange(n_judges * n_tasks), n_repeats), n_tasks)
    outcome = np.where(logit[judge, task] + rng.logistic(size=judge.size) > 0, 1.0, -1.0)
    side = np.zeros(n_judges, dtype=np.int64)
    return _simulated(judge, task_left[task], task_right[task], outcome, theta, side, task=task)


def on_design(
    comparisons: Comparisons,
    *,
    rng: Generator,
    n_biased: int | None = None,
    bias: float = 0.5,
    theta: Floats | None = None,
) -> Simulated:
    """
    Simulate answers on a given design: the same annotators, items, sizes, sides and coins.

    Parameters
    ----------
    comparisons : Comparisons
        The design; ties keep their share.
    rng : Generator
        Source of all randomness.
    n_biased : int, optional
        How many click a side; a tenth of the annotators by default, at least one.
    bias : float
        Probability of a click on the own side.
    theta : (n,) array, optional
        Scores on the logit scale; by default those the answers themselves suggest, so that the items are about as
        easy to tell apart, and as mixed up with the sides, as in the real data.
    """
    _check_probability(bias=bias)
    m = comparisons.n_annotators
    count = max(1, round(0.1 * m)) if n_biased is None else n_biased
    _check_counts(m, count)
    scores = _suggested_scores(comparisons) if theta is None else np.asarray(theta, dtype=np.float64)
    side = _sides(m, count, rng=rng)
    honest = _honest(comparisons.left, comparisons.right, scores, rng=rng)
    honest[rng.random(honest.size) < np.mean(comparisons.outcome == 0)] = 0.0
    outcome = _click(honest, comparisons.annotator, side, bias, rng=rng)
    return Simulated(replace(comparisons, outcome=outcome, skips=None), side != 0, scores, side)


def ridge_scores(comparisons: Comparisons, *, ridge: float = 5.0, is_used: Mask | None = None) -> Floats:
    """Fit item scores to the used answers by least squares with a ridge: (D'D + ridge I) theta = D'y."""
    used = slice(None) if is_used is None else is_used
    left, right, y = comparisons.left[used], comparisons.right[used], comparisons.outcome[used]
    n, ones = comparisons.n_items, np.ones(y.size)
    both = (np.concatenate([np.arange(y.size)] * 2), np.concatenate([left, right]))
    D = sp.csr_array((np.concatenate([ones, -ones]), both), shape=(y.size, n))
    theta, _ = cg(D.T @ D + ridge * sp.eye_array(n), D.T @ y, rtol=1e-8, maxiter=10 * n + 100)
    return np.asarray(theta, dtype=np.float64)


def _suggested_scores(comparisons: Comparisons) -> Floats:
    """Bring the ridge scores to the logit scale that fits answers they were not fitted to."""
    theta = ridge_scores(comparisons)
    is_even = comparisons.annotator % 2 == 0
    if is_even.all():
        return 2 * theta  # P(left) = logistic(2 d) has slope 1/2 at d = 0, hence mean answer d
    half = ridge_scores(comparisons, is_used=is_even)
    is_other = ~is_even & (comparisons.outcome != 0)
    difference = (half[comparisons.left] - half[comparisons.right])[is_other]
    y = (comparisons.outcome[is_other] + 1) / 2
    return _logistic_slope(difference, y) * theta


def _logistic_slope(x: Floats, y: Floats, *, largest: float = 20.0) -> float:
    """Find b in [0, largest] that maximises the likelihood of P(y = 1) = logistic(b x), by bisection on its score."""
    low, high = 0.0, largest
    for _ in range(40):
        middle = (low + high) / 2
        if x @ (y - expit(middle * x)) > 0:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _simulated(
    annotator: Ints, left: Ints, right: Ints, outcome: Floats, theta: Floats, side: Ints, **coins: Ints
) -> Simulated:
    """Code the answers and bring the truth into the order of the codes."""
    comparisons = Comparisons.from_arrays(annotator, left, right, outcome, **coins)
    who, what = _codes(comparisons.annotators), _codes(comparisons.items)
    return Simulated(comparisons, side[who] != 0, theta[what], side[who])


def _codes(labels: NDArray[np.object_]) -> Ints:
    """Read integer labels back."""
    return np.asarray(labels, dtype=np.int64)


def _random_pairs(size: int, n_items: int, *, rng: Generator) -> tuple[Ints, Ints]:
    """Draw ordered pairs of two different items, all equally likely."""
    left = rng.integers(n_items, size=size)
    right = (left + rng.integers(1, n_items, size=size)) % n_items
    return left, right


def _toss(first: Ints, second: Ints, *, rng: Generator, heads: float = 0.5) -> tuple[Ints, Ints]:
    """Put the first item on the left with the given probability."""
    is_head = rng.random(first.size) < heads
    return np.where(is_head, first, second), np.where(is_head, second, first)


def _better_first(left: Ints, right: Ints, theta: Floats) -> tuple[Ints, Ints]:
    """Order every pair by its scores."""
    is_left_better = theta[left] > theta[right]
    return np.where(is_left_better, left, right), np.where(is_left_better, right, left)


def _log_normal_sizes(m: int, *, rng: Generator) -> Ints:
    """Draw sizes with median 20 and sigma 1.2, clipped to 3..500."""
    return np.asarray(np.clip(np.rint(20 * np.exp(1.2 * rng.normal(size=m))), 3, 500), dtype=np.int64)


def _sides(m: int, n_biased: int, *, rng: Generator) -> Ints:
    """Choose who is biased, and to which side."""
    side = np.zeros(m, dtype=np.int64)
    side[rng.permutation(m)[:n_biased]] = rng.choice([-1, 1], size=n_biased)
    return side


def _honest(left: NDArray[Any], right: NDArray[Any], utility: Floats, *, rng: Generator) -> Floats:
    """Answer left with probability logistic(utility difference)."""
    return np.where(utility[left] - utility[right] + rng.logistic(size=left.size) > 0, 1.0, -1.0)


def _click(
    honest: Floats, annotator: NDArray[Any], side: Ints, bias: float, *, rng: Generator, strength: Floats | float = 1.0
) -> Floats:
    """Replace answers of the biased by their own side, each with probability `bias`."""
    own = side[annotator]
    is_click = (own != 0) & (rng.random(honest.size) < bias)
    return np.where(is_click, own * strength, honest)


def _check_probability(**values: float) -> None:
    """Refuse anything but a probability."""
    for name, value in values.items():
        if not 0 <= value <= 1:
            raise ConfigurationError(f"{name} is {value!r}; expected a probability from 0 to 1")


def _check_counts(n_annotators: int, n_biased: int) -> None:
    """Refuse more biased annotators than there are."""
    if not 0 <= n_biased <= n_annotators:
        raise ConfigurationError(f"n_biased is {n_biased}; expected 0 to {n_annotators}, the number of annotators")


def _variant(name: str) -> Callable[[Generator], Simulated]:
    """Bind one variant of the large crowd."""
    return lambda rng: large_crowd(name, rng=rng)


SCENARIOS: Mapping[str, Callable[[Generator], Simulated]] = MappingProxyType(
    {
        "paper": lambda rng: paper_study(0.2, 0.7, rng=rng),
        **{name: _variant(name) for name in VARIANTS},
        "small-team-30": lambda rng: small_team(30, 5, 60, rng=rng),
        "small-team-12": lambda rng: small_team(12, 2, 100, rng=rng),
        "small-team-null": lambda rng: small_team(12, 0, 100, rng=rng),
        "growing": lambda rng: growing(rng=rng),
        "unique-pairs": lambda rng: unique_pairs(rng=rng),
        "unique-pairs-harder": lambda rng: unique_pairs(rng=rng, harder=True),
        "repeated-judges": lambda rng: repeated_judges(rng=rng),
        "null-three-answers": lambda rng: null_crowd(rng=rng),
    }
)
