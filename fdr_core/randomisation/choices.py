"""What the choices alone say about every annotator: is a lean probable, of which kind, and how much would it show?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from fdr_core.codes import for_each
from fdr_core.consensus.honest import Grades, HonestModel, moderated
from fdr_core.types import Floats, Ints

CLICKS = np.array([0.15, 0.3, 0.45, 0.6, 0.8, 0.97])
SHIFTS = np.array([0.3, 0.7, 1.5, 3.0])
N_LEANS = len(CLICKS) + len(SHIFTS)
#: Answers are pooled by how strongly the consensus supports the chosen item.
SUPPORT_BINS = 96


def pool_by_support(support: Floats, uncertainty: Floats) -> tuple[Ints, Floats, Floats]:
    """Pool answers with about equal support: the bin of each, the mean support and uncertainty of every bin."""
    low, high = np.quantile(support, [1e-3, 1 - 1e-3]) if len(support) else (0.0, 0.0)
    edges = np.linspace(low, high, SUPPORT_BINS + 1)[1:-1]
    bin_of = np.searchsorted(edges, support, side="right")
    counts = np.maximum(np.bincount(bin_of, minlength=SUPPORT_BINS), 1)
    at, unsure = (np.bincount(bin_of, values, SUPPORT_BINS) / counts for values in (support, uncertainty))
    return bin_of, at, unsure


@dataclass(frozen=True)
class AnswerKinds:
    """Answers pooled by support and strength.

    Attributes
    ----------
    kind : (rows,) of every answer; ties come after all strengths of a bin.
    support, uncertainty : (bins,) mean of the pooled answers.
    n_strengths : of the answers that are no ties.
    """

    kind: Ints
    support: Floats
    uncertainty: Floats
    n_strengths: int

    @classmethod
    def of(cls, grades: Grades, support: Floats, uncertainty: Floats) -> AnswerKinds:
        """Pool answers with about equal support."""
        bin_of, at, unsure = pool_by_support(support, uncertainty)
        n = len(grades.values)
        strength = np.where(grades.strength >= 0, grades.strength, n)
        return cls(bin_of * (n + 1) + strength, at, unsure, n)

    @property
    def strength(self) -> Ints:
        """Strength of every kind, -1 for ties."""
        one_bin = np.append(np.arange(self.n_strengths), -1)
        return np.tile(one_bin, len(self.support))

    def __len__(self) -> int:
        return len(self.support) * (self.n_strengths + 1)


@dataclass(frozen=True)
class LeanTable:
    """Per kind of answer, slope and lean.

    Attributes
    ----------
    honest : (slopes, kinds) log probability of judging so.
    choice : (leans, slopes, kinds) log probability of the choice when leaning, either side equally likely.
    pull : (leans, slopes, kinds) half the log odds that the chosen item stood on the side leant to; 0 for ties.
    """

    honest: Floats
    choice: Floats
    pull: Floats


def lean_table(model: HonestModel, kinds: AnswerKinds, slopes: Floats, click_strength: Floats) -> LeanTable:
    """Tabulate all leans and slopes."""
    per_bin = kinds.n_strengths + 1
    support, doubt = np.repeat(kinds.support, per_bin), np.repeat(kinds.uncertainty, per_bin)
    strength = kinds.strength
    click = np.append(click_strength, 0.0)[strength]
    x = np.stack([moderated(slope, doubt) * support for slope in slopes])
    honest = np.stack([model.log_probability(strength, row) for row in x])
    rows = [_clicking(honest, click, p) for p in CLICKS]
    rows += [_shifting(model, strength, x, gamma) for gamma in SHIFTS]
    choice, pull = (np.stack(part) for part in zip(*rows, strict=True))
    return LeanTable(honest, choice, np.where(strength >= 0, pull, 0.0))


def click_strengths(grades: Grades) -> Floats:
    """How strongly a clicker clicks: halfway between the strengths that the crowd uses and all strengths alike."""
    n = len(grades.values)
    seen = np.bincount(grades.strength[grades.strength >= 0], minlength=n).astype(float)
    return np.asarray((seen / max(1.0, seen.sum()) + 1 / n) / 2)


def _clicking(honest: Floats, click: Floats, p: float) -> tuple[Floats, Floats]:
    """Choice ``p h / 2 + (1 - p) P``, with ``p h + (1 - p) P`` on the side clicked and ``(1 - p) P`` on the other."""
    odds = p / (1 - p) * click * np.exp(-np.maximum(honest, -700.0))
    return np.log1p(-p) + honest + np.log1p(odds / 2), np.log1p(odds) / 2


def _shifting(model: HonestModel, strength: Ints, x: Floats, gamma: float) -> tuple[Floats, Floats]:
    """Choice: the mean of ``P(x + gamma)`` on the side leant to and ``P(x - gamma)`` on the other."""
    with_side = np.stack([model.log_probability(strength, row + gamma) for row in x])
    against = np.stack([model.log_probability(strength, row - gamma) for row in x])
    return np.logaddexp(with_side, against) - np.log(2), (with_side - against) / 2


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
    """EM for the shares of leans (among the leaning) and slopes.

    A step is two products with the likelihoods, relative to each annotator's largest: logarithms are taken once.
    """
    n, n_slopes = honest.shape
    log_likelihood = np.concatenate([honest, leaning.reshape(n, -1)], axis=1)
    likelihood = np.exp(log_likelihood - log_likelihood.max(axis=1, keepdims=True))
    lean_share, share_leaning = np.full(N_LEANS, 1 / N_LEANS), _PRIOR_LEANING
    for _ in range(_EM_STEPS):
        shares = np.outer(np.append(1 - share_leaning, share_leaning * lean_share), slope_share).ravel()
        expected = (shares * ((1 / (likelihood @ shares)) @ likelihood)).reshape(-1, n_slopes)
        by_lean, by_slope = expected[1:].sum(axis=1), expected.sum(axis=0)
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
