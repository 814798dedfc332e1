"""Looking again and again: how many lasting flags are false, how many leaners get one, and how soon.

python -m benchmarks.looks [--runs 200] [--leaning-runs 60] [--paused]
"""

from __future__ import annotations

import argparse

import numpy as np

from harness.lasting import (
    OLD_ANSWERS,
    OLD_CROWD,
    SEED,
    better_left,
    joining,
    measure,
    measure_paused,
    newcomer,
    one_order,
    together,
)

#: First data set of crowds in which the flagged are paused.
PAUSED_FIRST = 7000
#: Numbers of looks, and crowds: of the last two no coin is one's own.
CROWDS = (
    (10, "side by side", together),
    (10, "joining one by one", joining),
    (50, "side by side", together),
    (50, "joining one by one", joining),
    (10, "one order for all", one_order),
    (10, "better item left in 80 %", better_left),
)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200, help="data sets in which nobody leans")
    parser.add_argument("--leaning-runs", type=int, default=60, help="data sets in which twelve of forty lean")
    parser.add_argument("--paused", action="store_true", help="only crowds in which whoever is flagged answers no more")
    runs = parser.parse_args()
    for looks in (10, 50):
        for by, words in (("lasting", "lasting flags and early warnings"), ("list", "the list of a run")):
            numbers = range(PAUSED_FIRST, PAUSED_FIRST + runs.runs)
            listed, held = measure_paused(together(0), looks, by, numbers)
            print(f"{looks} looks, nobody leans, paused by {words}: last list {listed}; lasting {held}", flush=True)
    if runs.paused:
        return
    for looks, name, make in CROWDS:
        print(f"{looks} looks, {name}, nobody leans: {measure(make(0), looks, runs.runs)}", flush=True)
        print(f"{looks} looks, {name}, 12 of 40 lean: {measure(make(12), looks, runs.leaning_runs)}", flush=True)
    needed = [newcomer(np.random.default_rng([SEED, k])) for k in range(3)]
    print(f"one-sided clicker joins {OLD_CROWD} people after {OLD_CROWD * OLD_ANSWERS} answers: flagged after {needed}")


if __name__ == "__main__":
    main()
