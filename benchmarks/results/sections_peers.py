"""The sections on error rate and power beside peers, broken assumptions, and speed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.results.claims import COMMON, against_peers, exponents
from benchmarks.results.markdown import join, paragraph, rate_text, table
from benchmarks.results.names import NAMES, WAYS
from benchmarks.results.plan import AGREEMENT, BY_HAND, SLOW_PEERS, SPEED_OURS, SPEED_PEERS
from benchmarks.results.summary import FAIL, LEAST_SETS, NOT_RUN, TOO_FEW, Results
from harness.breakers import BREAKERS
from harness.scenarios import AUDITED, EXTRA, Q, Scenario

FAST = ("evenhand", "lbi", "paper", *BY_HAND, "oracle")


def quality(results: Results) -> list[str]:
    """Every method on the crowds that all tables speak of."""
    return [
        "## Peers on the same data",
        paragraph(
            f"Share of false flags ± SE / share of the leaning found ± SE, at q = {Q}; {results.size.crowds} "
            "data sets unless "
            f"a cell says otherwise; bold: above q + 2 SE on at least {LEAST_SETS}. Every method sees the same "
            "data sets.",
            "The oracle knows the true scores, the noise and the strength of the lean, and does not know who "
            "leans or to "
            "which side.",
        ),
        _table(results, COMMON, FAST),
        "Slow peers, and NoisyBradleyTerry, which gives a ranking and no test: its k most biased, with k the "
        "true number.",
        _table(results, COMMON, SLOW_PEERS),
        _who_is_ahead(results),
        _adapters(results),
    ]


def breakers(results: Results) -> list[str]:
    """Crowds that break assumptions, those in which the exact list fails first."""
    chosen = (*BREAKERS, *EXTRA, *AUDITED)
    order = {FAIL: 0, TOO_FEW: 2, NOT_RUN: 3}
    ranked = sorted(chosen, key=lambda scenario: order.get(_word(results, scenario), 1))
    rows = []
    for scenario in ranked:
        texts = [_rate(results, scenario, method) for method in ("evenhand", "lbi", *BY_HAND)]
        rows.append([scenario.label, scenario.coins, _ways(results, scenario), *texts, _word(results, scenario)])
    head = (
        "crowd",
        "coins",
        "judged",
        "exact list",
        *(NAMES[method] for method in ("lbi", *BY_HAND)),
        "exact list's rate",
    )
    return [
        "## Broken assumptions",
        paragraph(
            "Share of false flags ± SE / share of the leaning found ± SE; false flags only where nobody leans.",
            f"{results.size.breakers} data sets each, {results.size.nulls} where nobody leans, {results.size.lbi} for "
            "knockoff LBI. What fails stands first.",
        ),
        table(head, rows),
    ]


def _word(results: Results, scenario: Scenario) -> str:
    rate = results.rate(scenario.name, "evenhand")
    return rate.word(is_null=scenario.is_null) if rate and rate.runs else NOT_RUN


def _ways(results: Results, scenario: Scenario) -> str:
    result = results.get(f"quality-{scenario.name}-evenhand")
    return join([f"{WAYS[way]} {count}" for way, count in result["ways"].items()]) if result else NOT_RUN


def _rate(results: Results, scenario: Scenario, method: str) -> str:
    full = results.size.sets(scenario, method)
    rate = results.rate(scenario.name, method)
    return rate_text(rate, full_runs=full, with_power=not scenario.is_null, tests=method != "noisy-bt")


def _table(results: Results, scenarios: Sequence[Scenario], methods: Sequence[str]) -> str:
    rows = []
    for scenario in scenarios:
        runs = results.size.sets(scenario, "evenhand")
        texts = []
        for method in methods:
            rate = results.rate(scenario.name, method)
            texts.append(rate_text(rate, full_runs=runs, with_power=not scenario.is_null, tests=method != "noisy-bt"))
        rows.append([scenario.label, *texts])
    return table(("crowd", *(NAMES[method] for method in methods)), rows)


def _who_is_ahead(results: Results) -> str:
    rows = [row for row in against_peers(results) if row.runs >= LEAST_SETS]
    if not rows:
        return f"No peer has {LEAST_SETS} data sets yet, so that nothing is said about who is ahead."
    more = sum(row.gap > 2 * row.se + 1e-9 for row in rows)
    fewer = [row for row in rows if row.gap < -2 * row.se - 1e-9]
    names = join([f"{NAMES[row.peer]} in {row.scenario.name} ({-row.gap:.2f})" for row in fewer[:8]])
    return paragraph(
        f"Of {len(rows)} comparisons with a peer that holds its error rate on at least {LEAST_SETS} data sets, "
        "the exact list "
        f"finds more (beyond two standard errors of the paired difference) in {more}, fewer in {len(fewer)}: {names}."
    )


def _adapters(results: Results) -> str:
    parts = []
    for name in AGREEMENT:
        result = results.get(f"agreement-{name}")
        if result:
            fast, slow = np.mean(result["sizes"], axis=0)
            parts.append(f"{name} {np.mean(result['jaccard']):.2f} ({fast:.1f} and {slow:.1f} flagged)")
    return paragraph(
        "**How peers were run.** The logistic regression is our fast fit with likelihood-ratio tests; statsmodels fits "
        f"the same model with Wald tests, and the two lists agree to a Jaccard index of {join(parts)}: where "
        "annotators "
        "always click one side a Wald test has no power, so the fast one is the stronger peer.",
        "Exact sign flips test each annotator's residuals from the consensus by flipping signs coin by coin, "
        "all alike in "
        "weight. knockpy and statsmodels know no unpenalised item scores, so they get the columns rotated out "
        "of the items' "
        "space (the paper's Remark 1), unit length, uncentred; knockpy with equicorrelated knockoffs and its "
        "LASSO path "
        "statistic, statsmodels with `CorrelationEffects` and its knockoff+ column.",
    )


def speed(results: Results) -> list[str]:
    """Seconds and memory by size, as ratios, and growth."""
    sizes = results.size.speed_sizes
    rows = [[NAMES[method], *(_timed(results, m, method) for m in sizes)] for method in (*SPEED_OURS, *SPEED_PEERS)]
    return [
        "## Speed and memory",
        paragraph(
            "m annotators with about 30 answers each on 200 items; every case in a process of its own, one at "
            "a time, after "
            "one small call; seconds of the processor, how many times the exact decision's, and the peak memory of the "
            f"whole process; at most {results.size.speed_limit:.0f} s each."
        ),
        table(("method", *(f"m = {m:,}" for m in sizes)), rows),
        *_growth(results),
    ]


def _timed(results: Results, m: int, method: str) -> str:
    result, ours = results.get(f"speed-{m}-{method}"), results.get(f"speed-{m}-exact")
    if result is None or "reason" in result:
        return NOT_RUN if result is None else str(result["reason"])
    ratio = ""
    if method != "exact" and ours and "cpu" in ours:
        ratio = f" ({result['cpu'] / max(ours['cpu'], 1e-4):,.2g} ×)"
    return f"{seconds(result['cpu'])}{ratio}, {result['megabytes']:,.0f} MB"


def seconds(value: float) -> str:
    """Write seconds."""
    return f"{value:.{3 if value < 0.1 else 2 if value < 10 else 0}f} s"


def _growth(results: Results) -> list[str]:
    parts = []
    for axis, steps in results.size.growth.items():
        rows = []
        for method in ("exact", "lbi"):
            slope = exponents(results, method).get(axis)
            points = [results.get(f"growth-{axis}-{step}-{method}") for step in steps]
            name = "exact decision" if method == "exact" else "with knockoff LBI"
            rows.append([name, *map(_grown, points), "" if slope is None else f"{slope:.2f}"])
        parts += [f"**Growth in {axis}**", table((axis, *(f"{step:,}" for step in steps), "exponent"), rows)]
    note = "Annotators bring 30 answers each on 200 items; items grow at 100,000 answers of 300 people; answers of 300 "
    note += "people on 200 items. Exponent: slope of log time over log size, from a tenth of a second on."
    return [*parts, paragraph(note)]


def _grown(point: dict[str, Any] | None) -> str:
    if point is None or "reason" in point:
        return NOT_RUN if point is None else str(point["reason"])
    return f"{seconds(point['cpu'])}, {point['megabytes']:,.0f} MB"
