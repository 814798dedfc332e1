"""A program that serves on a loopback address, as a process of its own."""

from __future__ import annotations

import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

START_SECONDS = 60
STOP_SECONDS = 40


@contextmanager
def serving(
    command: Sequence[str], address: str, *, folder: Path, environment: Mapping[str, str], log: Path
) -> Iterator[None]:
    """Run a program in a folder from the moment its /health answers until the block ends; fail with what it logged."""
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=output, stderr=output)
        try:
            give_up = time.monotonic() + START_SECONDS
            while not answers(f"{address}/health"):
                assert process.poll() is None, log.read_text(encoding="utf-8")
                assert time.monotonic() < give_up, log.read_text(encoding="utf-8")
                time.sleep(0.2)
            yield
        finally:
            process.terminate()
            process.wait(timeout=STOP_SECONDS)


def answers(address: str) -> bool:
    """Whether an address answers with 200."""
    try:
        with urllib.request.urlopen(address, timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return False
