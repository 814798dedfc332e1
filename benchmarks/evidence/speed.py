"""Seconds and peak memory by size, every case in a process of its own."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.evidence.quality import CannotRun
from fdr_core.comparisons import Comparisons
from fdr_core.simulate import shaped

ROOT = Path(__file__).resolve().parent.parent.parent
SIZES = (150, 300, 600, 1_000, 10_000)
N_ITEMS, ANSWERS_EACH = 200, 30


def crowd(m: int) -> Comparisons:
    """m annotators with about 30 answers each on 200 items."""
    return shaped(m, N_ITEMS, ANSWERS_EACH * m, rng=np.random.default_rng(1)).comparisons


def measure(case: str, m: int, limit: float) -> dict[str, Any]:
    """Run a case ("module:function") in a fresh process, at most ``limit`` seconds."""
    command = [sys.executable, "-m", "benchmarks.evidence.speed", case, str(m)]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False, cwd=ROOT)
    except subprocess.TimeoutExpired:
        return {"reason": f"stopped after {limit:.0f} s"}
    if answer.returncode != 0:
        said = answer.stderr.strip().splitlines()
        return {"reason": f"ended with code {answer.returncode}: {said[-1][:120] if said else 'killed'}"}
    return json.loads(answer.stdout.strip().splitlines()[-1])


def child(case: Callable[[Comparisons], Any], m: int) -> dict[str, Any]:
    """Measure a case in this process: seconds after a first small call, peak memory, and memory before."""
    with suppress(CannotRun):
        case(crowd(50))  # imports and first-call set-up of the packages are not the work
    comparisons = crowd(m)
    before = peak_megabytes()
    begun = time.perf_counter()
    try:
        case(comparisons)
    except CannotRun as reason:
        return {"reason": str(reason)}
    seconds = time.perf_counter() - begun
    return {
        "seconds": round(seconds, 4),
        "megabytes": peak_megabytes(),
        "before": before,
    }


def peak_megabytes() -> float:
    """Peak memory of this process; ``ru_maxrss`` would count the parent's from before the program was replaced."""
    status = Path("/proc/self/status")
    if not status.is_file():
        return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)
    line = next(line for line in status.read_text(encoding="ascii").splitlines() if line.startswith("VmHWM"))
    return round(int(line.split()[1]) / 1024, 1)


def main(case: str, m: str) -> None:
    """Entry of the child process."""
    module, name = case.split(":")
    function = getattr(import_module(module), name)
    print(json.dumps(child(lambda comparisons: function(comparisons, 0, comparisons.n_annotators // 10), int(m))))


if __name__ == "__main__":
    main(*sys.argv[1:])
