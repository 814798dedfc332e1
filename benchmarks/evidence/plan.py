"""Which cells there are, and how many runs each gets, in the full and in the quick evidence."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.evidence import real_data
from benchmarks.evidence.cells import Cell, closure
from benchmarks.evidence.paper_tables import CLICKS, ERRORS
from benchmarks.evidence.scenarios import AUDITED, EXTRA, LARGE, SMALL, Scenario

PACKAGE = "benchmarks.evidence"
OURS = ("evenhand", "one-draw", "paper")
PEERS = ("binomial", "glm", "noisy-bt", "knockpy", "statsmodels-knockoff", "paper-dense", "oracle")
SPEED_PEERS = ("binomial", "glm", "statsmodels-glm", "noisy-bt", "knockpy", "statsmodels-knockoff", "paper-dense")
SPEED_OURS = ("evenhand", "one-draw", "paper-draw")
AGREEMENT = ("H1", "H2", "H7", "team-30")
#: Where the gap to the oracle is measured against the first run, on the same data sets.
GAP = ("H1", "H2", "H3", "H6")
SHARES = (0.0, 0.1, 0.3)
TABLES = ("quality", "paper", "real", "seeds", "looks", "consensus", "speed")


@dataclass(frozen=True)
class Size:
    """Numbers of runs; slow peers get fewer."""

    name: str
    minutes: float
    paper: int
    paper_default: int
    gap: int
    large: int
    small: int
    slow: dict[str, int]
    closer: dict[tuple[str, str], int]
    audited: int
    agreement: int
    looks: dict[int, int]
    flicker: int
    consensus: int
    consensus_slow: int
    seeds: int
    speed_sizes: tuple[int, ...]
    speed_limit: float
    real_draws: int


FULL = Size(
    name="full",
    minutes=90,
    paper=100,
    paper_default=40,
    gap=100,
    large=60,
    small=200,
    slow={"noisy-bt": 2, "knockpy": 3, "paper-dense": 5, "statsmodels-knockoff": 10},
    # ahead of us on three data sets, so looked at more closely; the other cells were not (tried.md)
    closer={("H6", "knockpy"): 12, ("H8", "knockpy"): 12},
    audited=20,
    agreement=3,
    looks={10: 40, 50: 20},
    flicker=6,
    consensus=40,
    consensus_slow=8,
    seeds=20,
    speed_sizes=(150, 300, 600, 1_000, 10_000),
    speed_limit=240,
    real_draws=51,
)
QUICK = Size(
    name="quick",
    minutes=8,
    paper=4,
    paper_default=2,
    gap=6,
    large=6,
    small=20,
    slow={"noisy-bt": 0, "knockpy": 0, "paper-dense": 1, "statsmodels-knockoff": 2},
    closer={},
    audited=3,
    agreement=1,
    looks={10: 4},
    flicker=1,
    consensus=4,
    consensus_slow=1,
    seeds=2,
    speed_sizes=(150, 600),
    speed_limit=100,
    real_draws=21,
)


def cells(size: Size) -> dict[str, list[Cell]]:
    """Give the cells of every table, in the order in which they are computed."""
    return {
        "paper": _paper(size),
        "real": _real(size),
        "quality": _quality(size),
        "looks": _looks(size),
        "consensus": _consensus(size),
        "seeds": [Cell("seeds-H1", f"{PACKAGE}.ours:seeds", {"scenario": "H1", "runs": size.seeds})],
        "speed": _speed(size),
    }


def _paper(size: Size) -> list[Cell]:
    found = []
    for p1 in ERRORS:
        for p2 in CLICKS:
            name, at = f"{100 * p1:.0f}-{100 * p2:.0f}", {"p1": p1, "p2": p2, "runs": size.paper}
            found.append(Cell(f"paper-{name}", f"{PACKAGE}.paper_tables:paper_cell", at))
            at = at | {"default_runs": size.paper_default}
            found.append(Cell(f"flips-{name}", f"{PACKAGE}.paper_flips:flips_cell", at))
    return found


def _real(size: Size) -> list[Cell]:
    found = []
    for name in real_data.SETS:
        state = real_data.state(name)
        if not state:
            continue
        if name == "worldcollege":
            at, function = {"draws": size.real_draws}, "worldcollege"
        else:
            at, function = {"name": name}, "other"
        found.append(Cell(f"real-{name}", f"{PACKAGE}.real_data:{function}", at, state))
    return found


def _quality(size: Size) -> list[Cell]:
    found = []
    for scenario in (*LARGE, *SMALL):
        runs = full_runs(size, scenario)
        for method in (*OURS, *PEERS):
            few = size.closer.get((scenario.name, method), size.slow.get(method, runs))
            # small teams cost less; a quick look leaves the slowest peers to them
            count = min(runs, few if scenario in LARGE else max(3 * few, 1))
            if count:
                found.append(_quality_cell(method, scenario.name, count))
    for scenario in (*EXTRA, *AUDITED):
        runs = size.small // 2 if scenario in EXTRA else size.audited
        found.append(_quality_cell("evenhand", scenario.name, max(runs, 1)))
    for name in AGREEMENT:
        at = {"scenario": name, "runs": size.agreement}
        found.append(Cell(f"agreement-{name}", f"{PACKAGE}.peers:glm_agreement", at))
    return found


def full_runs(size: Size, scenario: Scenario) -> int:
    """Data sets of a scenario, for methods that are not slow."""
    if scenario not in LARGE:
        return size.small
    return size.gap if scenario.name in GAP else size.large


def _quality_cell(method: str, scenario: str, runs: int) -> Cell:
    module = "ours" if method in OURS else "peers"
    at = {"method": method, "scenario": scenario, "runs": runs}
    return Cell(f"quality-{scenario}-{method}", f"{PACKAGE}.{module}:quality", at)


def _looks(size: Size) -> list[Cell]:
    found = []
    for looks, runs in size.looks.items():
        for n_biased in (0, 12):
            at = {"n_biased": n_biased, "looks": looks, "runs": runs}
            found.append(Cell(f"looks-{looks}-{n_biased}", f"{PACKAGE}.looks:accumulated", at))
    for draws in (1, 11, 51):
        found.append(Cell(f"flicker-{draws}", f"{PACKAGE}.looks:flicker", {"draws": draws, "runs": size.flicker}))
    return found


def _consensus(size: Size) -> list[Cell]:
    found = []
    for shared in (False, True):
        for share in SHARES:
            name = f"{'shared' if shared else 'own'}-{100 * share:.0f}"
            at = {"share": share, "shared": shared, "runs": size.consensus}
            found.append(Cell(f"consensus-ours-{name}", f"{PACKAGE}.consensus_ours:ours", at))
            at = at | {"slow_runs": size.consensus_slow}
            found.append(Cell(f"consensus-peers-{name}", f"{PACKAGE}.consensus:peers", at))
    return found


def _speed(size: Size) -> list[Cell]:
    found = []
    for m in size.speed_sizes:
        for kind, methods in (("ours", SPEED_OURS), ("peers", SPEED_PEERS)):
            for method in methods:
                at = {"method": method, "m": m, "limit": size.speed_limit}
                found.append(Cell(f"speed-{m}-{method}", f"{PACKAGE}.speed_{kind}:measure", at))
    return found


def in_order(chosen: list[Cell]) -> list[Cell]:
    """Slow peers and the largest sizes come last, so that a run that is cut short has what matters."""
    return sorted(chosen, key=_is_slow)


def _is_slow(cell: Cell) -> bool:
    return cell.parameters.get("method") in FULL.slow or cell.parameters.get("m", 0) >= 1_000


def depends_on_detection(cell: Cell) -> bool:
    """Whether a change of the detection recomputes a cell."""
    return "fdr_core.detection" in closure(cell.function.split(":")[0]) or cell.name.startswith("paper-")
