"""The pipeline in one readable page: statistics, audit, knockoffs, path, selection, refit, evidence."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fdr_core import evidence
from fdr_core._answer_table import AnswerTable
from fdr_core._options import Options
from fdr_core.audit import Audit, audit
from fdr_core.comparisons import Comparisons
from fdr_core.design import information_left, item_solver
from fdr_core.draws import (
    Construction,
    Draws,
    Fixed,
    Flipped,
    Flips,
    Levels,
    Progress,
    Resampled,
    Rule,
    run_draws,
    run_levels,
    two_pass_rss,
)
from fdr_core.guarantee import Guarantee, guarantee_of
from fdr_core.knockoffs.consensus import Consensus
from fdr_core.knockoffs.flip import RIDGE_PER_SHARING, FlipDesign, ridge_for
from fdr_core.knockoffs.paper import FixedDesign, fixed_design
from fdr_core.knockoffs.rows import JudgedRows
from fdr_core.paths import Path, follow
from fdr_core.ranking import Refit, order_changes, ranking_table, refit
from fdr_core.selection import e_bh, smallest_list
from fdr_core.statistics import Answers, SufficientStatistics

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Paths of more annotators are neither kept nor, where nothing depends on them, followed.
MOST_RECORDED = 2000


@dataclass(frozen=True)
class PathRecord:
    """The regularisation path of the annotators' own columns: ``gamma[k, j]`` at ``times[k]``."""

    times: Floats
    gamma: Floats
    annotators: NDArray[np.object_]


@dataclass(frozen=True, repr=False)
class Detection:
    """What `detect` found; see its documentation for the columns."""

    flagged: list[Any]
    annotators: pd.DataFrame
    ranking: pd.DataFrame
    order_changes: pd.DataFrame
    audit: Audit
    guarantee: Guarantee
    smallest_list: int
    parameters: Mapping[str, Any]
    path_record: PathRecord
    timings: Mapping[str, float] = field(default_factory=dict)

    def __repr__(self) -> str:
        found = f"{len(self.flagged)} of {len(self.annotators)} annotators flagged"
        return f"Detection({found}; construction {self.audit.construction}; {self.guarantee.kind})"

    def _repr_html_(self) -> str:
        """Show the verdict and the first rows in a notebook."""
        head: str = self.annotators.head(10).to_html(index=False, float_format="{:.3f}".format)
        return f"<p><b>{self!r}</b></p><p>{self.guarantee.sentence}</p>{head}"


def detect(
    data: Comparisons | SufficientStatistics,
    *,
    q: float = 0.1,
    method: str = "auto",
    path: str = "lbi",
    cut: str = "knockoff+",
    copies: int | None = None,
    draws: int = 21,
    seed: int = 0,
    sides: str = "audit",
    min_bias: float = 0.1,
    aggregate: str = "majority",
    variance: str | None = None,
    slack_solver: str = "auto",
    statistic: str = "auto",
    progress: Progress | None = None,
    clock: Callable[[], float] | None = None,
) -> Detection:
    """Find the annotators who click a side instead of judging.

    Parameters
    ----------
    data : Comparisons, or SufficientStatistics kept up to date by the caller.
    q : target false discovery rate, in (0, 1).
    method : "auto" lets the audit decide between "flip" (coin flips) and "paper" (fixed design).
    path : "lbi", "iss", "lasso" or "marginal": the path on which columns enter where ``statistic`` is "path", and the
        path that is recorded.
    cut : "knockoff+" (FDR) or "knockoff" (modified FDR).
    copies : knockoff copies per annotator; by default ``ceil(1/q)`` below 500 assessable annotators, else 5, up to 100
        in small teams where ``statistic`` is "likelihood", and 1 on the path of the paper's construction.
    draws : independent draws; an annotator is flagged when most of them select it. 1 is one plain draw.
    seed : seed of all draws.
    sides : "audit" (tested), "random" (the owner states that coins decided) or "not random".
    min_bias : smallest |bias| worth a flag.
    aggregate : "majority" of draws, or "evalues" (Ren and Barber 2023), which has a proof.
    variance : of the paper's construction: "plain" or "two-pass"; by default plain where "paper" was asked for.
    slack_solver : of the paper's construction: "auto", "coordinate" or "cvxpy".
    statistic : what orders annotators and their copies: "likelihood" (ratio of leaning to judging; finds more), or
        "path" (entry on the path, one race per annotator; proven for one draw and for e-values). "auto": likelihood for
        the majority of several draws, else path; path wherever ``method`` is "paper". With likelihood and sides that no
        coin decided, copies answer anew by a model of judging.
    progress : called with (draws done, draws in all).
    clock : seconds, for the ``timings`` of the result; without one they stay empty.

    Returns
    -------
    Detection
        ``flagged`` labels, strongest first; ``annotators`` table, worst first; ``ranking``; ``order_changes``;
        ``audit``; ``guarantee``; ``smallest_list``.

    Raises
    ------
    InputError, ConfigurationError, DesignError
    """
    options = Options(
        q, method, path, cut, copies, draws, seed, sides, min_bias, aggregate, variance, slack_solver, statistic
    )
    options.check()
    laps = _Laps(clock)
    table = AnswerTable.of(data)
    laps.take("statistics")
    verdict = audit(table.audit_input(), q=q, method=method, sides=sides)
    answers = table.answers.with_coin(verdict.coin)
    ridge = ridge_for(answers)
    judged = np.flatnonzero(verdict.assessable)
    laps.take("audit")
    n_copies = options.copies_for(verdict, len(answers))
    drawn, record = _judge(answers, table, verdict, options, judged, ridge, n_copies, progress)
    laps.take("draws")
    selected = judged[_aggregate(drawn, options)] if len(judged) else judged
    found = _settle_flags(answers, table, verdict, selected, ridge, min_bias)
    laps.take("refit")
    frame = _annotator_table(answers, table, verdict, found, drawn, record, judged)
    laps.take("evidence")
    return Detection(
        flagged=frame.loc[frame["flagged"], "annotator"].tolist(),
        annotators=frame,
        ranking=ranking_table(found.fit, table.sums, table.items),
        order_changes=order_changes(found.fit, table.items),
        audit=verdict,
        guarantee=guarantee_of(
            verdict,
            cut=cut,
            draws=draws,
            aggregate=aggregate,
            q=q,
            variance=options.variance_for(verdict),
            by_likelihood=options.by_likelihood,
        ),
        smallest_list=1 if options.by_likelihood else smallest_list(q, cut, n_copies),
        parameters=options.as_dict(n_copies, ridge),
        path_record=PathRecord(record.times, record.gamma, table.annotators[judged]),
        timings=laps.seconds,
    )


def _judge(
    answers: Answers,
    table: AnswerTable,
    verdict: Audit,
    options: Options,
    judged: Ints,
    ridge: float,
    copies: int,
    progress: Progress | None,
) -> tuple[Draws, Any]:
    """Draw knockoffs and select; also the path of the own columns, for the evidence and the plots."""
    n_items, m = len(table.items), len(table.annotators)
    design: FlipDesign | FixedDesign
    if verdict.construction == "paper":
        design = fixed_design(table.sums, judged)
    else:
        design = FlipDesign(answers, n_items=n_items, n_annotators=m, judged=judged, ridge=ridge)
    record = _record_path(design, options)
    if verdict.construction == "none" or not len(judged):
        return Draws(np.zeros(len(judged)), np.zeros(len(judged))), record
    rule = Rule(options.draw_level(), options.cut, options.draws, options.seed)
    if options.by_likelihood:
        levels: Levels
        if isinstance(design, FlipDesign):
            shares = verdict.shares_coins
            consensus = Consensus(answers, n_items=n_items, n_annotators=m, ridge=ridge, shares_coins=shares)
            levels = Flipped(consensus, design, copies=copies, seed=options.seed)
        else:
            shares = False  # no coin is used, so none can be shared
            consensus = Consensus(answers, n_items=n_items, n_annotators=m, ridge=RIDGE_PER_SHARING)
            levels = Resampled(consensus, JudgedRows.of(answers, judged, m), copies=copies, seed=options.seed)
        return run_levels(levels, rule, shares_coins=shares, progress=progress), record
    construction: Construction
    if isinstance(design, FlipDesign):
        construction = Flips(design, copies=copies, seed=options.seed, path=options.path)
    else:
        two_pass = options.variance_for(verdict) == "two-pass"
        rss = two_pass_rss(design, answers, table.sums, judged) if two_pass else None
        construction = Fixed(design, rss=rss, solver=options.slack_solver)
    return run_draws(construction, rule, path=options.path, progress=progress), record


def _record_path(design: FlipDesign | FixedDesign, options: Options) -> Path:
    """Follow the own columns alone; beyond `MOST_RECORDED`, where the path selects nobody, one look at all of them."""
    is_recorded = design.m <= MOST_RECORDED
    path = options.path if is_recorded or not options.by_likelihood else "marginal"
    problem = design.own_problem(correlations_only=path == "marginal")
    return follow(problem, path, record=is_recorded and path != "marginal")


def _aggregate(drawn: Draws, options: Options) -> NDArray[np.bool_]:
    return e_bh(drawn.e, options.q) if options.aggregate == "evalues" else drawn.share > 0.5


@dataclass(frozen=True)
class _Found:
    flagged: Ints
    fit: Refit
    theta_null: Floats
    bias: tuple[Floats, Floats, Floats]


def _settle_flags(
    answers: Answers, table: AnswerTable, verdict: Audit, selected: Ints, ridge: float, min_bias: float
) -> _Found:
    """Refit with the selected annotators; those whose bias is of no interest are let go and the rest is refitted."""
    sums = table.sums
    solver = item_solver(sums.laplacian, ridge=ridge)
    is_paper = verdict.construction == "paper"
    scores = item_solver(sums.laplacian) if is_paper else solver  # what the bias estimates take theta from
    information = information_left(sums, np.arange(len(table.annotators)), scores)
    theta_null = solver.solve(sums.Dy)

    def estimate(flagged: Ints) -> tuple[Refit, tuple[Floats, Floats, Floats]]:
        fit = refit(sums, flagged, fallback_ridge=ridge)
        theta = fit.theta if is_paper else solver.solve(sums.Dy - sums.B[:, flagged] @ fit.gamma)
        rows_share = information.copy()
        rows_share[flagged] = 1.0  # their bias is in the refit, which already accounts for the item scores
        return fit, evidence.bias_estimates(answers, theta, rows_share, len(table.annotators))

    fit, bias = estimate(selected)
    flagged = selected[np.abs(bias[0][selected]) >= min_bias]
    if len(flagged) < len(selected):
        fit, bias = estimate(flagged)
    return _Found(flagged, fit, theta_null, bias)


def _annotator_table(
    answers: Answers, table: AnswerTable, verdict: Audit, found: _Found, drawn: Draws, record: Any, judged: Ints
) -> pd.DataFrame:
    m = len(table.annotators)
    left, right, ties = evidence.counts_by_choice(answers, m)
    share, entry = np.zeros(m), np.zeros(m)
    share[judged], entry[judged] = drawn.share, record.entry
    is_flagged = np.zeros(m, dtype=bool)
    is_flagged[found.flagged] = True
    estimate, low, high = found.bias
    frame = pd.DataFrame(
        {
            "annotator": table.annotators,
            "comparisons": left + right + ties,
            "left": left,
            "right": right,
            "ties": ties,
            "bias": estimate,
            "bias_low": low,
            "bias_high": high,
            "entry": entry,
            "draw_share": share,
            "p_value": evidence.sign_flip_p_values(answers, found.theta_null, m),
            "match_ratio": evidence.match_ratio(answers, found.fit.theta, m),
            "verdict": _verdicts(is_flagged, left, right, verdict.assessable),
            "flagged": is_flagged,
            "more_needed": np.where(verdict.assessable, 0, verdict.more_needed),
            **_evidence_in_time(table),
        }
    )
    order = np.lexsort((np.arange(m), -entry, -share, ~verdict.assessable, ~is_flagged))
    return frame.iloc[order].reset_index(drop=True)


def _verdicts(is_flagged: NDArray[np.bool_], left: Ints, right: Ints, assessable: NDArray[np.bool_]) -> list[str]:
    """bad: flagged, always one side; ugly: flagged, mixed; good: not flagged."""
    one_side = (left == 0) | (right == 0)
    named = np.where(is_flagged, np.where(one_side, "bad", "ugly"), np.where(assessable, "good", "not assessable"))
    return [str(name) for name in named]


def _evidence_in_time(table: AnswerTable) -> dict[str, Any]:
    """First and last answer, median lead time, longest run; None where the data does not tell."""
    c, m = table.comparisons, len(table.annotators)
    nothing: list[float | None] = [None] * m
    timed, led = c is not None and c.time is not None, c is not None and c.lead_time is not None
    columns = {
        "first_seen": evidence.by_annotator(c.time, c.annotator, m, "min") if timed else nothing,  # type: ignore[union-attr,arg-type]
        "last_seen": evidence.by_annotator(c.time, c.annotator, m, "max") if timed else nothing,  # type: ignore[union-attr,arg-type]
        "median_lead_time": evidence.by_annotator(c.lead_time, c.annotator, m, "median") if led else nothing,  # type: ignore[union-attr,arg-type]
        "longest_run": evidence.longest_runs(c).tolist() if timed else nothing,  # type: ignore[arg-type]
    }
    return {name: pd.Series(values, dtype=object) for name, values in columns.items()}


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
