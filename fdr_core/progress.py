"""How far a detection is: its stages, and a bar with an estimate for whoever waits at a terminal."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

#: Called with a stage, how much of it is done, and of how much.
Progress = Callable[[str, int, int], None]
#: The stages of a judgement in their order, with the share of the time that each takes in an ordinary crowd (%).
STAGES = {"read": 15, "audit": 15, "tests": 30, "LBI": 20, "ranking": 15, "report": 5}
#: Seconds before anything is shown, and between two looks at the clock.
PATIENCE, _TICK = 1.0, 0.5
_WIDTH, _LEAST_KNOWN = 24, 0.05


def share_done(stage: str, done: int, of: int) -> float:
    """The share of all stages that is done; work that is no stage counts alone."""
    within = done / max(of, 1)
    if stage not in STAGES:
        return within
    before = list(STAGES)[: list(STAGES).index(stage)]
    return (sum(STAGES[name] for name in before) + STAGES[stage] * within) / sum(STAGES.values())


class Bar:
    """One line that is written over: the stage, a bar, and about how long it still takes."""

    def __init__(self, stream: TextIO, clock: Callable[[], float]) -> None:
        self._stream, self._clock, self._begun = stream, clock, clock()
        self._stage, self._share, self._is_shown = "read", 0.0, False
        self._first: float | None = None  # what was done before this bar began says nothing of its pace

    def __call__(self, stage: str, done: int, of: int) -> None:
        """Take news of progress."""
        self._stage, self._share = stage, share_done(stage, done, of)
        self._first = self._share if self._first is None else self._first
        self.draw()

    def draw(self) -> None:
        """Write the line, once there was enough to wait for."""
        passed = self._clock() - self._begun
        if passed < PATIENCE:
            return
        filled = round(_WIDTH * self._share)
        told, seen = "", self._share - (self._first or 0.0)
        if seen >= _LEAST_KNOWN and self._share < 1:
            told = f"  about {max(1, round(passed * (1 - self._share) / seen)):,} s left"
        bar = "#" * filled + "-" * (_WIDTH - filled)
        self._stream.write(f"\r{self._stage:8} [{bar}] {self._share:4.0%}{told}\x1b[K")
        self._stream.flush()
        self._is_shown = True

    def erase(self) -> None:
        """Leave the line empty for what comes next."""
        if self._is_shown:
            self._stream.write("\r\x1b[K")
            self._stream.flush()


@contextmanager
def progress_bar() -> Iterator[Progress]:
    """Show a bar on the error stream where somebody looks; give the callback that moves it."""
    if not sys.stderr.isatty():
        yield lambda stage, done, of: None
        return
    bar, ended = Bar(sys.stderr, time.monotonic), threading.Event()

    def look_again() -> None:
        while not ended.wait(_TICK):
            bar.draw()

    looking = threading.Thread(target=look_again, daemon=True)
    looking.start()
    try:
        yield bar
    finally:
        ended.set()
        looking.join()
        bar.erase()
