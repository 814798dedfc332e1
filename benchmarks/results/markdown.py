"""Small pieces of Markdown."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

import numpy as np

from benchmarks.results.summary import NOT_RUN, Rate


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Build a table."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines)


def paragraph(*sentences: str) -> str:
    """Join sentences and wrap them."""
    return textwrap.fill(" ".join(sentence for sentence in sentences if sentence), 116, break_long_words=False)


def figure(name: str, caption: str) -> str:
    """Show a figure with its caption."""
    return f"![{caption}](images/results/{name})\n\n*{caption}*"


def mean(values: Sequence[float], digits: int = 2) -> str:
    """Write a mean."""
    return f"{np.mean(values):.{digits}f}" if len(values) else NOT_RUN


def rate_text(rate: Rate | None, *, full_runs: int, with_power: bool = True, tests: bool = True) -> str:
    """Write "FDR / power", bold where a test's error rate does not hold, with the runs where they are fewer."""
    if rate is None:
        return NOT_RUN
    if rate.reason:
        return rate.reason
    fdr = f"{rate.fdr:.2f} ± {rate.fdr_se:.2f}"
    fdr = fdr if rate.holds or not rate.is_enough or not tests else f"**{fdr}**"
    power = f" / {rate.mean_power:.2f} ± {rate.power_se:.2f}" if with_power else ""
    return f"{fdr}{power}" + (f" ({rate.runs} runs)" if rate.runs < full_runs else "")


def join(words: Sequence[str]) -> str:
    """Write a list of words."""
    return ", ".join(words) if words else "none"
