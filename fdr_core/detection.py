"""The pipeline in one page: statistics, audit, exact tests, list, knockoff LBI beside it, consensus, findings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from fdr_core.annotator_table import Judgement, annotator_table
from fdr_core.answer_table import AnswerTable
from fdr_core.answers import Answers
from fdr_core.audit import PLACED, Audit, audit
from fdr_core.comparisons import Comparisons
from fdr_core.consensus.ranking import Ranking, ranking
from fdr_core.design import ridge_for
from fdr_core.differences import Opinions, differences
from fdr_core.guarantee import Guarantee, guarantee_of, has_proof
from fdr_core.leans import Leans, absolute_leans
from fdr_core.opinions import Exact, Lbi
from fdr_core.options import Options
from fdr_core.paper.cuts import smallest_list
from fdr_core.paper.draws import Progress
from fdr_core.paper.knockoff_lbi import LbiResult, run_lbi
from fdr_core.randomisation import Tests, test_annotators
from fdr_core.randomisation.placed import RelativeLeans, relative_leans
from fdr_core.selection import WeightedList, weighted_list
from fdr_core.statistics import SufficientStatistics
from fdr_core.types import Ints


@dataclass(frozen=True, repr=False)
class Detection:
    """What `detect` found; see its documentation for the columns.

    Attributes
    ----------
    flagged : labels, strongest first: the list of the method that decides.
    annotators : one row each, worst first.
    exact : the exact tests and their list.
    lbi : what knockoff LBI says beside it; without draws where it was left out or nobody can be judged by it.
    differences : annotators on one of the two lists only, and why, in words.
    lean_basis : what leans are measured against: "absolute" where coins decided the sides or both orders were shown,
        else "relative to the crowd".
    converged : whether every fit and path reached its end; what did not is named in ``audit.reasons``.
    """

    flagged: list[Any]
    annotators: pd.DataFrame
    ranking: pd.DataFrame
    order_changes: pd.DataFrame
    audit: Audit
    guarantee: Guarantee
    lean_basis: str
    exact: Exact
    lbi: Lbi
    differences: pd.DataFrame
    smallest_list: int
    parameters: Mapping[str, Any]
    converged: bool = True
    timings: Mapping[str, float] = field(default_factory=dict)

    @property
    def method(self) -> dict[str, Any]:
        """Which method decided, and what the other one says, in numbers."""
        return {
            "decided_by": self.parameters["decide_by"],
            "exact_list": len(self.exact.flagged),
            "lbi_list": len(self.lbi.flagged) if self.lbi.draws_done else None,
            "draws_done": self.lbi.draws_done,
            "draws_asked": self.lbi.draws_asked,
            "differences": len(self.differences),
            "converged": self.converged,
            "lean_basis": self.lean_basis,
        }

    def __repr__(self) -> str:
        found = f"{len(self.flagged)} of {len(self.annotators)} annotators flagged"
        return f"Detection({found}; by {self.parameters['decide_by']}; {self.guarantee.kind})"

    def _repr_html_(self) -> str:
        """Show the result and the first rows in a notebook."""
        head: str = self.annotators.head(10).to_html(index=False, float_format="{:.3f}".format)
        return f"<p><b>{self!r}</b></p><p>{self.guarantee.sentence}</p>{head}"


def detect(
    data: Comparisons | SufficientStatistics,
    *,
    q: float = 0.1,
    min_bias: float = 0.1,
    sides: str = "audit",
    decide_by: str = "exact",
    consensus: str = "logistic",
    draws: int = 21,
    method: str = "auto",
    judge: str = "assessable",
    path: str = "lbi",
    cut: str = "knockoff+",
    copies: int | None = None,
    aggregate: str = "majority",
    variance: str | None = None,
    slack_solver: str = "auto",
    lbi_seconds: float | None = 60.0,
    seed: int = 0,
    progress: Progress | None = None,
    clock: Callable[[], float] | None = None,
) -> Detection:
    """Find the annotators who click a side instead of judging.

    One exact test per annotator, then a list at error rate ``q``; knockoff LBI, the paper's method, runs beside it.
    Every option with its choices and bounds: `fdr_core.options.OPTIONS`, docs/options.md.

    Parameters
    ----------
    data : Comparisons, or SufficientStatistics kept up to date by the caller.
    q : target false discovery rate, in (0, 1).
    min_bias : smallest |lean| worth a flag, a filter: smaller ones have p-value 1, and so have those whose interval
        holds 0.
    sides : "audit" (tested), "random" (the owner states that coins decided) or "not random".
    decide_by : "exact" or "lbi": whose list is ``flagged``. Naming a construction by ``method`` means "lbi".
    consensus : how the ranking is fitted: "logistic" (log odds) or "least squares" (the paper's refit, mean outcomes).
    draws : independent draws of LBI; 0 leaves LBI out.
    method : construction of LBI's copies: "auto" lets the audit choose "flip" (coin flips) or "paper" (fixed design).
    judge : "assessable" (enough answers), or with ``method="paper"`` "everybody", as the paper did.
    path, cut, copies, aggregate, variance, slack_solver, lbi_seconds, seed : of LBI; the exact test draws nothing.
    progress : called with (draws done, draws in all).
    clock : seconds, for the ``timings`` of the result and for ``lbi_seconds``; without one neither has an effect.

    Returns
    -------
    Detection
        Columns of ``annotators``: counts, ``bias`` with its 95 % interval, ``p_value`` and ``q_value`` (adjusted) of
        the exact test, ``exact_list``, ``lbi_share`` of draws that select, ``lbi_list``, ``entry`` on the path,
        ``match_ratio`` with the consensus, ``finding`` (a key of `fdr_core.findings.FINDINGS`), ``flagged``,
        ``difference`` of the two lists in words, ``more_needed`` answers, and evidence in time. NaN: not judged; a list
        is None for everybody where its method judged nobody.

    Raises
    ------
    InputError, ConfigurationError, DesignError
    """
    options = Options(
        q, min_bias, sides, decide_by, consensus, draws, method, judge, path,
        cut, copies, aggregate, variance, slack_solver, lbi_seconds, seed,
    )  # fmt: skip
    laps = _Laps(clock)
    table = AnswerTable.of(data)
    laps.take("statistics")
    audited = _with_those_to_judge(audit(table.audit_input(), q=q, method=method, sides=sides), judge)
    answers = table.answers.with_coin(audited.coin)
    ridge = ridge_for(answers)
    laps.take("audit")
    leans, placed = _leans(answers, table, audited)
    tested = _test(answers, table, audited, leans, placed, ridge, options)
    laps.take("tests")
    lbi = _knockoff_lbi(answers, table, audited, leans, options, progress, clock)
    laps.take("lbi")
    judgement = _judge(audited, tested, lbi, leans, options)
    fit = ranking(answers, table.sums, np.flatnonzero(judgement.flagged), method=consensus, fallback_ridge=ridge)
    laps.take("consensus")
    audited, converged = _tell(audited, tested, lbi, fit)
    frame = annotator_table(answers, table, audited, judgement, leans, fit.theta, options)
    laps.take("evidence")
    return Detection(
        flagged=frame.loc[frame["flagged"], "annotator"].tolist(),
        annotators=frame,
        ranking=fit.table(table.items),
        order_changes=fit.order_changes(table.items),
        audit=audited,
        guarantee=guarantee_of(audited, options),
        lean_basis=leans.basis,
        exact=_exact(tested, audited, table),
        lbi=Lbi.of(lbi, _selected(lbi, options), table.annotators, asked=draws),
        differences=_differing(frame),
        smallest_list=1 if options.decides_by == "exact" else judgement.opinions.shortest,
        parameters=options.as_dict(judgement.copies, ridge),
        converged=converged,
        timings=laps.seconds,
    )


def _with_those_to_judge(audited: Audit, judge: str) -> Audit:
    """Judge whom the audit finds assessable, or everybody, as the paper did."""
    if judge == "assessable" or audited.construction == "none":
        return audited
    reason = "Everybody is judged, however few the answers, as in the paper."
    everybody = np.ones_like(audited.assessable)
    return replace(
        audited, assessable=everybody, assessable_by_lbi=everybody, reasons=[*audited.reasons, reason],
        figures={**audited.figures, "assessable": len(audited.assessable)},
    )  # fmt: skip


@dataclass(frozen=True)
class _Tested:
    """Exact tests and list, over the judged."""

    judged: Ints
    tests: Tests
    listed: WeightedList


def _leans(answers: Answers, table: AnswerTable, audited: Audit) -> tuple[Leans, RelativeLeans | None]:
    """Leans by the coins; relative to the crowd where the sides were placed."""
    shape = len(table.items), len(table.annotators)
    if audited.how == "sides fixed" or (audited.how == "none" and audited.found == PLACED):
        placed = relative_leans(answers, *shape)
        return placed.leans, placed
    return absolute_leans(answers, *shape, partial(table.fold_keys, audited.coin)), None


def _test(
    answers: Answers,
    table: AnswerTable,
    audited: Audit,
    leans: Leans,
    placed: RelativeLeans | None,
    ridge: float,
    options: Options,
) -> _Tested | None:
    """One exact test per judged annotator and the list that follows; None where nobody can be tested."""
    judged = np.flatnonzero(audited.assessable)
    if audited.how == "none" or not len(judged):
        return None
    tests = test_annotators(
        answers,
        how=audited.how,
        n_items=len(table.items),
        n_annotators=len(table.annotators),
        judged=judged,
        leans=leans.side_of_interest(options.min_bias),
        ridge=ridge,
        placed=placed,
        part_key=table.part_keys(audited.coin) if audited.how == "shared coins" else None,
    )
    listed = weighted_list(
        tests.p_value,
        tests.weight,
        q=options.q,
        storey=tests.uses_storey,
        plain_p_value=tests.plain_p_value,
        above_half=tests.above_half,
    )
    return _Tested(judged, tests, listed)


def _exact(tested: _Tested | None, audited: Audit, table: AnswerTable) -> Exact:
    """The exact tests with labels."""
    if not tested:
        return Exact.nobody()
    labels = table.annotators[tested.judged]
    return Exact.of(tested.tests, tested.listed, labels, independent=has_proof(audited))


def _knockoff_lbi(
    answers: Answers,
    table: AnswerTable,
    audited: Audit,
    leans: Leans,
    options: Options,
    progress: Progress | None,
    clock: Callable[[], float] | None,
) -> LbiResult | None:
    """Knockoff LBI; None where it was left out or nobody can be judged by it."""
    judged = np.flatnonzero(audited.assessable_by_lbi)
    if not options.draws or audited.construction == "none" or not len(judged):
        return None
    return run_lbi(
        answers=answers,
        sums=table.sums,
        construction=audited.construction,
        judged=judged,
        q=options.q,
        cut=options.cut,
        draws=options.draws,
        seed=options.seed,
        path=options.path,
        copies=options.copies,
        variance=options.variance_used,
        slack_solver=options.slack_solver,
        of_interest=np.abs(leans.estimate[judged]) >= options.min_bias,
        budget=options.budget,
        clock=clock,
        progress=progress,
    )


def _judge(audited: Audit, tested: _Tested | None, lbi: LbiResult | None, leans: Leans, options: Options) -> Judgement:
    """Both lists side by side over all annotators, and the one that decides."""
    m = len(leans.estimate)
    on_exact, on_lbi, stuck = (np.zeros(m, dtype=bool) for _ in range(3))
    p_value, q_value, share, entry = (np.full(m, np.nan) for _ in range(4))
    if tested:
        on_exact[tested.judged] = tested.listed.flagged
        p_value[tested.judged], q_value[tested.judged] = tested.tests.plain_p_value, tested.listed.q_value
    if lbi:
        stuck[lbi.judged], share[lbi.judged], entry[lbi.judged] = lbi.near_zero, lbi.share, lbi.entry
        on_lbi[_selected(lbi, options)] = True
    copies = lbi.copies if lbi else 0
    shortest = smallest_list(options.q, options.cut, copies) if lbi else 1
    if lbi and shortest > len(lbi.judged):
        stuck[lbi.judged] = True
    out_of_reach = stuck if options.decides_by == "lbi" else np.zeros(m, dtype=bool)
    if tested and options.decides_by == "exact":
        out_of_reach[tested.judged] = tested.tests.weight == 0
    opinions = Opinions(on_exact, on_lbi, q_value, share, stuck, options.q, shortest, options.aggregate == "evalues")
    by_lbi = options.decides_by == "lbi"
    can_judge = (audited.construction if by_lbi else audited.how) != "none"
    return Judgement(
        can_judge=can_judge,
        judged=(audited.assessable_by_lbi if by_lbi else audited.assessable) & can_judge,
        flagged=on_lbi if by_lbi else on_exact,
        opinions=opinions,
        p_value=p_value,
        entry=entry,
        difference=differences(opinions) if tested and lbi else [""] * m,
        unselectable=out_of_reach,
        copies=copies,
    )


def _selected(lbi: LbiResult | None, options: Options) -> Ints:
    """Codes on LBI's list, strongest first."""
    if lbi is None:
        return np.zeros(0, dtype=np.int64)
    return lbi.selected_by_e_values if options.aggregate == "evalues" else lbi.selected


#: What an unfinished fit means for the exact tests: where coins decided, it only weighs the answers.
_UNSETTLED = {
    "weighs": "The fit behind the exact tests did not converge; its p-values stay valid but find less.",
    "models": "The fit behind the exact tests did not converge; its p-values are approximate.",
}


def _tell(audited: Audit, tested: _Tested | None, lbi: LbiResult | None, fit: Ranking) -> tuple[Audit, bool]:
    """Name in the audit what did not converge, and how many LBI cannot select by construction."""
    role = "models" if audited.how == "sides fixed" else "weighs"
    unfinished = {
        _UNSETTLED[role]: tested is not None and not tested.tests.converged,
        "A path of knockoff LBI did not reach its end; its shares are approximate.": lbi is not None
        and not lbi.converged,
        "The fit of the item scores did not converge; the ranking is approximate.": not fit.converged,
    }
    notes = [note for note, is_so in unfinished.items() if is_so]
    n_stuck = lbi.n_slack_near_zero if lbi else 0
    told = f"{n_stuck} annotators are out of reach of knockoff LBI: their copies hardly differ from them."
    stuck = [told] if n_stuck else []
    reasons = [*audited.reasons, *(tested.tests.notes if tested else ()), *notes, *stuck]
    figures = {**audited.figures, "slack_near_zero": n_stuck}
    return replace(audited, reasons=reasons, figures=figures), not notes


def _differing(frame: pd.DataFrame) -> pd.DataFrame:
    """Who is on one list only, and why."""
    columns = ["annotator", "exact_list", "lbi_list", "difference"]
    return frame.loc[frame["difference"] != "", columns].reset_index(drop=True)


class _Laps:
    """Seconds spent per part, by the caller's clock."""

    def __init__(self, clock: Callable[[], float] | None) -> None:
        self.seconds: dict[str, float] = {}
        self._clock = clock
        self._last = clock() if clock else 0.0

    def take(self, name: str) -> None:
        if self._clock:
            now = self._clock()
            self.seconds[name] = now - self._last
            self._last = now
