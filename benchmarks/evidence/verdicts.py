"""What must be seen: every claim with what the cells say, computed and never typed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.evidence.plan import GAP
from benchmarks.evidence.scenarios import AUDITED, EXTRA, LARGE, SMALL, Q
from benchmarks.evidence.summary import Evidence, paired_difference

#: What is known of the paper's printed figures: the range of the actual FDR under T0 over the sixteen cells.
PRINTED_FDR = (0.083, 0.143)
LEAST_FINDS = 49.75
FIRST_RUN = Path(__file__).with_name("first_run.json")
PEERS = ("binomial", "glm", "knockpy", "statsmodels-knockoff", "paper-dense", "paper")
SPEED_UP, SPEED_SIZE, AGREEMENT = 100.0, 600, 0.95


@dataclass(frozen=True)
class Verdict:
    """A claim, what was seen, and whether it holds; ``holds`` is None where cells are missing."""

    claim: str
    seen: str
    holds: bool | None

    @property
    def word(self) -> str:
        """PASS, FAIL or not run."""
        return "not run" if self.holds is None else "PASS" if self.holds else "FAIL"


def verdicts(evidence: Evidence) -> list[Verdict]:
    """Give every claim of the headline table."""
    return [
        _reproduced(evidence),
        _error_rate(
            evidence, "own", f"error rate at most q + 3 SE wherever every answer has a coin of its own (q = {Q})"
        ),
        _error_rate(evidence, "shared", "the same with coins shared between annotators, where it is an approximation"),
        _rerouted(evidence),
        _no_peer_ahead(evidence, strict=True),
        _no_peer_ahead(evidence, strict=False),
        _gap(evidence),
        _speed(evidence),
        _seeds(evidence),
        _repetition(evidence),
    ]


def _reproduced(evidence: Evidence) -> Verdict:
    low, high = PRINTED_FDR
    claim = f"the paper's study comes out again: ISS under T0 within the printed {low} to {high} give or take 3 SE, "
    claim += f"at least {LEAST_FINDS} of 50 found"
    cells = evidence.study_rates("paper", "iss T0")
    if not cells:
        return Verdict(claim, "", None)
    inside = [low - 3 * rate.fdr_se <= rate.fdr <= high + 3 * rate.fdr_se for rate in cells.values()]
    finds = min(rate.mean_power for rate in cells.values())
    rates = [rate.fdr for rate in cells.values()]
    seen = f"{min(rates):.3f} to {max(rates):.3f}, inside in {sum(inside)} of {len(cells)} cells; {finds:.2f} found or more"
    return Verdict(claim, seen, all(inside) and finds >= LEAST_FINDS)


def _error_rate(evidence: Evidence, coins: str, claim: str) -> Verdict:
    seen, holds = [], True
    for scenario in (*LARGE, *SMALL, *EXTRA):
        rate = evidence.rate(scenario.name, "evenhand")
        if scenario.coins != coins or rate is None:
            continue
        holds &= rate.holds
        seen.append((rate.fdr - 3 * rate.fdr_se, f"{scenario.name} {rate.fdr:.3f} (SE {rate.fdr_se:.3f})"))
    for method in ("flip", "evenhand") if coins == "own" else ():
        for name, rate in evidence.study_rates("flips", method).items():
            holds &= rate.holds
            at = f"the paper's study at {name.removeprefix('flips-')}, {method}"
            seen.append((rate.fdr - 3 * rate.fdr_se, f"{at} {rate.fdr:.3f} (SE {rate.fdr_se:.3f})"))
    if not seen:
        return Verdict(claim, "", None)
    worst = max(seen)[1]
    return Verdict(claim, f"{len(seen)} cells; nearest to the bound: {worst}", holds)


def _rerouted(evidence: Evidence) -> Verdict:
    claim = "sides not random: the audit refuses, or reroutes and the error rate holds"
    seen, holds = [], True
    for scenario in (*LARGE, *AUDITED):
        result, rate = evidence.get(f"quality-{scenario.name}-evenhand"), evidence.rate(scenario.name, "evenhand")
        if scenario.coins != "not random" or result is None or rate is None:
            continue
        routes = result["constructions"]
        holds &= "flip" not in routes and rate.holds
        routed = ", ".join(f"{count} {ROUTES[route]}" for route, count in routes.items())
        seen.append(f"{scenario.name}: {routed}, FDR {rate.fdr:.2f}")
    return Verdict(claim, "; ".join(seen), holds if seen else None)


ROUTES = {"flip": "by flips", "paper": "with sides held fixed", "none": "refused"}


def peers_ahead(evidence: Evidence) -> list[tuple[str, str, float, float]]:
    """(scenario, peer, difference in power, its SE) for every peer that holds its error rate, worst first."""
    found = []
    for scenario in (*LARGE, *SMALL):
        ours = evidence.rate(scenario.name, "evenhand")
        for peer in PEERS:
            rate = evidence.rate(scenario.name, peer)
            if ours is None or rate is None or rate.reason or not rate.holds or scenario.name == "team-null":
                continue
            found.append((scenario.name, peer, *paired_difference(ours, rate)))
    return sorted(found, key=lambda row: row[2])


def _no_peer_ahead(evidence: Evidence, *, strict: bool) -> Verdict:
    claim = "true finds at or above every peer that holds its error rate, in every scenario"
    claim += "" if strict else ", give or take two standard errors of the paired difference"
    rows = peers_ahead(evidence)
    if not rows:
        return Verdict(claim, "", None)
    ahead = [row for row in rows if row[2] < -1e-9 and (strict or row[2] < -2 * row[3])]
    text = ", ".join(f"{peer} by {-gap:.3f} (SE {se:.3f}) in {name}" for name, peer, gap, se in ahead[:6])
    more = f" and {len(ahead) - 6} more" if len(ahead) > 6 else ""
    return Verdict(claim, f"{len(rows)} comparisons; ahead of us: {text or 'nobody'}{more}", not ahead)


def gap_rows(evidence: Evidence) -> list[dict[str, Any]]:
    """Power in the first run, now, and of the oracle, with the share of the gap that was closed."""
    first = json.loads(FIRST_RUN.read_text(encoding="utf-8")) if FIRST_RUN.is_file() else {}
    rows = []
    for scenario in (*LARGE, *SMALL):
        now, best = evidence.rate(scenario.name, "evenhand"), evidence.rate(scenario.name, "oracle")
        if now is None or best is None or scenario.name == "team-null":
            continue
        start = first.get("power", {}).get(scenario.name)
        gap = best.mean_power - start if start is not None else 0.0
        closed = (now.mean_power - start) / gap if start is not None and gap > 0.005 else None
        rows.append({"scenario": scenario, "first": start, "now": now, "oracle": best, "closed": closed})
    return rows


def _gap(evidence: Evidence) -> Verdict:
    claim = f"at least half of the first run's power gap to the oracle closed in {', '.join(GAP)}"
    closed = {row["scenario"].name: row["closed"] for row in gap_rows(evidence) if row["closed"] is not None}
    known = {name: closed[name] for name in GAP if name in closed}
    seen = ", ".join(f"{name} {100 * share:.0f} %" for name, share in known.items())
    return Verdict(claim, seen, all(share >= 0.5 for share in known.values()) if len(known) == len(GAP) else None)


def speed_ratio(evidence: Evidence, case: str, m: int = SPEED_SIZE) -> float | None:
    """How many times faster than knockpy a case of ours is; a peer that was stopped counts with its time limit."""
    ours, peer = evidence.get(f"speed-{m}-{case}"), evidence.get(f"speed-{m}-knockpy")
    if ours is None or peer is None or "seconds" not in ours or "seconds" not in peer:
        return None
    return float(peer["seconds"] / ours["seconds"])


def _speed(evidence: Evidence) -> Verdict:
    claim = (
        f"one knockoff draw with its LASSO path at least {SPEED_UP:.0f} times faster than knockpy at m = {SPEED_SIZE}"
    )
    ratio, whole = speed_ratio(evidence, "paper-draw"), speed_ratio(evidence, "evenhand")
    if ratio is None:
        return Verdict(claim, "", None)
    rest = f"; all of `detect` (audit, all draws, refit, evidence) is {whole:,.1f} times faster than that one draw"
    return Verdict(claim, f"{ratio:,.0f} times{rest if whole else ''}", ratio >= SPEED_UP)


def seed_agreements(evidence: Evidence) -> dict[str, float]:
    """Jaccard agreement of the lists of two seeds, by data."""
    found = {}
    simulated = evidence.get("seeds-H1")
    if simulated:
        found["H1"] = float(np.mean(simulated["jaccard"]))
    for cell in evidence.tables["real"]:
        result = evidence.get(cell.name)
        if result:
            found[cell.name.removeprefix("real-")] = result["jaccard"]
    return found


def _seeds(evidence: Evidence) -> Verdict:
    claim = f"lists of two seeds agree to a Jaccard index of at least {AGREEMENT}"
    found = seed_agreements(evidence)
    seen = ", ".join(f"{name} {value:.3f}" for name, value in found.items())
    return Verdict(claim, seen, all(value >= AGREEMENT for value in found.values()) if found else None)


def _repetition(evidence: Evidence) -> Verdict:
    claim = "what persists over all looks together: error rate at most q + 3 SE"
    seen, holds = [], True
    for cell in evidence.tables["looks"]:
        result = evidence.get(cell.name)
        if result is None or "methods" not in result:
            continue
        fdp = np.array(result["methods"]["persistent"]["fdp"])
        holds &= bool(fdp.mean() <= Q + 3 * max(fdp.std(), 0.02) / np.sqrt(len(fdp)))
        at = cell.parameters
        seen.append(f"{at['looks']} looks, {at['n_biased']} lean: {fdp.mean():.3f}")
    return Verdict(claim, "; ".join(seen), holds if seen else None)
