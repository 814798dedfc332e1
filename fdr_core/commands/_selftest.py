"""How well each method would do on a user's own design: simulate on it with known truth, and count."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fdr_core import Comparisons, ConfigurationError, FdrCoreError, KnockoffLBI, detect
from fdr_core.baselines import BASELINES
from fdr_core.simulate import Simulated, on_design

Method = Callable[[Comparisons], list[Any]]


@dataclass(frozen=True)
class Score:
    """Realised rates of one method over the simulated data sets; `problem` says why it could not run."""

    method: str
    runs: int
    false_share: float
    false_share_se: float
    power: float
    flagged: float
    problem: str | None = None


def methods(*, lbi: KnockoffLBI | None, **options: Any) -> Mapping[str, Method]:
    """List what is compared: Evenhand as it would decide, LBI by both constructions, and what people do by hand."""

    def by_lbi(construction: str) -> Method:
        method = replace(lbi or KnockoffLBI(), construction=construction)
        return lambda c: detect(c, decide_by="lbi", lbi=method, **options).flagged

    ours: dict[str, Method] = {"Evenhand, auto": lambda c: detect(c, lbi=None, **options).flagged}
    ours |= {f"Evenhand, {construction}": by_lbi(construction) for construction in ("flip", "paper")}
    return ours | {name: _by_hand(name, options["q"]) for name in BASELINES}


def _by_hand(name: str, q: float) -> Method:
    """Bind one baseline."""
    return lambda c: BASELINES[name](c, q).flagged


def selftest(
    design: Comparisons,
    compared: Mapping[str, Method],
    *,
    runs: int,
    seed: int,
    n_biased: int | None = None,
    bias: float = 0.5,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[Score]:
    """Simulate `runs` data sets on the design and score every method on the same ones."""
    if runs < 1:
        raise ConfigurationError(f"runs is {runs}; expected at least 1")
    rates: dict[str, list[tuple[float, float, int]]] = {name: [] for name in compared}
    problems: dict[str, str] = {}
    for run in range(runs):
        simulated = on_design(design, rng=np.random.default_rng([seed, run]), n_biased=n_biased, bias=bias)
        for position, (name, method) in enumerate(compared.items()):
            if name not in problems:
                _score_one(name, method, simulated, rates[name], problems)
            progress(run * len(compared) + position + 1, runs * len(compared))
    return [_summary(name, rates[name], problems.get(name)) for name in compared]


def _score_one(
    name: str,
    method: Method,
    simulated: Simulated,
    rates: list[tuple[float, float, int]],
    problems: dict[str, str],
) -> None:
    """Run one method on one data set; a method that the design does not allow is left out from then on."""
    try:
        flagged = method(simulated.comparisons)
    except FdrCoreError as error:
        problems[name] = str(error)
        return
    rates.append((simulated.false_discovery_proportion(flagged), simulated.power(flagged), len(flagged)))


def _summary(name: str, rates: list[tuple[float, float, int]], problem: str | None) -> Score:
    """Average over the data sets."""
    if not rates:
        return Score(name, 0, 0.0, 0.0, 0.0, 0.0, problem)
    false_share, power, flagged = np.array(rates, dtype=np.float64).T
    error = float(false_share.std(ddof=1) / np.sqrt(len(rates))) if len(rates) > 1 else 0.0
    return Score(
        name, len(rates), float(false_share.mean()), error, float(power.mean()), float(flagged.mean()), problem
    )
