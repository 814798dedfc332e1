"""Leans beyond position: towards the longer, the more formatted, the newer item, the own family, or any feature."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fdr_core.comparisons import Comparisons
from fdr_core.detection import Detection, detect
from fdr_core.errors import ConfigurationError
from fdr_core.other_leans.features import (
    Column,
    Feature,
    Longer,
    MoreFormatted,
    Newer,
    OwnFamily,
    chosen_features,
    measure,
    pair_codes,
)
from fdr_core.other_leans.gold import Gold, read_gold, refuse_fixed
from fdr_core.other_leans.lists import LeanList, as_table, effects, listed
from fdr_core.other_leans.placebos import Placebos, run_placebos
from fdr_core.other_leans.regression import Regressions, regress, wald_p_values
from fdr_core.types import Floats, Ints

__all__ = ["Column", "Feature", "LeanList", "Longer", "MoreFormatted", "Newer", "OwnFamily", "Placebos", "detect_leans"]

SCOPES = ("each", "all")
#: Fewer answers per coefficient than this are not judged: a normal law of the estimate is not to be had.
FEWEST_PER_COEFFICIENT = 10


def detect_leans(
    data: Comparisons,
    leans: Sequence[str | Feature],
    *,
    gold: Any = None,
    reference: Sequence[object] = (),
    q: float = 0.1,
    scope: str = "each",
    least: float = 0.1,
    placebos: int = 5,
    seed: int = 0,
    with_position: bool = True,
) -> dict[str, Detection | LeanList]:
    """
    Find the annotators whose answers follow something other than quality, with position beside it.

    Parameters
    ----------
    data : Comparisons
        With what the features need (`Comparisons.with_items`, columns text_left and text_right, x_<name>).
    leans : features, or "length", "format", "newer", or the name of a column of numbers
    gold, reference : which item is better; see `fdr_core.other_leans.gold.read_gold`.
    q : target false discovery rate, in (0, 1).
    scope : "each" holds q for each lean's list, "all" for all of them together (position apart, which has a proof).
    least : smallest lean worth a flag, as log odds at a typical difference: with enough answers nobody is exactly even.
    placebos : sets of placebos to test beside; 0 leaves them out.
    seed : of the placebos.
    with_position : whether to run `detect` on the same answers beside.

    Returns
    -------
    dict
        The name of each feature, after "position".

    Raises
    ------
    InputError, ConfigurationError
        For features or gold that are missing for some answers, never change, stand on one side, or decide each other.
    """
    if scope not in SCOPES:
        raise ConfigurationError(f"scope was {scope!r}; expected one of {', '.join(SCOPES)}")
    if not 0 < q < 1 or least < 0:
        raise ConfigurationError(f"q was {q:g} and least {least:g}; expected q between 0 and 1, and least at least 0")
    features = chosen_features(leans)
    x = measure(data, features)
    known = read_gold(data, gold, reference)
    if known is None:
        raise ConfigurationError("there is no gold; name a column as gold, or people as reference")
    refuse_fixed(known, x, features)
    found: dict[str, Detection | LeanList] = {"position": detect(data, q=q, lbi=None)} if with_position else {}
    return found | _with_gold(data, features, x, known, (q, scope, least), placebos, np.random.default_rng(seed))


def _with_gold(
    data: Comparisons,
    features: Sequence[Feature],
    x: Floats,
    gold: Gold,
    rule: tuple[float, str, float],
    sets: int,
    rng: np.random.Generator,
) -> dict[str, LeanList]:
    """One regression per annotator on quality, side and all features."""
    q, scope, least = rule
    rows = gold.is_judged
    z, x = gold.z[rows], x[rows]
    pair, forward = pair_codes(data)
    pair, forward = pair[rows], forward[rows]
    fitting = _Fitting(data, rows, pair, z)
    predictors = fitting.predictors(x)
    fit = fitting.fit(predictors)
    each = [effects(fit, predictors, fitting.who, 2 + k, least) for k in range(len(features))]
    lists = listed([one.p_value for one in each], q, scope)
    tried = None
    if sets:

        def p_values(placebo: Floats) -> Floats:
            beside = fitting.fit(fitting.predictors(np.column_stack([x, placebo])), fit.coefficient)
            return wald_p_values(beside.coefficient[:, -1], beside.error(-1), 0.0)

        def length(p: Floats) -> int:
            return int(listed([p], q, "each")[0][1].sum())

        tried = run_placebos(p_values, length, z, x, (pair, forward), sets=sets, rng=rng)
    return {
        feature.name: _lean_list(data, feature, one, *on_list, gold, (q, scope, least), tried)
        for feature, one, on_list in zip(features, each, lists, strict=True)
    }


class _Fitting:
    """The regressions of the judged, on whatever features."""

    def __init__(self, data: Comparisons, rows: Any, pair: Ints, z: Floats) -> None:
        self.who, self._m = data.annotator[rows].astype(np.int64), data.n_annotators
        self._y, self._z = (1.0 + data.outcome[rows]) / 2.0, z
        own = self.who * (int(pair.max(initial=0)) + 1) + pair
        self._cluster = pair if len(np.unique(own)) < len(own) else None

    def predictors(self, x: Floats) -> Floats:
        """Quality, side, features."""
        return np.column_stack([self._z, np.ones(len(self._z)), x])

    def fit(self, predictors: Floats, start: Floats | None = None) -> Regressions:
        fewest = FEWEST_PER_COEFFICIENT * predictors.shape[1]
        return regress(predictors, self._y, self.who, self._m, self._cluster, fewest=fewest, start=start)


def _lean_list(
    data: Comparisons,
    feature: Feature,
    found: Any,
    q_value: Floats,
    on_list: Any,
    gold: Gold,
    rule: tuple[float, str, float],
    tried: Placebos | None,
) -> LeanList:
    q, scope, least = rule
    reasons = []
    if tried is not None and not tried.are_sound:
        reasons.append(f"{tried}: more than a list could be believed with, so there is none.")
        on_list = np.zeros_like(on_list)
    table = as_table(data.annotators, found, q_value, on_list, feature)
    over = "this list" if scope == "each" else "all lists of leans together"
    promise = (
        f"At most {q:.0%} of {over} false on average, measured; quality from {gold.words}; a lean counts beyond "
        f"{least:g} in log odds at a typical difference"
    )
    flagged = table.loc[table["flagged"], "annotator"].tolist()
    how = "gold" if not reasons else "goes with"
    return LeanList(feature.name, feature.chosen, how, flagged, table, promise, reasons, tried)
