"""Coverage-guided fuzzing of everything that reads what strangers wrote.

    python -m tests.fuzz [--inputs 100000] [--seed 1] [--target NAME] [--quick]

Every target runs under atheris in a process of its own, with a limit of time per input and of memory. Prints a table
and exits with 1 on an unexpected exception, a 5xx, a hang or too much memory; the input is kept and named then.
"""

from __future__ import annotations

import argparse
import logging
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.fuzz.targets import Target

SECONDS_PER_INPUT = 10
MEGABYTES = 2048
LONGEST = 8192
KEPT = Path(tempfile.gettempdir()) / "evenhand-fuzz-failures"
TOKENS = (
    "annotation", "annotations", "task", "tasks", "project", "result", "value", "selected", "choices", "rating", "left",
    "right", "completed_by", "created_at", "updated_at", "lead_time", "was_cancelled", "ANNOTATION_CREATED", "null",
    "true", "NaN", "1e999", "-1", "99999999999999999999", "Infinity", "annotator", "choice", "outcome", "<!ENTITY",
    "<View>", "toName", "Pairwise", "extra_params", "schema", "PAR1", "PK",
)  # fmt: skip


@dataclass(frozen=True)
class Row:
    """How one target's campaign went."""

    target: str
    inputs: int
    seconds: float
    megabytes: int
    failure: str


def campaign(target: Target, inputs: int, seed: int) -> Row:
    """Run a target in a process of its own and read off what the fuzzer says at its end."""
    from tests.fuzz.targets import FOLDER
    from tests.fuzz.targets import folder as files

    folder = Path(tempfile.mkdtemp(prefix="evenhand-corpus-"))
    for number, content in enumerate(target.seeds()):
        (folder / str(number)).write_bytes(content)
    words = folder.with_suffix(".dict")
    words.write_text("".join(f'"{token}"\n' for token in TOKENS))
    KEPT.mkdir(exist_ok=True)
    flags = [
        f"-runs={inputs}", f"-seed={seed}", f"-timeout={SECONDS_PER_INPUT}", f"-rss_limit_mb={MEGABYTES}",
        f"-max_len={LONGEST}", f"-dict={words}", f"-artifact_prefix={KEPT}/{target.name.replace(' ', '-')}-",
        "-print_final_stats=1", "-verbosity=0", str(folder),
    ]  # fmt: skip
    command = [sys.executable, "-m", "tests.fuzz", "--child", target.name, *flags]
    started = time.monotonic()
    environment = {**os.environ, FOLDER: str(files())}
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", env=environment)
    seconds = time.monotonic() - started
    shutil.rmtree(folder, ignore_errors=True)
    words.unlink(missing_ok=True)
    log = done.stdout + done.stderr
    executed = re.search(r"number_of_executed_units:\s*(\d+)", log)
    peak = re.search(r"peak_rss_mb:\s*(\d+)", log)
    failure = "" if done.returncode == 0 else _failure(log)
    return Row(target.name, int(executed[1]) if executed else 0, seconds, int(peak[1]) if peak else 0, failure)


def _failure(log: str) -> str:
    """What went wrong, and where the input is."""
    kept = re.search(r"Test unit written to (\S+)", log)
    raised = re.search(r"=== Uncaught Python exception: ===\n(.+)", log)
    told = re.search(r"ERROR: libFuzzer: (.+)", log)
    reason = next((found[1] for found in (raised, told) if found), log.strip()[-300:])
    return f"{reason} (input: {kept[1] if kept else 'not kept'})"


def child(name: str, flags: list[str]) -> None:
    """Fuzz one target with coverage of our own code as the guide; ends the process."""
    import atheris

    logging.disable(logging.CRITICAL)
    with atheris.instrument_imports(include=["evenhand", "fdr_core"]):
        from tests.fuzz.targets import TARGETS
    target = next(target for target in TARGETS if target.name == name)
    target.run(b"")  # what is made once should not count against the first input
    atheris.Setup([sys.argv[0], *flags], target.run)
    atheris.Fuzz()


def run_plain(target: Target, inputs: int, seed: int) -> int:
    """Feed mutated seeds without a guide: the short mode; raises what the target raises, and on a hang."""

    def too_long(_signal: int, _frame: FrameType | None) -> None:
        raise TimeoutError(f"{target.name}: one input took more than {SECONDS_PER_INPUT} s of processor time")

    rng = random.Random(seed)
    seeds = list(target.seeds())
    former = signal.signal(signal.SIGPROF, too_long)
    try:
        for number in range(inputs):
            data = seeds[number] if number < len(seeds) else mutated(rng.choice(seeds), rng)
            signal.setitimer(signal.ITIMER_PROF, SECONDS_PER_INPUT)
            target.run(data)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, former)
    return inputs


def mutated(data: bytes, rng: random.Random) -> bytes:
    """A few random edits: flipped bytes, cuts, doublings, words of the formats."""
    content = bytearray(data)
    for _ in range(rng.randint(1, 6)):
        place, kind = rng.randrange(len(content) + 1), rng.randrange(5)
        if kind == 0 and content:
            content[place % len(content)] = rng.randrange(256)
        elif kind == 1:
            del content[place : place + rng.randint(1, 40)]
        elif kind == 2:
            content[place:place] = rng.choice(TOKENS).encode()
        elif kind == 3:
            content[place:place] = content[place : place + rng.randint(1, 200)]
        else:
            content[place:place] = bytes(rng.randrange(256) for _ in range(rng.randint(1, 8)))
    return bytes(content)


def main() -> int:
    """Run the campaigns and print the table."""
    from tests.fuzz.targets import TARGETS, clean_up

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--inputs", type=int, default=100_000, help="over all targets")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--target", choices=[target.name for target in TARGETS], help="this one only")
    parser.add_argument("--quick", action="store_true", help="5,000 inputs")
    options = parser.parse_args()
    chosen = [target for target in TARGETS if options.target in (None, target.name)]
    total, shares = 5000 if options.quick else options.inputs, sum(target.share for target in chosen)
    print(f"{'target':18s} {'inputs':>8s} {'seconds':>8s} {'peak MB':>8s}  failures", flush=True)
    rows = []
    for target in chosen:
        row = campaign(target, -(-total * target.share // shares), options.seed)
        rows.append(row)
        print(
            f"{row.target:18s} {row.inputs:8,d} {row.seconds:8.0f} {row.megabytes:8d}  {row.failure or 'none'}",
            flush=True,
        )
    clean_up()
    print(f"{'all':18s} {sum(row.inputs for row in rows):8,d} {sum(row.seconds for row in rows):8.0f}")
    return int(any(row.failure for row in rows))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2], sys.argv[3:])
    sys.exit(main())
