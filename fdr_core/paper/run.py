"""How knockoff LBI runs: many draws of copies, a race per annotator on the path, who wins."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fdr_core.answer_table import AnswerTable
from fdr_core.answers import Answers, Sums
from fdr_core.audit import Audit, audit
from fdr_core.comparisons import Comparisons
from fdr_core.design import ridge_for
from fdr_core.paper.copies import FlipDesign, householder_q, own_problem
from fdr_core.paper.draws import Budget, Draws, Fixed, Flips, Progress, Rule, run_draws, two_pass_rss
from fdr_core.paper.knockoff_lbi import KnockoffLBI
from fdr_core.paper.paths import Path, follow
from fdr_core.paper.slack import Slack
from fdr_core.projection import FixedDesign, fixed_design
from fdr_core.selection import e_bh
from fdr_core.statistics import SufficientStatistics
from fdr_core.types import Floats, Ints, Mask

#: Beyond this many annotators the path of the own columns is neither kept nor followed: one look at the correlations.
MOST_RECORDED = 2000
#: Below this many judged annotators d = ceil(1/q) copies: a single one can be selected, and lists differ less from
#: seed to seed (measured). Beyond, five: copies cost time, and long lists are steady anyway.
FEW_ANNOTATORS, COPIES_FOR_MANY = 500, 5


@dataclass(frozen=True)
class LbiResult:
    """What knockoff LBI says about the judged annotators; arrays run over ``judged``.

    Attributes
    ----------
    construction : "flip", "paper", or "none" where nobody was judged.
    judged : (m,) codes of the judged annotators.
    chosen : codes on the list, largest share first, then by level: selected in more than half of the draws, or with
        e-values by e-BH at q, from draws at q/2 (Ren and Barber 2024).
    share : (m,) share of draws that selects each.
    e_values : (m,) average e-value.
    W : (draws done, m) level of the race, positive where the own column entered first, 0 where undecided.
    entry : (m,) level at which each own column enters a path without copies, 0 where it does not.
    path : the path without copies, recorded up to 2,000 annotators.
    near_zero : (m,) whose copy is so much like them that no draw can select them; nothing follows from their share.
    converged : all paths and the slack's solver came to their end.
    flagged : labels on the list, where data with labels were given (`KnockoffLBI.fit`).
    """

    construction: str
    judged: Ints
    chosen: Ints
    share: Floats = field(repr=False)
    e_values: Floats = field(repr=False)
    W: Floats = field(repr=False)
    entry: Floats = field(repr=False)
    path: Path = field(repr=False)
    near_zero: Mask = field(repr=False)
    draws_asked: int
    draws_done: int
    copies: int
    converged: bool
    flagged: list[Any] = field(default_factory=list)

    @property
    def n_slack_near_zero(self) -> int:
        """How many cannot be selected by construction."""
        return int(self.near_zero.sum())


def copies_for(n_judged: int, q: float, construction: str) -> int:
    """Copies per annotator where nobody asked for a number; the paper's construction has one."""
    if construction == "paper":
        return 1
    return math.ceil(1.0 / q - 1e-12) if n_judged < FEW_ANNOTATORS else COPIES_FOR_MANY


def fit(
    lbi: KnockoffLBI,
    data: Comparisons | SufficientStatistics,
    *,
    q: float,
    sides: str,
    clock: Callable[[], float] | None,
) -> LbiResult:
    """See `KnockoffLBI.fit`."""
    table = AnswerTable.of(data)
    audited = judged_by(lbi, audit(table.audit_input(), q=q, method=lbi.construction, sides=sides))
    result = lbi.run(
        answers=table.answers.with_coin(audited.coin),
        sums=table.sums,
        construction=audited.construction,
        judged=np.flatnonzero(audited.assessable_by_lbi),
        q=q,
        clock=clock,
    )
    return replace(result, flagged=table.annotators[result.chosen].tolist())


def judged_by(lbi: KnockoffLBI | None, audited: Audit) -> Audit:
    """Judge whom the audit finds assessable, or everybody, as the paper did."""
    if lbi is None or lbi.judge == "assessable" or audited.construction == "none":
        return audited
    reason = "Everybody is judged, however few the answers, as in the paper."
    everybody = np.ones_like(audited.assessable)
    return replace(
        audited, assessable=everybody, assessable_by_lbi=everybody, reasons=[*audited.reasons, reason],
        figures={**audited.figures, "assessable": len(audited.assessable)},
    )  # fmt: skip


def run(
    lbi: KnockoffLBI,
    answers: Answers,
    sums: Sums,
    construction: str,
    judged: Ints,
    q: float,
    of_interest: Mask | None,
    clock: Callable[[], float] | None,
    progress: Progress | None,
) -> LbiResult:
    """See `KnockoffLBI.run`."""
    limit = Budget(lbi.budget, clock)
    design = _design(answers, sums, construction, judged)
    own = _own_path(design, lbi.path)
    is_paper = construction == "paper"
    copies = copies_for(len(judged), q, construction) if lbi.copies is None or is_paper else lbi.copies
    drawn, slack = _nothing(len(judged)), None
    if construction != "none" and len(judged):
        made: Flips | Fixed
        if isinstance(design, FlipDesign):
            made = Flips(design, copies=copies, seed=lbi.seed, path=lbi.path)
        else:
            rss = two_pass_rss(design, answers, sums, judged) if lbi.variance_used == "two-pass" else None
            known = householder_q(answers, sums, judged) if lbi.complement == "householder" else None
            made = Fixed(design, rss=rss, solver=lbi.slack, q=known)
            slack = made.slack
        rule = Rule(q, lbi.cut, lbi.draws, lbi.seed, e_rate=q / 2.0, of_interest=of_interest)
        drawn = run_draws(made, rule, path=lbi.path, progress=progress, budget=limit)
    return _result(lbi, construction, judged, q=q, own=own, drawn=drawn, slack=slack, copies=copies)


def _result(
    lbi: KnockoffLBI,
    construction: str,
    judged: Ints,
    *,
    q: float,
    own: Path,
    drawn: Draws,
    slack: Slack | None,
    copies: int,
) -> LbiResult:
    order = np.lexsort((np.arange(len(judged)), -own.entry, -drawn.share))
    is_chosen = e_bh(drawn.e, q) if lbi.aggregate == "evalues" else drawn.share > 0.5
    return LbiResult(
        construction=construction,
        judged=judged,
        chosen=judged[order[is_chosen[order]]],
        share=drawn.share,
        e_values=drawn.e,
        W=drawn.W,
        entry=own.entry,
        path=own,
        near_zero=np.zeros(len(judged), dtype=bool) if slack is None else slack.near_zero,
        draws_asked=lbi.draws,
        draws_done=drawn.done,
        copies=copies,
        converged=own.converged and drawn.converged and (slack is None or slack.converged),
    )


def _design(answers: Answers, sums: Sums, construction: str, judged: Ints) -> FlipDesign | FixedDesign:
    if construction == "paper":
        return fixed_design(sums, judged)
    n_items, n_annotators = sums.pairs.shape[0], len(sums.counts)
    ridge = ridge_for(answers)
    return FlipDesign(answers, n_items=n_items, n_annotators=n_annotators, judged=judged, ridge=ridge)


def _own_path(design: FlipDesign | FixedDesign, path: str) -> Path:
    """Follow the annotators' own columns alone, for the evidence and the plots."""
    is_recorded = design.m <= MOST_RECORDED
    path = path if is_recorded else "marginal"
    if isinstance(design, FlipDesign):
        problem = design.own_problem(correlations_only=path == "marginal")
    else:
        problem = own_problem(design)
    return follow(problem, path, record=is_recorded and path != "marginal")


def _nothing(m: int) -> Draws:
    return Draws(np.zeros(m), np.zeros(m), np.zeros((0, m)))
