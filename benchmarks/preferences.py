"""Share of right labels after `export-preferences`, beside its rivals. `python -m benchmarks.preferences [--quick]`."""

import argparse
from collections.abc import Callable

import numpy as np

from fdr_core import detect
from fdr_core.judges.preferences import preferences
from fdr_core.simulate import Simulated, small_team, unique_pairs
from fdr_core.types import Mask

RUNS = 40
SCENARIOS: dict[str, Callable[[np.random.Generator], Simulated]] = {
    "unique pairs, 6 of 30 lean": lambda rng: unique_pairs(rng=rng),
    "unique pairs, 12 of 30 lean, all answer all": lambda rng: unique_pairs(rng=rng, harder=True),
    "20 items, 5 of 30 lean": lambda rng: small_team(30, 5, 60, rng=rng),
}


def shares_right(crowd: Simulated) -> tuple[float, float, float]:
    """Of all pairs: right by majority vote, by majority without the flagged, and as exported; a tie is half right."""
    comparisons = crowd.comparisons
    found = detect(comparisons, sides="random")
    truth = dict(zip(comparisons.items.tolist(), crowd.theta, strict=True))
    ours = preferences(comparisons, found, min_probability=0.5)
    rows = [*ours.table.to_dict("records"), *ours.again.to_dict("records")]
    right = [0.5 if row["margin"] == 0 else float(truth[row["chosen"]] > truth[row["rejected"]]) for row in rows]
    is_kept = ~np.isin(comparisons.annotators[comparisons.annotator], found.flagged)
    everybody = np.ones(len(comparisons), dtype=bool)
    return _by_vote(crowd, everybody), _by_vote(crowd, is_kept), float(np.mean(right))


def _by_vote(crowd: Simulated, is_kept: Mask) -> float:
    """Share of pairs whose majority among some answers is right."""
    c = crowd.comparisons
    ends = np.sort(np.stack([c.left, c.right], axis=1), axis=1)
    pairs, code = np.unique(ends, axis=0, return_inverse=True)
    vote = np.where(c.left == pairs[code.ravel(), 0], 1.0, -1.0) * np.sign(c.outcome) * is_kept
    total = np.bincount(code.ravel(), vote, minlength=len(pairs))
    truth = np.sign(crowd.theta[pairs[:, 0]] - crowd.theta[pairs[:, 1]])
    return float(np.mean(np.where(total == 0, 0.5, np.sign(total) == truth)))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few runs")
    runs = 5 if parser.parse_args().quick else RUNS
    print(f"Right labels in %, {runs} data sets each\n")
    print("| scenario | majority vote | without the flagged | export-preferences |\n|---|---|---|---|")
    for name, draw in SCENARIOS.items():
        shares = np.array([shares_right(draw(np.random.default_rng(seed))) for seed in range(runs)])
        print(f"| {name} | " + " | ".join(f"{100 * share:.1f}" for share in shares.mean(axis=0)) + " |")


if __name__ == "__main__":
    main()
