"""`evenhand serve` on a loopback port of its own, as a process of its own."""

from __future__ import annotations

import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from harness.ports import listening

START_SECONDS = 120
STOP_SECONDS = 60


def start(
    command: Sequence[str], *, folder: Path, environment: Mapping[str, str], log: Path
) -> tuple[subprocess.Popen[bytes], str]:
    """Start `evenhand serve`, given as its command line, on a socket that is handed over; return its address too."""
    with listening() as listener, log.open("ab") as output:
        port, fd = listener.getsockname()[1], listener.fileno()
        process = subprocess.Popen(
            [*command, "--fd", str(fd)],
            cwd=folder,
            env={**environment, "PORT": str(port)},
            stdout=output,
            stderr=output,
            pass_fds=(fd,),
        )
    return process, f"http://127.0.0.1:{port}"


@contextmanager
def serving(
    command: Sequence[str], *, folder: Path, environment: Mapping[str, str], log: Path
) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """Run it from the moment its /health answers until the block ends; fail with what it logged."""
    process, address = start(command, folder=folder, environment=environment, log=log)
    try:
        give_up = time.monotonic() + START_SECONDS
        while not answers(f"{address}/health"):
            assert process.poll() is None, log.read_text(encoding="utf-8")
            assert time.monotonic() < give_up, log.read_text(encoding="utf-8")
            time.sleep(0.1)
        yield process, address
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
