"""Evenhand on the simulated crowds: the exact list, knockoff LBI beside it, and the paper's construction, one draw."""

from __future__ import annotations

from typing import Any

from benchmarks.results.quality import CannotRunError, Method, repeat
from fdr_core import KnockoffLBI
from fdr_core.detection import detect
from fdr_core.errors import DesignError
from fdr_core.simulate import Simulated
from harness.scenarios import Q, Scenario


def evenhand(scenario: Scenario, truth: Simulated, number: int) -> tuple[list[Any], str]:
    """The exact list."""
    result = detect(truth.comparisons, q=Q, min_bias=scenario.min_bias, lbi=None)
    return result.flagged, result.audit.how


def lbi(scenario: Scenario, truth: Simulated, number: int) -> tuple[list[Any], str]:
    """Knockoff LBI's list: the majority of the default number of draws, construction as the audit decides."""
    result = detect(truth.comparisons, q=Q, decide_by="lbi", min_bias=scenario.min_bias, lbi=KnockoffLBI(seed=number))
    return result.flagged, result.audit.construction


def paper(scenario: Scenario, truth: Simulated, number: int) -> tuple[list[Any], str]:
    """The paper's construction with the exact path (ISS) and knockoff+, one draw."""
    try:
        result = detect(
            truth.comparisons,
            q=Q,
            min_bias=0.0,
            decide_by="lbi",
            lbi=KnockoffLBI(seed=number, construction="paper", path="iss", draws=1),
        )
    except DesignError as error:
        raise CannotRunError(f"refuses: {str(error).split(';')[0].split('. ')[0]}") from error
    if result.audit.construction == "none":
        raise CannotRunError("biases cannot be told from item scores in this design")
    return result.flagged, result.audit.construction


METHODS: dict[str, Method] = {"evenhand": evenhand, "lbi": lbi, "paper": paper}


def quality(method: str, scenario: str, runs: int) -> dict[str, Any]:
    """Error rate and power of one of our methods."""
    return repeat(METHODS[method], scenario, runs)


def jaccard(one: set[Any], two: set[Any]) -> float:
    """Size of the intersection over the size of the union; 1 for two empty lists."""
    return round(len(one & two) / len(one | two), 4) if one | two else 1.0
