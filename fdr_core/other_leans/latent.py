"""Leans where nobody knows which item is better: what an answer follows besides the one quality that all agree on.

``logit P(left) = a_j G o + b_j + sum_f delta_jf x_f`` for annotator j; ``o`` is 1 or -1 as the pair stood, and the
quality ``G ~ N(beta'x, 1)`` of a pair is integrated out (marginal maximum likelihood, Bock and Aitkin 1981; a lean is
differential item functioning). What all share of a feature is in ``beta``, so a lean is one beyond the crowd's. True
only where there is one quality: judges of unequal skill on two look as if they leaned, so `Latent.doubts` come first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from numpy.random import Generator
from scipy.special import expit, ndtr

from fdr_core.judges.both_orders import adjusted
from fdr_core.types import Floats, Ints, Mask

#: Fewer annotators do not show a quality of which each is a reading: with eight, .31 of the flags were false.
FEWEST_ANNOTATORS = 16
#: At least this share of the answers has others to the same pair.
LEAST_SHARED = 0.5
#: Above this share with a lean of their own nobody is left to tell the quality.
MOST_FREE = 1 / 3
#: More parameters, or answers, than this are not fitted.
MOST_PARAMETERS, MOST_ANSWERS = 3000, 200_000
#: An even grid, because many answers to a pair leave its quality little room.
_NODES = np.linspace(-4.0, 4.0, 33)
_LOG_PRIOR = -(_NODES**2) / 2 - np.log(np.exp(-(_NODES**2) / 2).sum())
#: Precision of a weak normal prior about slope 1 and no side, which keeps those finite who always agree.
_PRIOR = 0.1
_STEPS, _LONGEST_STEP, _TOLERANCE, _ROUNDS = 40, 1.0, 1e-4, 4
#: Crowds drawn from the fitted model to hold the residuals against.
_DRAWS, _LEVEL = 39, 0.05


@dataclass(frozen=True)
class Latent:
    """
    Leans beyond the crowd's, in one step from the maximum of the likelihood at which only the free have any.

    Attributes
    ----------
    coefficient, error : (m, F); NaN where somebody is not judged.
    quality, without : (N,) expected quality of left over right; and log odds of left without any lean.
    free : (m,) who has leans of its own in the fit.
    p_residuals : how probable residuals as alike as these are, were there one quality.
    """

    coefficient: Floats
    error: Floats
    quality: Floats
    without: Floats
    free: Mask
    p_residuals: float

    def doubts(self) -> list[str]:
        """Why these leans are not to be believed."""
        found = []
        if self.free.mean() > MOST_FREE:
            found.append(
                f"{self.free.sum():,} of {len(self.free):,} annotators seem to lean, which leaves too few to tell the "
                "quality of a pair."
            )
        if self.p_residuals <= _LEVEL:
            found.append(
                f"Annotators agree in what one quality per pair does not explain (p = {self.p_residuals:.3f}): they "
                "judge by more than one, and unequal skill in them looks like a lean."
            )
        return found


@dataclass(frozen=True)
class _Answers:
    """Answers ordered by pair; several of one annotator to one pair count as one together."""

    who: Ints
    pair: Ints
    way: Floats
    y: Floats
    weight: Floats
    x: Floats
    m: int

    @property
    def starts(self) -> Ints:
        return np.flatnonzero(np.diff(self.pair, prepend=-1))

    @property
    def own_x(self) -> Floats:
        """(P, F) features of the pairs as they stand in their own order."""
        return np.asarray((self.x * self.way[:, None])[self.starts])


@dataclass(frozen=True)
class _Point:
    """Parameters: slope, side and leans per annotator (m, 2 + F), and what the crowd makes of the features (F,)."""

    own: Floats
    beta: Floats


def doubts_before(pair: Ints, who: Ints, m: int, n_features: int) -> list[str]:
    """Why quality cannot be told from answers of this shape."""
    met = np.bincount(np.unique(pair * m + who) // m)
    shared = float(np.mean(met[pair] > 1))
    present = len(np.unique(who))
    found = []
    if shared < LEAST_SHARED:
        found.append(
            f"{1 - shared:.0%} of the answers are the only ones to their pairs, so nothing tells which item is better."
        )
    if present < FEWEST_ANNOTATORS:
        found.append(
            f"{present} annotators are too few to tell quality from what each likes ({FEWEST_ANNOTATORS} would do)."
        )
    if m * (2 + n_features) + n_features > MOST_PARAMETERS or len(who) > MOST_ANSWERS:
        found.append(f"{present:,} annotators with {len(who):,} answers are more than can be fitted without gold.")
    return found


def fit_latent(
    pair: Ints, way: Floats, outcome: Floats, who: Ints, m: int, x: Floats, *, q: float, judged: Mask, rng: Generator
) -> Latent:
    """Fit, set those free who seem to lean, fit again until nobody new does, and look at the residuals."""
    order = np.lexsort((who, pair))
    unit = np.unique(pair * m + who, return_inverse=True)[1].ravel()
    weight = 1.0 / np.bincount(unit)[unit]
    data = _Answers(who[order], pair[order], way[order], (1 + outcome[order]) / 2, weight[order], x[order], m)
    point = _Point(np.zeros((m, 2 + x.shape[1])), np.zeros(x.shape[1]))
    point.own[:, 0] = 1.0
    free = np.zeros(m, dtype=bool)
    for _ in range(_ROUNDS):
        point = _maximum(data, point, free)
        delta, error = _one_step(data, point, free)
        p = 2 * ndtr(-np.abs(delta / error)[judged])
        before, free = free, free.copy()
        free[np.flatnonzero(judged)[(np.apply_along_axis(adjusted, 0, p) <= 2 * q).any(axis=1)]] = True
        if (free == before).all() or free.mean() > MOST_FREE:
            break
    posterior = _posterior(data, point)
    quality, without = np.empty(len(who)), np.empty(len(who))
    quality[order], without[order] = _expected(data, point, posterior)
    delta[~judged], error[~judged] = np.nan, np.nan
    return Latent(delta, error, quality, without, free, _p_residuals(data, point, rng))


def _predictor(data: _Answers, point: _Point) -> tuple[Floats, Floats]:
    """(N, nodes) quality as the answer showed it, and linear predictor."""
    quality = (_NODES + (data.own_x @ point.beta)[data.pair][:, None]) * data.way[:, None]
    own = point.own[data.who]
    rest = own[:, 1] + np.einsum("nf,nf->n", own[:, 2:], data.x)
    return quality, own[:, :1] * quality + rest[:, None]


def _posterior(data: _Answers, point: _Point) -> Floats:
    """(P, nodes) of each pair's quality."""
    _, eta = _predictor(data, point)
    told = data.weight[:, None] * (data.y[:, None] * eta - np.logaddexp(0.0, eta))
    log = np.add.reduceat(told, data.starts, axis=0) + _LOG_PRIOR
    likely = np.exp(log - log.max(axis=1, keepdims=True))
    return np.asarray(likely / likely.sum(axis=1, keepdims=True))


def _expected(data: _Answers, point: _Point, posterior: Floats) -> tuple[Floats, Floats]:
    """(N,) expected quality, and the log odds of left without leans there."""
    quality, _ = _predictor(data, point)
    own, mean = point.own[data.who], np.einsum("nk,nk->n", quality, posterior[data.pair])
    return mean, own[:, 0] * mean + own[:, 1]


def _score(data: _Answers, point: _Point) -> tuple[Floats, sp.csr_array, Floats]:
    """
    Scores and information of the marginal likelihood (Louis 1982): what is complete less what the quality hides.

    Returns
    -------
    gradient (K,), scores of every pair (P, K) and information (K, K), K = m (2 + F) + F
    """
    n_own, n_f, k_nodes = point.own.shape[1], len(point.beta), len(_NODES)
    quality, eta = _predictor(data, point)
    posterior = _posterior(data, point)
    mu, of = expit(eta), posterior[data.pair]
    residual = data.weight[:, None] * (data.y[:, None] - mu)
    shape = (len(posterior) * k_nodes, data.m * n_own + n_f)
    rows = (data.pair[:, None] * k_nodes + np.arange(k_nodes)).ravel()
    fixed = [
        np.broadcast_to(column[:, None], eta.shape) for column in np.column_stack([np.ones(len(data.y)), data.x]).T
    ]
    predictors = np.stack([quality, *fixed])
    column = (data.who * n_own)[:, None] + np.zeros(k_nodes, dtype=np.int64)
    value = np.concatenate([(residual * one).ravel() for one in predictors])
    place = np.concatenate([(column + k).ravel() for k in range(n_own)])
    own = sp.csr_array((value, (np.tile(rows, n_own), place)), shape=shape)
    crowd = (np.tile(_NODES, len(posterior))[:, None] * np.repeat(data.own_x, k_nodes, axis=0)).ravel()
    at = (np.repeat(np.arange(shape[0]), n_f), np.tile(np.arange(shape[1] - n_f, shape[1]), shape[0]))
    complete = own + sp.csr_array((crowd, at), shape=shape)
    mean = sp.csr_array((posterior.ravel(), (np.repeat(np.arange(len(posterior)), k_nodes), np.arange(shape[0]))))
    of_pair = (mean @ complete).tocsr()
    told = complete.multiply(np.sqrt(posterior).reshape(-1, 1)).tocsr()
    hidden = (told.T @ told - of_pair.T @ of_pair).toarray()
    curve = data.weight[:, None] * mu * (1 - mu) * of
    block = np.einsum("ank,bnk,nk->nab", predictors, predictors, curve, optimize=True)
    information = np.asarray(-hidden)
    ends = n_own * data.who[:, None] + np.arange(n_own)
    np.add.at(information, (ends[:, :, None], ends[:, None, :]), block)
    information[-n_f:, -n_f:] += data.own_x.T @ data.own_x
    return np.asarray(of_pair.sum(axis=0)).ravel(), of_pair, information


def _maximum(data: _Answers, point: _Point, free: Mask) -> _Point:
    """Newton's steps in slopes, sides, the crowd's taste and the leans of the free."""
    own_free = np.ones(point.own.shape, dtype=bool)
    own_free[:, 2:] = free[:, None]
    active = np.flatnonzero(np.append(own_free.ravel(), np.ones(len(point.beta), dtype=bool)))
    prior = np.append(np.full(point.own.size, _PRIOR), np.zeros(len(point.beta)))
    centre = np.zeros(point.own.shape)
    centre[:, 0] = 1.0
    for _ in range(_STEPS):
        at = np.append(point.own.ravel(), point.beta)
        gradient, _, information = _score(data, point)
        gradient = (gradient - prior * (at - np.append(centre.ravel(), np.zeros(len(point.beta)))))[active]
        part = information[np.ix_(active, active)] + np.diag(prior[active])
        value, vector = np.linalg.eigh(part)
        move = vector @ ((vector.T @ gradient) / np.maximum(np.abs(value), 1e-2))
        size = np.abs(move).max(initial=0.0)
        at[active] += move * min(1.0, _LONGEST_STEP / max(size, 1e-300))
        point = _Point(at[: point.own.size].reshape(point.own.shape), at[point.own.size :])
        if size < _TOLERANCE:
            break
    return point


def _one_step(data: _Answers, point: _Point, free: Mask) -> tuple[Floats, Floats]:
    """Leans from the efficient score: all slopes, sides, the crowd's taste and the others' leans eliminated."""
    m, n_own = point.own.shape
    n_f = n_own - 2
    _, of_pair, information = _score(data, point)
    scores = of_pair.toarray()
    information = information + np.diag(np.append(np.full(m * n_own, _PRIOR), np.zeros(n_f)))
    own_free = np.zeros((m, n_own), dtype=bool)
    own_free[:, :2] = True
    own_free[free] = True
    delta, error = np.empty((m, n_f)), np.empty((m, n_f))
    for j in range(m):
        own = j * n_own + 2 + np.arange(n_f)
        nuisance = own_free.copy()
        nuisance[j, 2:] = False
        rest = np.flatnonzero(np.append(nuisance.ravel(), np.ones(n_f, dtype=bool)))
        projection = np.linalg.solve(information[np.ix_(rest, rest)], information[np.ix_(rest, own)])
        efficient = scores[:, own] - scores[:, rest] @ projection
        inverse = np.linalg.inv(information[np.ix_(own, own)] - information[np.ix_(own, rest)] @ projection)
        met = int((scores[:, own] != 0).any(axis=1).sum())
        meat = efficient.T @ efficient * met / max(met - n_own, 1)
        delta[j] = point.own[j, 2:] + inverse @ efficient.sum(axis=0)
        error[j] = np.sqrt(np.diag(inverse @ meat @ inverse))
    return delta, error


def _p_residuals(data: _Answers, point: _Point, rng: Generator) -> float:
    """Hold how alike the annotators' residuals are against crowds drawn with one quality."""
    seen = _alike(data, point)
    quality = rng.normal(size=(_DRAWS, len(data.starts)))
    own = point.own[data.who]
    unit = np.unique(data.pair * data.m + data.who, return_inverse=True)[1].ravel()
    more = 0
    for drawn in quality:
        eta = own[:, 0] * (drawn + data.own_x @ point.beta)[data.pair] * data.way + own[:, 1]
        eta += np.einsum("nf,nf->n", own[:, 2:], data.x)
        u = rng.random(int(unit.max()) + 1)[unit]  # answers to one pair again are the same answer again
        first = np.where(data.way > 0, u, 1 - u) < expit(eta)
        more += _alike(replace(data, y=first.astype(np.float64)), point) >= seen
    return float((1 + more) / (1 + _DRAWS))


def _alike(data: _Answers, point: _Point) -> float:
    """Largest eigenvalue of the correlations of the annotators' residuals over pairs, for what pairs tell."""
    eta = _expected(data, point, _posterior(data, point))[1] + np.einsum("nf,nf->n", point.own[data.who, 2:], data.x)
    left = (data.y - expit(eta)) * data.way * data.weight
    residual = sp.csr_array((left, (data.pair, data.who)), shape=(int(data.pair.max()) + 1, data.m))
    size = np.sqrt(np.maximum((residual.multiply(residual)).sum(axis=0), 1e-12))
    together = np.asarray((residual.T @ residual).toarray() / size[:, None] / size)
    np.fill_diagonal(together, 0.0)
    return float(np.linalg.eigvalsh(together)[-1])
