"""Run the checks and the test suite part by part and close with a summary: `python scripts/run_tests.py [PART ...]`.

Static checks run beside the tests: they need one core for a while, and the tests rarely keep every core busy.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SERVERS = "postgres or browser or labelstudio or spark"
#: On two cores; who has nothing left takes over tests of the other.
SIDE_BY_SIDE = ("-n", "2", "--dist", "worksteal")


@dataclass(frozen=True)
class Part:
    """A name, and the modules that are run for it one after the other, with their arguments."""

    name: str
    commands: tuple[tuple[str, ...], ...]
    is_beside: bool = False


def tests(name: str, markers: str, *options: str) -> Part:
    """A part that is one run of pytest."""
    return Part(name, (("pytest", "-q", "-m", markers, *options),))


# A test with several markers runs once, in the part that is named last. Parts that start servers run one test at
# a time, so that each server is started once.
PARTS = (
    Part("static", (("ruff", "format", "--check"), ("ruff", "check"), ("mypy",)), is_beside=True),
    tests("unit", f"not slow and not ({SERVERS})", *SIDE_BY_SIDE),
    tests("statistical", f"slow and not ({SERVERS})", *SIDE_BY_SIDE, "--durations=15"),
    tests("postgres", "postgres and not browser and not labelstudio", "--durations=5"),
    tests("spark", "spark and not postgres and not browser and not labelstudio", "--durations=5"),
    tests("browser", "browser and not labelstudio", "--durations=5"),
    tests("labelstudio", "labelstudio", "--durations=10"),
)


@dataclass(frozen=True)
class Outcome:
    """How a part ended: the first exit code that is not zero, and the closing line of what was run last."""

    part: Part
    code: int
    closing: str
    seconds: float


def run(part: Part) -> Outcome:
    """Run one part up to its first failure, passing its output through as it comes."""
    started, code, closing = time.monotonic(), 0, ""
    for command in part.commands:
        print(f"\n### {part.name}: {' '.join(command)}", flush=True)
        code, closing = _run_module(command)
        if code:
            break
    return Outcome(part, code, closing, time.monotonic() - started)


def _run_module(command: tuple[str, ...]) -> tuple[int, str]:
    line = [sys.executable, "-u", "-m", *command]
    # Compiled tests are kept: without them every worker and every started program compiles all it imports.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    closing = ""
    with subprocess.Popen(
        line, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        for said in process.stdout:
            print(said, end="", flush=True)
            closing = said.strip() or closing
    return process.returncode, closing


def run_all(parts: Sequence[Part]) -> list[Outcome]:
    """Run the parts in their order, those that may stand beside others meanwhile."""
    with ThreadPoolExecutor(max_workers=1) as pool:
        beside = {part: pool.submit(run, part) for part in parts if part.is_beside}
        found = {part: run(part) for part in parts if not part.is_beside}
        found |= {part: outcome.result() for part, outcome in beside.items()}
    return [found[part] for part in parts]


def summarise(outcomes: list[Outcome], seconds: float) -> int:
    """Print one line per part, ending in the tool's own words, and return the first exit code that is not zero."""
    print("\n### summary")
    for outcome in outcomes:
        word = "ok" if outcome.code == 0 else f"FAILED (exit code {outcome.code})"
        print(f"{outcome.part.name:12s} {outcome.seconds:7.0f} s  {word}: {outcome.closing}")
    print(f"{'total':12s} {seconds:7.0f} s")
    return next((outcome.code for outcome in outcomes if outcome.code), 0)


def main(names: list[str]) -> int:
    """Run the named parts, or all."""
    known = [part.name for part in PARTS]
    unknown = sorted(set(names) - set(known))
    if unknown:
        print(f"unknown part {', '.join(unknown)}; the parts are {', '.join(known)}", file=sys.stderr)
        return 2
    begun = time.monotonic()
    outcomes = run_all([part for part in PARTS if not names or part.name in names])
    return summarise(outcomes, time.monotonic() - begun)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
