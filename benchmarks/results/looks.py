"""Looking again and again: what lasts over all looks together, beside lists that pile up from look to look."""

from __future__ import annotations

from typing import Any

from benchmarks.results.quality import reported
from harness.lasting import joining, together
from harness.looks import watch
from harness.scenarios import generator

CROWDS = {"together": together, "joining": joining}
SINGLE_DRAWS = ("paper", "flip")


def lasting(crowd: str, n_biased: int, looks: int, runs: int) -> dict[str, Any]:
    """Lasting flags, lists and early warnings of a crowd that grows: everything ever flagged, by rule."""
    return _watched(crowd, n_biased, looks, runs, ())


def accumulated(n_biased: int, looks: int, runs: int) -> dict[str, Any]:
    """The same with single draws of knockoffs beside, which take their time."""
    return _watched("together", n_biased, looks, runs, SINGLE_DRAWS)


def _watched(crowd: str, n_biased: int, looks: int, runs: int, single_draws: tuple[str, ...]) -> dict[str, Any]:
    measured: dict[str, Any] = {}
    for run in range(runs):
        truth = CROWDS[crowd](n_biased)(generator(*reported(run)))
        for arm, flagged in watch(truth, looks, seed=run, single_draws=single_draws).items():
            found = measured.setdefault(arm, {"fdp": [], "power": []})
            found["fdp"].append(round(truth.false_discovery_proportion(flagged), 5))
            found["power"].append(round(truth.power(flagged), 5))
    return {"runs": runs, "methods": measured}
