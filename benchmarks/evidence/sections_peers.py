"""The sections on peers: error rate and power, the gap to the oracle, the audit, speed and memory."""

from __future__ import annotations

import numpy as np

from benchmarks.evidence.markdown import NOT_RUN, figure, join, paragraph, rate_text, table
from benchmarks.evidence.plan import AGREEMENT, GAP, SPEED_OURS, SPEED_PEERS, full_runs
from benchmarks.evidence.scenarios import AUDITED, EXTRA, LARGE, SMALL, Q
from benchmarks.evidence.summary import Evidence, Rate
from benchmarks.evidence.verdicts import PEERS, ROUTES, gap_rows, peers_ahead, speed_ratio

NAMES = {
    "evenhand": "Evenhand",
    "one-draw": "Evenhand, one draw",
    "paper": "the paper, knockoff+",
    "binomial": "binomial + BH",
    "glm": "logistic GLM + BH",
    "statsmodels-glm": "statsmodels GLM",
    "noisy-bt": "NoisyBradleyTerry, top k",
    "knockpy": "knockpy, fixed X",
    "statsmodels-knockoff": "statsmodels knockoff",
    "paper-dense": "the paper, dense",
    "oracle": "oracle",
    "paper-draw": "the paper from statistics, one draw",
}
FAST = ("evenhand", "one-draw", "paper", "binomial", "glm", "oracle")
SLOW = ("knockpy", "statsmodels-knockoff", "paper-dense", "noisy-bt")


#: The scenarios and methods of the short table, as they are called there.
SHORT = {
    "team-30": "30 annotators, 5 lean",
    "team-12": "12 annotators, 2 lean",
    "team-null": "12 annotators, nobody leans",
    "H1": "300 annotators, 45 lean",
    "H7": "300 annotators, 90 bots",
    "unique-pairs": "unique pairs, one order for all",
    "H8": "better item left in 80 % of tasks",
}
SHORT_METHODS = ("binomial", "glm", "paper", "evenhand", "oracle")


def in_short(evidence: Evidence) -> list[str]:
    """The comparison in one small table."""
    rows = []
    for scenario, label in SHORT.items():
        rates = [evidence.rate(scenario, method) for method in SHORT_METHODS]
        rows.append([label, *(_short(rate, with_power=scenario != "team-null") for rate in rates)])
    return [
        "## How it compares, in short",
        paragraph(f"Share of false flags / share of the leaning found, at q = {Q}; bold: above q + 3 SE."),
        table(("scenario", *(NAMES[method] for method in SHORT_METHODS)), rows),
    ]


def _short(rate: Rate | None, *, with_power: bool) -> str:
    if rate is None:
        return NOT_RUN
    if rate.reason:
        return "cannot judge"
    values = [rate.fdr, rate.mean_power] if with_power else [rate.fdr]
    texts = [f"{value:.2f}".removeprefix("0") if value >= 0.005 else "0" for value in values]
    return " / ".join([texts[0] if rate.holds else f"**{texts[0]}**", *texts[1:]])


def quality(evidence: Evidence) -> list[str]:
    """Error rate and power on the same data sets."""
    size = evidence.size
    return [
        "## Peers on the same data",
        paragraph(
            f"Share of false flags ± SE / share of the leaning found ± SE, at q = {Q}; {size.large} data sets per large "
            f"crowd ({size.gap} in {join(GAP)}) and {size.small} per small team unless a cell says otherwise; bold: above q + 3 SE.",
            "Every method sees the same data sets.",
            "The oracle knows the true scores, the noise and the strength of the lean, and does not know who leans or to "
            "which side.",
        ),
        _quality_table(evidence, FAST),
        "Slow peers, and NoisyBradleyTerry, which gives a ranking and no test: its k most biased, with k the true number.",
        _quality_table(evidence, SLOW),
        figure("power.svg", "Share of the leaning found by scenario; hollow: error rate above q + 3 SE."),
        _who_is_ahead(evidence),
        _adapters(evidence),
    ]


def _quality_table(evidence: Evidence, methods: tuple[str, ...]) -> str:
    rows = []
    for scenario in (*LARGE, *SMALL):
        full = full_runs(evidence.size, scenario)
        has_power = scenario.name != "team-null"
        texts = [
            rate_text(
                evidence.rate(scenario.name, method),
                full_runs=full,
                with_power=has_power,
                tests=method != "noisy-bt",
            )
            for method in methods
        ]
        rows.append([scenario.label, *texts])
    return table(("scenario", *(NAMES[method] for method in methods)), rows)


def _who_is_ahead(evidence: Evidence) -> str:
    rows = peers_ahead(evidence)
    if not rows:
        return NOT_RUN
    clear = [row for row in rows if row[2] < -2 * row[3]]
    best = [row for row in rows if row[2] > 2 * row[3]]
    worst = join([f"{NAMES[peer]} in {name} ({-gap:.2f})" for name, peer, gap, _ in clear[:8]])
    failing = [
        f"{NAMES[peer]} in {scenario.name} ({rate.fdr:.2f})"
        for scenario in (*LARGE, *SMALL)
        for peer in PEERS
        if (rate := evidence.rate(scenario.name, peer)) and not rate.reason and not rate.holds
    ]
    return paragraph(
        f"Of {len(rows)} comparisons with a peer that holds its error rate, Evenhand finds clearly more (beyond two "
        f"standard errors of the paired difference) in {len(best)}, clearly fewer in {len(clear)}: {worst}.",
        f"Peers whose error rate does not hold: {join(failing)}.",
    )


def _adapters(evidence: Evidence) -> str:
    parts = []
    for name in AGREEMENT:
        result = evidence.get(f"agreement-{name}")
        if result:
            fast, slow = np.mean(result["sizes"], axis=0)
            parts.append(f"{name} {np.mean(result['jaccard']):.2f} ({fast:.1f} and {slow:.1f} flagged)")
    return paragraph(
        "**How peers were run.** The logistic regression is our fast fit with likelihood-ratio tests; statsmodels fits "
        f"the same model with Wald tests, and the two lists agree to a Jaccard index of {join(parts)}: where annotators "
        "always click one side a Wald test has no power, so the fast one is the stronger peer.",
        "knockpy and statsmodels know no unpenalised item scores, so they get the columns rotated out of the items' "
        "space (the paper's Remark 1), unit length, uncentred; knockpy with equicorrelated knockoffs and its LASSO path "
        "statistic, statsmodels with `CorrelationEffects` and its knockoff+ column.",
        "crowd-kit 1.4's gradient keeps only the last answer of each worker for skill and bias, which may explain its "
        "ranking.",
    )


def oracle_gap(evidence: Evidence) -> list[str]:
    """How far the best possible is."""
    rows = []
    for row in gap_rows(evidence):
        first, closed, now, best = row["first"], row["closed"], row["now"], row["oracle"]
        rows.append(
            [
                row["scenario"].label,
                "" if first is None else f"{first:.3f}",
                f"{now.mean_power:.3f} ± {now.power_se:.3f}",
                f"{best.mean_power:.3f} ± {best.power_se:.3f}",
                "" if closed is None else f"{100 * closed:.0f} %",
            ]
        )
    return [
        "### The gap to the oracle",
        paragraph(
            "Share of the leaning found: by the version of the first run, now, and by the oracle (likelihood ratios with "
            f"everything known, the largest list whose expected share of false flags is {Q})."
        ),
        table(("scenario", "first run", "Evenhand", "oracle", "gap closed"), rows) if rows else NOT_RUN,
    ]


def audit(evidence: Evidence) -> list[str]:
    """Designs outside the theorem: what the audit does."""
    rows = []
    for scenario in (*LARGE, *SMALL, *EXTRA, *AUDITED):
        result, rate = evidence.get(f"quality-{scenario.name}-evenhand"), evidence.rate(scenario.name, "evenhand")
        if result is None or rate is None or (scenario.coins == "own" and scenario not in EXTRA):
            continue
        routes = ", ".join(
            f"{ROUTES[route]} {count} of {rate.runs}" for route, count in result["constructions"].items()
        )
        power = f"{rate.mean_power:.2f}" if result["biased"] else "nobody leans"
        rows.append([scenario.label, scenario.coins, routes, f"{rate.fdr:.3f} ± {rate.fdr_se:.3f}", power])
    head = ("design", "coins", "judged", "false flags", "found")
    return ["### Shared coins, and sides that were not random", table(head, rows) if rows else NOT_RUN]


def speed(evidence: Evidence) -> list[str]:
    """Seconds and memory by size."""
    sizes = evidence.size.speed_sizes
    rows = []
    for method in (*SPEED_OURS, *SPEED_PEERS):
        rows.append([NAMES[method], *(_speed_text(evidence.get(f"speed-{m}-{method}")) for m in sizes)])
    ratio, whole = speed_ratio(evidence, "paper-draw"), speed_ratio(evidence, "evenhand")
    said = ""
    if ratio is not None and whole is not None:
        said = (
            f"At m = 600 one draw of the paper's knockoffs with its LASSO path is {ratio:,.0f} times faster from "
            f"statistics than by knockpy, and all of `detect` is {whole:,.1f} times faster than knockpy's one draw."
        )
    return [
        "## Speed and memory",
        paragraph(
            f"m annotators with about 30 answers each on 200 items; every case in a process of its own, after one small "
            f"call; seconds, and the peak memory of the whole process; at most {evidence.size.speed_limit:.0f} s each, "
            "two at a time on two cores."
        ),
        table(("method", *(f"m = {m:,}" for m in sizes)), rows),
        figure("speed.svg", "Seconds by number of annotators."),
        paragraph(said),
    ]


def _speed_text(result: dict[str, float | str] | None) -> str:
    if result is None:
        return NOT_RUN
    if "reason" in result:
        return str(result["reason"])
    seconds = float(result["seconds"])
    digits = 3 if seconds < 0.1 else 2 if seconds < 10 else 0
    return f"{seconds:.{digits}f} s, {float(result['megabytes']):.0f} MB"
