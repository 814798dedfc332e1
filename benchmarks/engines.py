"""What summing an archive costs by engine: seconds and peak memory of DuckDB, Spark, memory, and pandas as the floor.

python -m benchmarks.engines                      10M answers as Parquet, in eight files
python -m benchmarks.engines --quick              1M answers
python -m benchmarks.engines --rows 1000000 --engines duckdb memory spark

Every case runs in a process of its own, so that its peak memory is its own; Spark's is that of Java beside it.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks.growth_fill import ANSWERS_PER_TASK, Crowd

FILES = 8
MINUTES = 20
ENGINES = ("pandas", "memory", "duckdb", "duckdb 1GB", "spark")


def write(folder: Path, size: int) -> None:
    """The archive: one folder of Parquet files, and one file with everything for the engine that reads one."""
    crowd = Crowd.of(size)
    frame = pd.DataFrame(
        {
            "annotator": crowd.annotator,
            "left": crowd.left,
            "right": crowd.right,
            "outcome": crowd.outcome,
            "task": [f"task {number // ANSWERS_PER_TASK}" for number in range(size)],
        }
    )
    (folder / "parts").mkdir()
    for part in range(FILES):
        frame.iloc[part::FILES].to_parquet(folder / "parts" / f"{part}.parquet", index=False)
    frame.to_parquet(folder / "all.parquet", index=False)


def case(engine: str, folder: Path) -> dict[str, Any]:
    """Sum by one engine, and tell what it took."""
    from fdr_core import Comparisons
    from fdr_core.engines import read_statistics, sum_comparisons

    parts, whole = [str(folder / "parts")], folder / "all.parquet"
    work: dict[str, Callable[[], Any]] = {
        "pandas": lambda: pd.read_parquet(whole),
        "memory": lambda: sum_comparisons(Comparisons.from_parquet(whole)).sums,
        "duckdb": lambda: read_statistics(parts).sums,
        "duckdb 1GB": lambda: read_statistics(parts, memory_limit="1GB").sums,
        "spark": lambda: read_statistics(parts, engine="spark", master="local[2]").sums,
    }
    begun, spent = time.perf_counter(), time.process_time()
    found = work[engine]()
    return {
        "seconds": time.perf_counter() - begun,
        "cpu": time.process_time() - spent,
        "mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "java_mb": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024 if engine == "spark" else 0.0,
        "answers": len(found) if engine == "pandas" else int(found.n),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=list(ENGINES[:-1]))
    parser.add_argument("--case", nargs=2, metavar=("ENGINE", "FOLDER"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        print(json.dumps(case(options.case[0], Path(options.case[1]))))
        return
    rows = 1_000_000 if options.quick else options.rows
    print(f"{os.cpu_count()} cores, {time.strftime('%Y-%m-%d')}, load average {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), rows)
        size = sum(path.stat().st_size for path in (Path(folder) / "parts").iterdir()) / 1e6
        print(f"{rows:,} answers, {size:,.0f} MB of Parquet\n\n| engine | seconds | CPU seconds | peak memory (MB) |")
        print("|---|---|---|---|")
        for engine in options.engines:
            command = [sys.executable, "-m", "benchmarks.engines", "--case", engine, folder]
            try:
                ended = subprocess.run(command, capture_output=True, text=True, timeout=60 * MINUTES, check=False)
            except subprocess.TimeoutExpired:
                print(f"| {engine} | left out: not within {MINUTES} minutes | | |", flush=True)
                continue
            if ended.returncode:
                raise SystemExit(f"{engine} failed: {ended.stderr[-2000:]}")
            found = json.loads(ended.stdout.splitlines()[-1])
            assert found["answers"] == rows
            beside = f" + {found['java_mb']:,.0f} in Java" if found["java_mb"] else ""
            print(
                f"| {engine} | {found['seconds']:.1f} | {found['cpu']:.1f} | {found['mb']:,.0f}{beside} |", flush=True
            )


if __name__ == "__main__":
    main()
