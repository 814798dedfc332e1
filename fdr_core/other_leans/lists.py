"""From coefficients to what people read: the list of a lean, each effect as a share, and how far it can be believed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.random import Generator
from scipy.special import betainc, expit, ndtr

from fdr_core.judges.both_orders import adjusted
from fdr_core.other_leans.features import Feature
from fdr_core.selection import weighted_list
from fdr_core.types import Floats, Ints, Mask

#: How often a placebo that goes with quality belongs to the better item; more where a real feature does.
_BOUND = 0.75
#: Above this share of p-values below .05 a list is not believed.
MOST_BELOW = 0.10


@dataclass(frozen=True)
class Placebos:
    """
    What placebos gave.

    Attributes
    ----------
    random, bound : share of annotators with p < .05 for features without meaning: drawn by chance, and going with
        quality.
    found : mean number of annotators on the list for a placebo that goes with quality.
    tests : p-values of each kind.
    """

    random: float
    bound: float
    found: float
    tests: int

    @classmethod
    def of(cls, chance: list[Floats], bound: list[Floats], listed: Callable[[Floats], int]) -> Placebos:
        """From the p-values of each set, NaN where somebody is not judged."""
        below = [float(np.mean(p[~np.isnan(p)] < 0.05)) for p in (np.concatenate(chance), np.concatenate(bound))]
        n = int((~np.isnan(np.concatenate(bound))).sum())
        return cls(below[0], below[1], float(np.mean([listed(p) for p in bound])), n)

    @property
    def are_sound(self) -> bool:
        """Whether lists on these answers can be believed: not where more are small, beyond what few tests do."""
        most = max(self.random, self.bound)
        n = round(most * self.tests)
        return most <= MOST_BELOW or float(betainc(n, self.tests - n + 1, 0.05)) > 0.01  # n tests or more, binomially

    def __str__(self) -> str:
        return (
            f"Placebos on these answers: p < .05 in {self.random:.1%} (drawn by chance) and {self.bound:.1%} (going "
            f"with quality) of {self.tests:,} tests each, where 5.0% are expected; {self.found:.1f} listed on average"
        )


def run_placebos(
    p_values: Callable[[Floats], Floats],
    listed: Callable[[Floats], int],
    z: Floats,
    x: Floats,
    pairs: tuple[Ints, Floats],
    *,
    sets: int,
    rng: Generator,
) -> Placebos:
    """
    Test placebos as features are tested.

    Parameters
    ----------
    p_values : from a feature (N,) to the p-values of all annotators against no lean, NaN where not judged.
    listed : from p-values to the length of the list.
    z : (N,) quality, x : (N, F) the real features, pairs : as from `pair_codes`.
    """
    made = [(random_placebo(pairs, rng), bound_placebo(z, x, pairs, rng)) for _ in range(sets)]
    chance, bound = ([p_values(placebo) for placebo in kind] for kind in zip(*made, strict=True))
    return Placebos.of(chance, bound, listed)


def random_placebo(pairs: tuple[Ints, Floats], rng: Generator) -> Floats:
    """A normal number for each pair."""
    pair, forward = pairs
    return np.asarray(rng.normal(size=int(pair.max()) + 1)[pair] * forward)


def bound_placebo(z: Floats, x: Floats, pairs: tuple[Ints, Floats], rng: Generator) -> Floats:
    """Sizes of the first feature, dealt out anew, with the better item's sign as often as a real feature has it."""
    pair, forward = pairs
    n, first = int(pair.max()) + 1, np.unique(pair, return_index=True)[1]
    better = np.zeros(n)
    known = ~np.isnan(z)
    better[pair[known]] = (z * forward)[known]
    own = x[first] * forward[first, None]
    agree = [float(np.mean(s[s != 0] > 0)) if np.any(s != 0) else 0.5 for s in (own * better[:, None]).T]
    share = max([_BOUND, *(max(a, 1 - a) for a in agree)])
    sign = np.where(rng.random(n) < share, 1.0, -1.0) * np.where(better == 0, 1.0, np.sign(better))
    return np.asarray((sign * rng.permutation(np.abs(own[:, 0])))[pair] * forward)


_STEPS, _LONGEST_STEP, _TOLERANCE = 60, 1.0, 1e-5


@dataclass(frozen=True)
class Regressions:
    """
    Coefficients per annotator.

    Attributes
    ----------
    coefficient : (m, p); NaN where they cannot be told apart.
    covariance : (m, p, p)
    is_fitted : (m,) whether all coefficients can be told apart and the steps became small.
    """

    coefficient: Floats
    covariance: Floats
    is_fitted: Mask

    def error(self, k: int) -> Floats:
        """Standard errors of one coefficient."""
        return np.asarray(np.sqrt(self.covariance[:, k, k]))


def regress(
    x: Floats,
    y: Floats,
    who: Ints,
    m: int,
    cluster: Ints | None = None,
    *,
    fewest: int = 0,
    start: Floats | None = None,
) -> Regressions:
    """
    Fit everybody's regression.

    Parameters
    ----------
    x : (N, p) predictors; y : (N,) in [0, 1], 1 for left; who : (N,) in [0, m).
    cluster : (N,) optional
        Answers of one annotator to one pair share a code: their errors are not independent, so the covariance is the
        sandwich over clusters (White 1980), with its correction for few of them.
    fewest : answers below which nobody is fitted.
    start : (m, k <= p) coefficients to begin at.
    """
    order, p = np.argsort(who, kind="stable"), x.shape[1]
    columns, y, who = np.ascontiguousarray(x[order].T), y[order], who[order]
    enough = np.bincount(who, minlength=m) >= fewest
    enough &= _can_be_told_apart(_Symmetric(p).matrices(_SumsBy(who, m).of(_Symmetric(p).products(columns))))
    rows = enough[who]
    columns, y, who = columns[:, rows], y[rows], who[rows]
    sums, upper = _SumsBy(who, m), _Symmetric(p)
    products, beta = upper.products(columns), np.zeros((p, m))
    if start is not None:
        beta[: start.shape[1]] = np.nan_to_num(start.T)
    empty = np.where(enough, 1e-10, 1.0)[:, None, None] * np.eye(p)
    inverse, residual, moved = np.zeros((m, p, p)), y, np.ones(m)
    for _ in range(_STEPS):
        mu = expit(_dot(columns, beta[:, who]))
        weight, residual = mu * (1 - mu), y - mu
        inverse = np.asarray(np.linalg.inv(upper.matrices(sums.of(products * weight)) + empty))
        leverage = weight * _dot(products, upper.entries(inverse)[:, who])
        gradient = sums.of(columns * (residual + leverage * (0.5 - mu)))
        step = np.einsum("mpq,qm->pm", inverse, gradient)
        moved = np.abs(step).max(axis=0, initial=0.0)
        beta = beta + step * np.minimum(1.0, _LONGEST_STEP / np.maximum(moved, 1e-300))
        if (moved < _TOLERANCE).all():
            break
    covariance: Floats = inverse
    if cluster is not None:
        covariance = _sandwich(inverse, columns * residual, cluster[order][rows], who)
    is_fitted = enough & (moved < 1e-3)
    return Regressions(
        np.where(is_fitted[:, None], beta.T, np.nan),
        np.where(is_fitted[:, None, None], covariance, np.nan),
        np.asarray(is_fitted),
    )


def _dot(one: Floats, two: Floats) -> Floats:
    """Products of columns, over rows of both."""
    return np.asarray(np.einsum("pn,pn->n", one, two))


class _SumsBy:
    """Sums over every annotator's answers, which lie together: (k, N) to (k, m)."""

    def __init__(self, who: Ints, m: int) -> None:
        self._m = m
        self._first = np.flatnonzero(np.diff(who, prepend=-1))
        self._who = who[self._first]

    def of(self, value: Floats) -> Floats:
        total = np.zeros((len(value), self._m))
        if len(self._first):
            total[:, self._who] = np.add.reduceat(value, self._first, axis=1)
        return total


class _Symmetric:
    """Symmetric matrices by the entries on and above the diagonal."""

    def __init__(self, p: int) -> None:
        self._row, self._column = np.triu_indices(p)
        self._p = p

    def products(self, columns: Floats) -> Floats:
        """(p, N) to (p (p + 1) / 2, N)."""
        return np.asarray(columns[self._row] * columns[self._column])

    def matrices(self, sums: Floats) -> Floats:
        """(p (p + 1) / 2, m) to (m, p, p)."""
        found = np.empty((sums.shape[1], self._p, self._p))
        found[:, self._row, self._column] = found[:, self._column, self._row] = sums.T
        return found

    def entries(self, matrices: Floats) -> Floats:
        """(m, p, p) to (p (p + 1) / 2, m), entries off the diagonal doubled: for quadratic forms."""
        twice = np.where(self._row == self._column, 1.0, 2.0)
        return np.asarray((matrices[:, self._row, self._column] * twice).T)


def _can_be_told_apart(gram: Floats) -> Mask:
    """Whether the predictors of each annotator are far enough from being combinations of each other."""
    size = np.sqrt(np.einsum("mpp->mp", gram))
    is_there = (size > 1e-9).all(axis=1)
    size[~is_there] = 1.0
    smallest = np.linalg.eigvalsh(gram / size[:, :, None] / size[:, None, :])[:, 0]
    return np.asarray(is_there & (smallest > 1e-3))


def _sandwich(inverse: Floats, score: Floats, cluster: Ints, who: Ints) -> Floats:
    """``V (sum over clusters of u u') V``, with n / (n - p) for the n clusters of an annotator."""
    m, p = inverse.shape[:2]
    order = np.lexsort((cluster, who))
    is_first = (np.diff(cluster[order], prepend=-1) != 0) | (np.diff(who[order], prepend=-1) != 0)
    first = np.flatnonzero(is_first)
    total = np.add.reduceat(score[:, order], first, axis=1) if len(first) else np.zeros((p, 0))
    owner, upper = who[order][first], _Symmetric(p)
    meat = upper.matrices(_SumsBy(owner, m).of(upper.products(total)))
    n = np.bincount(owner, minlength=m)
    return np.asarray(inverse @ meat @ inverse * (n / np.maximum(n - p, 1))[:, None, None])


def wald_p_values(estimate: Floats, error: Floats, least: float) -> Floats:
    """P-values against ``|delta| <= least``: two-sided, and exact at the border of the null for a normal estimate."""
    size = np.abs(estimate)
    return np.asarray(ndtr((least - size) / error) + ndtr(-(size + least) / error))


_REACH = 1.959964
#: A flag whose interval holds no lean at all would not be believed.
_MOST_P_VALUE = 0.05


@dataclass(frozen=True)
class LeanList:
    """
    Who leans towards a feature of the items.

    Attributes
    ----------
    lean : name of the feature; chosen : what a positive lean chooses.
    how : "gold"; "crowd" where quality is what all agree on, and a lean one beyond theirs; "others" of agreement; or
        "goes with" where quality is not known: a description, never a list.
    flagged : labels, strongest first.
    annotators : annotator, answers, effect (share of pairs with the feature in which it decides for its item, beyond
        what the same annotator would choose without the lean) with its 95 % interval low and high, coefficient (log
        odds at a typical difference) with se, p_value against a lean of at most ``least``, q_value, flagged, finding.
        NaN where somebody is not judged.
    promise : what the list promises; reasons : why there is none, or what limits it.
    placebos : what features without meaning gave on the same answers.
    gold_needed : without gold, about how many pairs with gold would settle it.
    """

    lean: str
    chosen: str
    how: str
    flagged: list[Any]
    annotators: pd.DataFrame
    promise: str
    reasons: list[str] = field(default_factory=list)
    placebos: Placebos | None = None
    gold_needed: int | None = None

    def __repr__(self) -> str:
        return f"LeanList({self.lean}: {len(self.flagged)} of {len(self.annotators)} annotators; {self.promise})"


@dataclass(frozen=True)
class Effects:
    """Coefficients of one feature, (m,) each: estimate, error, p-value, share with its interval, answers."""

    coefficient: Floats
    error: Floats
    p_value: Floats
    share: Floats
    low: Floats
    high: Floats
    answers: Ints


def effects(delta: Floats, error: Floats, without: Floats, x: Floats, who: Ints, least: float) -> Effects:
    """Effects of a feature x (N,) with coefficients and errors (m,); ``without``: (N,) log odds of left without it."""
    share, low, high = (_share(without, x, who, delta + way * _REACH * error) for way in (0, -1, 1))
    p_value = wald_p_values(delta, error, least)
    return Effects(delta, error, p_value, share, low, high, np.bincount(who, minlength=len(delta)))


def _share(without: Floats, x: Floats, who: Ints, delta: Floats) -> Floats:
    """Mean of ``P(the feature's item is chosen) - P(... without the lean)`` over pairs that have the feature."""
    change = np.sign(x) * (expit(without + np.nan_to_num(delta)[who] * x) - expit(without))
    count = np.bincount(who, x != 0, len(delta))
    mean = np.bincount(who, change, len(delta)) / np.maximum(count, 1)
    return np.where(np.isnan(delta), np.nan, mean)


def listed(p_values: Sequence[Floats], q: float, scope: str) -> list[tuple[Floats, Mask]]:
    """
    Adjusted p-values and lists, over each lean's annotators, or over all (annotator, lean) at once.

    Each: annotators err independently given gold, so the list estimates how many do not lean. All: the leans of one
    annotator come from one fit and are dependent, so it is Benjamini-Hochberg's own.
    """
    if scope == "all":
        together = np.concatenate(p_values)
        adjusted_p = np.full(len(together), np.nan)
        known = ~np.isnan(together)
        adjusted_p[known] = adjusted(together[known])
        parts = np.split(adjusted_p, np.cumsum([len(p) for p in p_values])[:-1])
    else:
        parts = []
        for p in p_values:
            known, part = ~np.isnan(p), np.full(len(p), np.nan)
            told = np.where(p[known] <= _MOST_P_VALUE, p[known], 1.0)
            ones = np.ones(len(told))
            part[known] = weighted_list(told, ones, q=q, storey=True, plain_p_value=p[known]).q_value
            parts.append(part)
    return [(part, np.nan_to_num(part, nan=1.0) <= q) for part in parts]


def as_table(labels: Any, found: Effects, q_value: Floats, on_list: Mask, sentence: Callable[..., str]) -> pd.DataFrame:
    """One row per annotator, strongest evidence first; ``sentence`` tells of a share and its interval."""
    table = pd.DataFrame(
        {
            "annotator": labels,
            "answers": found.answers,
            "effect": found.share,
            "low": found.low,
            "high": found.high,
            "coefficient": found.coefficient,
            "se": found.error,
            "p_value": found.p_value,
            "q_value": q_value,
            "flagged": on_list,
            "finding": [sentence(*one) for one in zip(found.share, found.low, found.high, on_list, strict=True)],
        }
    )
    strength = table["p_value"].fillna(1.0) - np.abs(table["effect"].fillna(0.0)) * 1e-9
    order = np.lexsort((strength, ~table["flagged"].to_numpy(dtype=bool)))
    return table.iloc[order].reset_index(drop=True)


def sentence_of(feature: Feature, how: str, share: float, low: float, high: float, _on_list: bool) -> str:
    """What is said of somebody."""
    if np.isnan(share):
        return "not judged: too few answers, or none that tell the lean from quality and side"
    size, ends = abs(share), sorted((low, high) if share >= 0 else (-low, -high))
    measured = f"({ends[0]:.0%} to {ends[1]:.0%})"
    if how == "goes with":
        way = "with" if share >= 0 else "against"
        said = f"answers go {way} {feature.chosen} in {size:.0%} of such pairs more than evenly {measured}"
        return f"{said}; which one is better is not known"
    than = " than quality and the crowd's taste explain" if how == "crowd" else ""
    return f"chooses {feature.chosen} in {size:.0%} {'more' if share >= 0 else 'fewer'} of such pairs {measured}{than}"
