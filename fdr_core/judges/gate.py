"""Is a judge even enough? Pass, fail or undecided from a log of comparisons, with stated error rates.

The lean of a judge is ``P(first shown preferred) - P(second shown preferred)``. Where chance, or the showing of both
orders, decides who stands first, the mean outcome estimates it without any model of the items. Units are coins: answers
under one coin, and both orders of a pair, are one observation in [-1, 1].
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy.stats import chi2, norm
from scipy.stats import t as student_t

from fdr_core.answers import Answers
from fdr_core.comparisons import Comparisons
from fdr_core.errors import ConfigurationError, InputError
from fdr_core.evidence import sign_flip_p_values
from fdr_core.judges.both_orders import lean_units
from fdr_core.types import Floats, Ints

if TYPE_CHECKING:
    from fdr_core.other_leans import LeanList

Decision = Literal["pass", "fail", "undecided"]

#: Fewer coins than this can never decide: six on one side have p = .03.
FEWEST_UNITS = 6
#: Items standing first this improbably often mean that chance did not decide the order.
IMBALANCE = 0.001
#: Chance of a decision that "needs about so many more" aims at.
AIM = 0.8
#: Beyond this, "needs about so many more" says no more than "many".
MOST_NEEDED = 100_000
#: Bets of the anytime form, as shares of the largest that can never lose everything.
_BETS = np.array([0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.45, 0.6, 0.8])


@dataclass(frozen=True)
class Gate:
    """
    The decision about one judge.

    Attributes
    ----------
    judge : object
        The annotator's label.
    decision : {"pass", "fail", "undecided"}
        pass: the lean is within ``max_lean``; fail: it is beyond; each wrong with probability at most ``alpha``.
    lean, low, high : float
        Estimate, and its lower and upper bound, each wrong with probability ``alpha``; with a baseline, of the change.
    p_even : float
        Exact p-value against a perfectly even judge.
    answers, units : int
        Comparisons, and coins among them.
    more_needed : int
        About how many more comparisons a decision needs; 0 where it is made.
    reason : str
        One sentence.
    of : str
        "position", or the feature leant to; then a lean is the share of pairs that it decides (`gate_lean`).
    """

    judge: object
    decision: Decision
    lean: float
    low: float
    high: float
    p_even: float
    answers: int
    units: int
    max_lean: float
    alpha: float
    more_needed: int = 0
    reason: str = ""
    anytime: bool = field(default=False, repr=False)
    of: str = "position"


def gate(
    comparisons: Comparisons,
    *,
    judges: Sequence[object] | None = None,
    max_lean: float = 0.1,
    alpha: float = 0.05,
    baseline: Comparisons | None = None,
    anytime: bool = False,
) -> list[Gate]:
    """
    Decide about the judges of a log.

    Parameters
    ----------
    comparisons : Comparisons
        Left is what was shown first.
    judges : sequence, optional
        Labels; everybody in the log by default. Each is decided at ``alpha`` divided by their number.
    max_lean : float
        The largest lean that is tolerated, in (0, 1).
    alpha : float
        Largest probability of a wrong fail, and of a wrong pass, in (0, 0.5).
    baseline : Comparisons, optional
        An earlier log: then the *change* of the lean is held against ``max_lean``.
    anytime : bool
        Use bounds that hold however often, and whenever, a growing log is looked at.

    Returns
    -------
    list of Gate
        In the order asked for.

    Raises
    ------
    ConfigurationError
        For options outside their range.
    InputError
        For judges that the log does not name, and logs in which chance did not decide the order.
    """
    _check(max_lean, alpha, baseline, anytime)
    wanted = list(comparisons.annotators) if judges is None else list(judges)
    alpha_each = alpha / len(wanted)
    found = []
    for judge in wanted:
        values, n = judge_units(comparisons, judge)
        if baseline is not None:
            found.append(_decide_change(judge, values, judge_units(baseline, judge)[0], n, max_lean, alpha_each))
        elif anytime:
            found.append(decide_anytime(judge, values, n, max_lean=max_lean, alpha=alpha_each))
        else:
            found.append(decide(judge, values, n, max_lean=max_lean, alpha=alpha_each))
    return found


def gate_lean(
    found: LeanList, *, judges: Sequence[object] | None = None, max_lean: float = 0.1, alpha: float = 0.05
) -> list[Gate]:
    """
    Decide about another lean than position's, from its list.

    Parameters
    ----------
    found : of `fdr_core.other_leans.detect_leans`; without gold every judge is undecided, and the reason says why.
    judges, max_lean, alpha : as in `gate`; max_lean is a share of the pairs in which the two differ.
    """
    _check(max_lean, alpha, None, False)
    rows = {str(row["annotator"]): row for row in found.annotators.to_dict("records")}
    wanted = list(rows) if judges is None else [str(judge) for judge in judges]
    unknown = [judge for judge in wanted if judge not in rows]
    if unknown:
        raise InputError(f"the log names no judge {unknown[0]!r}; it names {', '.join(list(rows)[:10])}; check --judge")
    level = alpha / len(wanted)
    return [_gate_of_row(found, rows[judge], max_lean, level) for judge in wanted]


def _gate_of_row(found: LeanList, row: Mapping[Any, Any], max_lean: float, alpha: float) -> Gate:
    lean, n, is_told = float(row["effect"]), int(row["answers"]), not math.isnan(row["effect"])
    spread = float(row["high"] - row["low"]) / (2 * float(norm.isf(0.025))) * math.sqrt(max(n, 1))
    reach = float(norm.isf(alpha)) * spread / math.sqrt(max(n, 1))
    seen = _Measured(lean, max(lean - reach, -1.0), min(lean + reach, 1.0), spread, float(row["p_value"]))
    if not is_told or found.how == "goes with":
        reason = " ".join(found.reasons) if is_told else row["finding"]
        return Gate(
            row["annotator"], "undecided", lean, seen.low, seen.high, seen.p_even, n, n, max_lean, alpha, 0, reason,
            of=found.lean,
        )  # fmt: skip
    decision: Decision = "fail" if seen.is_beyond(max_lean) else "pass" if seen.is_within(max_lean) else "undecided"
    made = _result(row["annotator"], decision, seen, n, n, max_lean=max_lean, alpha=alpha)
    way = "towards" if lean > 0 else "away from"
    reason = f"the lean is beyond {max_lean:g}, {way} {found.chosen}" if decision == "fail" else made.reason
    return replace(made, reason=reason, of=found.lean)


def judge_units(comparisons: Comparisons, judge: object) -> tuple[Floats, int]:
    """Observations of a judge's lean in the order of their first answer, and the number of answers."""
    known = [str(label) for label in comparisons.annotators]
    if str(judge) not in known:
        shown = ", ".join(known[:10]) + (", …" if len(known) > 10 else "")
        raise InputError(f"the log names no judge {judge!r}; it names {shown}; check --judge")
    rows = np.flatnonzero(comparisons.annotator == known.index(str(judge)))
    unit = lean_units(comparisons)[rows]
    if comparisons.coin_source != "coin":
        _refuse_unbalanced(comparisons, rows, unit, judge)
    _, first_row, code = np.unique(unit, return_index=True, return_inverse=True)
    mean = np.bincount(code, comparisons.outcome[rows]) / np.bincount(code)
    return np.asarray(mean[np.argsort(first_row)]), len(rows)


def decide(judge: object, values: Floats, n_answers: int, *, max_lean: float, alpha: float) -> Gate:
    """
    Decide from a log of fixed size.

    Bounds are Student's, with one observation of size 1 added to the spread so that a judge who never varied does not
    get a bound of width 0. A fail needs the exact sign-flip test against an even judge as well: an even judge fails
    with probability at most ``alpha`` in samples of any size.
    """
    seen = _measure(values, alpha)
    decision: Decision = "undecided"
    if len(values) >= FEWEST_UNITS and seen.is_beyond(max_lean) and seen.p_even <= alpha:
        decision = "fail"
    elif len(values) >= FEWEST_UNITS and seen.is_within(max_lean):
        decision = "pass"
    return _result(judge, decision, seen, len(values), n_answers, max_lean=max_lean, alpha=alpha)


def decide_anytime(judge: object, values: Floats, n_answers: int, *, max_lean: float, alpha: float) -> Gate:
    """
    Decide from a log that grows and may be looked at after every answer.

    Each bound is tested by betting on the observations in their order: the capital of a mixture of bets against
    "lean <= m" is a nonnegative supermartingale where that is true, so it ever reaches ``1 / a`` with probability
    at most ``a`` (Ville; Waudby-Smith and Ramdas 2024). A fail spends ``alpha / 2`` on each side.
    """
    decision: Decision = "undecided"
    if max(_capital(values, max_lean), _capital(-values, max_lean)) >= 2.0 / alpha:
        decision = "fail"
    elif min(_capital(values, -max_lean), _capital(-values, -max_lean)) >= 1.0 / alpha:
        decision = "pass"
    seen = _measure(values, alpha)
    found = _result(judge, decision, seen, len(values), n_answers, max_lean=max_lean, alpha=alpha)
    return replace(found, anytime=True)


def _decide_change(
    judge: object, values: Floats, earlier: Floats, n_answers: int, max_lean: float, alpha: float
) -> Gate:
    """Hold the change of the lean since a baseline against ``max_lean`` (Welch)."""
    parts = (values, earlier)
    change = _mean(values) - _mean(earlier)
    squares = [_standard_error(part) ** 2 for part in parts]
    error = math.sqrt(sum(squares))
    freedom = sum(squares) ** 2 / sum(s**2 / max(len(p) - 1, 1) for s, p in zip(squares, parts, strict=True))
    reach = float(student_t.ppf(1 - alpha, max(freedom, 1.0))) * error
    p_equal = min(1.0, 2.0 * float(student_t.sf(abs(change) / error, max(freedom, 1.0))))
    spread = error * math.sqrt(max(len(values), 1))
    seen = _Measured(change, max(change - reach, -2.0), min(change + reach, 2.0), spread, p_equal)
    decision: Decision = "undecided"
    if min(len(part) for part in parts) >= FEWEST_UNITS:
        decision = "fail" if seen.is_beyond(max_lean) else "pass" if seen.is_within(max_lean) else "undecided"
    return _result(judge, decision, seen, len(values), n_answers, max_lean=max_lean, alpha=alpha)


@dataclass(frozen=True)
class _Measured:
    """Estimate, bounds, spread of one observation, and the p-value against no lean at all."""

    lean: float
    low: float
    high: float
    spread: float
    p_even: float

    def is_beyond(self, limit: float) -> bool:
        return self.low > limit or self.high < -limit

    def is_within(self, limit: float) -> bool:
        return -limit < self.low and self.high < limit


def _mean(values: Floats) -> float:
    return float(values.mean()) if len(values) else 0.0


def _result(
    judge: object, decision: Decision, seen: _Measured, units: int, answers: int, *, max_lean: float, alpha: float
) -> Gate:
    more = 0
    if decision == "undecided":
        more = _more_needed(seen, units, answers, max_lean, alpha)
    reason = {
        "pass": f"the lean is within {max_lean:g} of even",
        "fail": f"the lean is beyond {max_lean:g}, towards the {'first' if seen.lean > 0 else 'second'} shown",
        "undecided": (
            "too close to the limit to tell" if more >= MOST_NEEDED else f"needs about {more:,} more comparisons"
        ),
    }[decision]
    return Gate(
        judge, decision, seen.lean, seen.low, seen.high, seen.p_even, answers, units, max_lean, alpha, more, reason
    )


def _measure(values: Floats, alpha: float) -> _Measured:
    """Bounds that are each missed with probability about alpha."""
    if len(values) < 2:
        return _Measured(_mean(values), -1.0, 1.0, 1.0, _p_even(values))
    mean, error = _mean(values), _standard_error(values)
    reach = float(student_t.ppf(1 - alpha, len(values) - 1)) * error
    spread = error * math.sqrt(len(values))
    return _Measured(mean, max(mean - reach, -1.0), min(mean + reach, 1.0), spread, _p_even(values))


def _standard_error(values: Floats) -> float:
    """Of the mean, with one observation of size 1 added to the squares."""
    n = len(values)
    if n < 2:
        return 1.0
    return math.sqrt(float(((values - values.mean()) ** 2).sum()) * n / (n - 1) + 1.0) / n


def _more_needed(seen: _Measured, units: int, answers: int, max_lean: float, alpha: float) -> int:
    """Comparisons that bring a decision with probability `AIM` if lean and spread stay as they are."""
    distance = abs(max_lean - abs(seen.lean))
    reach = float(norm.ppf(1 - alpha) + norm.ppf(AIM))
    total = max((reach * seen.spread / max(distance, 1e-6)) ** 2, FEWEST_UNITS)
    per_unit = answers / units if units else 1.0
    return int(min(max(math.ceil((total - units) * per_unit), 1), MOST_NEEDED))


def _p_even(values: Floats) -> float:
    """Exact: the sides of an even judge are fair coins, so every observation may change its sign."""
    if not len(values):
        return 1.0
    zero, one = np.zeros(len(values), dtype=np.int64), np.ones(len(values), dtype=np.int64)
    answers = Answers(zero, zero, one, values, np.arange(len(values)), np.ones(len(values)))
    return float(sign_flip_p_values(answers, np.zeros(2), 1)[0])


def _capital(values: Floats, limit: float) -> float:
    """Largest capital that bets against "mean <= limit" ever reached, averaged over the bets."""
    if not len(values):
        return 1.0
    share, bound = (values + 1.0) / 2.0, (limit + 1.0) / 2.0
    growth = np.log1p(np.multiply.outer(_BETS / bound, share - bound))
    log_capital = np.logaddexp.reduce(np.cumsum(growth, axis=1), axis=0) - math.log(len(_BETS))
    return float(np.exp(min(log_capital.max(), 700.0)))


def _refuse_unbalanced(comparisons: Comparisons, rows: Ints, unit: Ints, judge: object) -> None:
    """Without a recorded coin, refuse orders that chance would not make: some items nearly always first."""
    _, once = np.unique(unit, return_index=True)
    seen = rows[once]
    both = np.bincount(unit - unit.min())[unit[once] - unit.min()] > 1
    seen = seen[~both]  # both orders shown: balanced by design
    first = np.bincount(comparisons.left[seen], minlength=comparisons.n_items)
    shown = first + np.bincount(comparisons.right[seen], minlength=comparisons.n_items)
    met = shown > 0
    excess = float((((first - shown / 2) ** 2) / np.maximum(shown / 4, 0.25))[met].sum())
    if met.any() and float(chi2.sf(excess, int(met.sum()))) < IMBALANCE:
        worst = int(np.argmax(np.where(met, np.abs(first - shown / 2) / np.sqrt(np.maximum(shown, 1)), -1)))
        raise InputError(
            f"{judge} saw {comparisons.items[worst]} first in {first[worst]:,} of {shown[worst]:,} comparisons; "
            "chance did not decide that order, so a lean cannot be told from a preference; flip a coin per comparison "
            "(fdr_core.judges.record does) or ask both orders"
        )


def _check(max_lean: float, alpha: float, baseline: Comparisons | None, anytime: bool) -> None:
    if not 0 < max_lean < 1:
        raise ConfigurationError(f"max_lean was {max_lean:g}; expected a number between 0 and 1, such as 0.1")
    if not 0 < alpha < 0.5:
        raise ConfigurationError(f"alpha was {alpha:g}; expected a number between 0 and 0.5, such as 0.05")
    if anytime and baseline is not None:
        raise ConfigurationError("anytime and baseline do not go together; compare logs of fixed size, or drop one")
