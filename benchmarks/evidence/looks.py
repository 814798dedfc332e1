"""Looking again and again: flags that pile up over scheduled runs, and flags that flicker from run to run."""

from __future__ import annotations

import itertools
from collections.abc import Hashable
from typing import Any

import numpy as np

from benchmarks.evidence.ours import jaccard
from benchmarks.evidence.scenarios import SCENARIOS, Q, generator
from fdr_core.detection import detect
from fdr_core.errors import DesignError
from fdr_core.live import Consensus, LiveCrowd
from fdr_core.simulate import Simulated, growing
from fdr_core.statistics import SufficientStatistics

#: Early warnings are considered after this many answers.
WARN_EVERY = 50
SINGLE_DRAWS = ("paper", "flip")
ARMS = (*SINGLE_DRAWS, "evenhand", "persistent", "warned")


def accumulated(n_biased: int, looks: int, runs: int) -> dict[str, Any]:
    """False discovery proportion and power of everything that was ever flagged, by rule."""
    measured: dict[str, Any] = {arm: {"fdp": [], "power": []} for arm in ARMS}
    for run in range(runs):
        truth = growing(40, n_biased, 60, rng=generator(run))
        for arm, flagged in watch(truth, looks, seed=run, single_draws=SINGLE_DRAWS).items():
            measured[arm]["fdp"].append(round(truth.false_discovery_proportion(flagged), 5))
            measured[arm]["power"].append(round(truth.power(flagged), 5))
    return {"runs": runs, "methods": measured}


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
    consensus = Consensus(statistics)
    ever: dict[str, set[Hashable]] = {arm: set() for arm in (*single_draws, "evenhand", "persistent")}
    for look, end in enumerate(ends):
        for k in range(start, end):
            left, right = whole.items[whole.left[k]], whole.items[whole.right[k]]
            p_left = consensus.probability_left(left, right)
            live.observe(whole.annotators[whole.annotator[k]], float(whole.outcome[k]), p_left)
            if k % WARN_EVERY == 0:
                live.warn()
        statistics.add(whole.take(np.arange(start, end)))
        result = detect(statistics, q=Q, seed=seed * looks + look)
        live.warn()
        ever["evenhand"] |= set(result.flagged)
        ever["persistent"] |= set(live.persistent(result.flagged))
        for arm in single_draws:
            ever[arm] |= _one_draw(statistics, arm, seed * looks + look)
        flagged = result.annotators[result.annotators["flagged"]]
        consensus = Consensus(statistics, dict(zip(flagged["annotator"], flagged["bias"], strict=True)))
        start = end
    ever["warned"] = set(live.warned)
    return ever


def _one_draw(statistics: SufficientStatistics, method: str, seed: int) -> set[Hashable]:
    try:
        return set(detect(statistics, q=Q, seed=seed, method=method, draws=1, min_bias=0.0).flagged)
    except DesignError:
        return set()  # too few answers yet for a fixed design


def flicker(draws: int, runs: int, looks: int = 5) -> dict[str, Any]:
    """Jaccard distance of consecutive lists: another seed on the same data, and another seed with 2 % more answers."""
    same, grown = [], []
    for run in range(runs):
        whole = SCENARIOS["H1"].simulate(run).comparisons
        order = generator(run).permutation(len(whole))
        full = [set(detect(whole, q=Q, seed=seed, draws=draws).flagged) for seed in (0, 1)]
        same.append(1.0 - jaccard(*full))
        lists = []
        for look in range(looks):
            part = whole.take(order[: int(len(whole) * (1.0 - 0.02 * (looks - 1 - look)))])
            lists.append(set(detect(part, q=Q, seed=look, draws=draws).flagged))
        grown += [1.0 - jaccard(one, two) for one, two in itertools.pairwise(lists)]
    return {"runs": runs, "same": np.round(same, 4).tolist(), "grown": np.round(grown, 4).tolist()}
