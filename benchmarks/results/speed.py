"""Seconds and peak memory by size, every case in a process of its own."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.results.quality import CannotRunError
from fdr_core.comparisons import Comparisons
from harness.crowds import shaped

ROOT = Path(__file__).resolve().parent.parent.parent
SMALL_CALL = (50, 200, 1500)


def crowd(n_annotators: int, n_items: int, n_answers: int) -> Comparisons:
    """A crowd of this shape."""
    return shaped(n_annotators, n_items, n_answers, rng=np.random.default_rng(1)).comparisons


def measure(case: str, shape: Sequence[int], limit: float) -> dict[str, Any]:
    """Run a case ("module:function") in a fresh process, at most ``limit`` seconds."""
    command = [sys.executable, "-m", "benchmarks.results.speed", case, *map(str, shape)]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False, cwd=ROOT)
    except subprocess.TimeoutExpired:
        return {"reason": f"stopped after {limit:.0f} s"}
    if answer.returncode != 0:
        said = answer.stderr.strip().splitlines()
        return {"reason": f"ended with code {answer.returncode}: {said[-1][:120] if said else 'killed'}"}
    told: dict[str, Any] = json.loads(answer.stdout.strip().splitlines()[-1])
    return told


def child(case: Callable[[Comparisons], Any], shape: Sequence[int]) -> dict[str, Any]:
    """Measure a case in this process after a first small call: seconds by clock and processor, peak memory."""
    with suppress(CannotRunError):
        case(crowd(*SMALL_CALL))  # imports and first-call set-up of the packages are not the work
    comparisons = crowd(*shape)
    before = peak_megabytes()
    begun, busy = time.perf_counter(), time.process_time()
    try:
        case(comparisons)
    except CannotRunError as reason:
        return {"reason": str(reason)}
    return {
        "seconds": round(time.perf_counter() - begun, 4),
        "cpu": round(time.process_time() - busy, 4),
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


def main(case: str, *shape: str) -> None:
    """Entry of the child process."""
    module, name = case.split(":")
    function = getattr(import_module(module), name)
    size = [int(number) for number in shape]
    print(json.dumps(child(lambda comparisons: function(comparisons, 0, comparisons.n_annotators // 10), size)))


if __name__ == "__main__":
    main(*sys.argv[1:])
