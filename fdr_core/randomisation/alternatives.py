"""Ways to lean, and what an annotator's choices alone say about them.

A *clicker* takes its side with probability p and judges otherwise; a *shifter* judges, with ``gamma`` added to its side
on the logit scale: it leans when unsure. Both are combined with every slope of the honest model. An answer is described
by what does not change when its coin is flipped: its strength, and how far the consensus supports the item it chose.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

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
