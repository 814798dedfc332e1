"""The sections on truth from both orders, on looking again and again, and on the ranking."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.results.claims import consensus_gaps
from benchmarks.results.markdown import join, paragraph, table
from benchmarks.results.plan import SHARES, consensus_name
from benchmarks.results.summary import NOT_RUN, Results
from harness.scenarios import Q

ARMS = {
    "persistent": "lasting flags",
    "evenhand": "exact lists of the moment",
    "warned": "early warnings (live e-process)",
    "paper": "the paper, knockoff+, one draw",
    "flip": "flips, one draw",
}
RANKINGS = {
    "logistic": "our consensus",
    "raw": "the same, nobody's lean",
    "squares": "the paper's least squares",
    "choix": "choix",
    "evalica": "evalica",
    "glm": "GLM with intercepts",
    "am-elo": "am-ELO's model (ours)",
    "noisy-bt": "NoisyBradleyTerry",
}
DESIGNS = {"together": "side by side", "joining": "joining one by one"}


def repetition(results: Results) -> list[str]:
    """What lasts over all looks, and what piles up."""
    rows = []
    for cell in results.tables["looks"]:
        result, at = results.get(cell.name), cell.parameters
        crowd = DESIGNS[at.get("crowd", "together")]
        leaning = f"{at['n_biased']} of 40 lean" if at["n_biased"] else "nobody leans"
        measured = result["methods"] if result else {}
        texts = [_piled(measured.get(arm), at["n_biased"]) for arm in ARMS]
        rows.append([f"{at['looks']} looks, {crowd}, {leaning}", str(at["runs"]), *texts])
    return [
        "## Looking again and again",
        paragraph(
            "40 annotators with 60 answers each; a run at every look. Share of false ones ± SE among everybody "
            "ever flagged "
            f"/ share of the leaning ever flagged; q = {Q}. A list holds its rate at one moment only; lasting "
            "flags are "
            "meant to hold it over all looks.",
        ),
        table(("crowd", "data sets", *ARMS.values()), rows),
    ]


def _piled(measured: dict[str, list[float]] | None, n_biased: int) -> str:
    if not measured:
        return ""
    fdp = np.array(measured["fdp"])
    power = f" / {np.mean(measured['power']):.2f}" if n_biased else ""
    return f"{fdp.mean():.3f} ± {max(float(fdp.std()), 0.02) / np.sqrt(len(fdp)):.3f}{power}"


def ranking(results: Results) -> list[str]:
    """Quality of the consensus."""
    rows = []
    for shared in (False, True):
        for share in SHARES:
            found: dict[str, Any] = {}
            for kind in ("ours", "peers"):
                result = results.get(f"consensus-{kind}-{consensus_name(share, shared)}")
                found |= result["methods"] if result else {}
            texts = [_tau(found.get(method)) for method in RANKINGS]
            rows.append([f"{'one order for all' if shared else 'own coins'}, {100 * share:.0f} %", *texts])
    size, gaps = results.size, consensus_gaps(results)
    behind = [f"{RANKINGS[peer]} at {name} by {-gap:.3f} (SE {se:.3f})" for name, peer, gap, se, _ in gaps if gap < 0]
    return [
        "## Quality of the ranking",
        paragraph(
            "40 annotators, 60 answers each, 40 items; a share of them clicks a side in 60 % of the answers. "
            "Kendall's tau "
            f"with the true order ± SE; {size.consensus} data sets ({size.consensus_slow} for "
            "NoisyBradleyTerry). am-ELO's "
            "model (a slope per annotator) is written by us from its paper, not its authors' code.",
        ),
        table(("sides, share that leans", *RANKINGS.values()), rows),
        paragraph(f"Ahead of our consensus on average, certain or not: {join(behind)}.") if gaps else NOT_RUN,
    ]


def _tau(measured: dict[str, list[float]] | None) -> str:
    if not measured or not measured["tau"]:
        return NOT_RUN
    tau = np.array(measured["tau"])
    return f"{tau.mean():.3f} ± {tau.std() / np.sqrt(len(tau)):.3f}"
