"""What lasts: flags that hold over all runs together, found by spending each annotator's error as its answers grow.

Every run has a list with a false discovery rate of q at that moment; the lists of a history pile up errors. A lasting
flag rests on ``p*_j``, one p-value of annotator j for all its looks together: an annotator may spend a total of 1, the
part ``A(n)`` of it by its n-th answer; a look at ``n`` answers after one at ``n'`` spends ``w = A(n) - A(n')``, and

    ``p*_j = min over looks of p / w``.

**Validity.** When looks come depends on the number of answers alone, never on a p-value. So under the null
``P(p*_j <= t) <= sum over looks of P(p <= t w) <= t sum w <= t``, whatever happens between looks, for as long as the
project lives. On the p* of everybody ever looked at, m of them, a list at rate q is made at every run with tests. Where
all looks so far were at tests independent of each other (own coins, both orders) it estimates how many are honest
(Storey 2002), by how many p* lie above q: j is flagged if ``p*_j <= q`` and ``p*_j <= q R / (m pi)``, R the largest
count that agrees with itself, and

    ``pi = (1 + #{k: p*_k > q}) / (m (1 - q))``.

``P(p*_k > q) >= 1 - q`` under the null, so the proof of `fdr_core.selection.weighted_list` holds with q in the place of
one half, and ``FDR <= q``. As p* only ever fall, pi falls and the list grows: where everybody was looked at before the
first flag, all that was ever found is found by the last step. Otherwise the list is Benjamini-Hochberg's, which grows
so too. Whoever is first looked at later makes later steps stricter than earlier ones; how much that adds is measured
(``python -m benchmarks.looks``), and so is a crowd whose tests cease to be independent.

**Weights** of a run's tests may come along: at a look w is multiplied by the annotator's weight. They have mean 1, so a
crowd that is looked at together spends no more than before; that the list keeps its rate with them is measured.

**The curve** ``A(n) = .8 exp(-(40 / n)^4) + .2 exp(-300 / n)``: hardly anything before twenty answers, where few
p-values could be small enough; four fifths around the point where leans of ordinary strength show, since every part of
the error that is spent earlier is missing there; the rest for mild leans that need hundreds of answers. Somebody who is
first looked at after thousands of answers spends nearly everything at once. The simpler rule, ten looks at doublings
with a tenth each, has the same proof and finds less.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from fdr_core.baselines import benjamini_hochberg
from fdr_core.errors import InputError
from fdr_core.types import Floats, Ints, Mask

#: No look before this many answers.
FIRST_LOOK = 5
#: A look counts when the answers have grown by this factor since the last that counted.
GROWTH = 1.2
#: Parts of the error with the number of answers around which they are spent, and how suddenly.
_PARTS = ((0.8, 40.0, 4.0), (0.2, 300.0, 1.0))


@dataclass(frozen=True)
class Spending:
    """What one annotator has spent.

    Attributes
    ----------
    answers : number of answers at the last look that counted.
    looks : number of looks that counted.
    p_star : p-value of all looks together; 1 before the first.
    is_lasting : whether a lasting flag was given; it stays.
    is_independent : whether every look that counted was at tests independent of each other.
    """

    answers: int = 0
    looks: int = 0
    p_star: float = 1.0
    is_lasting: bool = False
    is_independent: bool = True

    def look(self, answers: int, p_value: float, weight: float = 1.0, *, independent: bool = True) -> Spending:
        """Count a look if the answers have grown enough; without a p-value (nan) nothing is counted or spent."""
        if np.isnan(p_value) or answers < max(FIRST_LOOK, GROWTH * self.answers):
            return self
        share = weight * (spent_by(answers) - spent_by(self.answers))
        p_star = min(self.p_star, p_value / share) if share > 0 else self.p_star
        independent = independent and self.is_independent
        return replace(self, answers=answers, looks=self.looks + 1, p_star=p_star, is_independent=independent)

    def as_dict(self) -> dict[str, Any]:
        """State for storing."""
        return asdict(self)

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> Spending:
        """Read a stored state."""
        flags = bool(state["is_lasting"]), bool(state["is_independent"])
        return cls(int(state["answers"]), int(state["looks"]), float(state["p_star"]), *flags)


def spent_by(answers: int) -> float:
    """``A(n)``, the share of an annotator's error that may be spent by its n-th answer."""
    if answers <= 0:
        return 0.0
    return float(sum(part * np.exp(-((middle / answers) ** steepness)) for part, middle, steepness in _PARTS))


def spend(
    states: Sequence[Spending],
    answers: Sequence[int] | Ints,
    p_values: Sequence[float] | Floats,
    q: float,
    weights: Sequence[float] | Floats | None = None,
    *,
    independent: bool = False,
) -> tuple[list[Spending], Mask]:
    """Take one run into account.

    Parameters
    ----------
    states : everybody who was ever looked at, and who is new; a new annotator starts with ``Spending()``.
    answers : (m,) answers of each now.
    p_values : (m,) of the run's test; nan for who was not tested in it.
    q : target false discovery rate of all lasting flags together.
    weights : (m,) of the run's tests, of mean 1; all alike by default. What a look spends is multiplied by it.
    independent : whether the run's tests of honest annotators are; if all so far were, the list may estimate how many
        are honest.

    Returns
    -------
    The new states, and (m,) who has a lasting flag now: whoever had one, also where the run tested nobody.

    Raises
    ------
    InputError
        For columns of different length and for p-values outside of [0, 1].
    """
    p = np.asarray(p_values, dtype=float)
    if not len(states) == len(answers) == len(p):
        raise InputError(
            f"there are {len(states)} states, {len(answers)} numbers of answers and {len(p)} p-values; expected one "
            "of each per annotator"
        )
    if ((p < 0) | (p > 1)).any():
        raise InputError(f"a p-value was {p[(p < 0) | (p > 1)][0]:g}; expected values in [0, 1], or nan")
    weight = np.ones(len(p)) if weights is None else np.asarray(weights, dtype=float)
    looked = [
        state.look(int(n), float(value), float(w), independent=independent)
        for state, n, value, w in zip(states, answers, p, weight, strict=True)
    ]
    found = _found(looked, q) if not np.isnan(p).all() else np.zeros(len(p), dtype=bool)
    new = [replace(state, is_lasting=state.is_lasting or bool(now)) for state, now in zip(looked, found, strict=True)]
    return new, np.array([state.is_lasting for state in new], dtype=bool)


def _found(states: Sequence[Spending], q: float) -> Mask:
    """The list at rate q on the p* of everybody who was ever looked at."""
    found = np.zeros(len(states), dtype=bool)
    assessed = np.array([i for i, state in enumerate(states) if state.looks], dtype=np.int64)
    p_star = np.array([states[i].p_star for i in assessed])
    if len(assessed):
        independent = all(states[i].is_independent for i in assessed)
        found[assessed] = listed_by_storey(p_star, q) if independent else benjamini_hochberg(p_star, q)
    return found


def listed_by_storey(p_value: Floats, q: float) -> Mask:
    """Benjamini-Hochberg with an estimate of how many are honest, from who has a p-value above q; nobody above q."""
    m, is_above = len(p_value), p_value > q
    honest = (1 + is_above.sum()) / (1 - q)
    ordered = np.sort(p_value[~is_above])
    passing = np.flatnonzero(ordered * honest <= q * np.arange(1, len(ordered) + 1) * (1 + 1e-12))
    return p_value <= ordered[passing[-1]] if len(passing) else np.zeros(m, dtype=bool)


class LastingFlags:
    """The spending of a whole crowd, by label; annotators may join at any run."""

    def __init__(self, q: float = 0.1, states: Mapping[Hashable, Spending] | None = None) -> None:
        self._q = q
        self.states: dict[Hashable, Spending] = dict(states or {})

    def look(
        self,
        annotators: Collection[Hashable],
        answers: Iterable[int],
        p_values: Iterable[float],
        weights: Iterable[float] | None = None,
        *,
        independent: bool = False,
    ) -> set[Hashable]:
        """Take one run into account (`spend`); return everybody with a lasting flag."""
        weight = np.ones(len(annotators)) if weights is None else weights
        rows = zip(answers, p_values, weight, strict=True)
        now = {label: (int(n), float(p), float(w)) for label, (n, p, w) in zip(annotators, rows, strict=True)}
        everybody = [*self.states, *(label for label in now if label not in self.states)]
        known = [self.states.get(label, Spending()) for label in everybody]
        columns = np.array([now.get(label, (0, np.nan, 1.0)) for label in everybody], dtype=float).reshape(-1, 3)
        answered, p, weighed = columns[:, 0].astype(np.int64), columns[:, 1], columns[:, 2]
        new, is_lasting = spend(known, answered, p, self._q, weighed, independent=independent)
        self.states = dict(zip(everybody, new, strict=True))
        return {label for label, lasts in zip(everybody, is_lasting, strict=True) if lasts}
