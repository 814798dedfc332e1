"""Regenerate docs/results.md: `python -m benchmarks.evidence [--quick] [--only TABLE ...] [--out docs]`."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def main(arguments: list[str] | None = None) -> int:
    """Compute what is missing, then write the document and its figures."""
    for name in THREADS:  # before numpy is loaded, here and in every process started from here
        os.environ[name] = "1"
    from benchmarks.evidence import plan
    from benchmarks.evidence.cells import ROOT, Store, run_cells

    options = _options(plan.TABLES, arguments)
    size = plan.QUICK if options.quick else plan.FULL
    store = Store(Path(options.store or ROOT / ".cache" / "evidence") / size.name)
    tables = plan.cells(size)
    wanted = plan.in_order([cell for table in (options.only or plan.TABLES) for cell in tables[table]])
    if options.peers_only:
        wanted = [cell for cell in wanted if not plan.depends_on_detection(cell)]
    failed = []
    if not options.render:
        minutes = options.minutes or size.minutes
        left = run_cells(wanted, store, processes=options.processes, minutes=minutes)
        failed = left.failed
        if left.unreached:
            print(f"time is up, {len(left.unreached)} cells are left; run the same command again to go on")
        if failed:
            print(f"ended in an error: {', '.join(failed)}; the messages are above")
    if options.peers_only:
        return 0
    from benchmarks.evidence.render import write

    print(f"wrote {write(store, size, Path(options.out or ROOT / 'docs'))}")
    return 1 if failed else 0


def _options(tables: tuple[str, ...], arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.evidence", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few runs, in less than ten minutes")
    parser.add_argument("--only", nargs="+", choices=tables, metavar="TABLE", help=f"some of {', '.join(tables)}")
    parser.add_argument("--out", help="folder of results.md and images/results (docs)")
    parser.add_argument("--store", help="folder of the stored cells (.cache/evidence)")
    parser.add_argument("--minutes", type=float, help="start no cell after this time")
    parser.add_argument("--processes", type=int, default=2, help="cells side by side (2)")
    parser.add_argument("--peers-only", action="store_true", help="only cells that do not depend on the detection")
    parser.add_argument("--render", action="store_true", help="compute nothing; write what is stored")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
