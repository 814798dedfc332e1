"""What is claimed: every claim with what the cells say, computed and never typed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.results.paper_tables import CLICKS, ERRORS
from benchmarks.results.plan import BY_HAND, SHARES, SLOW_PEERS, consensus_name
from benchmarks.results.real_data import PAPERS, printed
from benchmarks.results.summary import (
    FAIL,
    LEAST_SETS,
    NOT_RUN,
    PASS,
    TOO_FEW,
    Rate,
    Results,
    paired_difference,
    together,
)
from harness.breakers import CROWDS
from harness.scenarios import LARGE, SMALL, Q, Scenario

SPEED_UP, SPEED_SIZE, MOST_EXPONENT = 100.0, 600, 1.2
#: Crowds whose leans are below the smallest bias worth a flag; the peers know no such limit.
BELOW_LIMIT = ("mild-08",)
#: Printed tables, and the path of ours that stands beside each.
PRINTED = {"paper_tables/table1_iss.csv": "iss T0", "paper_tables/table2_lasso.csv": "lasso T0"}
KINDS = {
    "own": "error rate at most q + 2 SE wherever every answer has a coin of its own, or both orders were shown",
    "shared": "the same where people share coins (measured, not proven)",
    "not random": "the same where no coin decided the sides: the audit refuses, or sides are held fixed",
}


@dataclass(frozen=True)
class Claim:
    """A claim, what was seen, and one word."""

    text: str
    seen: str
    word: str


def claims(results: Results) -> list[Claim]:
    """Give every claim: those that fail first, then those that too few data sets speak about."""
    found = [
        _cells(results),
        _entries(results),
        *_true_order(results),
        _both_orders(results),
        *(_error_rate(results, coins) for coins in KINDS),
        _no_peer_ahead(results),
        _goals(results),
        _lasting(results),
        _consensus(results),
        _speed(results),
        _growth(results),
    ]
    order = (FAIL, TOO_FEW, PASS, NOT_RUN)
    return sorted(found, key=lambda claim: order.index(claim.word))


@dataclass(frozen=True)
class PrintedCell:
    """One printed cell beside ours."""

    p1: int
    p2: int
    path: str
    fdr: float
    found: float
    ours: Rate | None

    @property
    def gap(self) -> float:
        """Ours less the printed rate, in standard errors of the difference; the paper's are taken to be like ours."""
        assert self.ours is not None
        return (self.ours.fdr - self.fdr) / (self.ours.fdr_se * float(np.sqrt(2.0)))


def printed_cells(results: Results) -> list[PrintedCell]:
    """Every printed cell of Tables 1 and 2."""
    found = []
    for file, path in PRINTED.items():
        for row in printed(file).to_dict("records"):
            p1, p2 = int(row["p1_percent"]), int(row["p2_percent"])
            ours = results.study_rates("paper", path).get(f"paper-{p1}-{p2}")
            rate, finds = float(row["actual_fdr"]), float(row["true_discoveries_of_50"])
            found.append(PrintedCell(p1, p2, path, rate, finds, ours))
    return found


def _cells(results: Results) -> Claim:
    text = "Tables 1 and 2 come out again: every cell within 3 SE of the printed rate, and within .25 of its finds"
    known = [cell for cell in printed_cells(results) if cell.ours]
    if not known:
        return Claim(text, "", NOT_RUN)
    beyond = [cell for cell in known if abs(cell.gap) > 3]
    lost = [cell for cell in known if cell.ours and cell.ours.mean_power < cell.found - 0.25]
    names = ", ".join(
        f"{cell.path} {cell.p1}-{cell.p2} ({cell.ours.fdr:.3f} for {cell.fdr:.3f})" for cell in beyond if cell.ours
    )
    within = f"{len(known) - len(beyond)} of {len(known)} cells within 3 SE"
    seen = f"{within}; beyond: {names or 'none'}; finds lower in {len(lost)}"
    enough = all(cell.ours and cell.ours.is_enough for cell in known) and len(known) == 2 * len(ERRORS) * len(CLICKS)
    return Claim(text, seen, TOO_FEW if not enough else FAIL if beyond or lost else PASS)


def _entries(results: Results) -> Claim:
    text = "the paper's annotators are the first to enter the path, on its three sets and by all three paths"
    found = {name: result for name in PAPERS if (result := results.get(f"printed-{name}"))}
    seen = [
        f"{name} {min(result['first'].values())} of the first {len(result['printed'])}"
        for name, result in found.items()
    ]
    words = [PASS if min(r["first"].values()) == len(r["printed"]) else FAIL for r in found.values()]
    return Claim(text, "; ".join(seen), together(words))


def _true_order(results: Results) -> list[Claim]:
    texts = (
        "Human Age: correcting the paper's annotators puts more pairs of Table 5 right than the original ranking has",
        "Human Age: our consensus has at least as many of these pairs right as the least squares without correction",
    )
    result = results.get("printed-humanage")
    if not result or not result["ranking"]:
        return [Claim(text, "", NOT_RUN) for text in texts]
    right, pairs = result["ranking"]["right"], result["ranking"]["pairs"]
    plain, corrected = right["least squares"], right["least squares, the paper's 17 corrected"]
    theirs = f"printed: {right['printed original']} and {right['printed corrected']}"
    ours = right["our consensus"]
    return [
        Claim(texts[0], f"{plain} and {corrected} of {pairs}; {theirs}", PASS if corrected > plain else FAIL),
        Claim(texts[1], f"{ours} for {plain} of {pairs}", PASS if ours >= plain else FAIL),
    ]


def _both_orders(results: Results) -> Claim:
    text = (
        "one order shown: judges who lean by .1 or more in truth flagged in 95 % of the draws, others in at most 10 %, "
    )
    text += "95 % intervals cover the truth in at least 90 %"
    result = results.get("orders")
    if not result:
        return Claim(text, "", NOT_RUN)
    n, flagged = result["draws"], result["flagged"]["evenhand"]
    holds = all(
        count >= 0.95 * n if abs(result["truth"][judge]) >= 0.1 else count <= 0.1 * n
        for judge, count in flagged.items()
    ) and all(count >= 0.9 * n for count in result["covered"].values())
    seen = "; ".join(
        f"{judge} ({result['truth'][judge]:+.2f}) flagged {count} of {n}, covered {result['covered'][judge]}"
        for judge, count in flagged.items()
    )
    return Claim(text, seen, TOO_FEW if n < LEAST_SETS else PASS if holds else FAIL)


def rated(results: Results, method: str = "evenhand", coins: str | None = None) -> Iterator[tuple[Scenario, Rate]]:
    """Give scenarios with a method's rate, where it has one."""
    for scenario in CROWDS.values():
        rate = results.rate(scenario.name, method)
        if rate and not rate.reason and coins in (None, scenario.coins):
            yield scenario, rate


def failing(results: Results, method: str = "evenhand") -> list[tuple[Scenario, Rate]]:
    """Scenarios in which a method's error rate is above q + 2 SE, worst first."""
    found = [(s, rate) for s, rate in rated(results, method) if rate.word(is_null=s.is_null) == FAIL]
    return sorted(found, key=lambda pair: Q - pair[1].fdr)


def _error_rate(results: Results, coins: str) -> Claim:
    known = [(scenario, rate) for scenario, rate in rated(results, coins=coins)]
    words = [rate.word(is_null=scenario.is_null) for scenario, rate in known]
    if coins == "own":
        study = results.study_rates("exact", "exact")
        known_in_study = [rate.word(is_null=False) for rate in study.values()]
        words += known_in_study
    counts = ", ".join(f"{words.count(word)} {word}" for word in (PASS, FAIL, TOO_FEW) if word in words)
    worst = max(known, key=lambda pair: pair[1].fdr - 2 * pair[1].fdr_se, default=None)
    nearest = f"; nearest to the bound: {worst[0].name} {worst[1].fdr:.3f} (SE {worst[1].fdr_se:.3f})" if worst else ""
    return Claim(KINDS[coins], f"{len(words)} cells: {counts}{nearest}" if words else "", together(words))


def _with_leans_to_find(results: Results) -> Iterator[tuple[Scenario, Rate]]:
    return ((s, rate) for s, rate in rated(results) if not s.is_null and s.name not in BELOW_LIMIT)


@dataclass(frozen=True)
class Ahead:
    """A peer that holds its error rate, and how much more we find than it does, with the SE of the difference."""

    scenario: Scenario
    peer: str
    gap: float
    se: float
    runs: int


def against_peers(results: Results, peers: Iterable[str] = (*BY_HAND, "lbi", "paper", *SLOW_PEERS[1:])) -> list[Ahead]:
    """Paired differences in power to every peer that holds its rate, the worst for us first."""
    found = []
    for scenario, ours in _with_leans_to_find(results):
        for peer in peers:
            rate = results.rate(scenario.name, peer)
            if rate and not rate.reason and rate.runs and rate.holds:
                gap, se = paired_difference(ours, rate)
                found.append(Ahead(scenario, peer, gap, se, min(ours.runs, rate.runs)))
    return sorted(found, key=lambda row: row.gap)


def _no_peer_ahead(results: Results) -> Claim:
    text = "no peer that holds its error rate finds clearly more (3 SE of the paired difference)"
    rows = [row for row in against_peers(results) if row.runs >= LEAST_SETS]
    ahead = [row for row in rows if row.gap < -3 * row.se - 1e-9]
    if not rows:
        return Claim(text, "", TOO_FEW if against_peers(results) else NOT_RUN)
    worst = ", ".join(f"{row.peer} by {-row.gap:.3f} (SE {row.se:.3f}) in {row.scenario.name}" for row in ahead[:6])
    more = f" and {len(ahead) - 6} more" if len(ahead) > 6 else ""
    return Claim(text, f"{len(rows)} comparisons; ahead of us: {worst or 'nobody'}{more}", FAIL if ahead else PASS)


def _goals(results: Results) -> Claim:
    text = "power reaches what was aimed at, give or take 2 SE"
    known = [(scenario, rate) for scenario, rate in rated(results) if scenario.floor is not None]
    missed = [
        f"{scenario.name} {rate.mean_power:.3f} for {scenario.floor:.2f}"
        for scenario, rate in known
        if scenario.floor is not None and rate.mean_power < scenario.floor - 2 * rate.power_se
    ]
    if not known:
        return Claim(text, "", NOT_RUN)
    enough = all(rate.is_enough for _, rate in known)
    seen = f"{len(known) - len(missed)} of {len(known)}; below: {', '.join(missed) or 'none'}"
    return Claim(text, seen, TOO_FEW if not enough else FAIL if missed else PASS)


def lasting_rates(results: Results, arm: str = "persistent") -> dict[str, tuple[Rate, Any]]:
    """Rates of everything ever flagged over all looks, by cell."""
    found = {}
    for cell in results.tables["looks"]:
        result = results.get(cell.name)
        if result and arm in result["methods"] and cell.name.startswith("lasting-"):
            measured = result["methods"][arm]
            found[cell.name] = (Rate(np.array(measured["fdp"]), np.array(measured["power"])), cell.parameters)
    return found


def _lasting(results: Results) -> Claim:
    text = "lasting flags over all looks together: error rate at most q + 2 SE"
    known = lasting_rates(results)
    words = [rate.word(is_null=not at["n_biased"]) for rate, at in known.values()]
    seen = [
        f"{at['looks']} looks, {at['crowd']}, {at['n_biased']} lean: {rate.fdr:.3f} (SE {rate.fdr_se:.3f})"
        for rate, at in known.values()
    ]
    return Claim(text, "; ".join(seen), together(words))


def consensus_gaps(results: Results) -> list[tuple[str, str, float, float, int]]:
    """(cell, peer, our tau less the peer's, its SE, data sets), the worst for us first."""
    found = []
    for shared in (False, True):
        for share in SHARES:
            name = consensus_name(share, shared)
            ours, peers = (results.get(f"consensus-{who}-{name}") for who in ("ours", "peers"))
            if not ours or not peers:
                continue
            best = np.array(ours["methods"]["logistic"]["tau"])
            for peer, measured in peers["methods"].items():
                n = len(measured["tau"])
                if n:
                    gap = best[:n] - np.array(measured["tau"])
                    found.append((name, peer, float(gap.mean()), float(gap.std() / np.sqrt(n)), n))
    return sorted(found, key=lambda row: row[2])


def _consensus(results: Results) -> Claim:
    text = "the consensus is at or above every peer in all six cells, give or take 2 SE of the paired difference"
    rows = [row for row in consensus_gaps(results) if row[1] != "noisy-bt"]
    behind = [row for row in rows if row[2] < -2 * row[3]]
    if not rows:
        return Claim(text, "", NOT_RUN)
    seen = ", ".join(f"{peer} by {-gap:.4f} (SE {se:.4f}) at {name}" for name, peer, gap, se, _ in behind)
    enough = all(row[4] >= LEAST_SETS for row in rows)
    return Claim(
        text,
        f"{len(rows)} comparisons; ahead of us: {seen or 'nobody'}",
        TOO_FEW if not enough else FAIL if behind else PASS,
    )


def speed_ratio(results: Results, case: str, peer: str = "knockpy", m: int = SPEED_SIZE) -> float | None:
    """How many times more processor time a peer takes than a case of ours, in one run."""
    ours, other = results.get(f"speed-{m}-{case}"), results.get(f"speed-{m}-{peer}")
    if ours is None or other is None or "cpu" not in ours or "cpu" not in other:
        return None
    return float(other["cpu"] / max(ours["cpu"], 1e-4))


def _speed(results: Results) -> Claim:
    text = (
        f"one knockoff draw with its LASSO path at least {SPEED_UP:.0f} times faster than knockpy at m = {SPEED_SIZE}"
    )
    ratio, exact, lbi = (speed_ratio(results, case) for case in ("paper-draw", "exact", "lbi"))
    if ratio is None:
        stopped = (results.get(f"speed-{SPEED_SIZE}-knockpy") or {}).get("reason", "")
        return Claim(text, f"knockpy {stopped}" if stopped else "", TOO_FEW if stopped else NOT_RUN)
    rest = (
        f"; the whole exact decision {exact:,.0f} times, with LBI's list beside it {lbi:,.0f} times"
        if exact and lbi
        else ""
    )
    return Claim(text, f"{ratio:,.0f} times{rest}", PASS if ratio >= SPEED_UP else FAIL)


def exponents(results: Results, method: str = "exact") -> dict[str, float]:
    """Slope of log time against log size, by what grows; from the sizes whose time is above a tenth of a second."""
    found = {}
    for axis, steps in results.size.growth.items():
        points = [(step, results.get(f"growth-{axis}-{step}-{method}")) for step in steps]
        timed = [(step, point["cpu"]) for step, point in points if point and point.get("cpu", 0.0) >= 0.1]
        if len(timed) >= 3:
            size, seconds = np.log(np.array(timed)).T
            found[axis] = float(np.polyfit(size, seconds, 1)[0])
    return found


def _growth(results: Results) -> Claim:
    text = (
        f"time of the exact decision grows with annotators, items and answers by exponents of at most {MOST_EXPONENT}"
    )
    found = exponents(results)
    seen = ", ".join(f"{axis} {slope:.2f}" for axis, slope in found.items())
    if len(found) < 3 or results.size.name == "quick":
        return Claim(text, seen, TOO_FEW if found else NOT_RUN)
    return Claim(text, seen, PASS if max(found.values()) <= MOST_EXPONENT else FAIL)


#: Scenarios that every method sees.
COMMON = (*LARGE, *SMALL)
