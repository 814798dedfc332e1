"""How strongly an annotator's answers speak for a lean: a likelihood ratio per annotator, and per knockoff copy of it.

An answer against a clear consensus tells more about a lean than an answer anybody would have given. The leaning model
clicks one side with probability p and judges otherwise; judging is the honest model of `Consensus`. Copies are made in
one of two ways: the coins are flipped anew, which changes nothing but "was it the side?" (`FlippedLevels`), or, where
no coin decided, the answers are drawn anew from the honest model, sides as they stood (`ResampledLevels`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from fdr_core.knockoffs.consensus import Consensus, Grades, moderated
from fdr_core.knockoffs.rows import JudgedRows

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Probabilities of clicking the side; how common each is, is learnt from the crowd.
CLICKS = np.array([0.15, 0.3, 0.45, 0.6, 0.8, 0.97])
#: Answers are pooled by how strongly the consensus supports the chosen item.
SUPPORT_BINS = 96
#: What is believed of the clicks before looking counts like this many leaning annotators.
_PRIOR_ANNOTATORS, _EM_STEPS = 2.0, 40
#: That an annotator disagrees with the consensus speaks for a lean in its copies as much as in its own answers. It
#: counts up to this log ratio: people disagree for other reasons too, and a few whom the consensus cannot explain would
#: otherwise dominate the count of false flags (measured on real data).
MOST_IN_COMMON = 2.0
#: Numbers at a time that stay in the processor's cache.
_BLOCK = 50_000


class FlippedLevels:
    """The log likelihood ratio "leans" to "judges" of every judged annotator, under its own or freshly flipped coins.

    Parameters
    ----------
    consensus : fitted to all answers.
    rows : the answers of the judged.
    """

    def __init__(self, consensus: Consensus, rows: JudgedRows) -> None:
        self._m = len(rows.judged)
        answers, chosen = rows.answers, rows.chosen
        strength, support = consensus.grades.strength[chosen], consensus.support[chosen]
        self._sided = np.flatnonzero(strength >= 0)
        self._pull = (answers.weight * np.sign(answers.outcome))[self._sided]
        self._starts = np.searchsorted(rows.position[self._sided], np.arange(self._m + 1))
        bin_of, at, unsure = _support_bins(support[self._sided], consensus.uncertainty[chosen][self._sided])
        self._key = bin_of * len(consensus.grades.values) + strength[self._sided]
        slopes, shares = consensus.slopes
        self._gain = self._gains(consensus, at, unsure, slopes)
        honest = consensus.honest_log_likelihoods()[:, rows.judged]
        counts = np.bincount(rows.position, answers.weight, self._m)
        grid = honest[:, None, :] + np.log1p(-CLICKS)[None, :, None] * counts
        prior = np.log(shares / (2 * len(CLICKS)))
        self._base = (grid + prior[:, None, None]).reshape(-1, self._m).T + self._summed(self._gain) / 2
        self._honest = np.logaddexp.reduce(honest + np.log(shares)[:, None], axis=0)
        self._base += np.tile(np.log(self._learn_clicks() * len(CLICKS)), len(slopes))
        self._honest += np.maximum(0.0, self.in_common() - MOST_IN_COMMON)

    def _gains(self, consensus: Consensus, at: Floats, unsure: Floats, slopes: Floats) -> Floats:
        """``log(1 + p h / ((1 - p) P))``: what the side's click adds, per key and grid point."""
        n = len(consensus.grades.values)
        support, strength = np.repeat(at, n), np.tile(np.arange(n), len(at))
        click = _click_strengths(consensus.grades)[strength]
        odds = CLICKS / (1 - CLICKS)
        doubt = np.repeat(unsure, n)
        log_p = [consensus.honest.log_probability(strength, moderated(slope, doubt) * support) for slope in slopes]
        return np.concatenate([np.log1p(np.outer(click * np.exp(-row), odds)) for row in log_p], axis=1)

    def _summed(self, per_key: Floats, sign: Floats | None = None) -> Floats:
        """Sum a figure per key and grid point over the sided answers of every annotator."""
        total = np.zeros((self._m, per_key.shape[1]))
        weight = np.abs(self._pull) if sign is None else np.abs(self._pull) * sign
        for j in range(self._m):
            rows = slice(self._starts[j], self._starts[j + 1])
            total[j] = weight[rows] @ per_key[self._key[rows]]
        return total

    def _learn_clicks(self) -> Floats:
        half = np.abs(self._summed(self._gain, np.sign(self._pull))) / 2
        terms = self._base + half + np.log1p(np.exp(-2.0 * half))
        by_click = np.logaddexp.reduce(terms.reshape(self._m, -1, len(CLICKS)), axis=1)
        return click_shares(by_click + np.log(len(CLICKS)) - self._honest[:, None])

    def in_common(self) -> Floats:
        """Log of the mean likelihood ratio over all flips of single answers: what own column and copies share."""
        both_sides = self._base + np.log(2.0) + self._summed(np.log(np.cosh(self._gain / 2)))
        return np.asarray(np.logaddexp.reduce(both_sides, axis=1) - self._honest)

    def levels(self) -> Floats:
        """Log likelihood ratios with the answers' own coins."""
        own = np.ones((1, len(self._pull)), dtype=np.int8)
        return np.asarray(self._levels(own)[0])

    def copies(self, signs: Sequence[NDArray[np.int8]]) -> Floats:
        """Log likelihood ratios with these signs on top of the own coins, (copies, judged)."""
        return self._levels(np.stack([sign[self._sided] for sign in signs]))

    def _levels(self, signs: NDArray[np.int8]) -> Floats:
        """By annotator: one product of signs and gains each, then the sum over the grid for many annotators at once."""
        levels = np.empty((len(signs), self._m))
        size = max(1, _BLOCK // (len(signs) * self._gain.shape[1]))
        for first in range(0, self._m, size):
            last = min(first + size, self._m)
            half = np.empty((last - first, len(signs), self._gain.shape[1]))
            for j in range(first, last):
                rows = slice(self._starts[j], self._starts[j + 1])
                half[j - first] = (signs[:, rows] * self._pull[rows]) @ self._gain[self._key[rows]]
            half = np.abs(half) / 2
            terms = self._base[first:last, None, :] + half
            top = terms.max(axis=2)
            # both sides: exp(base + half) + exp(base - half)
            sums = np.einsum("jcg,jcg->jc", np.exp(terms - top[:, :, None]), 1.0 + np.exp(-2.0 * half))
            levels[:, first:last] = (top + np.log(sums) - self._honest[first:last, None]).T
        return levels


class ResampledLevels:
    """The same log likelihood ratios where no coin decided: copies answer by the honest model, sides as they stood.

    A copy takes a slope out of what the annotator's own answers leave possible, and answers every question anew. All
    that a level needs is how many answers of each kind fell where the items differ by so much.

    Parameters as of `FlippedLevels`.
    """

    def __init__(self, consensus: Consensus, rows: JudgedRows) -> None:
        self._m = len(rows.judged)
        answers, chosen = rows.answers, rows.chosen
        strength = consensus.grades.strength[chosen]
        gap = np.where(answers.outcome < 0, -1.0, 1.0) * consensus.support[chosen]
        unsure_gap = consensus.uncertainty[chosen]
        gap = gap + placement_shift(gap, unsure_gap)
        bin_of, at, unsure = _support_bins(gap, unsure_gap)
        n = len(consensus.grades.values)
        kind = np.where(strength < 0, 2 * n, np.where(answers.outcome > 0, strength, n + strength))
        single = np.repeat(np.arange(len(answers)), answers.weight.astype(np.int64))
        self._bin, self._kind = bin_of[single], kind[single]
        self._starts = np.searchsorted(rows.position[single], np.arange(self._m + 1))
        slopes, shares = consensus.slopes
        P = np.stack([consensus.honest.table(moderated(slope, unsure) * at)[0].T for slope in slopes])
        self._n_kinds = P.shape[2]
        self._cumulative = np.cumsum(P, axis=2)[:, :, :-1]
        self._terms = self._log_terms(P, _click_strengths(consensus.grades))
        self._log_shares = np.log(shares)
        own = np.stack([self._sums(self._kind[mine][None], mine)[0] for mine in self._by_annotator()])
        honest = own[:, : len(slopes)] + self._log_shares
        self._slope_posterior = np.exp(honest - np.logaddexp.reduce(honest, axis=1)[:, None])
        self._log_clicks = np.log(click_shares(self._log_ratios(own)))
        self._own = self._level(own)

    def _by_annotator(self) -> list[slice]:
        return [slice(self._starts[j], self._starts[j + 1]) for j in range(self._m)]

    @staticmethod
    def _log_terms(P: Floats, click: Floats) -> Floats:
        """Log probability per (bin, kind) of judging by each slope, then of leaning by side, slope and click."""
        n_slopes, n_bins, n_kinds = P.shape
        lean = (1 - CLICKS)[None, None, :, None, None] * P[None, :, None]  # side, slope, click, bin, kind
        lean = np.repeat(lean, 2, axis=0)
        for side in (0, 1):
            kinds = slice(side * len(click), (side + 1) * len(click))
            lean[side, ..., kinds] += CLICKS[:, None, None] * click
        grid = np.concatenate([P.reshape(n_slopes, -1), lean.reshape(-1, n_bins * n_kinds)])
        return np.ascontiguousarray(np.log(np.maximum(grid, 1e-300)).T)

    def _sums(self, kinds: Ints, rows: slice) -> Floats:
        """Log likelihoods of the whole grid for answers of these kinds, (copies, answers), by one product of counts."""
        n = len(self._terms)
        keys = self._bin[rows] * self._n_kinds + kinds + np.arange(len(kinds))[:, None] * n
        counts = np.bincount(keys.ravel(), minlength=len(kinds) * n).reshape(len(kinds), n)
        return np.asarray(counts @ self._terms)

    def _log_ratios(self, sums: Floats) -> Floats:
        """Leaning with each click, both sides and all slopes together, to judging."""
        n = len(self._log_shares)
        lean = sums[:, n:].reshape(len(sums), 2, n, len(CLICKS)) + self._log_shares[:, None] - np.log(2)
        judging = np.logaddexp.reduce(sums[:, :n] + self._log_shares, axis=1)
        return np.asarray(np.logaddexp.reduce(lean, axis=(1, 2)) - judging[:, None])

    def _level(self, sums: Floats) -> Floats:
        return np.asarray(np.logaddexp.reduce(self._log_ratios(sums) + self._log_clicks, axis=1))

    def levels(self) -> Floats:
        """Log likelihood ratios of the answers as given."""
        return self._own

    def copies(self, number: int, rng: np.random.Generator) -> Floats:
        """Log likelihood ratios of answers drawn anew, (copies, judged)."""
        levels = np.empty((number, self._m))
        for j, rows in enumerate(self._by_annotator()):
            slope = rng.choice(len(self._log_shares), size=number, p=self._slope_posterior[j])
            chance = rng.random((number, rows.stop - rows.start))
            cumulative = self._cumulative[slope[:, None], self._bin[rows][None]]
            levels[:, j] = self._level(self._sums((chance[:, :, None] > cumulative).sum(axis=2), rows))
        return levels


def click_shares(log_ratio: Floats) -> Floats:
    """How common each of `CLICKS` is among the leaning, by EM; ``log_ratio[j, k]`` of "clicks so often" to "judges"."""
    n = log_ratio.shape[1]
    share, leaning = np.full(n, 1 / n), 0.1
    for _ in range(_EM_STEPS):
        joint = log_ratio + np.log(leaning * share)
        total = np.logaddexp(np.logaddexp.reduce(joint, axis=1), np.log1p(-leaning))
        expected = np.exp(joint - total[:, None]).sum(axis=0)
        share = (expected + _PRIOR_ANNOTATORS / n) / (expected.sum() + _PRIOR_ANNOTATORS)
        leaning = float(np.clip(expected.sum() / max(1, len(log_ratio)), 1e-3, 0.5))
    return share


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


def _click_strengths(grades: Grades) -> Floats:
    """How strongly a clicker clicks: between as everybody answers and anyhow."""
    n = len(grades.values)
    seen = np.bincount(grades.strength[grades.strength >= 0], minlength=n).astype(float)
    return np.asarray((seen / max(1.0, seen.sum()) + 1 / n) / 2)


def _support_bins(support: Floats, uncertainty: Floats) -> tuple[Ints, Floats, Floats]:
    """Pool answers with about equal support: the bin of each, the mean support and uncertainty of every bin."""
    if not len(support):
        return np.zeros(0, dtype=np.int64), np.zeros(1), np.zeros(1)
    low, high = np.quantile(support, [1e-3, 1 - 1e-3])
    edges = np.linspace(low, high, SUPPORT_BINS + 1)[1:-1]
    bin_of = np.searchsorted(edges, support, side="right")
    counts = np.maximum(np.bincount(bin_of, minlength=SUPPORT_BINS), 1)
    at, unsure = (np.bincount(bin_of, values, SUPPORT_BINS) / counts for values in (support, uncertainty))
    return bin_of, at, unsure
