"""From entry levels to selections: thresholds, many draws, e-values."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fdr_core.paths.problem import TIE

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

CUTS = {"knockoff": 0.0, "knockoff+": 1.0}


@dataclass(frozen=True)
class Selection:
    """One draw's selection: who won its race above the threshold, and what the draw says as e-values."""

    selected: Mask
    threshold: float
    losses: int


def smallest_list(q: float, cut: str, copies: int) -> int:
    """Fewest annotators that can be selected: ``ceil(1 / (d q))`` with the offset, one without it."""
    return max(1, math.ceil(CUTS[cut] / (copies * q) - 1e-12))


def loss_limit(m: int, q: float, offset: float, copies: int) -> float:
    """Losses beyond which no later threshold passes: ``(offset + losses) / d > q (m - losses)``."""
    return (q * copies * m - offset) / (1.0 + q * copies)


def race_results(entry: Floats, m: int) -> tuple[Floats, NDArray[np.int8]]:
    """Level and result of every race: +1 the own column entered first, -1 a knockoff did, 0 tied or not entered.

    With one copy, ``level * result`` is the paper's ``W_j = max(Z_j, Z~_j) sign(Z_j - Z~_j)``.
    """
    lanes = entry.reshape(-1, m)
    level = lanes.max(axis=0)
    best_knockoff = lanes[1:].max(axis=0)
    result = np.zeros(m, dtype=np.int8)
    result[lanes[0] > best_knockoff * (1 + TIE)] = 1
    result[best_knockoff > lanes[0] * (1 + TIE)] = -1
    return level, result


def select(level: Floats, result: NDArray[np.int8], *, q: float, offset: float, copies: int) -> Selection:
    """Choose the lowest level at which ``(offset + losses) / d <= q wins``.

    ``copies = 1`` gives T0 (offset 0) and T1 (offset 1) of the paper; more copies the rule of Gimenez and Zou (2019).
    """
    order = np.argsort(-level, kind="stable")
    order = order[level[order] > 0]
    wins = np.cumsum(result[order] > 0)
    losses = np.cumsum(result[order] < 0)
    passes = ((offset + losses) / copies <= q * np.maximum(wins, 1) * (1 + 1e-12)) & (wins > 0)
    passes &= np.append(np.diff(level[order]) < 0, True)  # a level belongs to all who entered at it
    if not passes.any():
        return Selection(np.zeros(len(level), dtype=bool), math.inf, 0)
    last = int(np.flatnonzero(passes)[-1])
    threshold = float(level[order[last]])
    return Selection((level >= threshold) & (result > 0), threshold, int(losses[last]))


#: An annotator whose copies mostly do better is taken for honest when false flags are counted (Storey 2002).
HONEST_FROM = 0.5


class LevelRule:
    """Flags everybody above a level; the knockoff copies tell how many honest annotators would reach it.

    At level t about ``sum_j w_j c_j(t)`` flags are false: c_j the share of j's copies that reach t, w_j Storey's weight
    ``1{p_j > 1/2} / (1/2)``, which leaves out those who are not honest anyway (with shared coins everybody counts,
    w = 1). ``knockoff+`` adds ``(sum c_j^2 / sum c_j) / (1/2)``: an annotator's own share in the count, for equal c_j
    the one extra of Storey's finite-sample proof. Levels are treated alike for own columns and copies.

    Parameters
    ----------
    own : (m,) levels of the annotators, log likelihood ratios.
    copies : (K, m) levels of all their copies, over all draws.
    shares_coins : annotators met the same coins.
    """

    def __init__(self, own: Floats, copies: Floats, *, shares_coins: bool, rng: np.random.Generator) -> None:
        self._own, self._copies = own, copies
        self._levels = -np.sort(-own)
        self._honest_from = 0.0 if shares_coins else HONEST_FROM
        above = (copies > own).sum(axis=0) + rng.random(len(own)) * ((copies == own).sum(axis=0) + 1)
        self._weight = (above / (len(copies) + 1) > self._honest_from) / (1 - self._honest_from)

    def select(self, copies: Floats, *, q: float, offset: float) -> Mask:
        """Select with the false flags counted on some of the copies, (k, m)."""
        levels = copies.ravel()
        order = np.argsort(-levels, kind="stable")
        counted = np.concatenate([[0.0], np.cumsum(np.tile(self._weight, len(copies))[order])]) / len(copies)
        false = counted[np.searchsorted(-levels[order], -self._levels, side="right")]
        flagged = np.arange(1, len(self._own) + 1)
        passes = (false <= q * flagged) & np.append(np.diff(self._levels) < 0, True)
        for last in np.flatnonzero(passes)[::-1]:
            if false[last] + offset * self._surcharge(self._levels[last]) <= q * flagged[last]:
                return np.asarray(self._own >= self._levels[last])
        return np.zeros(len(self._own), dtype=bool)

    def _surcharge(self, level: float) -> float:
        """``(sum c_j^2 / sum c_j) / (1/2)``, with one copy more for those not drawn."""
        c = ((self._copies >= level).sum(axis=0) + 1) / (len(self._copies) + 1)
        return float((c @ c) / c.sum() / (1 - self._honest_from))


def e_values(selection: Selection, copies: int) -> Floats:
    """E-values of one draw (Ren and Barber 2023, with d copies): ``m d 1{selected} / (1 + losses)``."""
    m = len(selection.selected)
    return np.where(selection.selected, m * copies / (1.0 + selection.losses), 0.0)


def e_bh(e: Floats, q: float) -> Mask:
    """E-BH (Wang and Ramdas 2022): the k largest, k the last with ``e_(k) >= m / (q k)``."""
    m = len(e)
    order = np.argsort(-e, kind="stable")
    passes = e[order] * np.arange(1, m + 1) * q >= m * (1 - 1e-12)
    chosen = np.zeros(m, dtype=bool)
    if passes.any():
        chosen[order[: int(np.flatnonzero(passes)[-1]) + 1]] = True
    return chosen
