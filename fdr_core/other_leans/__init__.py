"""Leans beyond position: towards the longer, the more formatted, the newer item, the own family, or any feature."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from fdr_core.comparisons import Comparisons
from fdr_core.detection import Detection, detect
from fdr_core.errors import ConfigurationError
from fdr_core.other_leans.agreement import agreement
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
from fdr_core.other_leans.latent import Latent, doubts_before, fit_latent
from fdr_core.other_leans.lists import (
    Effects,
    LeanList,
    Placebos,
    Regressions,
    as_table,
    bound_placebo,
    effects,
    listed,
    random_placebo,
    regress,
    run_placebos,
    sentence_of,
    wald_p_values,
)
from fdr_core.types import Floats, Mask

__all__ = ["Column", "Feature", "LeanList", "Longer", "MoreFormatted", "Newer", "OwnFamily", "Placebos", "detect_leans"]

SCOPES = ("each", "all")
AGREEMENT = "agreement"
#: Fewer answers per coefficient than this are not judged: a normal law of the estimate is not to be had.
FEWEST_PER_COEFFICIENT = 10
#: A lean of this size, in log odds, four times in five: what "so many pairs with gold" would find.
_LEAN_TO_FIND, _REACH_OF_FOUR_IN_FIVE = 0.5, 1.96 + 0.84


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

    Without gold, quality is what all agree on, and a lean is one beyond the crowd's; where that cannot be, answers are
    described ("go with the longer item") and nobody is listed.

    Parameters
    ----------
    data : Comparisons
        With what the features need (`Comparisons.with_items`, columns text_left and text_right, x_<name>).
    leans : features, or "length", "format", "newer", or the name of a column of numbers; "agreement" for who follows
        nothing (`fdr_core.other_leans.agreement`).
    gold, reference : which item is better; see `fdr_core.other_leans.gold.read_gold`.
    q : target false discovery rate, in (0, 1).
    scope : "each" holds q for each lean's list, "all" for all of them together (position apart, which has a proof).
    least : smallest lean worth a flag, as log odds at a typical difference: with enough answers nobody is exactly even.
    placebos : sets of placebos to test beside; 0 leaves them out.
    seed : of the placebos, and of the crowds that residuals are held against.
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
    wanted = [one for one in leans if one != AGREEMENT]
    found: dict[str, Detection | LeanList] = {"position": detect(data, q=q, lbi=None)} if with_position else {}
    if wanted or len(leans) == 0:
        rng = np.random.default_rng(seed)
        found |= _Question(data, wanted, read_gold(data, gold, reference), (q, scope, least), placebos, rng).lists()
    return found | ({AGREEMENT: agreement(data, q=q)} if len(wanted) < len(leans) else {})


class _Question:
    """The answers that are asked, by their pairs, and the lists that follow."""

    def __init__(
        self,
        data: Comparisons,
        leans: Sequence[str | Feature],
        gold: Gold | None,
        rule: tuple[float, str, float],
        placebos: int,
        rng: np.random.Generator,
    ) -> None:
        self._features = chosen_features(leans)
        x = measure(data, self._features)
        if gold is not None:
            refuse_fixed(gold, x, self._features)
        rows = np.ones(len(data), dtype=bool) if gold is None else gold.is_judged
        self._gold, (self._q, self._scope, self._least), self._sets, self._rng = gold, rule, placebos, rng
        self._labels, self._m = data.annotators, data.n_annotators
        self._who, self._x, self._outcome = data.annotator[rows].astype(np.int64), x[rows], data.outcome[rows]
        self._z = np.zeros(len(self._x)) if gold is None else gold.z[rows]
        pair, forward = pair_codes(data)
        self._pair, self._forward = np.unique(pair[rows], return_inverse=True)[1].ravel(), forward[rows]

    def lists(self) -> dict[str, LeanList]:
        """One list per feature."""
        if self._gold is not None:
            return self._with_gold(self._gold)
        reasons = doubts_before(self._pair, self._who, self._m, self._x.shape[1])
        if not reasons:
            fitted = self._latent(self._x)
            reasons = fitted.doubts()
            if not reasons:
                return self._beyond_the_crowd(fitted)
        return self._described(reasons)

    def _with_gold(self, gold: Gold) -> dict[str, LeanList]:
        """One regression per annotator on quality, side and all features."""
        fixed = np.column_stack([self._z, np.ones(len(self._z))])
        fit, each = self._regressed(fixed, self._least)
        return self._listed(each, "gold", f"quality from {gold.words}", self._try_placebos(fixed, fit))

    def _regressed(self, fixed: Floats, least: float) -> tuple[Regressions, list[Effects]]:
        predictors = np.column_stack([fixed, self._x])
        fit = self._regress(predictors)
        known = np.nan_to_num(fit.coefficient)[self._who]
        each = []
        for k in range(fixed.shape[1], predictors.shape[1]):
            without = np.einsum("np,np->n", np.delete(predictors, k, axis=1), np.delete(known, k, axis=1))
            each.append(effects(fit.coefficient[:, k], fit.error(k), without, predictors[:, k], self._who, least))
        return fit, each

    def _regress(self, predictors: Floats, start: Floats | None = None) -> Regressions:
        own = self._who * (int(self._pair.max(initial=0)) + 1) + self._pair
        cluster = self._pair if len(np.unique(own)) < len(own) else None
        fewest = FEWEST_PER_COEFFICIENT * predictors.shape[1]
        y = (1.0 + self._outcome) / 2.0
        return regress(predictors, y, self._who, self._m, cluster, fewest=fewest, start=start)

    def _try_placebos(self, fixed: Floats, fit: Regressions) -> Placebos | None:
        """Features without meaning, in the place of one more feature."""
        if not self._sets:
            return None

        def p_values(placebo: Floats) -> Floats:
            beside = self._regress(np.column_stack([fixed, self._x, placebo]), fit.coefficient)
            return wald_p_values(beside.coefficient[:, -1], beside.error(-1), 0.0)

        pairs = self._pair, self._forward
        return run_placebos(p_values, self._length, self._z, self._x, pairs, sets=self._sets, rng=self._rng)

    def _length(self, p: Floats) -> int:
        return int(listed([p], self._q, "each")[0][1].sum())

    def _latent(self, x: Floats) -> Latent:
        enough = np.bincount(self._who, minlength=self._m) >= FEWEST_PER_COEFFICIENT * (2 + self._x.shape[1])
        asked = (self._pair, self._forward, self._outcome, self._who, self._m)
        return fit_latent(*asked, x, q=self._q, judged=enough, rng=self._rng)

    def _beyond_the_crowd(self, fitted: Latent) -> dict[str, LeanList]:
        """Leans beyond the crowd's, where quality is what all agree on."""
        leans, x = np.nan_to_num(fitted.coefficient), self._x
        each = []
        for k in range(x.shape[1]):
            others = np.delete(np.arange(x.shape[1]), k)
            without = fitted.without + np.einsum("nf,nf->n", leans[self._who][:, others], x[:, others])
            each.append(effects(fitted.coefficient[:, k], fitted.error[:, k], without, x[:, k], self._who, self._least))
        tried = None
        if self._sets:  # one fit for both: each costs as much as all the rest
            pairs = self._pair, self._forward
            made = [random_placebo(pairs, self._rng), bound_placebo(fitted.quality, x, pairs, self._rng)]
            beside = self._latent(np.column_stack([x, *made]))
            p = wald_p_values(beside.coefficient[:, -2:], beside.error[:, -2:], 0.0)
            tried = Placebos.of([p[:, 0]], [p[:, 1]], self._length)
        return self._listed(each, "crowd", "quality from what all agree on", tried)

    def _listed(self, each: list[Effects], how: str, quality: str, tried: Placebos | None) -> dict[str, LeanList]:
        lists = listed([one.p_value for one in each], self._q, self._scope)
        reasons = []
        if tried is not None and not tried.are_sound:
            reasons.append(f"{tried}: more than a list could be believed with, so there is none.")
            lists = [(q_value, np.zeros_like(on_list)) for q_value, on_list in lists]
        over = "each list" if self._scope == "each" else "all lists of leans together"
        promise = (
            f"At most {self._q:.0%} of {over} false on average, measured; {quality}; a lean counts beyond "
            f"{self._least:g} in log odds at a typical difference"
        )
        return self._named(each, lists, how if not reasons else "goes with", promise, reasons, tried)

    def _described(self, reasons: list[str]) -> dict[str, LeanList]:
        """What answers go with, quality unknown: no test, no list, and what would settle it."""
        fixed = np.ones((len(self._x), 1))
        fit, each = self._regressed(fixed, 0.0)
        per_answer = np.nanmedian([np.square(one.error) * one.answers for one in each]) if fit.is_fitted.any() else 4.0
        needed = int(np.ceil(per_answer * (_REACH_OF_FOUR_IN_FIVE / _LEAN_TO_FIND) ** 2 / 10) * 10)
        unknown = np.full(self._m, np.nan)
        each = [replace(one, p_value=unknown) for one in each]
        remedy = (
            f"Some {needed:,} pairs with gold, answered by everybody, would find four in five leans of "
            f"{_LEAN_TO_FIND:g} (log odds at a typical difference): name a column as gold, or people as reference."
        )
        nobody = [(unknown, np.zeros(self._m, dtype=bool))] * len(each)
        told = "Nothing is promised: quality is not known, so this describes answers and lists nobody"
        return self._named(each, nobody, "goes with", told, [*reasons, remedy], None, needed)

    def _named(
        self,
        each: list[Effects],
        lists: Sequence[tuple[Floats, Mask]],
        how: str,
        promise: str,
        reasons: list[str],
        tried: Placebos | None,
        needed: int | None = None,
    ) -> dict[str, LeanList]:
        """The lists with labels and sentences."""
        found = {}
        for feature, one, (q_value, on_list) in zip(self._features, each, lists, strict=True):
            table = as_table(self._labels, one, q_value, on_list, partial(sentence_of, feature, how))
            flagged = table.loc[table["flagged"], "annotator"].tolist()
            found[feature.name] = LeanList(
                feature.name, feature.chosen, how, flagged, table, promise, reasons, tried, needed
            )
        return found
