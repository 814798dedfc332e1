"""Run the checks and the test suite part by part and close with a summary: `python scripts/run_tests.py [PART ...]`.

Static checks run beside the first tests, and the tests with Label Studio, which mostly wait for it, beside the
statistical ones. What runs beside others is printed when it has ended.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SERVERS = "postgres or browser or labelstudio or spark"
#: On two cores; who has nothing left takes over tests of the other.
SIDE_BY_SIDE = ("-n", "2", "--dist", "worksteal")


@dataclass(frozen=True)
class Part:
    """A name, and the modules that are run for it one after the other, with their arguments.

    ``beside`` : name of the part that it starts together with, to run beside it and those that follow.
    """

    name: str
    commands: tuple[tuple[str, ...], ...]
    beside: str | None = None


def pytest_part(name: str, markers: str, *options: str, beside: str | None = None) -> Part:
    """A part that is one run of pytest."""
    return Part(name, (("pytest", "-q", "-m", markers, *options),), beside)


# A test with several markers runs once, in the part that is named last. Parts that start servers run one test at
# a time, so that each server is started once.
PARTS = (
    Part("static", (("ruff", "format", "--check"), ("ruff", "check"), ("mypy",)), beside="unit"),
    pytest_part("unit", f"not slow and not ({SERVERS})", *SIDE_BY_SIDE),
    pytest_part("statistical", f"slow and not ({SERVERS})", *SIDE_BY_SIDE, "--durations=15"),
    pytest_part("postgres", "postgres and not browser and not labelstudio", "--durations=5"),
    pytest_part("spark", "spark and not postgres and not browser and not labelstudio", "--durations=5"),
    pytest_part("browser", "browser and not labelstudio", "--durations=5"),
    pytest_part("labelstudio", "labelstudio", "--durations=10", beside="statistical"),
)


@dataclass(frozen=True)
class Outcome:
    """How a part ended: the first exit code that is not zero, and the closing line of what was run last."""

    part: Part
    code: int
    closing: str
    seconds: float


def run(part: Part) -> Outcome:
    """Run one part up to its first failure, passing its output through as it comes, or at once where it is beside."""
    held: list[str] = []
    tell = held.append if part.beside else _print_now
    started, code, closing = time.monotonic(), 0, ""
    for command in part.commands:
        tell(f"\n### {part.name}: {' '.join(command)}\n")
        code, closing = _run_module(command, tell)
        if code:
            break
    _print_now("".join(held))
    return Outcome(part, code, closing, time.monotonic() - started)


def _print_now(said: str) -> None:
    print(said, end="", flush=True)


def _run_module(command: tuple[str, ...], tell: Callable[[str], None]) -> tuple[int, str]:
    line = [sys.executable, "-u", "-m", *command]
    # Compiled tests are kept: without them every worker and every started program compiles all it imports.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    closing = ""
    with subprocess.Popen(
        line, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        for said in process.stdout:
            tell(said)
            closing = said.strip() or closing
    return process.returncode, closing


def run_all(parts: Sequence[Part]) -> list[Outcome]:
    """Run the parts in their order, those that stand beside others meanwhile; at once where the others are not run."""
    in_turn = [part for part in parts if part.beside is None]
    companions = {part: [one for one in parts if one.beside == part.name] for part in in_turn}
    alone = [part for part in parts if part.beside and part.beside not in {one.name for one in in_turn}]
    found: dict[Part, Outcome] = {}
    with ThreadPoolExecutor() as pool:
        beside = {part: pool.submit(run, part) for part in alone}
        for part in in_turn:
            beside |= {one: pool.submit(run, one) for one in companions[part]}
            found[part] = run(part)
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
