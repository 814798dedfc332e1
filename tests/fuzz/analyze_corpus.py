"""Run `evenhand analyze` on the whole corpus in one process and print one JSON line per file.

    python -m tests.fuzz.analyze_corpus FOLDER [ENGINE]

A process of its own, because memory is measured, and because a hang must be cut off.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import traceback
from pathlib import Path
from types import FrameType

from click.testing import CliRunner

from fdr_core.commands.analyze import analyze
from tests.fuzz.corpus import CORPUS, Nasty

SECONDS = 60


def peak_megabytes() -> float:
    """The largest resident size since the last reset."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return 0.0


def reset_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def _too_long(_signal: int, _frame: FrameType | None) -> None:
    raise TimeoutError(f"not done within {SECONDS} s")


def run_one(entry: Nasty, folder: Path, engine: str) -> dict[str, object]:
    """Analyse one file and tell how it went."""
    path = folder / entry.name
    entry.make(path)
    reset_peak()
    before, started = peak_megabytes(), time.monotonic()
    signal.alarm(SECONDS)
    try:
        options = [str(path), "--json", "--lbi", "draws=1", "--engine", engine]
        result = CliRunner().invoke(analyze, options)
    finally:
        signal.alarm(0)
    is_escape = result.exception is not None and not isinstance(result.exception, SystemExit)
    return {
        "name": entry.name,
        "exit": result.exit_code,
        "output": result.output if result.exit_code else "",
        "exception": "".join(traceback.format_exception(result.exception)) if is_escape else "",
        "seconds": round(time.monotonic() - started, 2),
        "megabytes": round(peak_megabytes() - before, 1),
    }


def main(folder: Path, engine: str = "auto") -> None:
    """Analyse every file."""
    signal.signal(signal.SIGALRM, _too_long)
    os.chdir(folder)
    for entry in CORPUS:
        print(json.dumps(run_one(entry, folder, engine)), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:3])
