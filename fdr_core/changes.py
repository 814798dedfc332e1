"""Leans by week, and whose has changed: the units of the leans themselves (`fdr_core.leans`), in the order of time."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import t as student_t

from fdr_core import least_evidence
from fdr_core.answer_table import AnswerTable
from fdr_core.audit import Audit
from fdr_core.codes import compact_codes
from fdr_core.comparisons import Comparisons
from fdr_core.errors import ConfigurationError, InputError
from fdr_core.leans import UnitLeans, leans_of_units, unit_leans, units_of
from fdr_core.selection import weighted_list
from fdr_core.statistics import SufficientStatistics
from fdr_core.types import Floats, Ints

WEEK = 7 * 86_400.0
#: The first Monday, 0:00 UTC, in seconds since the epoch.
_MONDAY = 4 * 86_400.0
_ALPHA = 0.05


@dataclass(frozen=True)
class Changes:
    """
    What `lean_changes` found.

    Attributes
    ----------
    weeks : DataFrame
        annotator, week (its Monday, 0:00 UTC, in seconds), answers, lean, low, high (95 %); in order of time.
    annotators : DataFrame
        annotator, answers, since (what was answered from then on is held against what was before), before and after
        (leans), change, low, high, p_value, q_value, changed; strongest evidence first. NaN: cannot be told. Where the
        moment was searched for, interval and p-value allow for that.
    reasons : tuple of str
        Why nothing can be told, or of how many answers.
    q : float
        Rate of the list of those who changed.
    """

    weeks: pd.DataFrame
    annotators: pd.DataFrame
    reasons: tuple[str, ...] = ()
    q: float = 0.1

    @property
    def changed(self) -> list[Any]:
        """Labels of those on the list, strongest evidence first."""
        found: list[Any] = self.annotators.loc[self.annotators["changed"], "annotator"].tolist()
        return found


def lean_changes(
    data: Comparisons | SufficientStatistics,
    *,
    since: float | None = None,
    q: float = 0.1,
    min_change: float = 0.1,
    sides: str = "audit",
    audit: Audit | None = None,
) -> Changes:
    """
    Tell leans by week, and whose lean has changed.

    A lean is a mean over units, what one coin decided, so its change is a difference of two means (Welch, with one
    observation of size 1 added to the spread of each). Of several weeks at whose beginning it may have happened the
    clearest counts, its p-value multiplied by their number (Bonferroni); the list is that of Benjamini and Hochberg.
    A lean depends on the pairs too: it grows where these become closer.

    Parameters
    ----------
    data : Comparisons with times, or SufficientStatistics with times noted.
    since : seconds since the epoch: compare before with from then on; None asks for every week.
    q : rate of the list.
    min_change : smallest change worth listing.
    sides : as in `detect`.
    audit : of `detect` on the same data, to spare another.
    """
    if not 0 < q < 1:
        raise ConfigurationError(f"q was {q:g}; expected a rate between 0 and 1, such as 0.1")
    table = AnswerTable.of(data)
    audited = audit or table.audited(q=q, sides=sides)
    if audited.is_refusal or audited.how in ("none", "sides fixed"):
        return _nothing(q, *audited.reasons, "Whose lean has changed is told where coins decided the sides.")
    if not table.has_times:
        return _nothing(q, "The answers carry no times, so no change can be told; name their column as time.")
    answers = table.answers.with_coin(audited.coin)
    units = unit_leans(answers, len(table.items), len(table.annotators), partial(table.fold_keys, audited.coin))
    time = np.full(len(units.owner), np.inf)
    given = table.shown_at()
    np.minimum.at(time, units_of(answers)[0], np.where(np.isnan(given), np.inf, given))
    is_known = np.isfinite(time)
    if not is_known.any():
        return _nothing(q, "The answers carry no times, so no change can be told; name their column as time.")
    lost = int(units.size[~is_known].sum())
    units, time = UnitLeans(units.owner[is_known], units.value[is_known], units.size[is_known]), time[is_known]
    if since is not None and not time.min() < since <= time.max():
        first, last = (pd.Timestamp(t, unit="s").isoformat(" ", "minutes") for t in (time.min(), time.max()))
        raise InputError(
            f"nothing stands on one side of the moment asked about: answers were given from {first} to {last} UTC; "
            "name a moment between"
        )
    week = np.floor((time - _MONDAY) / WEEK) * WEEK + _MONDAY
    starts = np.unique(week) if since is None else np.array([-np.inf, since])
    period = np.searchsorted(starts, time, side="right") - 1
    reasons = (f"{lost:,} answers carry no time and are left out here.",) if lost else ()
    people = _people(units, period, starts, table.annotators, q, min_change)
    return Changes(_weeks(units, week, table.annotators), people, reasons, q)


def _weeks(units: UnitLeans, week: Floats, labels: Any) -> pd.DataFrame:
    """The lean of everybody in every week with answers."""
    weeks, code = np.unique(week, return_inverse=True)
    cell, of = _cells(units.owner, code, len(weeks))
    leans = leans_of_units(UnitLeans(cell, units.value, units.size), len(of))
    columns = {
        "annotator": labels[of // len(weeks)],
        "week": weeks[of % len(weeks)],
        "answers": np.bincount(cell, units.size, len(of)).astype(np.int64),
        "lean": leans.estimate,
        "low": leans.low,
        "high": leans.high,
    }
    return pd.DataFrame(columns).sort_values("week", kind="stable", ignore_index=True)


def _people(units: UnitLeans, period: Ints, starts: Floats, labels: Any, q: float, min_change: float) -> pd.DataFrame:
    """Of everybody the clearest change, and the list."""
    cell, of = _cells(units.owner, period, len(starts))
    who = compact_codes(of // len(starts))
    figures = (np.ones(len(cell)), units.size, units.value, units.value**2, units.value * units.size, units.size**2)
    sums = np.array([np.bincount(cell, figure, len(of)) for figure in figures])
    n = int(who[-1]) + 1
    total = np.array([np.bincount(who, row, n) for row in sums])
    so_far = np.cumsum(sums, axis=1)
    before = so_far - (np.cumsum(total, axis=1) - total)[:, who]
    after = total[:, who] - before
    is_possible = np.minimum(before[0], after[0]) >= least_evidence.UNITS - 0.5
    parts = _mean(before), _mean(after)
    change = parts[1][0] - parts[0][0]
    squares = [part[1] ** 2 for part in parts]
    error = np.sqrt(squares[0] + squares[1])
    freedom = np.maximum(error**4 / sum(s**2 / part[2] for s, part in zip(squares, parts, strict=True)), 1.0)
    p = 2 * student_t.sf(np.abs(change) / error, freedom)
    splits = np.bincount(who, is_possible, n)
    order = np.lexsort((p, ~is_possible, who))
    best = order[np.searchsorted(who[order], np.arange(n))]
    can = is_possible[best]
    reach = student_t.isf(_ALPHA / 2 / np.maximum(splits, 1), freedom[best]) * error[best]
    p_value = np.where(can, np.minimum(1.0, p[best] * splits), np.nan)
    q_value = np.full(n, np.nan)
    is_worth = (np.abs(change[best]) >= min_change) & (p_value <= least_evidence.P_VALUE)
    listed = weighted_list(np.where(is_worth, p_value, 1.0)[can], np.ones(int(can.sum())), q=q, storey=False)
    q_value[can] = listed.q_value
    following = starts[of[np.minimum(best + 1, len(of) - 1)] % len(starts)]
    columns: dict[str, Any] = {
        "since": following, "before": parts[0][0][best], "after": parts[1][0][best], "change": change[best],
        "low": np.maximum(change[best] - reach, -2.0), "high": np.minimum(change[best] + reach, 2.0),
    }  # fmt: skip
    frame = pd.DataFrame(
        {
            "annotator": labels[np.unique(units.owner)],
            "answers": total[1].astype(np.int64),
            **{name: np.where(can, column, np.nan) for name, column in columns.items()},
            "p_value": p_value,
            "q_value": q_value,
            "changed": q_value <= q,
        }
    )
    return frame.sort_values("p_value", kind="stable", ignore_index=True)


def _cells(owner: Ints, period: Ints, n_periods: int) -> tuple[Ints, Ints]:
    """The cell, an owner's period, of every unit; and what each cell is, as owner times periods plus period."""
    of, cell = np.unique(owner * n_periods + period, return_inverse=True)
    return cell, of


def _mean(sums: Floats) -> tuple[Floats, Floats, Floats]:
    """Mean, standard error and degrees of freedom from sums of 1, s, v, v², vs and s², v being the sum of s answers."""
    units, n, total, square, product, sizes = sums
    lean = np.clip(total / np.maximum(n, 1e-12), -1.0, 1.0)
    off = np.maximum(square - 2 * lean * product + lean**2 * sizes, 0.0)
    added = np.maximum(square / np.maximum(units, 1.0), 1.0)
    freedom = np.maximum(units - 1.0, 1.0)
    return lean, np.sqrt(off * units / freedom + added) / np.maximum(n, 1e-12), freedom


def _nothing(q: float, *reasons: str) -> Changes:
    weeks = ("annotator", "week", "answers", "lean", "low", "high")
    people = (
        "annotator", "answers", "since", "before", "after", "change", "low", "high", "p_value", "q_value", "changed",
    )  # fmt: skip
    return Changes(pd.DataFrame(columns=weeks), pd.DataFrame(columns=people).astype({"changed": bool}), reasons, q)
