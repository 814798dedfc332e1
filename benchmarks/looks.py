"""Looking again and again: how many lasting flags are false, how many leaners get one, and how soon.

python -m benchmarks.looks [--runs 200] [--leaning-runs 60]
"""

from __future__ import annotations

import argparse

import numpy as np

from harness.lasting import OLD_ANSWERS, OLD_CROWD, SEED, joining, measure, newcomer, together


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200, help="data sets in which nobody leans")
    parser.add_argument("--leaning-runs", type=int, default=60, help="data sets in which twelve of forty lean")
    runs = parser.parse_args()
    for looks in (10, 50):
        for name, make in (("side by side", together), ("joining one by one", joining)):
            print(f"{looks} looks, {name}, nobody leans: {measure(make(0), looks, runs.runs)}", flush=True)
            print(f"{looks} looks, {name}, 12 of 40 lean: {measure(make(12), looks, runs.leaning_runs)}", flush=True)
    needed = [newcomer(np.random.default_rng([SEED, k])) for k in range(3)]
    print(f"one-sided clicker joins {OLD_CROWD} people after {OLD_CROWD * OLD_ANSWERS} answers: flagged after {needed}")


if __name__ == "__main__":
    main()
