"""Features that nobody can follow, on the answers at hand: what a list finds in them it finds by mistake."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from scipy.stats import binom

from fdr_core.types import Floats, Ints

#: How often a placebo that goes with quality belongs to the better item; more where a real feature does.
_BOUND = 0.75
#: Above this share of p-values below .05 a list is not believed.
MOST_BELOW = 0.10


@dataclass(frozen=True)
class Placebos:
    """
    What placebos gave.

    Attributes
    ----------
    random, bound : share of annotators with p < .05 for features without meaning: drawn by chance, and going with
        quality.
    found : mean number of annotators on the list for a placebo that goes with quality.
    tests : p-values of each kind.
    """

    random: float
    bound: float
    found: float
    tests: int

    @classmethod
    def of(cls, chance: list[Floats], bound: list[Floats], listed: Callable[[Floats], int]) -> Placebos:
        """From the p-values of each set, NaN where somebody is not judged."""
        below = [float(np.mean(p[~np.isnan(p)] < 0.05)) for p in (np.concatenate(chance), np.concatenate(bound))]
        n = int((~np.isnan(np.concatenate(bound))).sum())
        return cls(below[0], below[1], float(np.mean([listed(p) for p in bound])), n)

    @property
    def are_sound(self) -> bool:
        """Whether lists on these answers can be believed: not where more are small, beyond what few tests do."""
        most = max(self.random, self.bound)
        return most <= MOST_BELOW or float(binom.sf(round(most * self.tests) - 1, self.tests, 0.05)) > 0.01

    def __str__(self) -> str:
        return (
            f"Placebos on these answers: p < .05 in {self.random:.1%} (drawn by chance) and {self.bound:.1%} (going "
            f"with quality) of {self.tests:,} tests each, where 5.0% are expected; {self.found:.1f} listed on average"
        )


def run_placebos(
    p_values: Callable[[Floats], Floats],
    listed: Callable[[Floats], int],
    z: Floats,
    x: Floats,
    pairs: tuple[Ints, Floats],
    *,
    sets: int,
    rng: Generator,
) -> Placebos:
    """
    Test placebos as features are tested.

    Parameters
    ----------
    p_values : from a feature (N,) to the p-values of all annotators against no lean, NaN where not judged.
    listed : from p-values to the length of the list.
    z : (N,) quality, x : (N, F) the real features, pairs : as from `pair_codes`.
    """
    made = [(random_placebo(pairs, rng), bound_placebo(z, x, pairs, rng)) for _ in range(sets)]
    chance, bound = ([p_values(placebo) for placebo in kind] for kind in zip(*made, strict=True))
    return Placebos.of(chance, bound, listed)


def random_placebo(pairs: tuple[Ints, Floats], rng: Generator) -> Floats:
    """A normal number for each pair."""
    pair, forward = pairs
    return np.asarray(rng.normal(size=int(pair.max()) + 1)[pair] * forward)


def bound_placebo(z: Floats, x: Floats, pairs: tuple[Ints, Floats], rng: Generator) -> Floats:
    """Sizes of the first feature, dealt out anew, with the better item's sign as often as a real feature has it."""
    pair, forward = pairs
    n, first = int(pair.max()) + 1, np.unique(pair, return_index=True)[1]
    better = np.zeros(n)
    known = ~np.isnan(z)
    better[pair[known]] = (z * forward)[known]
    own = x[first] * forward[first, None]
    agree = [float(np.mean(s[s != 0] > 0)) if np.any(s != 0) else 0.5 for s in (own * better[:, None]).T]
    share = max([_BOUND, *(max(a, 1 - a) for a in agree)])
    sign = np.where(rng.random(n) < share, 1.0, -1.0) * np.where(better == 0, 1.0, np.sign(better))
    return np.asarray((sign * rng.permutation(np.abs(own[:, 0])))[pair] * forward)
