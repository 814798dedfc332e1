"""Which cells there are, and how many data sets each gets; the numbers stand in plan.toml, fixed before the run."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.results import real_data
from benchmarks.results.cells import Cell
from benchmarks.results.paper_tables import CLICKS, ERRORS
from harness.breakers import BREAKERS
from harness.premises import EVERY
from harness.scenarios import AUDITED, LARGE, SMALL, Scenario

PACKAGE = "benchmarks.results"
FILE = Path(__file__).with_name("plan.toml")
SETTLED: dict[str, Any] = tomllib.loads(FILE.read_text(encoding="utf-8"))
OURS = ("evenhand", "lbi", "paper")
BY_HAND = ("binomial", "glm", "sign-flip")
SLOW_PEERS = ("noisy-bt", "knockpy", "statsmodels-knockoff", "paper-dense")
SPEED_PEERS = ("glm", "statsmodels-glm", "noisy-bt", "knockpy", "statsmodels-knockoff", "paper-dense")
SPEED_OURS = ("exact", "lbi", "paper-draw")
AGREEMENT = ("H1", "H2", "H7", "team-30")
SHARES = (0.0, 0.1, 0.3)
#: The whole run goes through these; speed comes last and alone, so that nothing else keeps the cores busy.
TABLES = ("paper", "real", "quality", "looks", "consensus", "speed")


@dataclass(frozen=True)
class Size:
    """Numbers of data sets; see plan.toml."""

    name: str
    minutes: float
    paper: int
    paper_default: int
    crowds: int
    breakers: int
    nulls: int
    lbi: int
    audited: int
    agreement: int
    looks_null: int
    looks_leaning: int
    looks: tuple[int, ...]
    looks_lists: int
    consensus: int
    consensus_slow: int
    single_draws: int
    speed_sizes: tuple[int, ...]
    speed_limit: float
    growth: dict[str, list[int]]
    slow: dict[str, int]

    @classmethod
    def of(cls, name: str) -> Size:
        """Read a size."""
        numbers: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in SETTLED[name].items()
        }
        return cls(name=name, **numbers)

    def sets(self, scenario: Scenario, method: str) -> int:
        """Data sets of a scenario for a method: the slow ones get fewer, or none."""
        if scenario.is_null:
            most = self.nulls
        else:
            most = self.audited if scenario in AUDITED else self.breakers if scenario in BREAKERS else self.crowds
        few = self.slow.get(method, self.lbi if method == "lbi" else most)
        if method in self.slow and scenario not in LARGE:
            few = max(3 * few, 1)  # small teams cost less
        return min(most, few)


FULL = Size.of("full")


def cells(size: Size) -> dict[str, list[Cell]]:
    """Give the cells of every table, in the order in which they are computed."""
    return {
        "paper": _paper(size),
        "real": _real(size),
        "quality": _quality(size),
        "looks": _looks(size),
        "consensus": _consensus(size),
        "speed": [*_speed(size), *_growth(size)],
    }


def _paper(size: Size) -> list[Cell]:
    found = []
    for p1 in ERRORS:
        for p2 in CLICKS:
            name, at = f"{100 * p1:.0f}-{100 * p2:.0f}", {"p1": p1, "p2": p2, "runs": size.paper}
            found.append(Cell(f"paper-{name}", f"{PACKAGE}.paper_tables:paper_cell", at))
            at = {"p1": p1, "p2": p2, "runs": size.paper_default}
            found.append(Cell(f"exact-{name}", f"{PACKAGE}.paper_exact:exact_cell", at))
    return found


def _real(size: Size) -> list[Cell]:
    found = []
    for name in real_data.PAPERS:
        if state := real_data.state(name):
            at: dict[str, Any] = {"name": name, "draws": size.single_draws}
            found.append(Cell(f"printed-{name}", f"{PACKAGE}.paper_sets:study", at, state))
    for name in real_data.OTHERS:
        if state := real_data.state(name):
            found.append(Cell(f"real-{name}", f"{PACKAGE}.real_data:other", {"name": name}, state))
    return found


def _quality(size: Size) -> list[Cell]:
    found = []
    for scenario in EVERY.values():
        for method in methods_for(scenario):
            if runs := size.sets(scenario, method):
                found.append(_quality_cell(method, scenario.name, runs))
    for name in AGREEMENT:
        at = {"scenario": name, "runs": size.agreement}
        found.append(Cell(f"agreement-{name}", f"{PACKAGE}.peers:glm_agreement", at))
    return found


def methods_for(scenario: Scenario) -> tuple[str, ...]:
    """Every method on the crowds that all tables speak of; on the others what one would do by hand, and LBI."""
    if scenario in (*LARGE, *SMALL):
        return (*OURS, *BY_HAND, "oracle", *SLOW_PEERS)
    return ("evenhand", "lbi", *BY_HAND)


def _quality_cell(method: str, scenario: str, runs: int) -> Cell:
    module = "ours" if method in OURS else "peers"
    at = {"method": method, "scenario": scenario, "runs": runs}
    return Cell(f"quality-{scenario}-{method}", f"{PACKAGE}.{module}:quality", at)


def _looks(size: Size) -> list[Cell]:
    found = []
    for looks in size.looks:
        for n_biased in (0, 12):
            at = {"n_biased": n_biased, "looks": looks, "runs": size.looks_leaning if n_biased else size.looks_null}
            # joining one by one is the milder case: shown at the fewest looks
            for crowd in ("together", "joining") if looks == min(size.looks) else ("together",):
                cell = f"lasting-{crowd}-{looks}-{n_biased}"
                found.append(Cell(cell, f"{PACKAGE}.looks:lasting", at | {"crowd": crowd}))
            at = at | {"runs": size.looks_lists}
            found.append(Cell(f"lists-{looks}-{n_biased}", f"{PACKAGE}.looks:accumulated", at))
    return found


def _consensus(size: Size) -> list[Cell]:
    found = []
    for shared in (False, True):
        for share in SHARES:
            name = consensus_name(share, shared)
            at = {"share": share, "shared": shared, "runs": size.consensus}
            found.append(Cell(f"consensus-ours-{name}", f"{PACKAGE}.consensus_ours:ours", at))
            at = at | {"slow_runs": size.consensus_slow}
            found.append(Cell(f"consensus-peers-{name}", f"{PACKAGE}.consensus:peers", at))
    return found


def consensus_name(share: float, shared: bool) -> str:
    """Name of a cell of the consensus table."""
    return f"{'shared' if shared else 'own'}-{100 * share:.0f}"


def _speed(size: Size) -> list[Cell]:
    found = []
    for m in size.speed_sizes:
        for kind, methods in (("ours", SPEED_OURS), ("peers", SPEED_PEERS)):
            for method in methods:
                at = {"method": method, "shape": [m, 200, 30 * m], "limit": size.speed_limit}
                found.append(Cell(f"speed-{m}-{method}", f"{PACKAGE}.speed_{kind}:measure", at))
    return found


def _growth(size: Size) -> list[Cell]:
    found = []
    for axis, steps in size.growth.items():
        for method in ("exact", "lbi"):
            for step in steps:
                at = {"method": method, "shape": growth_shape(axis, step), "limit": size.speed_limit}
                found.append(Cell(f"growth-{axis}-{step}-{method}", f"{PACKAGE}.speed_ours:measure", at))
    return found


def growth_shape(axis: str, step: int) -> list[int]:
    """(annotators, items, answers): annotators bring 30 answers each, items and answers grow in a crowd of 300."""
    return {"annotators": [step, 200, 30 * step], "items": [300, step, 100_000], "answers": [300, 200, step]}[axis]


def needs_quiet(cell: Cell) -> bool:
    """Whether a cell measures time, so that nothing else may run beside it."""
    return cell.name.startswith(("speed-", "growth-", "cost-"))


def in_order(chosen: list[Cell]) -> list[Cell]:
    """Slow peers come last, and after them what measures time, so that a run that is cut short has what matters."""
    return sorted(chosen, key=lambda cell: (needs_quiet(cell), cell.parameters.get("method") in SLOW_PEERS))
