"""The pipeline in one page: statistics, audit, exact tests, list, knockoff LBI beside it, consensus, findings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from fdr_core.annotator_table import Decision, Judgement, annotator_table
from fdr_core.answer_table import AnswerTable
from fdr_core.answers import Answers
from fdr_core.audit import FEWEST_TO_COMPARE, PLACED, Audit
from fdr_core.comparisons import Comparisons
from fdr_core.consensus.ranking import Ranking, ranking
from fdr_core.design import ridge_for
from fdr_core.guarantee import (
    MEASURED,
    NOBODY,
    Guarantee,
    condition,
    guarantee_of_exact,
    guarantee_of_lbi,
    has_proof,
)
from fdr_core.leans import Leans, absolute_leans
from fdr_core.opinions import Exact, Lbi, Opinions, differences
from fdr_core.options import STANDARD_LBI, Options
from fdr_core.paper.draws import smallest_list
from fdr_core.paper.knockoff_lbi import KnockoffLBI
from fdr_core.paper.run import LbiResult, judged_by
from fdr_core.progress import Progress
from fdr_core.randomisation import Tests, test_annotators
from fdr_core.randomisation.parts import Spoken
from fdr_core.randomisation.placed import RelativeLeans, relative_leans
from fdr_core.randomisation.shared import as_e
from fdr_core.selection import WeightedList, closed_e_bh, weighted_list
from fdr_core.statistics import SufficientStatistics
from fdr_core.types import Ints, Mask


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
            "proven": len(self.exact.proven),
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
    parts: str = "whole",
    lbi: KnockoffLBI | None = STANDARD_LBI,
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
    decide_by : "exact" or "lbi": whose list is ``flagged``.
    consensus : how the ranking is fitted: "logistic" (log odds) or "least squares" (the paper's refit, mean outcomes).
    parts : "whole", or "all": leans late in the order of arrival, on close pairs and on long texts as well.
    lbi : how the paper's method is run; None leaves it out.
    progress : called with (stage, done, of): the stages of `fdr_core.progress.STAGES`; LBI counts its draws.
    clock : seconds, for the ``timings`` of the result and for the time that LBI may take; without one neither has an
        effect.

    Returns
    -------
    Detection
        Columns of ``annotators``: counts, ``bias`` (the lean) with its 95 % interval, ``p_value`` and ``q_value``
        (adjusted) of the exact test, ``exact_list``, ``proven`` (on it with a proof), ``lbi_share`` of draws that
        select, ``lbi_list``, ``entry`` on the path, ``match_ratio`` with the consensus, ``finding`` (a key of
        `fdr_core.findings.FINDINGS`), ``flagged``, ``difference`` of the two lists in words, ``more_needed`` answers,
        and evidence in time. NaN: not judged; a list is None for everybody where its method judged nobody.

    Raises
    ------
    InputError, ConfigurationError, DesignError
    """
    options = Options(q, min_bias, sides, decide_by, consensus, parts, lbi)
    laps = _Laps(clock, progress)
    table = AnswerTable.of(data)
    laps.take("statistics")
    audited = judged_by(lbi, table.audited(q=q, method=options.construction, sides=sides))
    answers = table.answers.with_coin(audited.coin)
    ridge = ridge_for(answers)
    laps.take("audit")
    leans, placed = _leans(answers, table, audited)
    tested = _test(answers, table, audited, leans, placed, ridge, options)
    leans = _leans_beside(leans, tested)
    laps.take("tests")
    drawn = _knockoff_lbi(answers, table, audited, leans, options, progress, clock)
    laps.take("lbi")
    judgement = _judge(audited, tested, drawn, leans, options)
    if tested:
        leans = _spoken_leans(leans, tested)
    fit = ranking(
        answers, table.sums, np.flatnonzero(judgement.decision.listed), method=consensus, fallback_ridge=ridge
    )
    laps.take("consensus")
    audited, converged = _tell(audited, tested, drawn, fit)
    frame = annotator_table(answers, table, audited, judgement, leans, fit.theta, min_bias)
    laps.take("evidence")
    return Detection(
        flagged=frame.loc[frame["flagged"], "annotator"].tolist(),
        annotators=frame,
        ranking=fit.table(table.items),
        order_changes=fit.order_changes(table.items),
        audit=audited,
        guarantee=judgement.decision.guarantee,
        lean_basis=leans.basis,
        exact=_exact(tested, audited, table),
        lbi=Lbi.of(drawn, table.annotators, asked=lbi.draws if lbi else 0),
        differences=_differing(frame),
        smallest_list=judgement.decision.smallest_list,
        parameters=options.as_dict(judgement.copies, ridge),
        converged=converged,
        timings=laps.seconds,
    )


@dataclass(frozen=True)
class _Tested:
    """Exact tests and list, over the judged; ``beside``: of those who left them, by the model, without a proof."""

    judged: Ints
    tests: Tests
    listed: WeightedList
    proven: Mask
    leans: Leans
    beside: _Tested | None = None
    part_leans: Mapping[int, Leans] = field(default_factory=dict)

    @property
    def part(self) -> Ints:
        """Which part of the answers speaks, of those on the list."""
        spoken = self.tests.spoken
        return np.zeros(len(self.judged), dtype=np.int64) if spoken is None else spoken.part * self.listed.flagged


def _spoken_leans(leans: Leans, tested: _Tested) -> Leans:
    """Where a part of the answers speaks for the list, the lean and the interval are that part's."""
    for part, own in tested.part_leans.items():
        spoken = tested.part == part
        seen = own.beside_tests(tested.judged[spoken], tested.tests.side[spoken])
        leans = leans.with_those_of(seen, tested.judged[spoken])
    return leans


def _leans_beside(leans: Leans, tested: _Tested | None) -> Leans:
    """Leans as the tests saw them; intervals of those on the list leave out what the test rejects."""
    while tested:
        listed = tested.listed.flagged
        seen = tested.leans.beside_tests(tested.judged[listed], tested.tests.side[listed])
        leans, tested = leans.with_those_of(seen, tested.judged), tested.beside
    return leans


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
    judged = np.flatnonzero(audited.assessable & ~audited.few_coins)
    if audited.how == "none" or not len(judged):
        return None
    part_leans: dict[int, Leans] = {}

    def of_interest(spoken: Spoken) -> Ints:
        side = leans.side_of_interest(options.min_bias)
        for part, rows in spoken.rows.items():
            own = answers.take(rows)
            keys = table.fold_keys(audited.coin)[rows]
            part_leans[part] = absolute_leans(own, len(table.items), len(table.annotators), partial(np.asarray, keys))
            who = judged[spoken.part == part]
            side[who] = part_leans[part].side_of_interest(options.min_bias)[who]
        return side

    n_items, n_annotators = len(table.items), len(table.annotators)

    def test(how: str, who: Ints, leans: Leans, placed: RelativeLeans | None) -> Tests:
        return test_annotators(
            answers,
            how=how,
            n_items=n_items,
            n_annotators=n_annotators,
            judged=who,
            leans=leans.side_of_interest(options.min_bias),
            ridge=ridge,
            placed=placed,
            part_key=table.part_keys(audited.coin) if how == "shared coins" else None,
            told=table.told() if options.parts == "all" else None,
            leans_of=of_interest,
        )

    tests, beside = test(audited.how, judged, leans, placed), None
    if audited.figures["coin_source"] == "guessed":  # bets on coins that nobody recorded prove nothing
        tests = replace(tests, log_e=None)
    skips = audited.skips_by_side[judged]
    moved = np.sort(np.concatenate([judged[skips], np.flatnonzero(audited.few_coins)]))
    if skips.any():
        tests, judged = tests.of(~skips), judged[~skips]
    listed = weighted_list(
        tests.p_value,
        tests.weight,
        q=options.q,
        storey=tests.uses_storey,
        plain_p_value=tests.plain_p_value,
        above_half=tests.above_half,
    )
    proven = _proven(tests, listed, options.q, has_proof(audited))
    if len(moved) and n_annotators >= FEWEST_TO_COMPARE:
        by_model = placed or relative_leans(answers, n_items, n_annotators)
        measured = test("sides fixed", moved, by_model.leans, by_model)
        # as many tests as all together, and a list as long: both lists taken together keep about the rate
        p_value = np.concatenate([measured.p_value, np.where(listed.flagged, 0.0, 1.0)])
        longer = weighted_list(p_value, np.ones(len(p_value)), q=options.q, storey=False)
        found = WeightedList(longer.flagged[: len(moved)], longer.q_value[: len(moved)])
        beside = _Tested(moved, measured, found, np.zeros(len(moved), dtype=bool), by_model.leans)
    return _Tested(judged, tests, listed, proven, leans, beside, part_leans)


def _proven(tests: Tests, listed: WeightedList, q: float, is_whole: bool) -> Mask:
    """Of the list, who is on it with a proof: everybody, or whom bets on the coins find among them.

    An e-value that becomes 0 where somebody is not on the list only falls, so it stays one.
    """
    if is_whole or tests.log_e is None:
        return listed.flagged & is_whole
    return closed_e_bh(np.where(listed.flagged, as_e(tests.log_e), 0.0), q)


def _with_proof(guarantee: Guarantee, tested: _Tested | None, audited: Audit) -> Guarantee:
    """Say how many of a measured list hold with a proof, and on which condition."""
    if not tested or tested.tests.log_e is None or guarantee.kind != MEASURED:
        return guarantee
    n, of = int(tested.proven.sum()), int(tested.listed.flagged.sum())
    told = f"Of these {of:,}, {n:,} hold with a proof, by bets on the coins, {condition(audited)}".rstrip(", ") + "."
    return guarantee.adding(told if of else "")


def _exact(tested: _Tested | None, audited: Audit, table: AnswerTable) -> Exact:
    """The exact tests with labels."""
    if not tested:
        return Exact.nobody()
    labels = table.annotators[tested.judged]
    return Exact.of(tested.tests, tested.listed, tested.proven, labels, independent=has_proof(audited))


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
    if options.lbi is None or audited.construction == "none" or not len(judged):
        return None
    return options.lbi.run(
        answers=answers,
        sums=table.sums,
        construction=audited.construction,
        judged=judged,
        q=options.q,
        of_interest=np.abs(leans.estimate[judged]) >= options.min_bias,
        clock=clock,
        progress=partial(progress, "LBI") if progress else None,
    )


def _judge(audited: Audit, tested: _Tested | None, lbi: LbiResult | None, leans: Leans, options: Options) -> Judgement:
    """Both lists side by side over all annotators, and the one that decides: nobody else asks which."""
    m = len(leans.estimate)
    exact, beside = _by_exact(audited, tested, m, options.q), _by_lbi(audited, lbi, m, options)
    proven, part = np.zeros(m, dtype=bool), np.zeros(m, dtype=np.int64)
    if tested:
        proven[tested.judged], part[tested.judged] = tested.proven, tested.part
    evalues = options.lbi is not None and options.lbi.aggregate == "evalues"
    opinions = Opinions(
        exact.listed, beside.listed, exact.shown[1], beside.shown[1], beside.unselectable, options.q,
        beside.smallest_list, evalues,
    )  # fmt: skip
    return Judgement(
        decision=beside if options.decide_by == "lbi" else exact,
        opinions=opinions,
        proven=proven,
        part=part,
        p_value=exact.shown[0],
        entry=beside.shown[0],
        difference=differences(opinions) if tested and lbi else [""] * m,
        copies=lbi.copies if lbi else 0,
    )


def _by_exact(audited: Audit, tested: _Tested | None, m: int, q: float) -> Decision:
    """The list of the exact tests, with p-values and adjusted ones."""
    listed, out_of_reach = np.zeros(m, dtype=bool), np.zeros(m, dtype=bool)
    p_value, q_value = np.full(m, np.nan), np.full(m, np.nan)
    for part in (tested, tested and tested.beside):
        if part:
            listed[part.judged], out_of_reach[part.judged] = part.listed.flagged, part.tests.weight == 0
            p_value[part.judged], q_value[part.judged] = part.tests.told_p_value, part.listed.q_value
    strength = -np.nan_to_num(p_value, nan=1.0), -np.nan_to_num(q_value, nan=1.0)
    guarantee = _with_proof(guarantee_of_exact(audited, q), tested, audited)
    if tested and tested.beside and (n := int(tested.beside.listed.flagged.sum())):
        guarantee = guarantee.adding(
            f"Beside it {n:,} whose skips go with the side, or with few coins: measured, by a model of judging."
        )
    can_judge = audited.how != "none"
    judged = audited.assessable & can_judge
    return Decision(listed, judged, out_of_reach, can_judge, 1, guarantee, strength, (p_value, q_value))


def _by_lbi(audited: Audit, lbi: LbiResult | None, m: int, options: Options) -> Decision:
    """The list of knockoff LBI, with entry levels and shares of the draws."""
    listed, out_of_reach = np.zeros(m, dtype=bool), np.zeros(m, dtype=bool)
    entry, share, shortest, guarantee = np.full(m, np.nan), np.full(m, np.nan), 1, NOBODY
    if lbi and options.lbi:
        listed[lbi.chosen], share[lbi.judged], entry[lbi.judged] = True, lbi.share, lbi.entry
        shortest = smallest_list(options.q, options.lbi.cut, lbi.copies)
        out_of_reach[lbi.judged] = lbi.near_zero | (shortest > len(lbi.judged))
    if options.lbi:
        guarantee = guarantee_of_lbi(audited, options.q, options.lbi)
    strength = np.nan_to_num(entry), np.nan_to_num(share)
    can_judge = audited.construction != "none"
    judged = audited.assessable_by_lbi & can_judge
    return Decision(listed, judged, out_of_reach, can_judge, shortest, guarantee, strength, (entry, share))


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


#: Parts that are timed, in their order, each with the stage it belongs to.
_STAGE_OF = {
    "statistics": "read",
    "audit": "audit",
    "tests": "tests",
    "lbi": "LBI",
    "consensus": "ranking",
    "evidence": "report",
}


class _Laps:
    """Seconds spent per part, by the caller's clock, and news of every part that begins and ends."""

    def __init__(self, clock: Callable[[], float] | None, progress: Progress | None) -> None:
        self.seconds: dict[str, float] = {}
        self._clock, self._progress = clock, progress
        self._last = clock() if clock else 0.0
        self._parts = list(_STAGE_OF)
        self._tell("statistics", 0)

    def take(self, name: str) -> None:
        self._tell(name, 1)
        for following in self._parts[self._parts.index(name) + 1 :][:1]:
            self._tell(following, 0)
        if self._clock:
            now = self._clock()
            self.seconds[name] = now - self._last
            self._last = now

    def _tell(self, name: str, done: int) -> None:
        if self._progress:
            self._progress(_STAGE_OF[name], done, 1)
