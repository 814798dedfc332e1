"""A pytest plugin: the fixture `evenhand_gate` holds a judge's lean against a limit, as `evenhand gate` does."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from fdr_core.judges.gate import Gate


@pytest.fixture
def evenhand_gate() -> "Callable[..., Gate]":
    """
    Give a function that fails the test where a judge leans, and skips it where the log is too short to tell.

    ``evenhand_gate(log, judge=..., max_lean=0.1, alpha=0.05, undecided="skip", **reading)``: `log` is a path or
    Comparisons; `undecided="fail"` fails instead of skipping; `reading` goes to `Comparisons.from_file`.
    """
    return hold


def hold(
    log: "str | Path | Any",
    *,
    judge: object,
    max_lean: float = 0.1,
    alpha: float = 0.05,
    anytime: bool = False,
    undecided: str = "skip",
    **reading: Any,
) -> "Gate":
    """Decide about one judge and end the test accordingly."""
    from fdr_core import Comparisons
    from fdr_core.judges.gate import gate

    comparisons = Comparisons.from_file(log, **reading) if isinstance(log, (str, Path)) else log
    (found,) = gate(comparisons, judges=[judge], max_lean=max_lean, alpha=alpha, anytime=anytime)
    words = f"{judge}: {found.reason}; lean {found.lean:+.3f} ({found.low:+.3f} to {found.high:+.3f})"
    if found.decision == "fail" or (found.decision == "undecided" and undecided == "fail"):
        pytest.fail(words, pytrace=False)
    if found.decision == "undecided":
        pytest.skip(words)
    return found
