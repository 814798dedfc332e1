"""Evenhand on the simulated crowds: as it comes, with one draw, and the paper's construction from statistics."""

from __future__ import annotations

from typing import Any

from benchmarks.evidence.quality import CannotRun, Method, repeat
from benchmarks.evidence.scenarios import SCENARIOS, Q, Scenario
from fdr_core.detection import detect
from fdr_core.errors import DesignError
from fdr_core.simulate import Simulated


def evenhand(scenario: Scenario, truth: Simulated, run: int) -> tuple[list[Any], str]:
    """`detect` with default settings."""
    result = detect(truth.comparisons, q=Q, seed=run)
    return result.flagged, result.audit.construction


def one_draw(scenario: Scenario, truth: Simulated, run: int) -> tuple[list[Any], str]:
    """One draw and no smallest bias: what the theorem speaks of."""
    result = detect(truth.comparisons, q=Q, seed=run, draws=1, min_bias=0.0)
    return result.flagged, result.audit.construction


def paper(scenario: Scenario, truth: Simulated, run: int) -> tuple[list[Any], str]:
    """The paper's construction with the exact path (ISS) and knockoff+, one draw."""
    try:
        result = detect(truth.comparisons, q=Q, seed=run, method="paper", path="iss", draws=1, min_bias=0.0)
    except DesignError as error:
        raise CannotRun(f"refuses: {str(error).split(';')[0].split('. ')[0]}") from error
    if result.audit.construction == "none":
        raise CannotRun("biases cannot be told from item scores in this design")
    return result.flagged, result.audit.construction


METHODS: dict[str, Method] = {"evenhand": evenhand, "one-draw": one_draw, "paper": paper}


def quality(method: str, scenario: str, runs: int) -> dict[str, Any]:
    """Error rate and power of one of our methods."""
    return repeat(METHODS[method], scenario, runs)


def seeds(scenario: str, runs: int) -> dict[str, Any]:
    """Agreement (Jaccard) of the lists of two seeds on the same data."""
    agreement = []
    for run in range(runs):
        comparisons = SCENARIOS[scenario].simulate(run).comparisons
        one, two = (set(detect(comparisons, q=Q, seed=seed).flagged) for seed in (0, 1))
        agreement.append(jaccard(one, two))
    return {"runs": runs, "jaccard": agreement}


def jaccard(one: set[Any], two: set[Any]) -> float:
    """Size of the intersection over the size of the union; 1 for two empty lists."""
    return round(len(one & two) / len(one | two), 4) if one | two else 1.0
