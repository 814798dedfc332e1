"""Knockoff LBI in one call, the paper's method: many draws of copies, a race per annotator on the path, who wins."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from fdr_core.answers import Answers, Sums
from fdr_core.design import ridge_for
from fdr_core.paper.draws import Budget, Draws, Fixed, Flips, Progress, Rule, run_draws, two_pass_rss
from fdr_core.paper.fixed import own_problem
from fdr_core.paper.flip import FlipDesign
from fdr_core.paper.paths import Path, follow
from fdr_core.paper.slack import Slack
from fdr_core.projection import FixedDesign, fixed_design
from fdr_core.selection import e_bh
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
    selected : codes selected in more than half of the draws, largest share first, then by level.
    selected_by_e_values : codes selected by e-BH at q, from draws at q/2 (Ren and Barber 2024), in the same order.
    share : (m,) share of draws that selects each.
    e_values : (m,) average e-value.
    W : (draws done, m) level of the race, positive where the own column entered first, 0 where undecided.
    entry : (m,) level at which each own column enters a path without copies, 0 where it does not.
    path : the path without copies, recorded up to 2,000 annotators.
    near_zero : (m,) whose copy is so much like them that no draw can select them; nothing follows from their share.
    converged : all paths and the slack's solver came to their end.
    """

    construction: str
    judged: Ints
    selected: Ints
    selected_by_e_values: Ints
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

    @property
    def n_slack_near_zero(self) -> int:
        """How many cannot be selected by construction."""
        return int(self.near_zero.sum())


def copies_for(n_judged: int, q: float, construction: str) -> int:
    """Copies per annotator where nobody asked for a number; the paper's construction has one."""
    if construction == "paper":
        return 1
    return math.ceil(1.0 / q - 1e-12) if n_judged < FEW_ANNOTATORS else COPIES_FOR_MANY


def run_lbi(
    *,
    answers: Answers,
    sums: Sums,
    construction: str,
    judged: Ints,
    q: float = 0.1,
    cut: str = "knockoff+",
    draws: int = 21,
    seed: int = 0,
    path: str = "lbi",
    copies: int | None = None,
    variance: str = "plain",
    slack_solver: str = "auto",
    of_interest: Mask | None = None,
    budget: float = math.inf,
    clock: Callable[[], float] | None = None,
    progress: Progress | None = None,
) -> LbiResult:
    """Draw knockoffs, follow the path, select, again and again; the majority of draws is the list.

    Parameters
    ----------
    answers : all answers, with the coins as the audit uses them.
    sums : their sums.
    construction : "flip" (coins flipped anew), "paper" (fixed design) or "none", as the audit decided.
    judged : codes of the annotators that take part; the answers of the others still inform theta.
    q, cut, draws, seed, path, copies : as in `detect`; ``copies`` only with "flip".
    variance : of the paper's construction, "plain" or "two-pass".
    slack_solver : of the paper's construction, see `slack`.
    of_interest : (judged,) whose bias is large enough for a flag, see `Rule`; everybody's by default.
    budget : seconds by ``clock`` for everything here; at least one draw is made. What a draw says does not depend on
    the budget, but how many fit does: give none where two calls must agree.
    clock : returns seconds; without one the budget has no effect.
    progress : called with (draws done, draws asked).

    Returns
    -------
    LbiResult

    Raises
    ------
    DesignError
        For the paper's construction on a design that does not allow it.

    References
    ----------
    Xu, Xiong, Cao, Yao (2016), False discovery rate control and statistical quality assessment of annotators in
    crowdsourced ranking.
    """
    limit = Budget(budget, clock)
    design = _design(answers, sums, construction, judged)
    own = _own_path(design, path)
    copies = copies_for(len(judged), q, construction) if copies is None or construction == "paper" else copies
    drawn, slack = _nothing(len(judged)), None
    if construction != "none" and len(judged) and draws:
        made: Flips | Fixed
        if isinstance(design, FlipDesign):
            made = Flips(design, copies=copies, seed=seed, path=path)
        else:
            rss = two_pass_rss(design, answers, sums, judged) if variance == "two-pass" else None
            made = Fixed(design, rss=rss, solver=slack_solver)
            slack = made.slack
        rule = Rule(q, cut, draws, seed, e_rate=q / 2.0, of_interest=of_interest)
        drawn = run_draws(made, rule, path=path, progress=progress, budget=limit)
    return _result(construction, judged, q=q, own=own, drawn=drawn, slack=slack, asked=draws, copies=copies)


def _result(
    construction: str, judged: Ints, *, q: float, own: Path, drawn: Draws, slack: Slack | None, asked: int, copies: int
) -> LbiResult:
    order = np.lexsort((np.arange(len(judged)), -own.entry, -drawn.share))
    return LbiResult(
        construction=construction,
        judged=judged,
        selected=judged[order[drawn.share[order] > 0.5]],
        selected_by_e_values=judged[order[e_bh(drawn.e, q)[order]]],
        share=drawn.share,
        e_values=drawn.e,
        W=drawn.W,
        entry=own.entry,
        path=own,
        near_zero=np.zeros(len(judged), dtype=bool) if slack is None else slack.near_zero,
        draws_asked=asked,
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
