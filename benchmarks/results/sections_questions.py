"""How the page opens: what a reader asks, each answered by sentences made of numbers and one figure."""

from __future__ import annotations

import numpy as np

from benchmarks.results.claims import BELOW_LIMIT, against_peers, claims, exponents, failing, rated, speed_ratio
from benchmarks.results.markdown import figure, join, paragraph, table
from benchmarks.results.names import NAMES
from benchmarks.results.plan import BY_HAND, SETTLED
from benchmarks.results.summary import FAIL, LEAST_SETS, NOT_RUN, PASS, TOO_FEW, Rate, Results
from harness.breakers import CROWDS
from harness.scenarios import Q

#: The crowds and methods of the short table, as they are called there.
SHORT = {
    "team-30": "30 annotators, 5 lean",
    "team-12": "12 annotators, 2 lean",
    "team-null": "12 annotators, nobody leans",
    "H1": "300 annotators, 45 lean",
    "H7": "300 annotators, 90 bots",
    "unique-pairs": "unique pairs, one order for all",
    "H8": "better item left in 80 % of tasks",
}
SHORT_METHODS = ("binomial", "glm", "paper", "lbi", "evenhand", "oracle")


def questions(results: Results) -> list[str]:
    """Give the four questions, then the table of claims."""
    return [
        *_rate(results),
        *_by_hand(results),
        *_fails(results),
        *_speed(results),
        *_claims(results),
        *_choices(results),
    ]


def _rate(results: Results) -> list[str]:
    words = [(rate.word(is_null=scenario.is_null), scenario) for scenario, rate in rated(results)]
    held, failed, unknown = (sum(word == w for w, _ in words) for word in (PASS, FAIL, TOO_FEW))
    rates = [rate.fdr for _, rate in rated(results)]
    seen = f"Over {len(words)} kinds of crowd {_share(rates)}; " if rates else ""
    return [
        "## Does it hold its rate?",
        paragraph(
            f"{seen}at most q + 2 SE (q = {Q}) in {held}, more in {failed}; in {unknown} there are too few "
            "data sets to say "
            f"(at least {LEAST_SETS}, and a standard error of at most {SETTLED['report']['largest_se']} where "
            "nobody leans)."
        ),
        figure(
            "rate.svg",
            "Share of false flags of the exact list by kind of crowd, with two standard errors; the line is q.",
        ),
    ]


def _share(rates: list[float]) -> str:
    return f"the share of false flags is {np.mean(rates):.3f} on average and {max(rates):.3f} at most"


def _by_hand(results: Results) -> list[str]:
    said = []
    for peer in (*BY_HAND, "lbi"):
        rows = [row for row in against_peers(results, (peer,)) if row.runs >= LEAST_SETS]
        if rows:
            more = sum(row.gap > 3 * row.se + 1e-9 for row in rows)
            fewer = sum(row.gap < -3 * row.se - 1e-9 for row in rows)
            mean = np.mean([row.gap for row in rows])
            said.append(
                f"Beside {NAMES[peer]}, in {len(rows)} crowds where that holds its rate: clearly more (3 SE) "
                f"in {more}, "
                f"clearly fewer in {fewer}, {mean:+.2f} of the leaning on average."
            )
    too_few = "Too few data sets to compare what is found." if against_peers(results) else NOT_RUN
    return [
        "## Does it find more than what I would do by hand?",
        paragraph(*(said or [too_few])),
        _in_short(results),
        figure("power.svg", "Share of the leaning found by kind of crowd; hollow: error rate above q + 2 SE."),
    ]


def _in_short(results: Results) -> str:
    """Share of false flags and of the leaning found, in one small table."""
    rows = [
        [label, *(_short(results.rate(name, method), with_power=name != "team-null") for method in SHORT_METHODS)]
        for name, label in SHORT.items()
    ]
    bold = f"bold: above q + 2 SE on at least {LEAST_SETS} data sets"
    head = f"Share of false flags / share of the leaning found, q = {Q}; {bold}."
    return f"{head}\n\n{table(('crowd', *(NAMES[method] for method in SHORT_METHODS)), rows)}"


def _short(rate: Rate | None, *, with_power: bool) -> str:
    if rate is None or rate.reason:
        return NOT_RUN if rate is None else "cannot judge"
    values = [rate.fdr, rate.mean_power] if with_power else [rate.fdr]
    texts = [f"{value:.2f}".removeprefix("0") if value >= 0.005 else "0" for value in values]
    return " / ".join([texts[0] if rate.holds or not rate.is_enough else f"**{texts[0]}**", *texts[1:]])


def _fails(results: Results) -> list[str]:
    own = [
        f"* **{scenario.label}**: a share of {rate.fdr:.2f} (SE {rate.fdr_se:.2f}) of its flags is false."
        for scenario, rate in failing(results)
    ]
    blind = [
        f"{scenario.label} ({rate.mean_power:.2f})"
        for scenario, rate in rated(results)
        if not scenario.is_null and scenario.name not in BELOW_LIMIT and rate.is_enough and rate.mean_power < 0.3
    ]
    behind = [
        f"* **{row.scenario.label}**: {NAMES[row.peer]} finds {-row.gap:.2f} more of the leaning (SE {row.se:.2f})."
        for row in against_peers(results)
        if row.runs >= LEAST_SETS and row.gap < -3 * row.se - 1e-9
    ]
    others = [
        f"{NAMES[peer]} in {len(found)} ({join([f'{s.name} {rate.fdr:.2f}' for s, rate in found[:4]])}"
        f"{', …' if len(found) > 4 else ''})"
        for peer in (*BY_HAND, "lbi")
        if (found := failing(results, peer))
    ]
    judged = sum(rate.is_enough for _, rate in rated(results))
    if not judged:
        return ["## Where does it fail?", "Too few data sets to say.", _fails_figure()]
    return [
        "## Where does it fail?",
        "\n".join(own) or f"In none of the {judged} kinds of crowd with enough data sets is its rate above q + 2 SE.",
        "\n".join(behind) or "Nowhere does a method that holds its rate find clearly more.",
        paragraph(
            f"Less than three tenths of the leaning are found in: {join(blind)}.",
            f"Not counted: {join([CROWDS[name].label for name in BELOW_LIMIT])}, since leans below the smallest bias "
            "worth a flag (.1) are not to be flagged; the peers know no such limit.",
            f"Where the others fail: {'; '.join(others)}." if others else "",
        ),
        _fails_figure(),
    ]


def _fails_figure() -> str:
    return figure(
        "fails.svg", "Share of false flags where assumptions are broken: the exact list, and what one would do by hand."
    )


def _speed(results: Results) -> list[str]:
    said = []
    for peer in ("knockpy", "statsmodels-knockoff", "paper-dense", "statsmodels-glm", "glm"):
        ratio, lbi = speed_ratio(results, "exact", peer), speed_ratio(results, "lbi", peer)
        if ratio and lbi:
            said.append(
                f"{NAMES[peer]} takes {_times(ratio)} the processor time of the exact decision and "
                f"{_times(lbi)} of both lists"
            )
    found, memory = exponents(results), _memory(results)
    growth = ", ".join(f"{axis} {slope:.2f}" for axis, slope in found.items())
    return [
        "## How fast is it?",
        paragraph(
            f"At 600 annotators with 30 answers each: {'; '.join(said)}." if said else NOT_RUN,
            f"Exponents of growth of the exact decision: {growth}." if growth else "",
            memory,
        ),
        figure("speed.svg", "Processor seconds by number of annotators, 30 answers each."),
    ]


def _times(ratio: float) -> str:
    return f"{ratio:,.0f} times" if ratio >= 10 else f"{ratio:.1f} times"


def _memory(results: Results) -> str:
    steps = results.size.growth["answers"]
    known = [
        (step, point) for step in steps if (point := results.get(f"growth-answers-{step}-exact")) and "cpu" in point
    ]
    if not known:
        return ""
    step, point = known[-1]
    return f"{step:,} answers take {point['cpu']:.1f} s and {point['megabytes']:,.0f} MB at the peak."


def _claims(results: Results) -> list[str]:
    rows = [[claim.text, claim.seen, f"**{claim.word}**"] for claim in claims(results)]
    return ["## What is claimed", table(("claim", "seen", "said"), rows)]


def _choices(results: Results) -> list[str]:
    tuning, report, tuned = SETTLED["tuning"], SETTLED["report"], SETTLED["tuned"]
    total = sum(row["settings"] for row in tuned)
    return [
        "## Choices before looking",
        paragraph(
            "The numbers of data sets and their seeds stand in `benchmarks/results/plan.toml`, committed "
            "before the run.",
            f"From now on settings are compared on data sets {tuning['first']} to {tuning['last']}; the tables "
            "report on "
            f"{report['first']:,} to {report['last']:,} only, whose numbers no setting was chosen on.",
            f"At least {total} settings were tried in all:",
        ),
        table(("choice", "settings tried, at least"), [[row["choice"], str(row["settings"])] for row in tuned]),
    ]
