"""The decision, measured: false discovery rate and power on crowds of known making, and finds on real ones.

python -m benchmarks.decision [--quick] [--case NAME ...] [--first NUMBER] [--sets N]

Data sets have numbers from 7000 on unless told otherwise, which nothing was tuned on; tested by "none" counts the
lists that the audit refused. Real sets are read where their
folder is present.
"""

from __future__ import annotations

import argparse
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from typing import Any

import numpy as np
import pandas as pd

from benchmarks import shown_once
from benchmarks.results.real_data import folder, read, state
from fdr_core import Comparisons, detect
from harness.breakers import BREAKERS, CROWDS
from harness.premises import EVERY, PREMISES
from harness.scenarios import Q, Scenario

FIRST_SET = 7000
#: A quick look takes this share of the data sets.
QUICK = 0.1
PROCESSES = 2


#: The largest rate that counts as held where no coin decided.
MOST = dict.fromkeys(("team-better-left", "never-swapped", "H8", "few-coins"), 0.12)
#: Data sets by name of the crowd.
SETS = {
    **dict.fromkeys((crowd.name for crowd in PREMISES), 200),
    **dict.fromkeys(("H1", "H2", "H3", "H6", "H7", "H9", "H10", "team-30", "team-12"), 100),
    **dict.fromkeys(("H4", "H5", "H8", "team-better-left", "never-swapped"), 40),
    **{name: 200 if crowd.is_null else 60 for name, crowd in CROWDS.items() if crowd in BREAKERS},
    **dict.fromkeys(("unique-pairs", "unique-pairs-harder", "repeated-judges"), 60),
}


@dataclass(frozen=True)
class Measured:
    """False discovery proportions and powers, data set by data set."""

    fdp: np.ndarray
    power: np.ndarray
    ways: tuple[str, ...]
    kinds: tuple[str, ...]

    def row(self, case: Scenario) -> str:
        """One line of the table."""
        n = len(self.fdp)
        rate, se = float(self.fdp.mean()), float(self.fdp.std(ddof=1)) / n**0.5 if n > 1 else 0.0
        has_leaners = bool((self.power >= 0).all())
        power = f"{self.power.mean():.3f}" if has_leaners else "-"
        goal = "" if case.floor is None else f"{case.floor:.2f}"
        most = max(MOST.get(case.name, 0.0), Q + 2 * max(se, 1e-9))
        held = "yes" if rate <= most else "NO"
        reached = "" if case.floor is None else ("yes" if self.power.mean() >= case.floor else "NO")
        ways = ", ".join(f"{way} {count}" for way, count in sorted(Counter(self.ways).items()))
        ways += f"; proven {sum('proven' in kind for kind in self.kinds)}"
        return f"| {case.name} | {n} | {rate:.3f} ({se:.3f}) | {held} | {power} | {goal} | {reached} | {ways} |"


def measure(case: Scenario, numbers: range, pool: ProcessPoolExecutor) -> Measured:
    """Simulate, decide and compare with the truth."""
    found = list(pool.map(_one, [case] * len(numbers), numbers, chunksize=4))
    fdp, power, ways, kinds = zip(*found, strict=True)
    return Measured(np.array(fdp), np.array(power), ways, kinds)


def _one(case: Scenario, number: int) -> tuple[float, float, str, str]:
    truth = case.simulate(number)
    result = detect(truth.comparisons, q=Q, min_bias=case.min_bias, lbi=None)
    power = truth.power(result.flagged) if truth.is_biased.any() else -1.0
    return truth.false_discovery_proportion(result.flagged), power, result.audit.how, result.guarantee.kind


def real_rows() -> Iterable[str]:
    """What is found on real sets, line by line."""
    for name, describe in REAL.items():
        if state(name):
            begun = time.perf_counter()
            said = describe(name)
            yield f"| {name} | {said} | {time.perf_counter() - begun:.1f} s |"


def _against(table: str, name: str) -> str:
    """Finds beside the annotators that the paper names."""
    known = set(pd.read_csv(folder() / table)["annotator"])
    result = detect(read(name), q=Q, lbi=None)
    found = set(result.flagged)
    return f"{len(found)} flagged, {len(found & known)} of the paper's {len(known)}; {result.audit.how}"


def _finds(name: str) -> str:
    """Who is flagged: by name where there are few annotators."""
    result = detect(read(name), q=Q, lbi=None)
    names = f": {', '.join(map(str, result.flagged))}" if 0 < len(result.flagged) <= 5 else ""
    return f"{len(result.flagged)} of {len(result.annotators)} flagged{names}; {result.audit.how}"


def _orders(name: str) -> str:
    """Both orders, then one order per judge and pair drawn twenty times: how often each judge is flagged."""
    both = detect(read(name), q=Q, lbi=None)
    frame = pd.read_csv(folder() / name / "comparisons.csv")
    frame["outcome"] = frame["choice"].map({"left": 1.0, "right": -1.0, "tie": 0.0})
    times: dict[Any, int] = dict.fromkeys(sorted(frame["annotator"].unique()), 0)
    for number in range(20):
        drawn = frame.sample(frac=1.0, random_state=number).drop_duplicates("coin")
        columns = ["annotator", "left", "right", "outcome", "coin"]
        for judge in detect(Comparisons.from_frame(drawn[columns]), q=Q, lbi=None).flagged:
            times[judge] += 1
    counts = ", ".join(f"{judge} {count}/20" for judge, count in times.items())
    return f"both orders: {', '.join(map(str, sorted(both.flagged)))} ({both.audit.how}); one order: {counts}"


REAL: dict[str, Callable[[str], str]] = {
    "worldcollege": partial(_against, "worldcollege/paper_table8.csv"),
    "humanage": partial(_against, "paper_tables/table3_humanage.csv"),
    "iqa_ref1": partial(_against, "paper_tables/table7_iqa_ref1.csv"),
    "alpaca_eval_judges": _finds,
    "llmfao": _finds,
    "ukpconvarg1": _finds,
    "pandalm": _finds,
    "prd_both_orders": _orders,
}


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the data sets")
    parser.add_argument("--case", nargs="+", help="by name; 'real' for real sets, 'judges', 'leans', 'proofs'")
    parser.add_argument("--first", type=int, help="number of the first data set")
    parser.add_argument("--sets", type=int, help="data sets of every case")
    chosen = parser.parse_args()
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    cases = [EVERY[name] for name in SETS if chosen.case is None or name in chosen.case]
    if cases:
        print(
            "| case | sets | FDR (SE) | <= q + 2 SE | power | goal | reached | tested by |\n"
            "|---|---|---|---|---|---|---|---|"
        )
        with ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn")) as pool:
            for case in cases:
                planned = max(4, round(QUICK * SETS[case.name])) if chosen.quick else SETS[case.name]
                first = chosen.first or FIRST_SET
                numbers = range(first, first + (chosen.sets or planned))
                print(measure(case, numbers, pool).row(case), flush=True)
    with ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn")) as pool:
        for name, (rows, times) in shown_once.CASES.items():
            if chosen.case is None or name in chosen.case:
                print()
                for row in rows(pool, chosen.sets or max(4, round((QUICK if chosen.quick else 1) * times))):
                    print(row, flush=True)
    if chosen.case is None or "real" in chosen.case:
        print("\n| set | found | time |\n|---|---|---|")
        for row in real_rows():
            print(row, flush=True)


if __name__ == "__main__":
    main()
