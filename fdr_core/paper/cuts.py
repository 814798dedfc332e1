"""From entry levels to the selection of one draw: races won and lost, thresholds, e-values."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fdr_core.paper.paths.problem import TIE
from fdr_core.types import Floats, Mask

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


def e_values(selection: Selection, copies: int) -> Floats:
    """E-values of one draw (Ren and Barber 2024, with d copies): ``m d 1{selected} / (1 + losses)``."""
    m = len(selection.selected)
    return np.where(selection.selected, m * copies / (1.0 + selection.losses), 0.0)
