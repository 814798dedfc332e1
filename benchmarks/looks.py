"""Looking again and again: how many lasting flags are false, how many leaners get one, and how soon.

python -m benchmarks.looks [--runs 200] [--leaning-runs 60] [--paused [--looks 10 50] [--by lasting list]]
"""

from __future__ import annotations

import argparse
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context

import numpy as np

from harness.lasting import (
    OLD_ANSWERS,
    OLD_CROWD,
    SEED,
    Measured,
    better_left,
    joining,
    measure,
    newcomer,
    one_order,
    paused_once,
    together,
)

#: First data set of crowds in which the flagged are paused; by whom they are, in words.
PAUSED_FIRST = 7000
BY = {"lasting": "lasting flags and early warnings", "list": "the list of a run"}
PROCESSES = 2
#: Numbers of looks, and crowds: of the last two no coin is one's own.
CROWDS = (
    (10, "side by side", together),
    (10, "joining one by one", joining),
    (50, "side by side", together),
    (50, "joining one by one", joining),
    (10, "one order for all", one_order),
    (10, "better item left in 80 %", better_left),
)


def paused(looks: int, by: str, runs: int) -> str:
    """One line: crowds in which nobody leans, and whoever is flagged answers no more."""
    numbers = range(PAUSED_FIRST, PAUSED_FIRST + runs)
    with ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn")) as pool:
        found = np.array(list(pool.map(partial(paused_once, looks, by), numbers))).transpose(1, 2, 0)
    listed, held = (Measured(*figures) for figures in found)
    return f"{looks} looks, nobody leans, paused by {BY[by]}: last list {listed}; lasting {held}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200, help="data sets in which nobody leans")
    parser.add_argument("--leaning-runs", type=int, default=60, help="data sets in which twelve of forty lean")
    parser.add_argument("--paused", action="store_true", help="only crowds in which whoever is flagged answers no more")
    parser.add_argument("--looks", type=int, nargs="+", default=[10, 50], help="of these, how many looks")
    parser.add_argument("--by", nargs="+", choices=BY, default=list(BY), help="of these, by what people are paused")
    runs = parser.parse_args()
    for looks in runs.looks:
        for by in runs.by:
            print(paused(looks, by, runs.runs), flush=True)
    if runs.paused:
        return
    for looks, name, make in CROWDS:
        print(f"{looks} looks, {name}, nobody leans: {measure(make(0), looks, runs.runs)}", flush=True)
        print(f"{looks} looks, {name}, 12 of 40 lean: {measure(make(12), looks, runs.leaning_runs)}", flush=True)
    needed = [newcomer(np.random.default_rng([SEED, k])) for k in range(3)]
    print(f"one-sided clicker joins {OLD_CROWD} people after {OLD_CROWD * OLD_ANSWERS} answers: flagged after {needed}")


if __name__ == "__main__":
    main()
