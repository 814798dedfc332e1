"""Repeat a method on simulated crowds: share of false flags, share of the leaning found."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from benchmarks.evidence.scenarios import SCENARIOS, Scenario
from fdr_core.simulate import Simulated

#: (scenario, data set, run) -> flagged labels, and which construction judged, if that is known.
Method = Callable[[Scenario, Simulated, int], tuple[list[Any], str]]


class CannotRun(Exception):
    """A method does not apply to a case; the message is the reason as it is shown."""


def repeat(method: Method, scenario: str, runs: int) -> dict[str, Any]:
    """Run a method on data sets 0 to ``runs - 1`` of a scenario."""
    crowd = SCENARIOS[scenario]
    fdp, power, found, seconds = [], [], [], []
    constructions: Counter[str] = Counter()
    for run in range(runs):
        truth = crowd.simulate(run)
        begun = time.perf_counter()
        try:
            flagged, construction = method(crowd, truth, run)
        except CannotRun as reason:
            return {"reason": str(reason), "runs": 0}
        seconds.append(round(time.perf_counter() - begun, 4))
        constructions[construction] += 1
        fdp.append(round(truth.false_discovery_proportion(flagged), 5))
        power.append(round(truth.power(flagged), 5))
        found.append(len(flagged))
    return {
        "runs": runs,
        "fdp": fdp,
        "power": power,
        "found": found,
        "seconds": seconds,
        "constructions": dict(constructions),
        "biased": int(truth.is_biased.sum()),
    }
