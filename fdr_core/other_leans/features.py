"""Features of items that an answer may follow besides quality: longer, more formatted, newer, own family.

A feature belongs to the two items, not to the answer: it changes its sign with their sides. `measure` gives it the root
mean square 1, so that a coefficient is the change in log odds at a typical difference."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import scipy.sparse as sp
from scipy.special import expit

from fdr_core.comparisons import Comparisons
from fdr_core.design import DENSE_ITEMS
from fdr_core.errors import ConfigurationError, InputError
from fdr_core.inputs.columns import read_times
from fdr_core.inputs.item_keys import text_size
from fdr_core.types import Floats, Ints


@dataclass(frozen=True)
class Feature(ABC):
    """
    A feature of items.

    Attributes
    ----------
    name : what it is called in results, and the column ``x_<name>`` that holds it ready-made.
    chosen : what somebody with a positive lean chooses, in words.
    """

    name: str = ""
    chosen: str = ""

    def difference(self, data: Comparisons) -> Floats:
        """(N,) left minus right, from the column ``x_<name>`` where there is one."""
        column = f"x_{self.name}"
        if data.features is not None and column in data.features:
            return _numbers(data, column)
        return self._difference(data)

    @abstractmethod
    def _difference(self, data: Comparisons) -> Floats:
        """Work it out."""


@dataclass(frozen=True)
class Longer(Feature):
    """``tanh`` of the log ratio of characters, from ``text_left`` and ``text_right``, or ``chars_left`` and so on."""

    name: str = "length"
    chosen: str = "the longer item"

    def _difference(self, data: Comparisons) -> Floats:
        return _log_ratio(*(np.maximum(n, 1) for n in _counts(data, "chars", 0)))


@dataclass(frozen=True)
class MoreFormatted(Feature):
    """``tanh`` of the log ratio of marks (line breaks, Markdown) plus 1 in the texts, or ``marks_left`` and so on."""

    name: str = "format"
    chosen: str = "the more formatted item"

    def _difference(self, data: Comparisons) -> Floats:
        return _log_ratio(*(n + 1 for n in _counts(data, "marks", 1)))


@dataclass(frozen=True)
class Newer(Feature):
    """Which of the two was made later, from ``created_left`` and ``created_right``."""

    name: str = "newer"
    chosen: str = "the newer item"

    def _difference(self, data: Comparisons) -> Floats:
        left, right = (self._seconds(data, f"created_{side}") for side in ("left", "right"))
        return np.asarray(np.sign(left - right), dtype=np.float64)

    @staticmethod
    def _seconds(data: Comparisons, column: str) -> Floats:
        times = read_times(_column(data, column), name=column)
        times = np.full(len(data), np.nan) if times is None else times
        _refuse_missing(data, times, column)
        return times


@dataclass(frozen=True)
class OwnFamily(Feature):
    """
    Which of the two comes from the annotator's own family.

    Attributes
    ----------
    mapping : label of an annotator or item to its family; who is not in it has none.
    """

    name: str = "own family"
    chosen: str = "the item of its own family"
    mapping: Mapping[object, object] = field(default_factory=dict)

    def _difference(self, data: Comparisons) -> Floats:
        if not self.mapping:
            raise ConfigurationError(
                "own family needs a map from annotators and items to families: OwnFamily(mapping={'gpt4': 'openai', …})"
            )
        codes = {family: k for k, family in enumerate(dict.fromkeys(self.mapping.values()))}
        who, item = (
            np.array([codes[self.mapping[label]] if label in self.mapping else none for label in labels])
            for labels, none in ((data.annotators, -1), (data.items, -2))
        )
        own = who[data.annotator]
        return np.asarray((item[data.left] == own).astype(float) - (item[data.right] == own))


@dataclass(frozen=True)
class Column(Feature):
    """Any number: ``x_<name>``, or ``<name>_left`` minus ``<name>_right``."""

    def _difference(self, data: Comparisons) -> Floats:
        return _numbers(data, f"{self.name}_left") - _numbers(data, f"{self.name}_right")


_READY = {"length": Longer(), "format": MoreFormatted(), "newer": Newer(), "own family": OwnFamily()}


def chosen_features(leans: Sequence[str | Feature]) -> list[Feature]:
    """Take features, or the names of ready ones and of columns."""
    found = [_READY.get(one) or Column(one, f"more {one}") if isinstance(one, str) else one for one in leans]
    names = [feature.name for feature in found]
    if not names or len(set(names)) < len(names) or not all(names) or "position" in names:
        raise ConfigurationError(
            f"leans was {', '.join(names) or 'empty'}; expected different names beside position, which is always "
            f"tested: {', '.join(_READY)}, or a column of numbers"
        )
    return found


def measure(data: Comparisons, features: Sequence[Feature]) -> Floats:
    """
    Measure features on all answers.

    Returns
    -------
    (N, F) with root mean square 1

    Raises
    ------
    InputError
        For values that are missing, that are the same for both items of every pair, or do not turn with the sides.
    """
    found = np.empty((len(data), len(features)))
    pair, forward = pair_codes(data)
    for k, feature in enumerate(features):
        x = feature.difference(data)
        size = float(np.sqrt(np.mean(x * x)))
        if size < 1e-12:
            raise InputError(
                f"{feature.name} is the same for both items of every pair, so nobody can follow it; leave it out"
            )
        found[:, k] = x / size
        refuse_unturned(found[:, k], pair, forward, feature.name)
    return found


def pair_codes(data: Comparisons) -> tuple[Ints, Floats]:
    """Code the (stratum, unordered pair) of every answer, and say whether it stood in the pair's own order: 1 or -1."""
    low, high = np.minimum(data.left, data.right), np.maximum(data.left, data.right)
    code = low.astype(np.int64) * data.n_items + high
    if data.stratum is not None:
        code += data.stratum.astype(np.int64) * data.n_items**2
    pair = np.unique(code, return_inverse=True)[1].ravel()
    return pair, np.where(data.left == low, 1.0, -1.0)


def refuse_unturned(value: Floats, pair: Ints, forward: Floats, name: str) -> None:
    """Refuse what keeps its sign where a pair stood in both orders: it belongs to sides or pairs, not to items."""
    known = ~np.isnan(value)
    value, pair, forward = value[known], pair[known], forward[known]
    n = int(pair.max(initial=-1)) + 1
    sums, counts = (
        [np.bincount(pair, w * (forward == way), n) for way in (1, -1)] for w in (value, np.ones(len(pair)))
    )
    both = (counts[0] > 0) & (counts[1] > 0)
    if (
        both.any()
        and float((sums[0] / np.maximum(counts[0], 1))[both] @ (sums[1] / np.maximum(counts[1], 1))[both]) > 0
    ):
        raise InputError(
            f"{name} does not change its sign with the sides where a pair stood in both orders; give it as left minus "
            "right (gold: the side of the better item as this answer showed it), and name the question as stratum "
            "where the same items met over several"
        )


def _counts(data: Comparisons, name: str, place: int) -> list[Floats]:
    """Counts of both sides: given, or taken from the texts by their place in `text_size`, each text once."""
    if data.features is not None and f"{name}_left" in data.features:
        return [_numbers(data, f"{name}_left"), _numbers(data, f"{name}_right")]
    found = []
    for column in ("text_left", "text_right"):
        codes, texts = pd.factorize(_column(data, column))
        _refuse_missing(data, np.where(codes < 0, np.nan, 0.0), column)
        sizes = [text_size(str(text)) for text in texts]
        counts = np.array([np.nan if size is None else size[place] for size in sizes])[codes]
        _refuse_missing(data, counts, f"text of {column}")
        found.append(counts)
    return found


def _numbers(data: Comparisons, column: str) -> Floats:
    values = pd.to_numeric(_column(data, column), errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    values = np.where(np.isfinite(values), values, np.nan)
    _refuse_missing(data, values, column)
    return values


def _column(data: Comparisons, name: str) -> pd.Series:
    if data.features is None or name not in data.features:
        offered = "none" if data.features is None else ", ".join(map(str, data.features.columns))
        raise InputError(
            f"nothing tells the {name} of the answers' items; found: {offered}; add the column, or tell of the items "
            "by Comparisons.from_frame(…, items=frame) with one row per item"
        )
    return data.features[name]


def _refuse_missing(data: Comparisons, values: Floats, column: str) -> None:
    missing = np.flatnonzero(np.isnan(values))
    if len(missing):
        side = data.left if column.endswith("_left") else data.right
        items = "" if not column.endswith(("_left", "_right")) else f", first of item {data.items[side[missing[0]]]!r}"
        raise InputError(
            f"{column} is missing, or cannot be read, in {len(missing):,} of {len(values):,} answers{items}; "
            "fill it in, or leave these answers out: those whose texts are known may not be like the others"
        )


def _log_ratio(left: Floats, right: Floats) -> Floats:
    return np.asarray(np.tanh(np.log(left / right)))


_RIDGE, _STEPS, _TOLERANCE = 0.25, 50, 1e-8
#: Of a feature at least this share must differ between answers to the same items.
_LEAST_OWN = 0.02


@dataclass(frozen=True)
class WithoutTaste:
    """
    Item scores with and without what the crowd makes of features.

    Attributes
    ----------
    tastes : lean, coefficient (log odds at a typical difference) with se, and share: of such pairs, how many more
        choose the item that has it than would without.
    ranking : item, score, rank (taste taken out), plain_score, plain_rank; best first. Empty where there is a reason.
    reason : why nothing can be taken out.
    """

    tastes: pd.DataFrame
    ranking: pd.DataFrame
    reason: str = ""


def without_taste(data: Comparisons, leans: Sequence[str | Feature]) -> WithoutTaste:
    """Fit ``logit P(left) = theta_left - theta_right + beta'x`` (Bradley and Terry with features), and without x."""
    features = chosen_features(leans)
    x, n, rows = measure(data, features), data.n_items, np.arange(len(data))
    ends = (np.ones(len(data)), (rows, data.left)), (np.ones(len(data)), (rows, data.right))
    design = sp.csr_array(ends[0], shape=(len(data), n)) - sp.csr_array(ends[1], shape=(len(data), n))
    own = [_own_share(design, column) for column in x.T]
    same = [feature.name for feature, share in zip(features, own, strict=True) if share < _LEAST_OWN]
    if same or n > DENSE_ITEMS:
        why = f"{' and '.join(same)} is the same whenever two items meet, so it cannot be told from their quality"
        return WithoutTaste(pd.DataFrame(), pd.DataFrame(), why if same else f"{n:,} items are too many for this")
    y = (1.0 + data.outcome) / 2.0
    plain, _ = _fit(design.toarray(), y, n)
    predictors = np.column_stack([design.toarray(), x])
    fitted, covariance = _fit(predictors, y, n)
    eta, beta = predictors @ fitted, fitted[n:]
    share = [
        float(np.mean((np.sign(f) * (expit(eta) - expit(eta - b * f)))[f != 0])) for f, b in zip(x.T, beta, strict=True)
    ]
    tastes = pd.DataFrame(
        {
            "lean": [f.name for f in features],
            "coefficient": beta,
            "se": np.sqrt(np.diag(covariance)[n:]),
            "share": share,
        }
    )
    table = pd.DataFrame({"item": data.items})
    for name, theta in (("", fitted[:n]), ("plain_", plain)):
        table[f"{name}score"] = theta - theta.mean()
        table[f"{name}rank"] = 1 + np.searchsorted(np.sort(-theta), -theta)
    return WithoutTaste(tastes, table.sort_values("rank", kind="stable", ignore_index=True))


def _own_share(design: sp.csr_array, x: Floats) -> float:
    """How much of a feature the items of an answer do not explain."""
    explained = design @ sp.linalg.lsqr(design, x)[0]
    return float(np.sum((x - explained) ** 2) / np.sum(x**2))


def _fit(predictors: Floats, y: Floats, n_items: int) -> tuple[Floats, Floats]:
    """Newton's steps, with a ridge on the items' scores; estimates and covariance."""
    ridge = np.diag(np.where(np.arange(predictors.shape[1]) < n_items, _RIDGE, 0.0))
    at = np.zeros(predictors.shape[1])
    inverse = ridge
    for _ in range(_STEPS):
        mu = expit(predictors @ at)
        inverse = np.linalg.inv((predictors.T * (mu * (1 - mu))) @ predictors + ridge)
        step = inverse @ (predictors.T @ (y - mu) - ridge @ at)
        at = at + step * min(1.0, 1.0 / max(float(np.abs(step).max()), 1e-300))
        if np.abs(step).max() < _TOLERANCE:
            break
    return at, inverse
