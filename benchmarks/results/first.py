"""The first page: which cells it is made of. Their records are kept with the code, so that their age can be seen."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.results import real_data
from benchmarks.results.cells import Cell, Store, is_fresh
from benchmarks.results.plan import PACKAGE, SETTLED
from harness.premises import EVERY

FILE = Path(__file__).with_name("first.json")
PLAN: dict[str, Any] = SETTLED["first"]
#: Crowds of the table of finds, and the methods beside ours; the oracle knows clickers only.
FOUND = ("team-30", "H1", "H3", "H7", "shift", "batch-coins", "shared-30x100", "unique-pairs", "team-better-left")
BESIDE = ("binomial", "glm", "storey", "lbi")
CLICKERS = ("team-30", "H1", "H3", "H7")
#: Sets in both orders, of which one is shown; and the paper's, with the annotators that it names.
SHOWN_ONCE = (
    *((name, shared) for name in ("reife_mtbench", "llmbar_features") for shared in (False, True)),
    ("prd_both_orders", True),
)
SHARES = (0.0, 0.1, 0.3)
COSTS = {"10,000": [100, 100, 10_000], "100,000": [1000, 200, 100_000], "1,000,000": [10_000, 200, 1_000_000]}
TIMED = ("exact", "lbi", "glm")


def cells() -> list[Cell]:
    """Every cell of the page; those that measure time come last."""
    found = [_crowd(name, "evenhand", PLAN["null" if crowd.is_null else "leaning"]) for name, crowd in EVERY.items()]
    for name in FOUND:
        beside = (*BESIDE, "oracle") if name in CLICKERS else BESIDE
        found += [_crowd(name, method, PLAN["lbi" if method == "lbi" else "leaning"]) for method in beside]
    for name, shared in SHOWN_ONCE:
        at = {"name": name, "shared": shared, "draws": PLAN["draws"], "lbi_draws": PLAN["lbi_draws"]}
        found.append(_real(f"once-{name}-{'shared' if shared else 'own'}", "judges:shown_once", at))
    found += [_real(f"list-{name}", "judges:papers_list", {"name": name}) for name in real_data.PAPERS]
    found.append(_real("ages", "paper_sets:true_order", {"name": "humanage"}))
    for looks in PLAN["looks"]:
        for leaning in (0, 12):
            at = {"crowd": "together", "n_biased": leaning, "looks": looks, "runs": PLAN["lasting"]}
            found.append(Cell(f"lasting-{looks}-{leaning}", f"{PACKAGE}.looks:lasting", at))
    for share in SHARES:
        for what in ("reward", "ranking"):
            at = {"share": share, "runs": PLAN["gain"]}
            found.append(Cell(f"{what}-{100 * share:.0f}", f"{PACKAGE}.gain:{what}", at))
    for size, shape in COSTS.items():
        for method in TIMED:
            module = "speed_peers" if method == "glm" else "speed_ours"
            at = {"method": method, "shape": shape, "limit": 120}
            found.append(Cell(f"cost-{size.replace(',', '')}-{method}", f"{PACKAGE}.{module}:measure", at))
    return found


def _crowd(name: str, method: str, runs: int) -> Cell:
    module = "ours" if method in ("evenhand", "lbi") else "peers"
    runs = min(runs, PLAN["slow"].get(name, runs))
    at = {"method": method, "scenario": name, "runs": runs}
    return Cell(f"{name}-{method}", f"{PACKAGE}.{module}:quality", at)


def _real(name: str, function: str, at: dict[str, Any]) -> Cell:
    return Cell(name, f"{PACKAGE}.{function}", at, real_data.state(at["name"]))


def is_here(cell: Cell) -> bool:
    """Whether the data set that a cell reads is at hand; of simulated crowds, always."""
    return "name" not in cell.parameters or bool(cell.state)


def kept() -> dict[str, Any]:
    """The records that are kept with the code, by name."""
    if not FILE.is_file():
        return {}
    read = json.loads(FILE.read_text(encoding="utf-8"))
    return {name: record | {"modules": read["modules"][record["modules"]]} for name, record in read["records"].items()}


def aged(records: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Cells whose record is missing or older than the code: those that can be computed here, and those that cannot."""
    old = [cell for cell in cells() if not is_kept(records.get(cell.name), cell)]
    return [cell.name for cell in old if is_here(cell)], [cell.name for cell in old if not is_here(cell)]


def is_kept(record: dict[str, Any] | None, cell: Cell) -> bool:
    """Whether a record is there and as old as the code."""
    if record is None:
        return False
    if not is_here(cell):  # without its data nobody can tell their state
        record = record | {"asked": record["asked"] | {"state": ""}}
    return is_fresh(record, cell)


def keep(store: Store) -> dict[str, Any]:
    """Write the records of the page beside the code: those just computed, else those that were there."""
    before = kept()
    found = ((cell.name, store.read(cell) or before.get(cell.name)) for cell in cells())
    records = {name: record for name, record in found if record}
    modules: list[list[str]] = []
    lines = []
    for name, record in records.items():
        if record["modules"] not in modules:
            modules.append(record["modules"])
        lines.append(f"{json.dumps(name)}: {json.dumps(record | {'modules': modules.index(record['modules'])})}")
    parts = (",\n".join(json.dumps(names) for names in modules), ",\n".join(lines))
    FILE.write_text('{{"modules": [\n{}\n],\n"records": {{\n{}\n}}}}\n'.format(*parts), encoding="utf-8")
    return records
