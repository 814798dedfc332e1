"""Betting on coins: evidence that holds whatever else depends on whom, and however often it is looked at.

Given which item an honest annotator chose, its side is a fair coin. A bet that the annotator clicks side s with
probability p and judges otherwise, choosing as it did with probability pi, multiplies its wealth by

    ``2 a(side) / (a(left) + a(right)),  a(side) = prod over the answers under the coin of p 1{side = s} + (1 - p) pi``,

which has mean one over the two falls of the coin. Bets may rest on anything known before the coin fell, hence on
answers under earlier coins alone. The e-value is the mean wealth over a grid of p and both sides.
"""

from __future__ import annotations

import numpy as np

from fdr_core.types import Floats

#: Probabilities of clicking the side that are bet on.
CLICKS = np.array([0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9, 0.99])
#: Bets: on the left side with every probability, then on the right.
N_BETS = 2 * len(CLICKS)
#: The choice is never taken as more certain than this.
MOST_CERTAIN = 0.95
#: Largest exponent of an e-value that is written as a number.
_MOST = 700.0


def log_odds(outcome: Floats, chosen: Floats) -> Floats:
    """How much each answer speaks for each bet: ``log a(its side) / a(the other)``, none where it is a tie.

    Parameters
    ----------
    outcome : (rows,) positive where the left item was chosen.
    chosen : (rows,) probability of the chosen item where the annotator judges.

    Returns
    -------
    (rows, bets)
    """
    judged = np.multiply.outer(np.clip(chosen, 1 - MOST_CERTAIN, MOST_CERTAIN), 1.0 - CLICKS)
    size = np.sign(outcome)[:, None] * np.log1p(CLICKS / judged)
    return np.concatenate([size, -size], axis=1)


def log_factors(odds: Floats) -> Floats:
    """By what a coin multiplies the wealth, ``log(2 / (1 + exp(-odds)))``; ``odds`` summed over its answers."""
    return np.asarray(np.log(2.0) - np.logaddexp(0.0, -odds))


def log_e_values(log_wealth: Floats) -> Floats:
    """Mean wealth over the bets, the last axis, in logs."""
    return np.asarray(np.logaddexp.reduce(log_wealth, axis=-1) - np.log(N_BETS))


def as_e(log_e: Floats) -> Floats:
    """E-values as numbers, none of them infinite."""
    return np.asarray(np.exp(np.minimum(log_e, _MOST)))
