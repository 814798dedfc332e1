"""What we say about one annotator: one finding each, computed here and nowhere else, in line with its own numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from fdr_core.types import Floats, Ints, Mask

ALWAYS_LEFT, ALWAYS_RIGHT = "left side only", "right side only"
LEANS_LEFT, LEANS_RIGHT = "leans left", "leans right"
SKIPS = "skips by side"
#: Where a part of the answers speaks for the lean, in the order of `fdr_core.randomisation.parts`.
PARTS = ("", " late in the day", " on close pairs", " on long texts")
SMALL = "small lean, below your limit"
SUSPICIOUS = "suspicious, not enough to flag"
NONE_SEEN = "no lean seen"
TOO_FEW = "too few answers"
NOT_ASSESSABLE = "not assessable"

#: Every finding with what it means, the worst first.
FINDINGS: Mapping[str, str] = MappingProxyType(
    {
        ALWAYS_LEFT: "Flagged; every answer that names a side names the left one.",
        ALWAYS_RIGHT: "Flagged; every answer that names a side names the right one.",
        LEANS_LEFT: "Flagged; the left side is favoured beyond what the items explain.",
        LEANS_RIGHT: "Flagged; the right side is favoured beyond what the items explain.",
        SKIPS: "Skips go with the side of the better item; the answers were judged by a model, without a proof.",
        **{
            f"{lean}{part}": f"Flagged; the answers speak{part.replace(' in the day', '')} rather than as a whole."
            for part in PARTS[1:]
            for lean in (LEANS_LEFT, LEANS_RIGHT)
        },
        SUSPICIOUS: "Not flagged; the interval of the bias excludes 0, which happens to honest annotators too.",
        SMALL: "Not flagged; a lean smaller than the smallest lean worth a flag.",
        NONE_SEEN: "Not flagged; the interval of the bias contains 0.",
        TOO_FEW: "Too few answers to say anything; the bias is known to no better than one half.",
        NOT_ASSESSABLE: "Neither the data nor the deciding method can show a lean of this annotator; nothing is said.",
    }
)
#: Answers that name a side before "one side only" is said.
LEAST_ONE_SIDED = 10
#: An interval that reaches farther than this to either side says nothing.
WIDEST = 0.5


@dataclass(frozen=True)
class Facts:
    """What findings are made of, one entry per annotator.

    Attributes
    ----------
    left, right : answers for either side.
    bias, low, high : the estimated bias with its interval.
    flagged : on the list of this detection.
    judged : whether the annotator has enough answers to be tested.
    skips : whether skips go with the side.
    unselectable : whether the deciding method could not have selected the annotator, whatever the answers.
    part : of the answers that speaks for the flagged, a place in `PARTS`; None for the whole.
    """

    left: Ints
    right: Ints
    bias: Floats
    low: Floats
    high: Floats
    flagged: Mask
    judged: Mask
    unselectable: Mask
    skips: Mask
    part: Ints | None = None


def findings(facts: Facts, *, min_bias: float, can_judge: bool) -> NDArray[np.object_]:
    """Name the finding of every annotator.

    Parameters
    ----------
    min_bias : the smallest lean worth a flag.
    can_judge : whether the audit lets anybody be judged.

    Returns
    -------
    (m,) keys of `FINDINGS`.
    """
    if not can_judge:
        return np.where(facts.skips, SKIPS, NOT_ASSESSABLE).astype(object)
    found = np.where(facts.judged, _not_flagged(facts, min_bias), TOO_FEW)
    return np.asarray(np.where(facts.flagged, _leans(facts), np.where(facts.skips, SKIPS, found)), dtype=object)


def is_always(left: Ints, right: Ints, bias: Floats) -> Mask:
    """Who chose only the side of its bias, often enough to say so."""
    return np.asarray(np.where(bias > 0, right == 0, left == 0) & (left + right >= LEAST_ONE_SIDED))


def _leans(facts: Facts) -> NDArray[np.object_]:
    """Of those flagged: which side, and whether always. The side is that of the bias, which items do not explain."""
    is_left = facts.bias > 0
    always = is_always(facts.left, facts.right, facts.bias)
    leans = np.where(is_left, LEANS_LEFT, LEANS_RIGHT)
    found = np.asarray(np.where(always, np.where(is_left, ALWAYS_LEFT, ALWAYS_RIGHT), leans), dtype=object)
    if facts.part is not None:
        rows = np.flatnonzero(facts.part)
        found[rows] = [f"{LEANS_LEFT if is_left[k] else LEANS_RIGHT}{PARTS[facts.part[k]]}" for k in rows]
    return found


def _not_flagged(facts: Facts, min_bias: float) -> NDArray[np.object_]:
    """Of those not flagged: whether the interval excludes 0, and whether it says anything."""
    excludes_zero = (facts.low > 0) | (facts.high < 0)
    is_small = np.abs(facts.bias) < min_bias
    says_nothing = facts.high - facts.low > 2 * WIDEST
    seen = np.where(is_small, SMALL, SUSPICIOUS)
    unseen = np.where(says_nothing, TOO_FEW, np.where(facts.unselectable, NOT_ASSESSABLE, NONE_SEEN))
    return np.asarray(np.where(excludes_zero, seen, unseen), dtype=object)
