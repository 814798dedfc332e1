"""Run the test suite part by part and close with a summary: `python scripts/run_tests.py [PART ...]`."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SERVERS = "postgres or browser or labelstudio or spark"


@dataclass(frozen=True)
class Part:
    """One pytest run: which tests, and how many side by side."""

    name: str
    markers: str
    options: tuple[str, ...] = ()


# A test with several markers runs once, in the part that is named last. Parts that start servers run one test at
# a time, so that each server is started once.
PARTS = (
    Part("unit", f"not slow and not ({SERVERS})", ("-n", "2")),
    Part("statistical", f"slow and not ({SERVERS})", ("-n", "2", "--durations=15")),
    Part("postgres", "postgres and not browser and not labelstudio", ("--durations=5",)),
    Part("spark", "spark and not postgres and not browser and not labelstudio", ("--durations=5",)),
    Part("browser", "browser and not labelstudio", ("--durations=5",)),
    Part("labelstudio", "labelstudio", ("--durations=10",)),
)


@dataclass(frozen=True)
class Outcome:
    """How a part ended: pytest's exit code and its closing line."""

    part: Part
    code: int
    closing: str
    seconds: float


def run(part: Part) -> Outcome:
    """Run one part, passing its output through as it comes."""
    print(f"\n### {part.name}: pytest -m '{part.markers}'", flush=True)
    started = time.monotonic()
    command = [sys.executable, "-u", "-m", "pytest", "-q", "-m", part.markers, *part.options]
    closing = ""
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            closing = line.strip() or closing
    return Outcome(part, process.returncode, closing, time.monotonic() - started)


def summarise(outcomes: list[Outcome]) -> int:
    """Print one line per part, ending in pytest's own words, and return the first exit code that is not zero."""
    print("\n### summary")
    for outcome in outcomes:
        word = "ok" if outcome.code == 0 else f"FAILED (exit code {outcome.code})"
        print(f"{outcome.part.name:12s} {outcome.seconds:7.0f} s  {word}: {outcome.closing}")
    print(f"{'total':12s} {sum(outcome.seconds for outcome in outcomes):7.0f} s")
    return next((outcome.code for outcome in outcomes if outcome.code), 0)


def main(names: list[str]) -> int:
    """Run the named parts, or all."""
    known = [part.name for part in PARTS]
    unknown = sorted(set(names) - set(known))
    if unknown:
        print(f"unknown part {', '.join(unknown)}; the parts are {', '.join(known)}", file=sys.stderr)
        return 2
    return summarise([run(part) for part in PARTS if not names or part.name in names])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
