"""What could be found at best: true scores, noise and strength of the lean known, only who leans and where is not."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from fdr_core.simulate import Simulated
from harness.scenarios import Q, Scenario

Floats = NDArray[np.float64]


def oracle(scenario: Scenario, truth: Simulated, run: int) -> list[Any]:
    """
    Flag by the likelihood ratio of "clicks a side" against "judges", per annotator, both sides equally likely.

    The largest list whose mean posterior probability of judging is at most q; with the share of the biased known, that
    rule has the most true finds of all rules with this error rate (Sun and Cai 2007).
    """
    share = float(truth.is_biased.mean())
    if share == 0.0:
        return []
    log_ratio = log_likelihood_ratios(scenario, truth, run)
    judging = 1.0 / (1.0 + share / (1.0 - share) * np.exp(np.minimum(log_ratio, 700.0)))
    order = np.argsort(judging, kind="stable")
    mean = np.cumsum(judging[order]) / np.arange(1, len(order) + 1)
    count = int(np.flatnonzero(mean <= Q)[-1]) + 1 if (mean <= Q).any() else 0
    return list(truth.comparisons.annotators[order[:count]])


def log_likelihood_ratios(scenario: Scenario, truth: Simulated, run: int) -> Floats:
    """Give log (P(answers | leans, side unknown) / P(answers | judges)) of every annotator."""
    c = truth.comparisons
    m = c.n_annotators
    slope = scenario.slopes(run, m)[c.annotator]
    utility = scenario.steepness * slope * (truth.theta[c.left] - truth.theta[c.right])
    honest = _graded(c.outcome, utility) if scenario.graded else expit(c.outcome * utility)
    by_side = []
    for side in (1.0, -1.0):
        click = (c.outcome * side > 0) / (3.0 if scenario.graded else 1.0)
        ratio = np.log(np.maximum(scenario.bias * click + (1.0 - scenario.bias) * honest, 1e-300) / honest)
        by_side.append(np.bincount(c.annotator, ratio, minlength=m))
    return np.asarray(np.logaddexp(*by_side) - np.log(2.0))


def _graded(outcome: Floats, utility: Floats) -> Floats:
    """Probability of a seven-point answer: the latent / 1.5, rounded, clipped to -3..3, divided by 3."""
    level = np.rint(3.0 * outcome)
    low = np.where(level <= -3, -np.inf, (level - 0.5) * 1.5)
    high = np.where(level >= 3, np.inf, (level + 0.5) * 1.5)
    return np.asarray(np.maximum(expit(high - utility) - expit(low - utility), 1e-300))
