"""Renew docs/results.md and its appendix: `python -m benchmarks.results [--quick] [--only TABLE ...]`."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.results.cells import Cell, Store

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
#: Of the first page alone; its cells take less than this on two quiet cores.
QUICK_MINUTES = 8.0


def main(arguments: list[str] | None = None) -> int:
    """Compute what is missing of the first page, then of the appendix, and write both."""
    for name in THREADS:  # before numpy is loaded, here and in every process started from here
        os.environ[name] = "1"
    from benchmarks.results import first, plan
    from benchmarks.results.cells import ROOT, Store
    from benchmarks.results.page import page

    options = _options(plan.TABLES, arguments)
    docs = Path(options.out or ROOT / "docs")
    store = Store(Path(options.store or ROOT / ".cache" / "results") / "first")
    failed: list[str] = []
    if not options.render and not options.only:
        known = first.kept()
        wanted = [
            cell for cell in first.cells() if first.is_here(cell) and not first.is_kept(known.get(cell.name), cell)
        ]
        failed += _compute(wanted, store, options.minutes or QUICK_MINUTES, options.processes)
    records = first.keep(store)
    (docs / "results.md").write_text(page(records), encoding="utf-8")
    print(f"wrote {docs / 'results.md'}")
    if not options.quick:
        failed += _appendix(options, Store(store.folder.parent / "full"), docs)
    return 1 if failed else 0


def _appendix(options: argparse.Namespace, store: Store, docs: Path) -> list[str]:
    from benchmarks.results import plan
    from benchmarks.results.render import write

    failed: list[str] = []
    if not options.render:
        tables = plan.cells(plan.FULL)
        wanted = plan.in_order([cell for table in (options.only or plan.TABLES) for cell in tables[table]])
        failed = _compute(wanted, store, options.minutes or plan.FULL.minutes, options.processes)
    print(f"wrote {write(store, plan.FULL, docs)}")
    return failed


def _compute(wanted: list[Cell], store: Store, minutes: float, processes: int) -> list[str]:
    """Compute side by side what may be, then one by one what measures time; return what failed."""
    from benchmarks.results import plan
    from benchmarks.results.cells import run_cells

    begun = time.monotonic()
    failed: list[str] = []
    unreached: list[str] = []
    for is_quiet, at_once in ((False, processes), (True, 1)):
        some = [cell for cell in wanted if plan.needs_quiet(cell) == is_quiet]
        left = run_cells(some, store, processes=at_once, minutes=minutes - (time.monotonic() - begun) / 60)
        failed += left.failed
        unreached += left.unreached
    if unreached:
        print(f"time is up, {len(unreached)} cells are left; run the same command again to go on")
    if failed:
        print(f"ended in an error: {', '.join(failed)}; the messages are above")
    return failed


def _options(tables: tuple[str, ...], arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.results", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the first page only, in less than eight minutes")
    parser.add_argument("--only", nargs="+", choices=tables, metavar="TABLE", help=f"some of {', '.join(tables)}")
    parser.add_argument("--out", help="folder of the pages and of images/results (docs)")
    parser.add_argument("--store", help="folder of the stored cells (.cache/results)")
    parser.add_argument("--minutes", type=float, help="start no cell after this time")
    parser.add_argument("--processes", type=int, default=2, help="cells side by side (2)")
    parser.add_argument("--render", action="store_true", help="compute nothing; write what is stored")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
