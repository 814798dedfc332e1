"""What sections quote of several cells: printed tables beside ours, who is ahead, growth."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from benchmarks.results.plan import BY_HAND, SHARES, SLOW_PEERS, consensus_name
from benchmarks.results.real_data import printed
from benchmarks.results.summary import (
    Rate,
    Results,
    paired_difference,
)
from harness.premises import EVERY
from harness.scenarios import LARGE, SMALL, Scenario

#: Crowds whose leans are below the smallest bias worth a flag; the peers know no such limit.
BELOW_LIMIT = ("mild-08",)
#: Printed tables, and the path of ours that stands beside each.
PRINTED = {"paper_tables/table1_iss.csv": "iss T0, rows", "paper_tables/table2_lasso.csv": "lasso T0, rows"}


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


def rated(results: Results, method: str = "evenhand", coins: str | None = None) -> Iterator[tuple[Scenario, Rate]]:
    """Give scenarios with a method's rate, where it has one."""
    for scenario in EVERY.values():
        rate = results.rate(scenario.name, method)
        if rate and not rate.reason and coins in (None, scenario.coins):
            yield scenario, rate


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


#: Scenarios that every method sees.
COMMON = (*LARGE, *SMALL)
