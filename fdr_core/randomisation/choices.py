"""What the choices alone say about every annotator: is a lean probable, of which kind, and how much would it show?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from fdr_core.pieces import for_each
from fdr_core.randomisation.alternatives import N_LEANS, LeanTable
from fdr_core.types import Floats, Ints

#: What is believed before looking counts like this many annotators, of whom this share leans.
_PRIOR_ANNOTATORS, _PRIOR_LEANING = 4.0, 0.1
_EM_STEPS, _TOLERANCE = 1000, 1e-4
#: A lean counts by its chance to show: that its standardised statistic, ``sqrt(sum g^2)`` on average, exceeds this.
_SHOWS_BEYOND = 0.5
#: Shares are learnt from about this many annotators at most, evenly taken in the order of their likelihood.
_MOST_LEARNT_FROM = 5000
#: Annotators whose tables are held at once.
_BLOCK = 4096


@dataclass(frozen=True)
class ChoiceTable:
    """Answers of the judged as they are counted.

    Attributes
    ----------
    position : (rows,) annotator, ascending.
    kind : (rows,) kind of answer.
    weight : (rows,) how much it counts.
    n : number of annotators.
    """

    position: Ints
    kind: Ints
    weight: Floats
    n: int

    def blocks(self) -> Iterator[tuple[slice, slice]]:
        """Annotators and their rows, many annotators at a time."""
        starts = np.searchsorted(self.position, np.arange(0, self.n + _BLOCK, _BLOCK))
        for i, first in enumerate(range(0, self.n, _BLOCK)):
            yield slice(first, min(first + _BLOCK, self.n)), slice(starts[i], starts[i + 1])

    def counts(self, members: slice, rows: slice, n_kinds: int) -> Floats:
        """Answers of every kind, per annotator of a block."""
        size = members.stop - members.start
        key = (self.position[rows] - members.start) * n_kinds + self.kind[rows]
        counts = np.bincount(key, self.weight[rows], size * n_kinds)
        return np.asarray(counts.reshape(size, n_kinds), dtype=np.float64)


@dataclass(frozen=True)
class ChoiceEvidence:
    """Side-free evidence on the annotators.

    Attributes
    ----------
    log_ratio : (m,) log likelihood of the choices of somebody who leans to that of somebody who judges.
    pull : (rows,) half log odds of every answer, averaged over the leans of this crowd that the annotator's answers
        could show, and over the annotator's own slopes.
    mixture : (leans, slopes) how common each lean is, at each slope.
    slope : (m, slopes) how probable each slope is if the annotator judges.
    converged : whether the shares settled.
    """

    log_ratio: Floats
    pull: Floats
    mixture: Floats
    slope: Floats
    converged: bool


def weigh_choices(answers: ChoiceTable, table: LeanTable, slope_share: Floats) -> ChoiceEvidence:
    """Learn by EM how common leaning, each lean and each slope are, from choices alone; then weigh every answer.

    Parameters
    ----------
    answers : of the judged.
    table : log likelihoods and pulls per kind of answer.
    slope_share : (slopes,) how common each slope is, to begin with.
    """
    n_slopes, n_kinds = table.honest.shape
    honest, leaning = np.empty((answers.n, n_slopes)), np.empty((answers.n, N_LEANS * n_slopes))
    information = np.empty_like(leaning)
    choice, per_kind = table.choice.reshape(-1, n_kinds), table.pull.reshape(-1, n_kinds)

    def count(block: tuple[slice, slice]) -> None:
        members, rows = block
        counts = answers.counts(members, rows, n_kinds)
        honest[members], leaning[members] = counts @ table.honest.T, counts @ choice.T
        information[members] = counts @ (per_kind**2).T

    blocks = list(answers.blocks())
    for_each(count, blocks)
    by_lean_and_slope = (-1, N_LEANS, n_slopes)
    fit = _Shares.fit(honest, leaning.reshape(by_lean_and_slope), information.reshape(by_lean_and_slope), slope_share)
    mixture = fit.mixture.reshape(answers.n, -1)
    pull = np.empty(len(answers.kind))

    def weigh(block: tuple[slice, slice]) -> None:
        members, rows = block
        mean = mixture[members] @ per_kind
        pull[rows] = mean[answers.position[rows] - members.start, answers.kind[rows]]

    for_each(weigh, blocks)
    return ChoiceEvidence(fit.log_ratio, pull, fit.mixture.mean(axis=0), fit.honest_slope, fit.converged)


@dataclass(frozen=True)
class _Shares:
    log_ratio: Floats
    mixture: Floats
    honest_slope: Floats
    converged: bool

    @classmethod
    def fit(cls, honest: Floats, leaning: Floats, information: Floats, slope_share: Floats) -> _Shares:
        step = max(1, len(honest) // _MOST_LEARNT_FROM)
        some = np.argsort(honest.sum(axis=1), kind="stable")[::step] if step > 1 else slice(None)
        lean_share, slope_share, converged = _learn_shares(honest[some], leaning[some], slope_share)
        judged = honest + np.log(slope_share)
        leant = leaning + np.log(lean_share[:, None] * slope_share)
        flat = leant.reshape(len(honest), -1)
        log_judged, log_leant = _log_sum(judged), _log_sum(flat)
        by_slope = leant - leant.max(axis=2, keepdims=True)  # in logs: of many answers most leans are out of question
        own_slope = np.exp(by_slope) / np.exp(by_slope).sum(axis=2, keepdims=True)
        by_lean = np.exp(flat - log_leant[:, None]).reshape(leant.shape).sum(axis=2)
        # how common a lean is holds for all: an annotator's own choices say too little about the kind of its lean
        mixture = by_lean.mean(axis=0) * _chance_to_show((own_slope * information).sum(axis=2))
        mixture = (mixture / mixture.sum(axis=1, keepdims=True))[:, :, None] * own_slope
        return cls(log_leant - log_judged, mixture, np.exp(judged - log_judged[:, None]), converged)


def _chance_to_show(information: Floats) -> Floats:
    """Chance that the standardised statistic exceeds `_SHOWS_BEYOND`, given ``sum g^2``.

    What few answers cannot show in any case should not blunt the test for what they can.
    """
    return np.asarray(ndtr(np.sqrt(information) - _SHOWS_BEYOND))


def _learn_shares(honest: Floats, leaning: Floats, slope_share: Floats) -> tuple[Floats, Floats, bool]:
    """EM for the shares of leans (among the leaning) and slopes."""
    n = len(honest)
    lean_share, share_leaning = np.full(N_LEANS, 1 / N_LEANS), _PRIOR_LEANING
    for _ in range(_EM_STEPS):
        judged = honest + np.log((1 - share_leaning) * slope_share)
        leant = leaning + np.log(share_leaning * lean_share[:, None] * slope_share)
        total = np.logaddexp(_log_sum(judged), _log_sum(leant.reshape(n, -1)))
        p_leant = np.exp(leant - total[:, None, None])
        by_lean = p_leant.sum(axis=(0, 2))
        by_slope = p_leant.sum(axis=(0, 1)) + np.exp(judged - total[:, None]).sum(axis=0)
        before = np.append(lean_share * share_leaning, slope_share)
        share_leaning = (by_lean.sum() + _PRIOR_ANNOTATORS * _PRIOR_LEANING) / (n + _PRIOR_ANNOTATORS)
        share_leaning = float(np.clip(share_leaning, 0.01, 0.5))
        lean_share = (by_lean + _PRIOR_ANNOTATORS / N_LEANS) / (by_lean.sum() + _PRIOR_ANNOTATORS)
        slope_share = np.maximum(by_slope / n, 1e-4)
        slope_share = slope_share / slope_share.sum()
        if np.abs(np.append(lean_share * share_leaning, slope_share) - before).max() < _TOLERANCE:
            return lean_share, slope_share, True
    return lean_share, slope_share, False


def _log_sum(x: Floats) -> Floats:
    top = x.max(axis=1)
    return np.asarray(top + np.log(np.exp(x - top[:, None]).sum(axis=1)))
