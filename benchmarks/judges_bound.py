"""The most that any test could find of six judges who lean when unsure: tastes, grades and noise known.

python -m benchmarks.judges_bound

Three of six judges shift by .1, .2 and .4 (`harness.crowds.six_judges`). Each is tested by the score test of its
own shift with everything else known, the most powerful unbiased one for small shifts; then Benjamini-Hochberg.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit
from scipy.stats import norm

from fdr_core.baselines import benjamini_hochberg
from fdr_core.types import Floats
from harness.crowds import SPREAD
from harness.scenarios import Q

SHIFTS = np.array([0.1, 0.2, 0.4, 0.0, 0.0, 0.0])
TASKS, ITEMS, TASTE = 1500, 20, 0.7
DATA_SETS, FIRST_SET = 2000, 5000
#: Bounds between the five grades on the latent scale.
BOUNDS = SPREAD * np.array([-np.inf, -1.5, -0.5, 0.5, 1.5, np.inf])


def z_score(gap: Floats, grade: Floats) -> float:
    """Standardised derivative of the log-likelihood in the shift, at no shift."""
    below = expit(BOUNDS[None, :] - gap[:, None])
    probability = np.diff(below, axis=1)
    slope = -np.diff(below * (1 - below), axis=1)
    score = slope / probability
    seen = score[np.arange(len(gap)), grade.astype(np.int64) + 2]
    return float(seen.sum() / np.sqrt((probability * score**2).sum()))


def one_set(rng: np.random.Generator) -> tuple[float, float]:
    """Share of the false among the flagged, and share of the leaning found, in one crowd."""
    theta = rng.normal(scale=SPREAD, size=ITEMS)
    left = rng.integers(ITEMS, size=TASKS)
    right = (left + rng.integers(1, ITEMS, size=TASKS)) % ITEMS
    z = np.empty(len(SHIFTS))
    for judge, shift in enumerate(SHIFTS):
        taste = theta + rng.normal(scale=TASTE, size=ITEMS)
        gap = taste[left] - taste[right]
        latent = gap + shift + rng.logistic(size=TASKS)
        z[judge] = z_score(gap, np.clip(np.rint(latent / SPREAD), -2, 2))
    flagged = benjamini_hochberg(2 * norm.sf(np.abs(z)), Q)
    leans = SHIFTS > 0
    return float((flagged & ~leans).sum() / max(1, flagged.sum())), float(flagged[leans].mean())


def main() -> None:
    """Print rate and power."""
    found = np.array([one_set(np.random.default_rng([FIRST_SET + k])) for k in range(DATA_SETS)])
    (rate, power), (rate_se, power_se) = found.mean(axis=0), found.std(axis=0) / np.sqrt(len(found))
    print(
        f"six judges, shifts .1, .2, .4, everything else known, {len(found):,} data sets: "
        f"false flags {rate:.3f} (SE {rate_se:.3f}), found {power:.3f} (SE {power_se:.3f})"
    )


if __name__ == "__main__":
    main()
