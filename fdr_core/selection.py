"""From p-values and e-values to a list."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fdr_core.types import Floats, Mask

#: P-values up to this count as at most one half: the last digits of a convolution are not exact.
HALF = 0.5 + 1e-9


@dataclass(frozen=True)
class WeightedList:
    """The list at rate q, and for every annotator the smallest rate at which it would be on it."""

    flagged: Mask
    q_value: Floats


def weighted_list(
    p_value: Floats,
    weight: Floats,
    *,
    q: float,
    storey: bool,
    plain_p_value: Floats | None = None,
    above_half: Floats | None = None,
) -> WeightedList:
    """Weighted Benjamini-Hochberg with a leave-one-out estimate of how many are honest.

    With ``B_k = 1{plain p_k > 1/2}``, ``v_k = P(B_k = 1)`` under the null and ``a_k = w_k / v_k``,

        ``pi_j = (a_j + sum_{k != j} a_k B_k) / m``   (1 without ``storey``),

    j is flagged if ``p_j <= w_j q R / (m pi_j)``, R the largest count that agrees with itself, and ``p_j <= 1/2``.

    *Proof* that ``FDR <= q``, given the choices of all. Null p-values are then independent of each other and of all
    others, ``P(p_j <= t) <= t``, ``p_j >= plain p_j``, and ``P(B_j = 1) = v_j``. Weights may depend on the choices, and
    on the B's in this way: up to one common factor, which cancels, w_k does not depend on B_k, and falls (or stays)
    when another B_j turns from 0 to 1. Let j be null. Where j is flagged, B_j = 0; lowering p_j further changes neither
    weights nor pi nor R, so that R is a function R_j of the others (with B_j = 0), and

        ``E[1{j flagged} / R] <= E[P(p_j <= w_j q R_j / (m pi_j) | others) / R_j] <= q E[w_j / (m pi_j)]``.

    As ``w_j / (m pi_j) = w_j / (a_j + sum_{k != j} a_k B_k)`` has the a_k of ``B_j = 0``, which are at least those of
    ``B_j = 1``, it is at most the same ratio with the latter. That one does not depend on B_j, so its mean is that of
    ``(B_j / v_j) w_j / (a_j + sum_{k != j} a_k B_k) = a_j B_j / sum_k a_k B_k``, and these sum to at most 1.
    Without ``storey``, weights that sum to m and do not depend on p-values give ``FDR <= q`` as ever (Genovese, Roeder
    and Wasserman 2006).

    Parameters
    ----------
    p_value, weight : (m,)
    q : rate, in (0, 1).
    storey : whether to estimate how many are honest; for independent p-values.
    plain_p_value : (m,) what B counts, where p-values were set to 1 or combined; at most one half where those are.
    above_half : (m,) ``v_k``; one half by default.

    Returns
    -------
    WeightedList
        ``flagged`` is ``q_value <= q``.
    """
    m = len(p_value)
    honest = np.ones(m)
    if storey:
        a = weight / (0.5 if above_half is None else above_half)
        counted = a * ((p_value if plain_p_value is None else plain_p_value) > HALF)
        honest = (a + counted.sum() - counted) / m
    possible = (p_value <= HALF) & (weight > 0)
    score = np.full(m, np.inf)
    score[possible] = p_value[possible] * m * honest[possible] / weight[possible]
    order = np.argsort(score, kind="stable")
    adjusted = np.minimum.accumulate((score[order] / np.arange(1, m + 1))[::-1])[::-1]
    q_value = np.ones(m)
    q_value[order] = np.minimum(adjusted, 1.0)
    return WeightedList(q_value <= q, q_value)


def e_bh(e: Floats, q: float) -> Mask:
    """E-BH (Wang and Ramdas 2022): the k largest, k the last with ``e_(k) >= m / (q k)``."""
    m = len(e)
    order = np.argsort(-e, kind="stable")
    passes = e[order] * np.arange(1, m + 1) * q >= m * (1 - 1e-12)
    chosen = np.zeros(m, dtype=bool)
    if passes.any():
        chosen[order[: int(np.flatnonzero(passes)[-1]) + 1]] = True
    return chosen


def closed_e_bh(e: Floats, q: float) -> Mask:
    """The largest list with ``FDR <= q`` that e-values under any dependence allow (Xu, Fischer and Ramdas 2025).

    Among the honest, ``e_S = mean of e over S`` has mean at most 1 for S the set of all of them. A list R with
    ``|R & S| / |R| <= q e_S`` for every set S has therefore a mean share of false entries of at most q. Of all lists of
    k the k largest values are the best. Against them stand the a smallest inside and, outside, whatever has
    ``q k e < a``: the rest of S only helps.
    """
    m = len(e)
    ascending = np.sort(e)
    sums = np.concatenate([[0.0], np.cumsum(ascending)])
    from_top = ascending[::-1]
    possible = np.flatnonzero(from_top * np.arange(1, m + 1) * q >= 1 - 1e-12)
    for k in (possible + 1)[::-1].tolist():
        a = np.arange(1, k + 1)
        inside = sums[m - k + a] - sums[m - k]
        outside = np.searchsorted(ascending[: m - k] * q * k, a)
        if (q * k * (inside + sums[outside]) >= a * (a + outside) * (1 - 1e-12)).all():
            chosen = np.zeros(m, dtype=bool)
            chosen[np.argsort(-e, kind="stable")[:k]] = True
            return chosen
    return np.zeros(m, dtype=bool)
