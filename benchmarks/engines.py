"""What summing an archive costs by engine: seconds and peak memory of DuckDB, Spark, memory, and pandas as the floor.

python -m benchmarks.engines                      10M answers as Parquet, in eight files
python -m benchmarks.engines --quick              1M answers
python -m benchmarks.engines --rows 1000000 --engines duckdb memory spark
python -m benchmarks.engines --wide --limit 5     the same with 400 characters beside every answer, in 5 GB

Every case runs in a process of its own, so that its peak memory is its own; Spark's is that of Java beside it. With
``--limit`` a process may take so many GB of addresses and no more: an archive larger than memory without a larger disk.
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

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.growth_fill import ANSWERS_PER_TASK, Crowd

FILES = 8
MINUTES = 20
ENGINES = ("pandas", "memory", "duckdb", "duckdb 1GB", "spark")
WIDTH = 400


def write(folder: Path, size: int, *, wide: bool = False) -> None:
    """The archive: one folder of Parquet files, and a folder with one file for the engine that reads one."""
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
    whole = pq.ParquetWriter(folder / "all.parquet", _arrow(frame.iloc[:1], wide).schema)
    for part in range(FILES):
        table = _arrow(frame.iloc[part::FILES], wide)
        pq.write_table(table, folder / "parts" / f"{part}.parquet")
        whole.write_table(table)
    whole.close()


def _arrow(frame: pd.DataFrame, wide: bool) -> pa.Table:
    """A table of some answers; ``wide`` adds the comment that an export of a real project would carry."""
    table = pa.Table.from_pandas(frame, preserve_index=False)
    if not wide:
        return table
    letters = np.random.default_rng(len(frame)).integers(97, 123, size=len(frame) * WIDTH, dtype=np.uint8)
    ends = np.arange(len(frame) + 1, dtype=np.int64) * WIDTH
    comments = pa.LargeStringArray.from_buffers(len(frame), pa.py_buffer(ends), pa.py_buffer(letters))
    return table.append_column("comment", comments)


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
        "java_mb": _peak_of_java() if engine == "spark" else 0.0,
        "answers": len(found) if engine == "pandas" else int(found.n),
    }


def _peak_of_java() -> float:
    """Peak resident MB of the Java process that this one started."""
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway
    status = Path(f"/proc/{gateway.proc.pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=list(ENGINES[:-1]))
    parser.add_argument("--wide", action="store_true", help=f"{WIDTH} characters beside every answer")
    parser.add_argument("--limit", type=float, metavar="GB", help="addresses that a process may take")
    parser.add_argument("--case", nargs=2, metavar=("ENGINE", "FOLDER"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        if options.limit:
            resource.setrlimit(resource.RLIMIT_AS, (int(options.limit * 1e9),) * 2)
        print(json.dumps(case(options.case[0], Path(options.case[1]))))
        return
    rows = 1_000_000 if options.quick else options.rows
    print(f"{os.cpu_count()} cores, {time.strftime('%Y-%m-%d')}, load average {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), rows, wide=options.wide)
        size = sum(path.stat().st_size for path in (Path(folder) / "parts").iterdir()) / 1e6
        limit = f", {options.limit:g} GB for a process" if options.limit else ""
        print(
            f"{rows:,} answers, {size:,.0f} MB of Parquet{limit}\n\n"
            "| engine | seconds | CPU seconds | peak memory (MB) |"
        )
        print("|---|---|---|---|")
        for engine in options.engines:
            command = [sys.executable, "-m", "benchmarks.engines", "--case", engine, folder]
            if options.limit:
                command += ["--limit", str(options.limit)]
            try:
                ended = subprocess.run(command, capture_output=True, text=True, timeout=60 * MINUTES, check=False)
            except subprocess.TimeoutExpired:
                print(f"| {engine} | left out: not within {MINUTES} minutes | | |", flush=True)
                continue
            if ended.returncode:
                reason = (ended.stderr.strip() or f"ended by signal {-ended.returncode}").splitlines()[-1]
                print(f"| {engine} | failed: {reason[:120]} | | |", flush=True)
                continue
            found = json.loads(ended.stdout.splitlines()[-1])
            assert found["answers"] == rows
            beside = f" + {found['java_mb']:,.0f} in Java" if found["java_mb"] else ""
            print(
                f"| {engine} | {found['seconds']:.1f} | {found['cpu']:.1f} | {found['mb']:,.0f}{beside} |", flush=True
            )


if __name__ == "__main__":
    main()
