"""A crowd that is looked at again and again while it answers, as a schedule of runs does."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from fdr_core import KnockoffLBI
from fdr_core.detection import detect
from fdr_core.errors import DesignError
from fdr_core.live import LiveConsensus, LiveCrowd
from fdr_core.simulate import Simulated
from fdr_core.spending import LastingFlags
from fdr_core.statistics import SufficientStatistics
from harness.lasting import look as look_again
from harness.scenarios import LISTS_ALONE, Q

#: Early warnings are considered after this many answers.
WARN_EVERY = 50


def watch(truth: Simulated, looks: int, seed: int, single_draws: tuple[str, ...] = ()) -> dict[str, set[Hashable]]:
    """Run again and again while answers arrive; between runs every answer is a bet against the last consensus.

    Returns
    -------
    dict
        By rule, everybody it ever flagged; ``single_draws`` names constructions that are watched beside the default.
    """
    whole = truth.comparisons
    ends = np.linspace(0, len(whole), looks + 1).astype(int)[1:]
    statistics, live, start = SufficientStatistics(), LiveCrowd(q=Q), 0
    consensus, lasting = LiveConsensus(statistics), LastingFlags(q=Q)
    ever: dict[str, set[Hashable]] = {arm: set() for arm in (*single_draws, "evenhand", "persistent")}
    for look, end in enumerate(ends):
        for k in range(start, end):
            left, right = whole.items[whole.left[k]], whole.items[whole.right[k]]
            p_left = consensus.probability_left(left, right)
            live.observe(whole.annotators[whole.annotator[k]], float(whole.outcome[k]), p_left)
            if k % WARN_EVERY == 0:
                live.warn()
        statistics.add(whole.take(np.arange(start, end)))
        result = detect(statistics, q=Q, **LISTS_ALONE)
        live.warn()
        ever["evenhand"] |= set(result.flagged)
        ever["persistent"] |= look_again(lasting, result)
        for arm in single_draws:
            ever[arm] |= _one_draw(statistics, arm, seed * looks + look)
        flagged = result.annotators[result.annotators["flagged"]]
        consensus = LiveConsensus(statistics, dict(zip(flagged["annotator"], flagged["bias"], strict=True)))
        start = end
    ever["warned"] = set(live.warned)
    return ever


def _one_draw(statistics: SufficientStatistics, method: str, seed: int) -> set[Hashable]:
    try:
        lbi = KnockoffLBI(seed=seed, construction=method, draws=1)
        return set(detect(statistics, q=Q, min_bias=0.0, decide_by="lbi", lbi=lbi).flagged)
    except DesignError:
        return set()  # too few answers yet for a fixed design
