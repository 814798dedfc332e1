"""Real people and judges whose leans are known: from both orders of every pair, or from what the paper prints."""

from __future__ import annotations

from typing import Any

from benchmarks.results.peers import PEERS, exact_storey
from benchmarks.results.real_data import PAPERS, printed, read
from benchmarks.shown_once import EVEN, FIRST, LEANS, one_order, shown_twice
from fdr_core.detection import detect
from fdr_core.paper.knockoff_lbi import KnockoffLBI
from harness.scenarios import Q


def shown_once(name: str, shared: bool, draws: int, lbi_draws: int) -> dict[str, Any]:
    """One order of every pair, by coins of each judge or by one coin for all: who is found, by method and draw."""
    truth = shown_twice(name)[1]
    found: dict[str, Any] = {}
    covered = []
    for number in range(draws):
        data = one_order(name, shared, FIRST + number)
        result = detect(data, q=Q, lbi=None, consensus="least squares")
        lists = {"evenhand": result.flagged, "storey": exact_storey(result)}
        lists |= {method: PEERS[method](data, number, 0) for method in ("glm", "binomial")}
        if shared:
            lists["proven"] = result.exact.proven
        if number < lbi_draws:
            lists["lbi"] = detect(data, q=Q, decide_by="lbi", consensus="least squares", lbi=KnockoffLBI()).flagged
        for method, flagged in lists.items():
            size = truth[list(flagged)].abs().to_numpy()
            one = found.setdefault(method, {"found": [], "even": []})
            one["found"].append(int((size >= LEANS).sum()))
            one["even"].append(round(float((size < EVEN).sum() / max(1, len(size))), 4))
        rows = result.annotators.set_index("annotator")
        known = truth[rows.index]
        covered.append(round(float(((rows["bias_low"] <= known) & (known <= rows["bias_high"])).mean()), 4))
    leaning = int((truth.abs() >= LEANS).sum())
    return {"draws": draws, "judges": len(truth), "leaning": leaning, "methods": found, "covered": covered}


def papers_list(name: str) -> dict[str, Any]:
    """How many of the annotators that the paper names are on each list."""
    data, known = read(name), set(printed(PAPERS[name])["annotator"])
    result = detect(data, q=Q)
    lists = {"evenhand": result.flagged, "lbi": result.lbi.flagged, "storey": exact_storey(result)}
    lists |= {method: PEERS[method](data, 0, 0) for method in ("glm", "binomial")}
    return {
        "printed": len(known),
        "annotators": len(result.annotators),
        "how": result.audit.how,
        "methods": {method: [len(set(flagged) & known), len(flagged)] for method, flagged in lists.items()},
    }
