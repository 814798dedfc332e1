"""Sides that no coin decided: what would an honest annotator have answered, the items standing where they stood?

Under the honest model of the consensus answers are independent with known probabilities, so the distribution of the
same linear statistic is again a convolution, ``prod_k E exp(it h_k)``, and nothing is drawn. What the model does not
know is averaged over: the slope, out of those in the crowd and what the annotator's own answers leave possible, and the
errors of the utilities, as a normal term.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import ndtr

from fdr_core.codes import distinct_partners
from fdr_core.consensus.honest import Consensus, moderated
from fdr_core.randomisation.alternatives import AnswerKinds, click_strengths, lean_table, pool_by_support
from fdr_core.randomisation.choices import ChoiceEvidence
from fdr_core.randomisation.coins import Crowd, unit_sums, unit_values, weigh_units
from fdr_core.randomisation.convolution import SMALLEST_P
from fdr_core.randomisation.plan import leaning_shares, planned_thresholds, weights_at
from fdr_core.randomisation.results import Tested, sign_tests
from fdr_core.randomisation.units import UnitRows
from fdr_core.types import Floats, Ints

_EM_STEPS = 40
#: Grid steps for the mean worth of an answer.
_GRID = 8
#: Numbers held at once while the distributions of many annotators are computed.
_BATCH = 500_000
#: Standard deviations of the utilities' errors that a grid must hold.
_ERROR_REACH = 8.0
#: Step of numerical derivatives, on the logit scale.
_NUDGE = 1e-3
#: The model of judging is in the p-values already, so what it says of the choices counts less in the weights.
_TRUST = 0.6
#: What an annotator's own answers say about its slope counts with this power of their likelihood: the same answers are
#: tested, and clicks look like a small slope. At 1 half of the error rate is left unused, at 0 slopes that really
#: differ pass for leans.
_OWN_SLOPE = 0.2
_NOTE = "No coin decided the sides; p-values follow from a model of judging, and are as good as that model."


def sides_fixed(crowd: Crowd) -> Tested:
    """Test annotators against answers drawn anew by the honest model, sides held fixed."""
    consensus = crowd.consensus()
    units = UnitRows.of(crowd.answers, crowd.judged, crowd.n_annotators)
    rows = units.rows
    support, uncertainty = consensus.support[rows], consensus.uncertainty[rows]
    evidence = weigh_units(crowd, units, consensus, support, uncertainty)
    gap = np.where(crowd.answers.outcome[rows] < 0, -1.0, 1.0) * support
    asked = _Answering.of(crowd, units, consensus, gap, uncertainty, evidence)
    p_value, side = asked.test(tempered(evidence.slope))
    half = np.full(len(p_value), 0.5)
    planned = sign_tests(unit_sums(crowd, units, unit_values(crowd, units, evidence.pull)))
    thresholds = planned_thresholds(planned.null, planned.found, planned.smallest, evidence.log_ratio, trust=_TRUST)
    weight = weights_at(thresholds, leaning_shares(p_value, half))
    converged = consensus.converged and evidence.converged
    pairs = _pairs_met(crowd, units)
    return Tested(p_value, half, weight, side, pairs, converged, are_independent=True, notes=(_NOTE,))


def _pairs_met(crowd: Crowd, units: UnitRows) -> Ints:
    """How many different pairs each of the judged compared."""
    answers = crowd.answers.take(units.rows)
    low, high = np.minimum(answers.left, answers.right), np.maximum(answers.left, answers.right)
    return distinct_partners(units.position, low * crowd.n_items + high, len(crowd.judged))


def tempered(slope: Floats) -> Floats:
    """Draw everybody's slopes, (m, slopes) probabilities, towards those of the crowd."""
    crowd = slope.mean(axis=0)
    mixed = np.maximum(slope, 1e-300) ** _OWN_SLOPE * crowd ** (1.0 - _OWN_SLOPE)
    return np.asarray(mixed / mixed.sum(axis=1, keepdims=True))


def placement_shift(gap: Floats, uncertainty: Floats) -> Floats:
    """How much more the left item is worth than its estimate says, because it was put there.

    Where the better item was put left with probability l, an estimate ``gap ~ N(Delta, v)`` leaves
    ``E[Delta] = gap + sqrt(v) (2l - 1) phi(z) / (1 - l + (2l - 1) Phi(z))``, z = gap / sqrt(v); l by EM. Without it an
    annotator who sees better than the estimate would look like one who prefers the better item's side.
    """
    sd = np.sqrt(uncertainty)
    above = ndtr(gap / sd)
    left = 0.5
    for _ in range(_EM_STEPS):
        left = float(np.clip(np.mean(left * above / (1 - left + (2 * left - 1) * above)), 0.01, 0.99))
    lean = 2 * left - 1
    density = np.exp(-(gap**2) / uncertainty / 2) / np.sqrt(2 * np.pi)
    return np.asarray(sd * lean * density / (1 - left + lean * above))


@dataclass(frozen=True)
class _Answering:
    """What every annotator was asked, and what answers are worth.

    Attributes
    ----------
    asked : (m, bins) questions by how much the left item is worth more.
    probability : (slopes, bins, grades) of every answer.
    score : (bins, grades) what it adds to the statistic, in grid units.
    observed : (m,) the statistic.
    error : (m,) its variance because of the utilities' errors.
    """

    asked: Floats
    probability: Floats
    score: Ints
    observed: Ints
    error: Floats

    @classmethod
    def of(
        cls,
        crowd: Crowd,
        units: UnitRows,
        consensus: Consensus,
        gap: Floats,
        uncertainty: Floats,
        evidence: ChoiceEvidence,
    ) -> _Answering:
        bin_of, at, unsure = pool_by_support(gap + placement_shift(gap, uncertainty), uncertainty)
        probability = _probabilities(consensus, at, unsure)
        worth = _worth(consensus, at, unsure, evidence.mixture)[:, : probability.shape[2]]
        answers, m, n_bins = crowd.answers.take(units.rows), len(crowd.judged), len(at)
        key = units.position * n_bins + bin_of
        asked = np.bincount(key, answers.weight, m * n_bins).reshape(m, n_bins).astype(np.float64)
        score = np.rint(worth / (np.abs(worth).mean() / _GRID)).astype(np.int64)
        n = len(consensus.grades.values)
        strength = consensus.grades.strength[units.rows]
        grade = np.where(strength < 0, 2 * n, np.where(answers.outcome > 0, strength, n + strength))
        observed = np.bincount(units.position, answers.weight * score[bin_of, grade], m)
        steeper = (_probabilities(consensus, at + _NUDGE, unsure) - probability) / _NUDGE
        steepness = np.einsum("s,sbg,bg->b", evidence.slope.mean(axis=0), steeper, score)[bin_of] * answers.weight
        error = _error_variance(consensus, units.position, answers.left, answers.right, steepness, m)
        return cls(asked, probability, score, np.rint(observed).astype(np.int64), error)

    def test(self, slope: Floats) -> tuple[Floats, Ints]:
        """Two-sided p-values, and the side that the statistic speaks for; ``slope`` per annotator and slope."""
        reach = self.asked @ np.abs(self.score).max(axis=1) + _ERROR_REACH * np.sqrt(self.error)
        length = 2 ** np.ceil(np.log2(2 * reach + 4)).astype(np.int64)
        p_value, side = np.ones(len(reach)), np.zeros(len(reach), dtype=np.int64)
        for size in np.unique(length):
            members = np.flatnonzero(length == size)
            step = max(1, _BATCH // int(size))
            log_phi = self._log_characteristics(int(size))
            for block in (members[i : i + step] for i in range(0, len(members), step)):
                p_value[block], side[block] = self._tails(block, slope[block], log_phi, int(size))
        return np.clip(p_value, SMALLEST_P, 1.0), side

    def _log_characteristics(self, length: int) -> NDArray[np.complex128]:
        """``log E exp(it h)`` per slope and bin."""
        t = 2.0 * np.pi * np.arange(length // 2 + 1) / length
        phi = np.zeros((*self.probability.shape[:2], len(t)), dtype=np.complex128)
        for grade in range(self.score.shape[1]):
            phi += self.probability[:, :, grade, None] * np.exp(1j * self.score[:, grade, None] * t)
        return np.log(np.where(np.abs(phi) > 1e-300, phi, 1e-300))

    def _tails(self, block: Ints, slope: Floats, log_phi: NDArray[np.complex128], length: int) -> tuple[Floats, Ints]:
        t = 2.0 * np.pi * np.arange(length // 2 + 1) / length
        spectrum = sum(
            share[:, None] * np.exp(self.asked[block] @ phi) for share, phi in zip(slope.T, log_phi, strict=True)
        )
        spectrum = spectrum * np.exp(-0.5 * self.error[block, None] * t**2)
        # phi(t) = sum p exp(+ith), so the masses are those of a forward transform
        mass = np.fft.irfft(np.conj(spectrum), n=length, axis=1)
        mass = np.maximum(np.fft.fftshift(mass, axes=1), 0.0)
        place = np.arange(length)[None, :] - length // 2
        observed = self.observed[block, None]
        above = (mass * (place >= observed)).sum(axis=1)
        below = (mass * (place <= observed)).sum(axis=1)
        return np.minimum(1.0, 2.0 * np.minimum(above, below)), np.where(above < below, 1, -1)


def _probabilities(consensus: Consensus, at: Floats, unsure: Floats) -> Floats:
    """Of every grade, per slope and bin."""
    return np.stack([consensus.honest.table(moderated(slope, unsure) * at)[0].T for slope in consensus.slopes[0]])


def _worth(consensus: Consensus, at: Floats, unsure: Floats, mixture: Floats) -> Floats:
    """Half log odds of leaning left to leaning right, per bin and grade: positive, negative, tie."""
    n = len(consensus.grades.values)
    clicks, slopes = click_strengths(consensus.grades), consensus.slopes[0]
    worth = []
    for sign in (1.0, -1.0):
        kinds = AnswerKinds(np.zeros(0, dtype=np.int64), sign * at, unsure, n)
        pull = np.einsum("as,ask->k", mixture, lean_table(consensus.honest, kinds, slopes, clicks).pull)
        worth.append(sign * pull.reshape(len(at), n + 1)[:, :n])
    return np.concatenate([*worth, np.zeros((len(at), 1))], axis=1)


def _error_variance(consensus: Consensus, position: Ints, left: Ints, right: Ints, steepness: Floats, m: int) -> Floats:
    """``d' V d`` with d the derivative of an annotator's expected statistic, V the covariance of the utilities."""
    if consensus.covariance is None:
        return np.zeros(m)
    n = len(consensus.covariance)
    data, row = np.concatenate([steepness, -steepness]), np.concatenate([position, position])
    d = sp.coo_array((data, (row, np.concatenate([left, right]))), shape=(m, n)).tocsr()
    return np.asarray(d.multiply(d @ consensus.covariance).sum(axis=1)).ravel()
