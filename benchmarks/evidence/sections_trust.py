"""The sections on repetition, on the ranking, and on seeds."""

from __future__ import annotations

import numpy as np

from benchmarks.evidence.markdown import NOT_RUN, mean, paragraph, table
from benchmarks.evidence.plan import SHARES
from benchmarks.evidence.scenarios import Q
from benchmarks.evidence.summary import Evidence
from benchmarks.evidence.verdicts import seed_agreements

ARMS = {
    "paper": "knockoff+ (paper), one draw",
    "flip": "flips, one draw",
    "evenhand": "Evenhand's list of the moment",
    "persistent": "what persists (list and live evidence)",
    "warned": "early warnings alone (live e-process)",
}
RANKINGS = {
    "raw": "least squares",
    "corrected": "corrected",
    "dropped": "flagged dropped",
    "choix": "Bradley–Terry (choix)",
    "noisy-bt": "NoisyBradleyTerry",
}
DRAWS = (1, 11, 51)


def repetition(evidence: Evidence) -> list[str]:
    """Flags that pile up, and flags that flicker."""
    columns = [(looks, n_biased) for looks in evidence.size.looks for n_biased in (0, 12)]
    rows = []
    for arm, label in ARMS.items():
        texts = []
        for looks, n_biased in columns:
            result = evidence.get(f"looks-{looks}-{n_biased}")
            texts.append(_accumulated(result["methods"][arm], n_biased) if result else NOT_RUN)
        rows.append([label, *texts])
    head = [
        f"{looks} looks, {n_biased or 'nobody'} of 40 lean{'s' if not n_biased else ''}" for looks, n_biased in columns
    ]
    runs = ", ".join(f"{count} at {looks} looks" for looks, count in evidence.size.looks.items())
    return [
        "## Looking again and again",
        paragraph(
            "40 annotators with 60 answers each, arriving in mixed order; a run at every look. Share of false ones ± SE "
            f"among everybody ever flagged / share of the leaning ever flagged; q = {Q}; data sets: {runs}."
        ),
        table(("rule", *head), rows),
        _piling(evidence),
        *_flicker(evidence),
    ]


def _accumulated(measured: dict[str, list[float]], n_biased: int) -> str:
    fdp = np.array(measured["fdp"])
    power = f" / {np.mean(measured['power']):.2f}" if n_biased else ""
    return f"{fdp.mean():.2f} ± {fdp.std() / np.sqrt(len(fdp)):.2f}{power}"


def _piling(evidence: Evidence) -> str:
    most = max(evidence.size.looks)
    null, lean = (evidence.get(f"looks-{most}-{n_biased}") for n_biased in (0, 12))
    if not null or not lean:
        return NOT_RUN
    momentary, kept = (np.mean(null["methods"][arm]["fdp"]) for arm in ("evenhand", "persistent"))
    return paragraph(
        f"A list holds its rate at one moment; collected over {most} looks with nobody leaning, false flags appear in "
        f"{100 * momentary:.0f} % of the data sets, and in {100 * kept:.0f} % of them once only what persists is kept.",
        f"With twelve leaning, what persists still holds {np.mean(lean['methods']['persistent']['power']):.2f} of them.",
    )


def _flicker(evidence: Evidence) -> list[str]:
    rows = []
    for draws in DRAWS:
        result = evidence.get(f"flicker-{draws}")
        values = [mean(result["same"], 3), mean(result["grown"], 3)] if result else [NOT_RUN] * 2
        rows.append([str(draws), *values])
    head = ("draws", "another seed, same data", "another seed, 2 % more answers")
    caption = f"**Flicker**: mean Jaccard distance between consecutive lists on H1 ({evidence.size.flicker} data sets)"
    return [caption, table(head, rows)]


def ranking(evidence: Evidence) -> list[str]:
    """Quality of the consensus."""
    rows = []
    for shared in (False, True):
        for share in SHARES:
            name = f"{'shared' if shared else 'own'}-{100 * share:.0f}"
            found = {}
            for kind in ("ours", "peers"):
                result = evidence.get(f"consensus-{kind}-{name}")
                found |= result["methods"] if result else {}
            texts = [_ranking_text(found.get(method)) for method in RANKINGS]
            rows.append(["one order for all, leans left" if shared else "own coins", f"{100 * share:.0f} %", *texts])
    size = evidence.size
    return [
        "## Quality of the ranking",
        paragraph(
            "40 annotators, 60 answers each, 40 items; the biased click a side in 60 % of their answers. Kendall's tau "
            f"with the true order, then the share of the true ten best among the ten best found; {size.consensus} data "
            f"sets ({size.consensus_slow} for NoisyBradleyTerry)."
        ),
        table(("sides", "biased", *RANKINGS.values()), rows),
        _ranking_said(evidence),
    ]


def _ranking_text(measured: dict[str, list[float]] | None) -> str:
    return f"{np.mean(measured['tau']):.3f}, {np.mean(measured['top']):.2f}" if measured else NOT_RUN


def _ranking_said(evidence: Evidence) -> str:
    said = []
    for kind, words in (("own", "with own coins"), ("shared", "with one order for all")):
        ours, peers = (evidence.get(f"consensus-{who}-{kind}-30") for who in ("ours", "peers"))
        if ours and peers:
            raw, corrected, dropped = (
                np.array(ours["methods"][name]["tau"]) for name in ("raw", "corrected", "dropped")
            )
            gain = corrected - raw
            said.append(
                f"At 30 % biased, {words}, the correction changes tau by {gain.mean():+.3f} "
                f"(SE {gain.std() / np.sqrt(len(gain)):.3f}), dropping the flagged by {(dropped - raw).mean():+.3f}; "
                f"choix stands at {np.mean(peers['methods']['choix']['tau']):.3f}."
            )
    return paragraph(*said) or NOT_RUN


def seeds(evidence: Evidence) -> list[str]:
    """Agreement of two seeds."""
    rows = [[name, f"{value:.3f}"] for name, value in seed_agreements(evidence).items()]
    return [
        "## Two seeds",
        paragraph(f"Jaccard index of the lists of two seeds; H1: mean of {evidence.size.seeds} data sets."),
        table(("data", "agreement"), rows) if rows else NOT_RUN,
    ]
