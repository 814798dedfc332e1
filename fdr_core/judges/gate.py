"""Is a judge even enough? Pass, fail or undecided from a log of comparisons, with stated error rates.

The lean of a judge is ``P(first shown preferred) - P(second shown preferred)``, the same number that `detect` gives:
under the same audit, in the same units of answers that one coin decided, or both orders of a pair.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy.special import ndtr, ndtri, stdtr, stdtrit

from fdr_core import least_evidence
from fdr_core.answer_table import AnswerTable
from fdr_core.answers import Answers
from fdr_core.codes import compact_codes, first_rows
from fdr_core.comparisons import Comparisons
from fdr_core.errors import ConfigurationError, InputError
from fdr_core.evidence import sign_flip_p_values
from fdr_core.leans import unit_leans, units_of
from fdr_core.types import Floats, Ints

if TYPE_CHECKING:
    from fdr_core.other_leans import LeanList

Decision = Literal["pass", "fail", "undecided"]

#: Chance of a decision that "needs about so many more" aims at.
AIM = 0.8
#: Beyond this, "needs about so many more" says no more than "many".
MOST_NEEDED = 100_000
#: From so many groups (instructions, prompts) on, bounds allow for leans that differ between them.
FEWEST_GROUPS = 20
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
        Comparisons, and coins (or pairs shown in both orders) among them.
    more_needed : int
        About how many more comparisons a decision needs; 0 where it is made.
    reason : str
        One sentence.
    notes : tuple of str
        What the audit of the log says.
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
    notes: tuple[str, ...] = field(default=(), repr=False)
    anytime: bool = field(default=False, repr=False)
    of: str = "position"


@dataclass(frozen=True)
class Units:
    """
    What one judge's coins, or swapped pairs, say of its lean, in the order of their first answer.

    Attributes
    ----------
    value, size : the lean of every unit times its answers, cleared of what other coins say of its pairs; its answers.
    raw : the same without any model of the items, in [-size, size].
    group : codes of the instruction, where it is known.
    """

    value: Floats
    size: Floats
    raw: Floats
    group: Ints | None = None

    @classmethod
    def of_values(cls, values: Floats) -> Units:
        """One answer per unit."""
        return cls(values, np.ones(len(values)), values)

    def __len__(self) -> int:
        return len(self.value)

    @property
    def answers(self) -> int:
        """Number of comparisons."""
        return round(float(self.size.sum()))


def gate(
    comparisons: Comparisons,
    *,
    judges: Sequence[object] | None = None,
    max_lean: float = 0.1,
    alpha: float = 0.05,
    baseline: Comparisons | None = None,
    anytime: bool = False,
    sides: str = "audit",
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
    sides : {"audit", "random"}
        As in `detect`: "random" states that coins decided where that cannot be tested.

    Returns
    -------
    list of Gate
        In the order asked for.

    Raises
    ------
    ConfigurationError
        For options outside their range.
    InputError
        For judges that the log does not name or that never chose, logs that the audit finds unfit for a lean, and
        baselines about other pairs.
    """
    check(max_lean, alpha)
    if anytime and baseline is not None:
        raise ConfigurationError("anytime and baseline do not go together; compare logs of fixed size, or drop one")
    wanted = list(comparisons.annotators) if judges is None else list(judges)
    alpha_each = alpha / len(wanted)
    units, notes = judge_units(comparisons, wanted, sides=sides)
    earlier: Mapping[object, Units] = {}
    if baseline is not None:
        _refuse_other_pairs(comparisons, baseline)
        earlier, _ = judge_units(baseline, wanted, sides=sides, where="baseline: ")
    found = []
    for judge in wanted:
        never = _never_chose(comparisons, judge)
        if never and (len(wanted) == 1 or judges is not None):
            raise InputError(never)
        if baseline is not None:
            made = _decide_change(judge, units[judge], earlier[judge], max_lean, alpha_each)
        else:
            made = (decide_anytime if anytime else decide)(judge, units[judge], max_lean=max_lean, alpha=alpha_each)
        if never:
            made = replace(made, decision="undecided", more_needed=0, reason=never)
        found.append(replace(made, notes=notes))
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
    check(max_lean, alpha)
    rows = {str(row["annotator"]): row for row in found.annotators.to_dict("records")}
    wanted = list(rows) if judges is None else [str(judge) for judge in judges]
    unknown = [judge for judge in wanted if judge not in rows]
    if unknown:
        raise InputError(f"the log names no judge {unknown[0]!r}; it names {', '.join(list(rows)[:10])}; check --judge")
    level = alpha / len(wanted)
    return [_gate_of_row(found, rows[judge], max_lean, level) for judge in wanted]


def _gate_of_row(found: LeanList, row: Mapping[Any, Any], max_lean: float, alpha: float) -> Gate:
    lean, n, is_told = float(row["effect"]), int(row["answers"]), not math.isnan(row["effect"])
    error = float(row["high"] - row["low"]) / (2 * float(-ndtri(0.025)))
    reach = -float(ndtri(alpha)) * error
    seen = _Measured(lean, max(lean - reach, -1.0), min(lean + reach, 1.0), error, float(row["p_value"]))
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


def judge_units(
    comparisons: Comparisons, judges: Sequence[object], *, sides: str = "audit", where: str = ""
) -> tuple[dict[object, Units], tuple[str, ...]]:
    """Units of the judges, and what the audit says; refuses what the audit refuses."""
    code = {judge: _code_of(comparisons, judge, where) for judge in judges}
    table = AnswerTable.of(comparisons)
    audited = table.audited(sides=sides)
    if audited.is_refusal or audited.how == "sides fixed":
        raise InputError(f"{where}{' '.join(audited.reasons)} {' '.join(audited.remedies)}".strip())
    answers = table.answers.with_coin(audited.coin)
    shape = len(table.items), len(table.annotators)
    leans = unit_leans(answers, *shape, partial(table.fold_keys, audited.coin))
    unit, owner = units_of(answers)
    raw = np.bincount(unit, answers.weight * answers.outcome).astype(np.float64)
    first = np.full(len(owner), np.iinfo(np.int64).max)
    np.minimum.at(first, unit, table.answers.coin)  # recorded and own coins are numbered as they come
    stratum = table.audit_input().stratum
    group = None if stratum is None else stratum[first_rows(unit)]
    place = {str(label): k for k, label in enumerate(table.annotators)}
    units = {}
    for judge in judges:
        own = np.flatnonzero(owner == place[str(comparisons.annotators[code[judge]])])
        own = own[np.argsort(first[own], kind="stable")]
        of_group = None if group is None else compact_codes(group[own])
        units[judge] = Units(leans.value[own], leans.size[own], raw[own], of_group)
    return units, (*audited.reasons, *audited.remedies)


def _code_of(comparisons: Comparisons, judge: object, where: str) -> int:
    known = [str(label) for label in comparisons.annotators]
    if str(judge) not in known:
        shown = ", ".join(known[:10]) + (", …" if len(known) > 10 else "")
        raise InputError(f"{where}the log names no judge {judge!r}; it names {shown}; check --judge")
    return known.index(str(judge))


def _never_chose(comparisons: Comparisons, judge: object) -> str:
    """Why nothing can be said of a judge who only tied; empty where it chose."""
    outcome = comparisons.outcome[comparisons.annotator == _code_of(comparisons, judge, "")]
    if outcome.any():
        return ""
    return (
        f"{judge} called all {len(outcome):,} comparisons a tie, so nothing shows which side it prefers; check how its "
        "answers are read (--map, --answers), or name other judges (--judge)"
    )


def _refuse_other_pairs(comparisons: Comparisons, baseline: Comparisons) -> None:
    """A change between logs about other pairs would be one of the pairs as much as of the judge."""
    pairs = [{frozenset(pair) for pair in zip(c.left, c.right, strict=True)} for c in (comparisons, baseline)]
    named = [
        {frozenset(str(c.items[k]) for k in pair) for pair in one}
        for c, one in zip((comparisons, baseline), pairs, strict=True)
    ]
    if not named[0] & named[1]:
        example = " and ".join(sorted(min(named[1], key=sorted)))
        raise InputError(
            f"baseline: none of its {len(named[1]):,} pairs is among the {len(named[0]):,} of the log (the baseline "
            f"compares {example}); a change could be one of the pairs; give a baseline about the same pairs"
        )


def decide(judge: object, units: Units, *, max_lean: float, alpha: float) -> Gate:
    """
    Decide from a log of fixed size.

    Bounds are Student's, with one observation of size 1 added to the spread so that a judge who never varied does not
    get a bound of width 0. A fail needs the exact sign-flip test against an even judge as well: an even judge fails
    with probability at most ``alpha`` in samples of any size.
    """
    seen = _measure(units, alpha)
    decision: Decision = "undecided"
    if len(units) >= least_evidence.UNITS and seen.is_beyond(max_lean) and seen.p_even <= alpha:
        decision = "fail"
    elif len(units) >= least_evidence.UNITS and seen.is_within(max_lean):
        decision = "pass"
    return _result(judge, decision, seen, len(units), units.answers, max_lean=max_lean, alpha=alpha)


def decide_anytime(judge: object, units: Units, *, max_lean: float, alpha: float) -> Gate:
    """
    Decide from a log that grows and may be looked at after every answer.

    Each bound is tested by betting on the observations in their order: the capital of a mixture of bets against
    "lean <= m" is a nonnegative supermartingale where that is true, so it ever reaches ``1 / a`` with probability
    at most ``a`` (Ville; Waudby-Smith and Ramdas 2024). A fail spends ``alpha / 2`` on each side.
    """
    values = units.raw / units.size
    decision: Decision = "undecided"
    if max(_capital(values, max_lean), _capital(-values, max_lean)) >= 2.0 / alpha:
        decision = "fail"
    elif min(_capital(values, -max_lean), _capital(-values, -max_lean)) >= 1.0 / alpha:
        decision = "pass"
    found = _result(judge, decision, _measure(units, alpha), len(units), units.answers, max_lean=max_lean, alpha=alpha)
    return replace(found, anytime=True)


def _decide_change(judge: object, units: Units, earlier: Units, max_lean: float, alpha: float) -> Gate:
    """Hold the change of the lean since a baseline against ``max_lean`` (Welch)."""
    parts = _estimate(units), _estimate(earlier)
    change = parts[0].lean - parts[1].lean
    error = math.hypot(*(part.error for part in parts))
    freedom = max(error**4 / sum(part.error**4 / part.freedom for part in parts), 1.0)
    reach = float(stdtrit(freedom, 1 - alpha)) * error
    p_equal = min(1.0, 2.0 * float(stdtr(freedom, -abs(change) / error)))
    seen = _Measured(change, max(change - reach, -2.0), min(change + reach, 2.0), error, p_equal)
    decision: Decision = "undecided"
    if min(len(units), len(earlier)) >= least_evidence.UNITS:
        decision = "fail" if seen.is_beyond(max_lean) else "pass" if seen.is_within(max_lean) else "undecided"
    return _result(judge, decision, seen, len(units), units.answers, max_lean=max_lean, alpha=alpha)


@dataclass(frozen=True)
class _Measured:
    """Estimate, bounds, standard error, and the p-value against no lean at all."""

    lean: float
    low: float
    high: float
    error: float
    p_even: float

    def is_beyond(self, limit: float) -> bool:
        return self.low > limit or self.high < -limit

    def is_within(self, limit: float) -> bool:
        return -limit < self.low and self.high < limit


@dataclass(frozen=True)
class _Estimate:
    """A mean over answers, its standard error by independent units, and their degrees of freedom."""

    lean: float
    error: float
    freedom: float


def _result(
    judge: object, decision: Decision, seen: _Measured, units: int, answers: int, *, max_lean: float, alpha: float
) -> Gate:
    more = 0
    if decision == "undecided":
        spread = seen.error * math.sqrt(max(units, 1))
        total = units_needed(seen.lean, spread, max_lean=max_lean, alpha=alpha)
        more = int(min(max(math.ceil((total - units) * answers / max(units, 1)), 1), MOST_NEEDED))
    reason = {
        "pass": f"the lean is within {max_lean:g} of even",
        "fail": f"the lean is beyond {max_lean:g}, towards the {'first' if seen.lean > 0 else 'second'} shown",
        "undecided": (
            "too close to the limit to tell" if more >= MOST_NEEDED else f"needs about {more:,} more comparisons"
        ),
    }[decision]
    return Gate(
        judge, decision, seen.lean, seen.low, seen.high, seen.p_even, answers, units, max_lean, alpha, more,
        reason,
    )  # fmt: skip


def _measure(units: Units, alpha: float) -> _Measured:
    """Bounds that are each missed with probability about alpha."""
    found = _estimate(units)
    if len(units) < 2:
        return _Measured(found.lean, -1.0, 1.0, 1.0, _p_even(units))
    reach = float(stdtrit(found.freedom, 1 - alpha)) * found.error
    low, high = max(found.lean - reach, -1.0), min(found.lean + reach, 1.0)
    return _Measured(found.lean, low, high, found.error, _p_even(units))


def _estimate(units: Units) -> _Estimate:
    """The lean with its error by units, or by groups of them where that is more; one more observation never varies."""
    n = max(float(units.size.sum()), 1e-12)
    lean = float(np.clip(units.value.sum() / n, -1.0, 1.0))
    if len(units) < 2:
        return _Estimate(lean, 1.0, 1.0)
    off = units.value - units.size * lean
    size = max(float(np.sqrt(np.mean(units.value**2))), 1.0)
    by = [off]
    if units.group is not None and FEWEST_GROUPS <= units.group.max() + 1 < len(units):
        by.append(np.bincount(units.group, off).astype(np.float64))
    errors = [math.sqrt(float((one**2).sum()) * len(one) / (len(one) - 1) + size**2) / n for one in by]
    widest = int(np.argmax(errors))
    return _Estimate(lean, errors[widest], len(by[widest]) - 1.0)


def units_needed(lean: float, spread: float, *, max_lean: float, alpha: float) -> float:
    """Units (coins, or pairs in both orders) that bring a decision with probability `AIM` at this lean and spread."""
    z = float(ndtri(1 - alpha))
    low, high = float(least_evidence.UNITS), 2.0 * MOST_NEEDED

    def decided(n: float) -> float:
        error = spread / math.sqrt(n)
        ends = (max_lean - lean) / error, (max_lean + lean) / error
        passes = max(float(ndtr(ends[0] - z) - ndtr(z - ends[1])), 0.0)
        return passes + float(ndtr(-ends[0] - z) + ndtr(-ends[1] - z))

    while high > low * 1.001:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if decided(middle) >= AIM else (middle, high)
    return high


def _p_even(units: Units) -> float:
    """Exact: the sides of an even judge are fair coins, so every unit may change its sign."""
    if not len(units):
        return 1.0
    zero, one = np.zeros(len(units), dtype=np.int64), np.ones(len(units), dtype=np.int64)
    answers = Answers(zero, zero, one, units.raw / units.size, np.arange(len(units)), units.size)
    return float(sign_flip_p_values(answers, np.zeros(2), 1)[0])


def _capital(values: Floats, limit: float) -> float:
    """Largest capital that bets against "mean <= limit" ever reached, averaged over the bets."""
    if not len(values):
        return 1.0
    share, bound = (values + 1.0) / 2.0, (limit + 1.0) / 2.0
    growth = np.log1p(np.multiply.outer(_BETS / bound, share - bound))
    log_capital = np.logaddexp.reduce(np.cumsum(growth, axis=1), axis=0) - math.log(len(_BETS))
    return float(np.exp(min(log_capital.max(), 700.0)))


def check(max_lean: float, alpha: float) -> None:
    """Refuse limits and error rates out of their range."""
    if not 0 < max_lean < 1:
        raise ConfigurationError(f"max_lean was {max_lean:g}; expected a number between 0 and 1, such as 0.1")
    if not 0 < alpha < 0.5:
        raise ConfigurationError(f"alpha was {alpha:g}; expected a number between 0 and 0.5, such as 0.05")
