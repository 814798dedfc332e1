"""Regenerate docs/results.md: `python -m benchmarks.results [--quick] [--only TABLE ...] [--out docs]`."""

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


def main(arguments: list[str] | None = None) -> int:
    """Compute what is missing, then write the document and its figures."""
    for name in THREADS:  # before numpy is loaded, here and in every process started from here
        os.environ[name] = "1"
    from benchmarks.results import plan
    from benchmarks.results.cells import ROOT, Store

    options = _options(plan.TABLES, arguments)
    size = plan.QUICK if options.quick else plan.FULL
    store = Store(Path(options.store or ROOT / ".cache" / "results") / size.name)
    tables = plan.cells(size)
    wanted = plan.in_order([cell for table in (options.only or plan.TABLES) for cell in tables[table]])
    if options.peers_only:
        wanted = [cell for cell in wanted if not plan.depends_on_detection(cell)]
    failed: list[str] = []
    if not options.render:
        failed, unreached = _compute(wanted, store, options.minutes or size.minutes, options.processes)
        if unreached:
            print(f"time is up, {len(unreached)} cells are left; run the same command again to go on")
        if failed:
            print(f"ended in an error: {', '.join(failed)}; the messages are above")
    if options.peers_only:
        return 0
    from benchmarks.results.render import write

    print(f"wrote {write(store, size, Path(options.out or ROOT / 'docs'))}")
    return 1 if failed else 0


def _compute(wanted: list[Cell], store: Store, minutes: float, processes: int) -> tuple[list[str], list[str]]:
    """Compute side by side what may be, then one by one what measures time; return what failed and what is left."""
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
    return failed, unreached


def _options(tables: tuple[str, ...], arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.results", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few data sets, in less than eight minutes")
    parser.add_argument("--only", nargs="+", choices=tables, metavar="TABLE", help=f"some of {', '.join(tables)}")
    parser.add_argument("--out", help="folder of results.md and images/results (docs)")
    parser.add_argument("--store", help="folder of the stored cells (.cache/results)")
    parser.add_argument("--minutes", type=float, help="start no cell after this time")
    parser.add_argument("--processes", type=int, default=2, help="cells side by side (2)")
    parser.add_argument("--peers-only", action="store_true", help="only cells that do not depend on the detection")
    parser.add_argument("--render", action="store_true", help="compute nothing; write what is stored")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
