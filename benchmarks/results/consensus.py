"""How good is the ranking that comes out: against the true order, with 0, 10 and 30 % of the annotators biased."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit
from scipy.stats import kendalltau

from benchmarks.results.peers import crowdkit_frame
from benchmarks.results.quality import reported
from fdr_core.baselines import fit_logistic
from fdr_core.comparisons import Comparisons
from fdr_core.simulate import Simulated
from harness.scenarios import generator

Floats = NDArray[np.float64]

N_ANNOTATORS, N_ITEMS, N_ANSWERS, N_TASKS, BIAS = 40, 40, 60, 300, 0.6
TOP = 10


def crowd(share: float, shared: bool, *, rng: Generator) -> Simulated:
    """40 annotators, 40 items, 60 answers each; own coins, or 300 tasks in one order for all and leans to the left."""
    annotator = np.repeat(np.arange(N_ANNOTATORS), N_ANSWERS)
    theta = rng.permutation(np.linspace(-1, 1, N_ITEMS))
    n_pairs = N_TASKS if shared else annotator.size
    one = rng.integers(N_ITEMS, size=n_pairs)
    two = (one + rng.integers(1, N_ITEMS, size=n_pairs)) % N_ITEMS
    task = np.arange(n_pairs)
    if shared:
        task = np.concatenate([rng.permutation(N_TASKS)[:N_ANSWERS] for _ in range(N_ANNOTATORS)])
    left, right = one[task], two[task]
    side = np.zeros(N_ANNOTATORS, dtype=np.int64)
    leaning = rng.permutation(N_ANNOTATORS)[: round(share * N_ANNOTATORS)]
    side[leaning] = 1 if shared else rng.choice([-1, 1], size=leaning.size)
    honest = np.where(3 * (theta[left] - theta[right]) + rng.logistic(size=annotator.size) > 0, 1.0, -1.0)
    clicks = (side[annotator] != 0) & (rng.random(annotator.size) < BIAS)
    outcome = np.where(clicks, side[annotator], honest)
    comparisons = Comparisons.from_arrays(annotator, left, right, outcome, coin=task if shared else None)
    who, what = comparisons.annotators.astype(np.int64), comparisons.items.astype(np.int64)
    return Simulated(comparisons, side[who] != 0, theta[what], side[who])


def peers(share: float, shared: bool, runs: int, slow_runs: int) -> dict[str, Any]:
    """Other packages' scores, and two models that take an effect per annotator; crowd-kit on fewer data sets."""
    measured: dict[str, Any] = {name: {"tau": [], "top": []} for name in (*PEERS, "noisy-bt")}
    for run in range(runs):
        truth = crowd(share, shared, rng=generator(*reported(run)))
        for name, scores in PEERS.items():
            with suppress(ModuleNotFoundError):  # a package that is absent reads "not run"
                note(measured[name], truth.theta, scores(truth.comparisons))
        if run < slow_runs:
            note(measured["noisy-bt"], truth.theta, noisy_scores(truth.comparisons, run))
    return {"runs": runs, "slow_runs": slow_runs, "methods": measured}


def bradley_terry(comparisons: Comparisons) -> Floats:
    """Scores by choix, with its small regularisation so that every item has one."""
    import choix

    left_won = comparisons.outcome > 0
    winner = np.where(left_won, comparisons.left, comparisons.right)
    loser = np.where(left_won, comparisons.right, comparisons.left)
    pairs = list(zip(winner.tolist(), loser.tolist(), strict=True))
    return np.asarray(choix.ilsr_pairwise(comparisons.n_items, pairs, alpha=0.01))


def evalica_scores(comparisons: Comparisons) -> Floats:
    """Log scores by evalica's Bradley-Terry."""
    import evalica

    left, right = comparisons.left.tolist(), comparisons.right.tolist()
    winners = [
        evalica.Winner.X if y > 0 else evalica.Winner.Y if y < 0 else evalica.Winner.Draw for y in comparisons.outcome
    ]
    result = evalica.bradley_terry(left, right, winners)
    return np.asarray(np.log(result.scores.reindex(range(comparisons.n_items)).to_numpy(dtype=float)))


def glm_scores(comparisons: Comparisons) -> Floats:
    """Item effects of a logistic regression with an intercept per annotator."""
    return fit_logistic(comparisons).theta


def am_elo_scores(comparisons: Comparisons) -> Floats:
    """Item scores of am-ELO's model, written by us from its paper (Liu and others 2025).

    P(left) = logistic(ability_k (R_left - R_right)), abilities of mean 1, by maximum likelihood; a ridge of .001 on the
    scores keeps them finite.
    """
    c, n = comparisons, comparisons.n_items
    y = (c.outcome + 1.0) / 2.0

    def negative(x: Floats) -> tuple[float, Floats]:
        R, ability = x[:n], x[n:]
        gap = R[c.left] - R[c.right]
        eta = ability[c.annotator] * gap
        residual = y - expit(eta)
        pull = residual * ability[c.annotator]
        slope = np.bincount(c.left, pull, n) - np.bincount(c.right, pull, n) - 0.001 * R
        of_ability = np.bincount(c.annotator, residual * gap, c.n_annotators)
        value = float((y * eta - np.logaddexp(0.0, eta)).sum()) - 0.0005 * float(R @ R)
        # abilities keep their mean of 1: only the part of the slope that leaves it counts
        return -value, -np.concatenate([slope, of_ability - of_ability.mean()])

    start = np.concatenate([np.zeros(n), np.ones(c.n_annotators)])
    start[:n] = 0.1 * (np.bincount(c.left, c.outcome, n) - np.bincount(c.right, c.outcome, n))
    found = minimize(negative, start, jac=True, method="L-BFGS-B", options={"maxiter": 500})
    return np.asarray(found.x[:n] * np.sign(found.x[n:].mean()))


PEERS = {"choix": bradley_terry, "evalica": evalica_scores, "glm": glm_scores, "am-elo": am_elo_scores}


def noisy_scores(comparisons: Comparisons, seed: int) -> Floats:
    """Scores by crowd-kit's NoisyBradleyTerry."""
    from crowdkit.aggregation import NoisyBradleyTerry

    with np.errstate(all="ignore"):
        scores = NoisyBradleyTerry(random_state=seed).fit_predict(crowdkit_frame(comparisons))
    return scores.reindex(comparisons.items).fillna(scores.mean()).to_numpy(dtype=float)


def note(measured: dict[str, list[float]], theta: Floats, scores: Floats) -> None:
    """Add Kendall's tau and the share of the ten best that are among the ten best found."""
    best, found = (set(np.argsort(-values, kind="stable")[:TOP].tolist()) for values in (theta, scores))
    measured["tau"].append(round(float(kendalltau(theta, scores).statistic), 4))
    measured["top"].append(len(best & found) / TOP)
