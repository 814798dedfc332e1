"""What testing all annotators returns, whichever way they were tested."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from fdr_core import least_evidence
from fdr_core.codes import by_rows
from fdr_core.randomisation.convolution import SMALLEST_P, Block, SignSums
from fdr_core.randomisation.parts import Spoken
from fdr_core.randomisation.plan import LOG_RATIOS, SCALES, log_cosh, tails_at_log_ratios
from fdr_core.selection import HALF
from fdr_core.types import Floats, Ints, Mask


@dataclass(frozen=True)
class Tests:
    """One test per judged annotator.

    Attributes
    ----------
    plain_p_value : (m,) two-sided, of all answers together.
    above_half : (m,) null probability of a plain p-value above one half.
    weight : (m,) of mean 1.
    side : (m,) 1 where the statistic speaks for the left side, -1 for the right, 0 for neither.
    n_units : (m,) how many coins, or pairs, the test rests on.
    converged : whether every fit behind the weights settled.
    uses_storey : whether tests of the honest are as good as independent, so that the list may estimate how many are.
    notes : what a reader should know.
    log_e : (m,) log e-values that hold under any dependence, where tests of honest annotators depend on each other.
    spoken : which part of the answers speaks, where parts are tested.
    kind : how annotators were tested.
    p_value : (m,) of what speaks; 1 where the bias is no lean of interest, or the evidence less than the least.
    """

    plain_p_value: Floats
    above_half: Floats
    weight: Floats
    side: Ints
    n_units: Ints
    converged: bool
    uses_storey: bool
    notes: tuple[str, ...] = ()
    log_e: Floats | None = None
    spoken: Spoken | None = None
    kind: str = ""
    p_value: Floats = field(default_factory=lambda: np.zeros(0))

    def limited(self, kind: str, leans: Ints) -> Tests:
        """The p-values that count, where ``leans`` names the side of interest of each."""
        speaks_for = self if self.spoken is None else self.spoken
        is_enough = (self.told_p_value <= least_evidence.P_VALUE) & (speaks_for.n_units >= least_evidence.UNITS)
        p_value = np.where(is_enough & (speaks_for.side == leans), self.told_p_value, 1.0)
        return replace(self, p_value=p_value, side=speaks_for.side, kind=kind)

    @property
    def told_p_value(self) -> Floats:
        """(m,) as people read it: before the limits, of whichever part speaks."""
        return self.plain_p_value if self.spoken is None else self.spoken.p_value

    def of(self, chosen: Mask) -> Tests:
        """The tests of some of the judged, the same as beside the others."""
        weight = self.weight[chosen]
        return replace(
            self,
            p_value=self.p_value[chosen],
            weight=weight / max(float(weight.mean()), 1e-300) if len(weight) else weight,
            side=self.side[chosen],
            n_units=self.n_units[chosen],
            plain_p_value=self.plain_p_value[chosen],
            above_half=self.above_half[chosen],
            log_e=None if self.log_e is None else self.log_e[chosen],
            spoken=None if self.spoken is None else self.spoken.of(chosen),
        )


@dataclass(frozen=True)
class SignTests:
    """Exact tests of sums of fair signs, and what the plan needs to know of them; ``smallest``: possible p-value."""

    p_value: Floats
    above_half: Floats
    smallest: Floats
    side: Ints
    null: NDArray[np.float32]
    found: NDArray[np.float32]


def _log_norms(sums: SignSums) -> Floats:
    """(owners, scales) ``sum_u log cosh(scale g_u)``."""
    value = np.empty(len(sums.owner))
    norms = []

    def evaluate(rows: slice, scale: float) -> None:
        value[rows] = log_cosh(scale * sums.units[rows] * sums.unit[sums.owner[rows]])

    for scale in SCALES:
        by_rows(partial(evaluate, scale=scale), len(value))
        norms.append(np.bincount(sums.owner, value, len(sums.unit)))
    return np.stack(norms, axis=1).astype(np.float64)


def sign_tests(sums: SignSums) -> SignTests:
    """Compute p-values and planning tables in one pass over the distributions."""
    n, total = len(sums.unit), sums.total
    p_value, above_half = np.ones(n), np.ones(n)
    null, found = np.zeros((n, len(LOG_RATIOS)), dtype=np.float32), np.zeros((n, len(LOG_RATIOS)), dtype=np.float32)
    log_norm = _log_norms(sums)

    def test(block: Block) -> None:
        members, tails = block.members, block.tails()
        rows = np.arange(len(members))
        p_value[members] = tails[rows, np.abs(total[members])]
        above_half[members] = 1.0 - tails[rows, (tails > HALF).sum(axis=1)]
        null[members], found[members] = tails_at_log_ratios(block, tails, sums.unit[members], log_norm[members])

    sums.for_each_block(test)
    smallest = np.minimum(1.0, 0.5 ** (np.bincount(sums.owner, minlength=n) - 1.0))  # all signs alike, either way
    return SignTests(np.clip(p_value, SMALLEST_P, 1.0), above_half, smallest, np.sign(total), null, found)
