"""Where to spend the error rate: weights from thresholds planned before any side is looked at.

Under a lean of the kind that the choices suggest, sign u agrees with the side leant to with probability
``sigma(2 g_u)``, so that ``dP1/dP0 = cosh(T) / prod_u cosh(g_u)``: both distributions of T follow from the one under
the null. Leans may be weaker or stronger than suggested, so the ratio is averaged over scales of g. Flagging whoever
reaches the same posterior odds finds most for a given number of false flags; the odds are chosen so that the expected
share of false flags is the planned rate, and an annotator's weight is its null probability of reaching them. That
probability is one which its answers can reach, however few they are, with room up to the next one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fdr_core import least_evidence
from fdr_core.randomisation.convolution import Block
from fdr_core.selection import HALF
from fdr_core.types import Floats, Ints

Table = NDArray[np.float32]

#: Log likelihood ratios at which thresholds may lie.
LOG_RATIOS = np.arange(-3.0, 14.0, 0.125)
#: Leans as strong as suggested, weaker and stronger, and how probable each is. The choices take a judge's noise for
#: strong leans, so weak ones must be planned for: without them a plan waits for p < 1e-4 and starves p = .01. These, as
#: the floor below, were chosen on reife_mtbench and crowds below 5000, never on llmbar_features, prd, alpaca or crowds
#: from 7000 on.
SCALES, SCALE_SHARES = np.array([0.3, 0.7, 1.0, 3.0]), np.array([0.2, 0.25, 0.4, 0.15])
#: Place of the leans as strong as suggested among them.
_AS_SUGGESTED = 2
#: The rate that thresholds are planned for; any other is served by the same weights. A little above the usual .1: the
#: floor below takes its part.
PLANNED_RATE = 0.12
#: Where nobody shares a coin, a threshold gets room by up to this factor, at most up to the next p-value. The list
#: scales all thresholds alike; whose few answers reach few p-values would be lost by the first step down.
ROOM = 1.8
#: What choices say about a lean counts up to this log ratio, and up to less in small teams: people disagree for other
#: reasons too, and a small team shows little of how much.
MOST_FROM_CHOICES, _TEAM = 4.0, 60.0
#: Nobody's weight is below about this share of the mean, so that nobody is out of reach; but for those whose answers
#: are too few to reach that in any case.
FLOOR = 0.15
#: Of a plan, where there is none: small enough not to count beside one.
NEXT_TO_NOTHING = 1e-6
#: Shares of leaning annotators that are planned for; what is believed of them counts like so many annotators.
LEANING = np.array([0.08, 0.12, 0.16, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5])
_PRIOR_ANNOTATORS, _PRIOR_LEANING = 50.0, 0.15


def log_cosh(x: Floats) -> Floats:
    """``log cosh x`` without overflow."""
    size = np.abs(x)
    return np.asarray(size + np.log1p(np.exp(-2 * size)) - np.log(2))


def tails_at_log_ratios(block: Block, tails: Floats, unit: Floats, log_norm: Floats) -> tuple[Floats, Floats]:
    """``P0`` and ``P1`` of a log likelihood ratio of at least each of `LOG_RATIOS`, per owner of a block.

    Parameters
    ----------
    tails : (owners, k + 1) null tails of ``|T|``.
    unit : (owners,) size of a grid unit.
    log_norm : (owners, scales) ``sum_u log cosh(scale g_u)``.
    """
    ratio = _likelihood_ratios(block.mass.shape[1], unit, log_norm)
    missed = np.zeros((len(ratio), ratio.shape[1] + 1))
    np.cumsum(block.mass[:, : ratio.shape[1]] * ratio, axis=1, out=missed[:, 1:])
    k = _first_reaching(np.log(np.maximum(ratio, 1e-20, out=ratio), out=ratio))
    null = np.take_along_axis(tails, k, axis=1)
    found = np.clip(1.0 - np.take_along_axis(missed, k, axis=1), 0.0, 1.0)
    return null, np.where(null > 0, found, 0.0)


def _likelihood_ratios(width: int, unit: Floats, log_norm: Floats) -> Floats:
    """``sum_s share_s cosh(s T) / prod_u cosh(s g_u)`` at T = 0, 1, ... grid units, as far as `LOG_RATIOS` go."""
    farthest = float(((LOG_RATIOS[-1] + 2.0 + log_norm[:, _AS_SUGGESTED]) / unit).max())
    T = np.arange(min(width, int(farthest) + 2)) * unit[:, None]
    ratio = np.zeros_like(T)
    for scale, share, norm in zip(SCALES, SCALE_SHARES, log_norm.T, strict=True):
        grown = np.exp(np.minimum(scale * T - norm[:, None], LOG_RATIOS[-1] + 4.0))
        ratio += share / 2 * grown * (1.0 + np.exp(-2.0 * scale * T))
    return np.asarray(np.minimum(ratio, np.exp(LOG_RATIOS[-1] + 1e-6), out=ratio))


def _first_reaching(log_ratio: Floats) -> Ints:
    """First k at which each ascending row reaches each of `LOG_RATIOS`: one search, the rows stacked."""
    n, width = log_ratio.shape
    row = 100.0 * np.arange(n)[:, None]
    found = np.searchsorted((log_ratio + row).ravel(), (LOG_RATIOS + row - 1e-7).ravel()).reshape(n, -1)
    return np.asarray(found - width * np.arange(n)[:, None])


def planned_thresholds(
    null: Table, found: Table, smallest: Floats, log_ratio: Floats, *, trust: float = 1.0, room: float = 1.0
) -> Floats:
    """Null probabilities of the posterior odds that meet the planned rate, for every share of leaning in `LEANING`.

    A floor is added for everybody whose answers can reach it.

    Parameters
    ----------
    null, found : (m, log ratios) of `tails_at_log_ratios`.
    smallest : (m,) smallest possible p-value.
    log_ratio : (m,) what the choices say about a lean.
    trust : in that, from 0 to 1.
    room : largest factor by which a threshold is raised towards the next p-value that can be reached.

    Returns
    -------
    (shares, m), nondecreasing in the share.
    """
    most = trust * MOST_FROM_CHOICES * len(log_ratio) / (len(log_ratio) + _TEAM)
    said = np.clip(log_ratio, -most, most)
    reachable = _reachable(null, found)
    planned = _plan(*reachable, said + np.log(LEANING / (1 - LEANING))[:, None])
    floor = np.where(smallest <= least_evidence.P_VALUE, FLOOR * planned[0].mean(), 0.0)
    with_room = np.array([_with_room(threshold, null, room) for threshold in planned + floor])
    return _never_nothing(np.maximum.accumulate(with_room, axis=0))


def _never_nothing(thresholds: Floats) -> Floats:
    """Where nothing is planned at a share of leaning, next to nothing of what is planned at the next larger share.

    So that weights, which are relative, keep falling with the share.
    """
    is_planned = thresholds.max(axis=1, initial=0.0) > 0
    least = thresholds[is_planned.argmax()] if is_planned.any() else np.ones(thresholds.shape[1])
    return np.where(is_planned[:, None], thresholds, NEXT_TO_NOTHING * least)


def _with_room(threshold: Floats, null: Table, room: float) -> Floats:
    """Thresholds as far up as the next reachable p-value, by a factor of `room` at most."""
    n_above = (null > threshold[:, None] * (1 + 1e-6)).sum(axis=1)
    following = np.where(n_above > 0, null[np.arange(len(null)), np.maximum(n_above - 1, 0)], threshold)
    return np.asarray(np.minimum(room * threshold, following))


def _reachable(null: Table, found: Table) -> tuple[Table, Table]:
    """Thresholds at most those of the least evidence; where answers are too few for that, the smallest."""
    n_possible = (null > 0).sum(axis=1, keepdims=True)
    first = np.minimum((null > least_evidence.P_VALUE).sum(axis=1, keepdims=True), np.maximum(n_possible - 1, 0))
    level = np.maximum(np.arange(null.shape[1]), first)
    return np.take_along_axis(null, level, axis=1), np.take_along_axis(found, level, axis=1)


def leaning_shares(p_value: Floats, above_half: Floats) -> Floats:
    """How many lean, as each annotator's weight may know it: from who *else* has a p-value above one half.

    Storey's (2002) estimate with the own p-value left out, drawn towards what is believed before looking. It falls
    whenever somebody's p-value rises above one half: the proof of the list asks for both.

    Parameters
    ----------
    p_value : (m,)
    above_half : (m,) null probabilities of p-values above one half.
    """
    m = len(p_value)
    honest = (p_value > HALF) / above_half
    others = honest.sum() - honest + 1 / above_half
    share = (m - others + _PRIOR_ANNOTATORS * _PRIOR_LEANING) / (m + _PRIOR_ANNOTATORS)
    return np.asarray(np.clip(share, LEANING[0], LEANING[-1]))


def weights_at(planned: Floats, share: Floats | float) -> Floats:
    """Weights of mean 1: the planned thresholds at a share of leaning (each annotator's own)."""
    m = planned.shape[1]
    upper = np.clip(np.searchsorted(LEANING, share), 1, len(LEANING) - 1)
    part = (share - LEANING[upper - 1]) / (LEANING[upper] - LEANING[upper - 1])
    j = np.arange(m)
    t = (1 - part) * planned[upper - 1, j] + part * planned[upper, j]
    return np.asarray(t * m / t.sum())


def _plan(null: Table, found: Table, prior: Floats) -> Floats:
    """Null probabilities at the posterior odds where the expected share of false flags is the planned rate.

    ``prior`` : (shares, m) log odds of leaning; every share of leaning has odds of its own.
    """
    leans = 1 / (1 + np.exp(-prior))
    low, high = prior.min(axis=1) + LOG_RATIOS[0], prior.max(axis=1) + LOG_RATIOS[-1]
    for _ in range(20):
        middle = (low + high) / 2
        at = _levels(prior, middle)
        false, true = ((1 - leans) * _at(null, at)).sum(axis=1), (leans * _at(found, at)).sum(axis=1)
        holds = false <= PLANNED_RATE * (false + true)
        low, high = np.where(holds, low, middle), np.where(holds, middle, high)
    return _at(null, _levels(prior, high))


def _levels(prior: Floats, odds: Floats) -> Ints:
    """The first of `LOG_RATIOS` at which each annotator's posterior odds are reached; their number where none is."""
    step = np.ceil((odds[:, None] - prior - LOG_RATIOS[0]) / (LOG_RATIOS[1] - LOG_RATIOS[0]) - 1e-9)
    return np.asarray(np.clip(step, 0, len(LOG_RATIOS)), dtype=np.int64)


def _at(table: Table, level: Ints) -> Floats:
    inside = np.minimum(level, len(LOG_RATIOS) - 1)
    reached = table[np.arange(len(table)), inside]
    return np.where(level < len(LOG_RATIOS), reached, 0.0).astype(np.float64)
