"""docs/results.md: one page that a sceptic reads first, from the records of `first`; nothing on it is typed by hand."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.results import first
from benchmarks.results.markdown import join, paragraph, table
from benchmarks.results.names import NAMES
from benchmarks.results.real_data import PAPERS
from benchmarks.results.render import PAGES
from benchmarks.results.summary import Rate, paired_difference
from harness.premises import EVERY
from harness.scenarios import Q, Scenario

Records = dict[str, Any]
#: What is promised for a design, and the designs.
DESIGNS = {
    "own": "a coin for every answer of everybody, or both orders",
    "shared": "one order per task for everybody",
    "not random": "no coin, or hardly any",
}
PROMISED = {
    "own": "proven where recorded, else proven if sides were assigned by chance",
    "shared": "measured; the part with a proof is told beside",
    "not random": "measured, or refused",
}
#: Crowds whose leans are below the smallest one worth a flag.
BELOW_LIMIT = ("mild-08",)
SETS = {
    "reife_mtbench": "277 LLM judges on MT-Bench",
    "llmbar_features": "46 LLM judges on LLMBar",
    "prd_both_orders": "4 LLM judges",
    "worldcollege": "WorldCollege, the paper's list",
    "humanage": "Human Age, the paper's list",
    "iqa_ref1": "image quality, the paper's list",
}
METHODS = ("binomial", "glm", "storey", "lbi", "evenhand", "oracle")


def page(records: Records) -> str:
    """The whole page."""
    results = {name: record["result"] for name, record in records.items()}
    parts = ["# Results", _fails(results), _answers(results), _held(results), _found(results), _costs(results)]
    parts += [_gains(results), _small_print(records)]
    return "\n\n".join(part for part in parts if part) + "\n"


def rates(results: Records, method: str = "evenhand") -> dict[str, Rate]:
    """Error rate and power by crowd."""
    found = {}
    for name in EVERY:
        result = results.get(f"{name}-{method}")
        if result and not result.get("reason"):
            found[name] = Rate(np.array(result["fdp"]), np.array(result["power"]))
    return found


def _fails(results: Records) -> str:
    """The failures, first: where the rate is not held, what is not found, who finds more."""
    ours = rates(results)
    above = [
        f"{EVERY[name].label} {_number(rate.fdr)} (SE {rate.fdr_se:.2f})"
        for name, rate in ours.items()
        if not rate.holds
    ]
    missed = [
        f"{EVERY[name].label} {_number(rate.mean_power)}"
        for name, rate in ours.items()
        if not EVERY[name].is_null and name not in BELOW_LIMIT and rate.mean_power < 0.5
    ]
    ahead = []
    for name in first.FOUND:
        for method in first.BESIDE:
            peer = rates(results, method).get(name)
            if peer is None or not peer.holds or name not in ours:
                continue
            gap, se = paired_difference(ours[name], peer)
            if gap < -2 * se - 1e-9:
                ahead.append(f"{NAMES[method]} where {EVERY[name].label} (by {-gap:.2f}, SE {se:.2f})")
    return "\n".join(
        (
            "**What fails, first.**",
            f"* More false flags than q = {Q} + 2 SE: {join(above)} (of {len(ours)} kinds of crowd).",
            f"* Less than half of the leaning found: {join(missed)}.",
            f"* A method that holds its rate finds more: {join(ahead)}.",
        )
    )


def _answers(results: Records) -> str:
    """Five questions, a line each."""
    by_design = {
        coins: [rate for name, rate in rates(results).items() if EVERY[name].coins == coins] for coins in DESIGNS
    }
    mean = {coins: _number(float(np.mean([rate.fdr for rate in found]))) for coins, found in by_design.items() if found}
    proven = [
        f"{result['judges']} judges {_number(_mean(result, 'proven') / max(_mean(result, 'evenhand'), 1e-9))}"
        for name in ("reife_mtbench", "llmbar_features")
        if (result := results.get(f"once-{name}-shared"))
    ]
    costs = results.get("cost-1000000-exact", {})
    return "\n".join(
        (
            "* **Is it proven for my design?** With recorded coins of everybody's own, or both orders: yes; there "
            f"false flags are {mean.get('own')} of a list, on average over crowds. With one order for all, or no coin: "
            f"measured, {mean.get('shared')} and {mean.get('not random')}.",
            "* **What if one order for all?** The list is measured; of its names, this share holds with a proof: "
            f"{join(proven)}.",
            "* **What does it miss?** Leans below .1 (a filter), people with fewer than six coins, and the above.",
            "* **What do peers do better?** The third line above; a logistic regression costs less on small crowds.",
            f"* **What does it cost?** A million answers {_seconds(costs)}, no model, nothing from outside.",
        )
    )


def _held(results: Records) -> str:
    rows = []
    for coins, label in DESIGNS.items():
        for is_null in (True, False):
            some = {name: rate for name, rate in rates(results).items() if _is(EVERY[name], coins, is_null)}
            if not some:
                continue
            worst = max(some, key=lambda name: some[name].fdr)
            runs = [rate.runs for rate in some.values()]
            rows.append(
                [
                    f"{label}; {'nobody leans' if is_null else 'some lean'}",
                    str(len(some)),
                    f"{min(runs)} to {max(runs)}",
                    _number(float(np.mean([rate.fdr for rate in some.values()])), 3),
                    f"{_number(some[worst].fdr, 3)} (SE {some[worst].fdr_se:.3f}), {EVERY[worst].label}",
                    PROMISED[coins],
                ]
            )
    for name, cell in (("nobody leans", "lasting-10-0"), ("12 of 40 lean", "lasting-10-12")):
        if result := results.get(cell):
            measured = result["methods"]["persistent"]
            rate = Rate(np.array(measured["fdp"]), np.array(measured["power"]))
            rows.append(
                [
                    f"lasting flags over ten runs; {name}",
                    "1",
                    str(rate.runs),
                    _number(rate.fdr, 3),
                    "",
                    "proven with own coins",
                ]
            )
    head = ("who decided the sides", "crowds", "data sets", "mean rate", "highest", "promised")
    return f"## Is the rate held? (q = {Q})\n\n" + table(head, rows)


def _is(crowd: Scenario, coins: str, is_null: bool) -> bool:
    return crowd.coins == coins and crowd.is_null == is_null


def _found(results: Records) -> str:
    rows = []
    for name, shared in first.SHOWN_ONCE:
        if result := results.get(f"once-{name}-{'shared' if shared else 'own'}"):
            order = "one order for all" if shared else "own coins"
            covered = np.mean(result["covered"])
            label = f"{SETS[name]}, {order}; of {result['leaning']} (intervals hold {_number(float(covered))})"
            rows.append([label, *(_judges(result, method) for method in METHODS)])
    for name in PAPERS:
        if result := results.get(f"list-{name}"):
            lists = result["methods"]
            rows.append(
                [
                    f"{SETS[name]} of {result['printed']}",
                    *("{} of {}".format(*lists[m]) if m in lists else "" for m in METHODS),
                ]
            )
    ours = rates(results)
    for name in first.FOUND:
        if name in ours:
            by = [rates(results, method).get(name) for method in METHODS]
            rows.append([EVERY[name].label, *(_rate(rate) for rate in by)])
    said = paragraph(
        "Judges whose lean is known from both orders, one of which is shown: leaning found / share of the list that is "
        "even (below .05). The paper's sets: of its list, of ours. Simulated: share of false flags / share of the "
        f"leaning found. Bold: more false than q = {Q} + 2 SE."
    )
    return (
        "## What is found, beside others on the same data\n\n"
        + said
        + "\n\n"
        + table(("", *(NAMES[m] for m in METHODS)), rows)
    )


def _mean(result: Records, method: str, what: str = "found") -> float:
    return float(np.mean(result["methods"][method][what]))


def _judges(result: Records, method: str) -> str:
    if method not in result["methods"]:
        return ""
    found, even = _mean(result, method), np.array(result["methods"][method]["even"])
    share = _number(float(even.mean()))
    is_above = even.mean() > Q + 2 * even.std() / np.sqrt(len(even))
    return f"{found:.1f} / {f'**{share}**' if is_above else share}"


def _rate(rate: Rate | None) -> str:
    if rate is None:
        return ""
    fdr = _number(rate.fdr)
    return f"{fdr if rate.holds else f'**{fdr}**'} / {_number(rate.mean_power)}"


def _costs(results: Records) -> str:
    rows = []
    for size in first.COSTS:
        by = {method: results.get(f"cost-{size.replace(',', '')}-{method}", {}) for method in first.TIMED}
        ratio = [
            f"{by[m]['cpu'] / by['exact']['cpu']:.1f}" if "cpu" in by[m] and "cpu" in by["exact"] else ""
            for m in ("lbi", "glm")
        ]
        rows.append([size, _seconds(by["exact"]), f"{by['exact'].get('megabytes', 0):,.0f} MB", *ratio])
    head = ("answers", "the decision", "memory", "with knockoff LBI / the decision", "logistic GLM + BH / the decision")
    return "## What it costs (processor time)\n\n" + table(head, rows)


def _gains(results: Records) -> str:
    rows = []
    for share in first.SHARES:
        reward, ranking = (results.get(f"{what}-{100 * share:.0f}") for what in ("reward", "ranking"))
        if reward and ranking:
            rows.append(
                [
                    f"{share:.0%}",
                    *(f"{np.mean(reward[name]):.3f}" for name in ("all", "export")),
                    *(f"{np.mean(ranking[name]):.3f}" for name in ("before", "after")),
                    f"{np.mean(ranking['again']):.1%}",
                ]
            )
    head = ("leaning", "reward, all votes", "reward, our export", "tau before", "tau after", "answers to ask for again")
    said = paragraph(
        "Held-out accuracy of a Bradley-Terry reward on three votes a pair; Kendall's tau of the ranking with the true "
        "order; the answers that the lean of the flagged can have decided, which are to be asked for again, as a share "
        "of all (asking for everything again is 100 %)."
    )
    return f"## What a lead gains\n\n{said}\n\n{table(head, rows)}"


def _small_print(records: Records) -> str:
    old, away = first.aged(records)
    dates = sorted({record["date"] for record in records.values()})
    notes = [f"Older than the code: {join(old)}; run `make results-quick`."] if old else []
    if away:
        notes.append(f"Their data set was not at hand, so they are as they were: {join(away)}.")
    simulated = sum("name" not in record["asked"]["parameters"] for record in records.values())
    return "---\n\n" + paragraph(
        f"Written by `make results-quick` from {simulated} simulated and {len(records) - simulated} real cells, "
        f"{dates[0]} to {dates[-1]}; nothing is typed by hand. Numbers of data sets are fixed in "
        "`benchmarks/results/plan.toml`; none was used to choose a setting. `make test` fails while a cell is older "
        "than its code.",
        *notes,
        "The appendix, a page per question: "
        + join([f"[{title}](results/{name}.md)" for name, (title, _) in PAGES.items()])
        + "; it may be older than the code, and says when it was computed.",
    )


def _seconds(measured: Records) -> str:
    return f"{measured['cpu']:.2g} s" if "cpu" in measured else "not run"


def _number(value: float, digits: int = 2) -> str:
    return f"{value:.{digits}f}".removeprefix("0") if round(value, digits) else "0"
