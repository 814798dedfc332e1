"""Every pair in both orders, for promptfoo and for Inspect; `evenhand gate` reads the results of either.

promptfoo calls `promptfoo_tests` (promptfooconfig.yaml). Inspect: `MemoryDataset([Sample(**one) for one in
inspect_samples()])`, and a scorer whose answer is A, B or C.
"""

from collections.abc import Iterator
from typing import Any

PAIRS = [{f"q{k}/old": f"answer {k % 7}", f"q{k}/new": f"answer {k % 5}"} for k in range(200)]


def _both_orders() -> Iterator[dict[str, str]]:
    for pair in PAIRS:
        one, two = pair
        for first, second in ((one, two), (two, one)):
            yield {"first": first, "second": second, "text_first": pair[first], "text_second": pair[second]}


def promptfoo_tests(config: Any = None) -> list[dict[str, Any]]:
    """One test case per order; the variables `first` and `second` record which was shown first."""
    return [{"vars": shown} for shown in _both_orders()]


def inspect_samples() -> list[dict[str, Any]]:
    """One sample per order; the metadata `shown_first` and `shown_second` record which was shown first."""
    return [
        {
            "id": number,
            "input": f"Which is better? Reply with A, B, or C.\n[A]\n{one['text_first']}\n[B]\n{one['text_second']}",
            "metadata": {"shown_first": one["first"], "shown_second": one["second"]},
        }
        for number, one in enumerate(_both_orders())
    ]
