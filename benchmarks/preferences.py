"""What `export-preferences` trains: held-out accuracy of a Bradley-Terry reward, beside its rivals, on the same votes.

python -m benchmarks.preferences [--quick]
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from fdr_core import Comparisons, detect
from fdr_core.judges.preferences import preferences
from fdr_core.types import Floats, Ints, Mask

SETS, QUICK, FIRST = 40, 2, 7000
N_PAIRS, N_FEATURES, N_PEOPLE, N_HELD_OUT = 300, 10, 30, 4000
LEAN = 0.6
WAYS = ("all votes", "minus flagged", "export")


@dataclass(frozen=True)
class Cell:
    """One simulated crowd; without `n_items` every pair has its own."""

    name: str
    votes: int
    share: float
    n_items: int | None = None
    p_left: float = 0.5


def crowd(cell: Cell, rng: np.random.Generator) -> tuple[Comparisons, Floats, Floats]:
    """Votes on pairs in one order each, the features of the items, and the true reward."""
    n_pairs, n_items, votes = N_PAIRS, cell.n_items, cell.votes
    truth = rng.normal(size=N_FEATURES)
    features = rng.normal(size=(2 * n_pairs if n_items is None else n_items, N_FEATURES)) / np.sqrt(N_FEATURES)
    if n_items is None:
        one, two = np.arange(n_pairs), n_pairs + np.arange(n_pairs)
    else:
        one = rng.integers(n_items, size=n_pairs)
        two = (one + rng.integers(1, n_items, size=n_pairs)) % n_items
    gap = (features[one] - features[two]) @ truth
    swapped = (rng.random(n_pairs) < cell.p_left) == (gap < 0)
    left, right = np.where(swapped, two, one), np.where(swapped, one, two)
    task = np.repeat(np.arange(n_pairs), votes)
    who = np.concatenate([rng.choice(N_PEOPLE, size=votes, replace=False) for _ in range(n_pairs)])
    judged = np.where(rng.random(len(task)) < expit(1.5 * np.where(swapped, -gap, gap)[task]), 1.0, -1.0)
    side = np.where(np.arange(N_PEOPLE) % 3 == 0, -1.0, 1.0)
    clicks = (who < round(cell.share * N_PEOPLE)) & (rng.random(len(task)) < LEAN)
    y = np.where(clicks, side[who], judged)
    return Comparisons.from_arrays(who, left[task], right[task], y, task=task), features, truth


CELLS = [
    *(Cell(f"{votes} votes, {share:.0%} lean", votes, share) for votes in (1, 3, 10) for share in (0.0, 0.3, 0.4)),
    *(Cell(f"sides stated wrongly, {share:.0%} lean", 3, share, 60, 0.8) for share in (0.0, 0.3)),
]


def train(x: Floats, label: Floats, weight: Floats) -> Floats:
    """The reward that maximises the Bradley-Terry likelihood of soft labels, with a little ridge."""

    def loss(w: Floats) -> tuple[float, Floats]:
        eta = x @ w
        value = weight @ (np.logaddexp(0, eta) - label * eta) + 0.5 * float(w @ w)
        return float(value), x.T @ (weight * (expit(eta) - label)) + w

    return np.asarray(minimize(loss, np.zeros(x.shape[1]), jac=True, method="L-BFGS-B").x)


def accuracies(votes: Comparisons, features: Floats, truth: Floats, rng: np.random.Generator) -> list[float]:
    """Of all votes, of those who are not flagged, and of the export's weighed votes: accuracy on pairs held out."""
    # Labels of pairs of their own do not depend on the consensus; least squares is the faster one there.
    consensus = "least squares" if votes.n_items >= 2 * N_PAIRS else "logistic"
    found = detect(votes, sides="random", lbi=None, consensus=consensus)
    item = votes.items.astype(np.int64)
    x = features[item[votes.left]] - features[item[votes.right]]
    label, one = (1 + votes.outcome) / 2, np.ones(len(votes))
    kept: Mask = ~np.isin(votes.annotators[votes.annotator], found.flagged)
    table = preferences(votes, found).table
    ends: list[Ints] = [table[name].to_numpy(dtype=np.int64) for name in ("chosen", "rejected")]
    share, weight = (table[name].to_numpy(dtype=np.float64) for name in ("vote_share", "weight"))
    rewards = [
        train(x, label, one),
        train(x[kept], label[kept], one[kept]),
        train(features[ends[0]] - features[ends[1]], share, weight),
    ]
    held = rng.normal(size=(N_HELD_OUT, N_FEATURES))
    return [float(np.mean(np.sign(held @ w) == np.sign(held @ truth))) for w in rewards]


def rows(n_sets: int) -> Iterator[str]:
    """One row per cell: mean accuracies, and the export's difference to either rival with its paired standard error."""
    for number, cell in enumerate(CELLS):
        found = []
        for seed in range(n_sets):
            rng = np.random.default_rng([number, FIRST + seed])
            found.append(accuracies(*crowd(cell, rng), rng))
        table = np.array(found)
        ahead = table[:, 2:] - table[:, :2]
        error = ahead.std(axis=0, ddof=1) / np.sqrt(n_sets)
        told = [f"{mean:+.4f} ± {se:.4f}" for mean, se in zip(ahead.mean(axis=0), error, strict=True)]
        yield f"| {cell.name} | " + " | ".join([f"{mean:.3f}" for mean in table.mean(axis=0)] + told) + " |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few data sets")
    n_sets = QUICK if parser.parse_args().quick else SETS
    print(f"Held-out accuracy, {n_sets} data sets a cell; the export less all votes, and less minus flagged (± 1 SE)\n")
    print(f"| cell | {' | '.join(WAYS)} | - all | - minus flagged |\n|---|" + "---|" * 5)
    for row in rows(n_sets):
        print(row, flush=True)


if __name__ == "__main__":
    main()
