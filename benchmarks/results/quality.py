"""Repeat a method on simulated crowds: share of false flags, share of the leaning found."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from fdr_core.simulate import Simulated
from harness.premises import EVERY
from harness.scenarios import Scenario

#: Data sets that tables report on, by number; nothing is tuned on them (plan.toml).
FIRST, COUNT = 1000, 200
#: (scenario, data set, number) -> flagged labels, and how annotators were judged, if that is known.
Method = Callable[[Scenario, Simulated, int], tuple[list[Any], str]]


class CannotRunError(Exception):
    """A method does not apply to a case; the message is the reason as it is shown."""


def reported(k: int) -> tuple[int, ...]:
    """Number of the k-th reported data set: 1000 to 1199, then further streams of the same."""
    stream, place = divmod(k, COUNT)
    return (FIRST + place, stream) if stream else (FIRST + place,)


def repeat(method: Method, scenario: str, runs: int) -> dict[str, Any]:
    """Run a method on the first ``runs`` reported data sets of a scenario."""
    crowd = EVERY[scenario]
    fdp, power, found, seconds = [], [], [], []
    ways: Counter[str] = Counter()
    for k in range(runs):
        number = reported(k)
        truth = crowd.simulate(*number)
        begun = time.perf_counter()
        try:
            flagged, way = method(crowd, truth, number[0])
        except CannotRunError as reason:
            return {"reason": str(reason), "runs": 0}
        seconds.append(round(time.perf_counter() - begun, 4))
        ways[way] += 1
        fdp.append(round(truth.false_discovery_proportion(flagged), 5))
        power.append(round(truth.power(flagged), 5))
        found.append(len(flagged))
    biased = int(truth.is_biased.sum())
    measured = {"fdp": fdp, "power": power, "found": found, "seconds": seconds}
    return {"runs": runs, **measured, "ways": dict(ways), "biased": biased}
