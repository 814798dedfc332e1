"""Pairs shown in both orders to the same annotator: an honest one's two answers could as well have come the other way.

Only pairs answered inconsistently count (twice left, or twice right), each as a fair sign, whatever decided the sides.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fdr_core.answers import Answers
from fdr_core.codes import order_by
from fdr_core.randomisation.coins import Crowd, examine_units
from fdr_core.randomisation.convolution import group_starts
from fdr_core.randomisation.results import Tests
from fdr_core.randomisation.units import UnitRows
from fdr_core.types import Ints, Mask


def both_orders(crowd: Crowd) -> Tests:
    """Test annotators on the pairs that they saw equally often in either order."""
    coin, is_balanced = paired_coins(crowd.answers)
    paired = replace(crowd, answers=crowd.answers.with_coin(coin))
    consensus = paired.consensus()
    units = UnitRows.of(paired.answers, crowd.judged, crowd.n_annotators).only(paired.answers, is_balanced)
    support, uncertainty = consensus.support[units.rows], consensus.uncertainty[units.rows]
    tested = examine_units(paired, units, consensus, support, uncertainty, may_share=False)
    left_out = round(float(crowd.answers.weight[~is_balanced].sum()))
    note = (f"{left_out} answers to pairs that were not seen equally often in both orders are left out of the tests.",)
    return replace(tested, notes=note) if left_out else tested


def paired_coins(answers: Answers) -> tuple[Ints, Mask]:
    """One coin per coin and unordered pair, and the rows whose annotator saw it equally often in either order."""
    low, high = np.minimum(answers.left, answers.right), np.maximum(answers.left, answers.right)
    _, coin = np.unique(np.stack([answers.coin, low, high]), axis=1, return_inverse=True)
    coin = coin.ravel()
    order = order_by(answers.annotator, coin)
    starts = group_starts(answers.annotator[order], coin[order])
    signed = np.where(answers.left == low, 1.0, -1.0) * answers.weight
    surplus = np.add.reduceat(signed[order], starts) if len(starts) else np.zeros(0)
    is_balanced = np.empty(len(answers), dtype=bool)
    is_balanced[order] = np.repeat(np.abs(surplus) < 0.5, np.diff(np.append(starts, len(answers))))
    return coin, is_balanced
