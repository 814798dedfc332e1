"""The pipeline in one readable page: statistics, audit, knockoffs, path, selection, refit, evidence."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fdr_core import evidence
from fdr_core._version import __version__
from fdr_core.audit import Audit, AuditInput, audit
from fdr_core.comparisons import Comparisons
from fdr_core.design import information_left, item_solver
from fdr_core.draws import Construction, Draws, Fixed, Flips, Progress, run_draws, run_levels, two_pass_rss
from fdr_core.errors import ConfigurationError, InputError
from fdr_core.guarantee import Guarantee, guarantee_of
from fdr_core.knockoffs.flip import FlipDesign, ridge_for
from fdr_core.knockoffs.paper import fixed_design
from fdr_core.knockoffs.slack import SOLVERS
from fdr_core.paths import PATHS, follow
from fdr_core.ranking import Refit, order_changes, ranking_table, refit
from fdr_core.selection import CUTS, e_bh, smallest_list
from fdr_core.statistics import Answers, SufficientStatistics, Sums, sum_answers

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

AGGREGATES = ("majority", "evalues")
VARIANCES = ("plain", "two-pass")
#: Below this many assessable annotators d = ceil(1/q) copies: a single one can be flagged, and lists differ less from
#: seed to seed (measured). Beyond, five: copies cost time, and long lists are steady anyway.
FEW_ANNOTATORS, COPIES_FOR_MANY = 500, 5
#: Paths of more annotators are neither kept nor, where nothing depends on them, followed.
MOST_RECORDED = 2000
STATISTICS = ("auto", "likelihood", "path")
#: Likelihood ratios are cheap: about this many copies per draw over all annotators make the count of false flags
#: steady, within a bound for one annotator and for all answers of all draws together.
COPIES_IN_ALL, MOST_COPIES, MOST_SIGNS = 10_000, 100, 50_000_000


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
    copies : knockoff copies per annotator for "flip"; by default ``ceil(1/q)`` below 500 assessable annotators, else 5,
        and up to 100 in small teams where ``statistic`` is "likelihood".
    draws : independent draws; an annotator is flagged when most of them select it. 1 is one plain draw.
    seed : seed of all draws.
    sides : "audit" (tested), "random" (the owner states that coins decided) or "not random".
    min_bias : smallest |bias| worth a flag.
    aggregate : "majority" of draws, or "evalues" (Ren and Barber 2023), which has a proof.
    variance : of the paper's construction: "plain" or "two-pass"; by default plain where "paper" was asked for.
    slack_solver : of the paper's construction: "auto", "coordinate" or "cvxpy".
    statistic : with "flip", what orders the columns: "likelihood" (ratio of leaning to judging; finds more), or "path"
        (entry on the path, one race per annotator; proven for one draw and for e-values). "auto": likelihood for the
        majority of several draws, else path. The paper's construction always takes the path.
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
    options = _Options(
        q, method, path, cut, copies, draws, seed, sides, min_bias, aggregate, variance, slack_solver, statistic
    )
    options.check()
    laps = _Laps(clock)
    table = _Table.of(data)
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
            by_likelihood=options.by_likelihood(verdict),
        ),
        smallest_list=1 if options.by_likelihood(verdict) else smallest_list(q, cut, n_copies),
        parameters=options.as_dict(verdict, n_copies, ridge),
        path_record=PathRecord(record.times, record.gamma, table.annotators[judged]),
        timings=laps.seconds,
    )


@dataclass(frozen=True)
class _Options:
    q: float
    method: str
    path: str
    cut: str
    copies: int | None
    draws: int
    seed: int
    sides: str
    min_bias: float
    aggregate: str
    variance: str | None
    slack_solver: str
    statistic: str

    def check(self) -> None:
        """Refuse values outside their range, naming the option."""
        _require(
            isinstance(self.q, (int, float)) and 0.0 < self.q < 1.0,
            "q",
            self.q,
            "a number between 0 and 1, such as 0.1",
        )
        _require(self.path in PATHS, "path", self.path, f"one of {', '.join(PATHS)}")
        _require(self.cut in CUTS, "cut", self.cut, f"one of {', '.join(CUTS)}")
        _require(_is_whole(self.draws) and self.draws >= 1, "draws", self.draws, "a whole number of at least 1")
        _require(
            self.copies is None or (_is_whole(self.copies) and self.copies >= 1),
            "copies",
            self.copies,
            "None or at least 1",
        )
        _require(_is_whole(self.seed) and self.seed >= 0, "seed", self.seed, "a whole number of at least 0")
        _require(
            isinstance(self.min_bias, (int, float)) and 0.0 <= self.min_bias <= 1.0,
            "min_bias",
            self.min_bias,
            "in [0, 1]",
        )
        _require(self.aggregate in AGGREGATES, "aggregate", self.aggregate, f"one of {', '.join(AGGREGATES)}")
        _require(
            self.variance in (None, *VARIANCES), "variance", self.variance, f"None or one of {', '.join(VARIANCES)}"
        )
        _require(self.slack_solver in SOLVERS, "slack_solver", self.slack_solver, f"one of {', '.join(SOLVERS)}")
        _require(self.statistic in STATISTICS, "statistic", self.statistic, f"one of {', '.join(STATISTICS)}")
        _require(
            self.statistic != "likelihood" or self.aggregate != "evalues",
            "statistic",
            self.statistic,
            "'path' or 'auto' with aggregate='evalues': e-values come from races on the path",
        )

    def by_likelihood(self, verdict: Audit) -> bool:
        """Whether columns are ordered by likelihood ratio instead of by entry on the path."""
        if verdict.construction == "paper" or self.statistic == "path":
            return False
        return self.statistic == "likelihood" or (self.aggregate == "majority" and self.draws > 1)

    def copies_for(self, verdict: Audit, n_answers: int) -> int:
        """Knockoff copies per annotator."""
        if verdict.construction == "paper":
            return 1
        n_judged = int(verdict.assessable.sum())
        least = math.ceil(1.0 / self.q - 1e-12) if n_judged < FEW_ANNOTATORS else COPIES_FOR_MANY
        if not self.by_likelihood(verdict):
            return self.copies or least
        affordable = MOST_SIGNS // max(1, n_answers * self.draws)
        return self.copies or max(least, min(COPIES_IN_ALL // max(1, n_judged), affordable, MOST_COPIES))

    def variance_for(self, verdict: Audit) -> str:
        """Which pooled variance the paper's construction uses."""
        return self.variance or ("plain" if self.method == "paper" else "two-pass")

    def draw_level(self) -> float:
        """Level of a single draw: half of q where e-values are averaged (Ren and Barber 2023)."""
        return self.q / 2.0 if self.aggregate == "evalues" else self.q

    def as_dict(self, verdict: Audit, copies: int, ridge: float) -> dict[str, Any]:
        """Everything needed to run the same detection again."""
        statistic = "likelihood" if self.by_likelihood(verdict) else "path"
        return {**self.__dict__, "statistic": statistic, "copies": copies, "ridge": ridge, "version": __version__}


@dataclass(frozen=True)
class _Table:
    """The answers with labels, without annotators and items that have no answers left."""

    answers: Answers
    sums: Sums
    annotators: NDArray[np.object_]
    items: NDArray[np.object_]
    statistics: SufficientStatistics
    skips: tuple[Ints, Ints, Floats]
    comparisons: Comparisons | None

    @classmethod
    def of(cls, data: Comparisons | SufficientStatistics) -> _Table:
        if not isinstance(data, (Comparisons, SufficientStatistics)):
            raise InputError(
                f"detect was given a {type(data).__name__}; expected Comparisons or SufficientStatistics: "
                "use Comparisons.from_frame for a DataFrame"
            )
        comparisons = data if isinstance(data, Comparisons) else None
        statistics = SufficientStatistics.from_comparisons(data) if isinstance(data, Comparisons) else data
        answers, sums = statistics.answers(), statistics.sums
        if not len(answers):
            raise InputError("there are no answers; expected at least one comparison")
        left, right, count = statistics.skips()
        annotators, items = statistics.annotators, statistics.items
        alive = sums.counts > 0
        shown = np.zeros(len(items), dtype=bool)
        shown[answers.left] = shown[answers.right] = True
        if not (alive.all() and shown.all()):
            who, what = np.cumsum(alive) - 1, np.cumsum(shown) - 1
            answers = answers.relabel(who, what)
            annotators, items = annotators[alive], items[shown]
            sums = sum_answers(answers, len(items), len(annotators))
            known = shown[left] & shown[right]
            left, right, count = what[left[known]], what[right[known]], count[known]
        return cls(answers, sums, annotators, items, statistics, (left, right, count), comparisons)

    def audit_input(self) -> AuditInput:
        return AuditInput(self.answers, self.sums, self.statistics.coin_source, self.skips, self.statistics.excluded)


def _judge(
    answers: Answers,
    table: _Table,
    verdict: Audit,
    options: _Options,
    judged: Ints,
    ridge: float,
    copies: int,
    progress: Progress | None,
) -> tuple[Draws, Any]:
    """Draw knockoffs and select; also the path of the own columns, for the evidence and the plots."""
    construction: Construction
    if verdict.construction == "paper":
        design = fixed_design(table.sums, judged)
        two_pass = options.variance_for(verdict) == "two-pass"
        rss = two_pass_rss(design, answers, table.sums, judged) if two_pass else None
        construction = Fixed(design, rss=rss, solver=options.slack_solver)
    else:
        flips = FlipDesign(
            answers, n_items=len(table.items), n_annotators=len(table.annotators), judged=judged, ridge=ridge
        )
        construction = Flips(flips, copies=copies, seed=options.seed, path=options.path)
    is_recorded = len(judged) <= MOST_RECORDED
    # beyond, and where the path selects nobody, the entry levels of all columns at once are evidence enough
    path = options.path if is_recorded or not options.by_likelihood(verdict) else "marginal"
    record = follow(construction.own_problem(), path, record=is_recorded and path != "marginal")
    if verdict.construction == "none" or not len(judged):
        return Draws(np.zeros(len(judged)), np.zeros(len(judged))), record
    if options.by_likelihood(verdict):
        return run_levels(
            flips,
            shares_coins=verdict.shares_coins,
            copies=copies,
            q=options.q,
            cut=options.cut,
            draws=options.draws,
            seed=options.seed,
            progress=progress,
        ), record
    drawn = run_draws(
        construction,
        path=options.path,
        q=options.draw_level(),
        cut=options.cut,
        draws=options.draws,
        seed=options.seed,
        progress=progress,
    )
    return drawn, record


def _aggregate(drawn: Draws, options: _Options) -> NDArray[np.bool_]:
    return e_bh(drawn.e, options.q) if options.aggregate == "evalues" else drawn.share > 0.5


@dataclass(frozen=True)
class _Found:
    flagged: Ints
    fit: Refit
    theta_null: Floats
    bias: tuple[Floats, Floats, Floats]


def _settle_flags(
    answers: Answers, table: _Table, verdict: Audit, selected: Ints, ridge: float, min_bias: float
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
    answers: Answers, table: _Table, verdict: Audit, found: _Found, drawn: Draws, record: Any, judged: Ints
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


def _evidence_in_time(table: _Table) -> dict[str, Any]:
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


def _require(holds: bool, name: str, seen: Any, expected: str) -> None:
    if not holds:
        raise ConfigurationError(f"{name} was {seen!r}; expected {expected}")


def _is_whole(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


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
