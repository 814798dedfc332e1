"""What a difference of item scores says about an answer; it depends on the fit that the scores come from."""

from __future__ import annotations

import math


def expected_outcome(difference: float, consensus: str) -> float:
    """Mean outcome in [-1, 1] of comparing two items, given the difference of their scores, left minus right.

    Parameters
    ----------
    consensus : how the scores were fitted: "logistic" (log odds) or "least squares" (mean outcomes).
    """
    if consensus == "logistic":
        return math.tanh(difference / 2.0)  # 2 / (1 + exp(-difference)) - 1
    return max(-1.0, min(1.0, difference))
