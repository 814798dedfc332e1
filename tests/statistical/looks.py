"""A crowd that is looked at again and again while its answers arrive."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fdr_core import SufficientStatistics, detect
from fdr_core.live import Consensus, LiveCrowd
from fdr_core.simulate import Simulated

#: Early warnings are considered after this many answers.
WARN_EVERY = 50


@dataclass(frozen=True)
class Looks:
    """False discovery proportion and power of what accumulated over all looks."""

    persistent_fdp: float
    persistent_power: float
    accumulated_fdp: float
    warned_fdp: float


def ten_looks(truth: Simulated, *, seed: int, looks: int = 10) -> Looks:
    """Run ten times while answers arrive; between runs every answer is a bet against the consensus of the last run."""
    whole = truth.comparisons
    ends = np.linspace(0, len(whole), looks + 1).astype(int)[1:]
    statistics, live, start = SufficientStatistics(), LiveCrowd(q=0.1), 0
    consensus = Consensus(statistics)
    persistent: set[object] = set()
    accumulated: set[object] = set()
    for look, end in enumerate(ends):
        for k in range(start, end):
            left, right = whole.items[whole.left[k]], whole.items[whole.right[k]]
            p_left = consensus.probability_left(left, right)
            live.observe(whole.annotators[whole.annotator[k]], float(whole.outcome[k]), p_left)
            if k % WARN_EVERY == 0:
                live.warn()
        statistics.add(whole.take(np.arange(start, end)))
        result = detect(statistics, seed=seed * looks + look)
        live.warn()
        accumulated |= set(result.flagged)
        persistent |= set(live.persistent(result.flagged))
        flagged = result.annotators[result.annotators["flagged"]]
        consensus = Consensus(statistics, dict(zip(flagged["annotator"], flagged["bias"], strict=True)))
        start = end
    return Looks(
        truth.false_discovery_proportion(persistent),
        truth.power(persistent),
        truth.false_discovery_proportion(accumulated),
        truth.false_discovery_proportion(live.warned),
    )
