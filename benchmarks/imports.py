"""How long importing takes, in new processes: with bytecode, and cold, without any. `python -m benchmarks.imports`.

Wall time, and beside it the processor's, which a busy machine does not change.
"""

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping

REPEATS = 5
PROGRAMS = {
    "import fdr_core": ["-c", "import fdr_core"],
    "import fdr_core.judges.record": ["-c", "import fdr_core.judges.record"],
    "from fdr_core import Comparisons, detect": ["-c", "from fdr_core import Comparisons, detect"],
    "evenhand --help": ["-m", "evenhand.cli", "--help"],
    "evenhand analyze --help": ["-m", "evenhand.cli", "analyze", "--help"],
    "python alone": ["-c", "pass"],
}


def seconds(arguments: list[str], environment: Mapping[str, str]) -> tuple[float, float]:
    """Wall and processor time of one new process."""
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True, env=dict(environment))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    busy = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - start, busy


def cold(arguments: list[str]) -> tuple[float, float]:
    """The same where no bytecode is stored yet, as right after an installation."""
    with tempfile.TemporaryDirectory() as folder:
        return seconds(arguments, {**os.environ, "PYTHONPYCACHEPREFIX": folder})


def main() -> None:
    """Print the table."""
    print("| seconds, of them the processor's | median of 5 | cold |\n|---|---|---|")
    for name, arguments in PROGRAMS.items():
        runs = [seconds(arguments, os.environ) for _ in range(REPEATS)]
        warm = [statistics.median(column) for column in zip(*runs, strict=True)]
        first = cold(arguments)
        print(f"| `{name}` | {warm[0]:.2f}, {warm[1]:.2f} | {first[0]:.2f}, {first[1]:.2f} |")


if __name__ == "__main__":
    main()
