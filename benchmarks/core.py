"""Speed and memory of the numeric core, beside what a user would pick instead; everything in one run.

    python -m benchmarks.core            all parts (about ten minutes, most of it the dense construction)
    python -m benchmarks.core --quick    without the dense construction at m = 1,000 and the two largest sizes
    python -m benchmarks.core --growth   every stage at 1, 2, 4 and 8 times the answers, in the processor's seconds

Each case runs in a process of its own, so that its peak memory is its own.
"""

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import time
from typing import Any

import numpy as np

from benchmarks.results.dense_paper import dense_paper
from fdr_core import Comparisons, KnockoffLBI, SufficientStatistics, detect
from fdr_core.baselines import glm_bh
from fdr_core.paper.copies import FixedKnockoffs
from fdr_core.paper.draws import Fixed, Rule, loss_limit, run_draws
from fdr_core.paper.paths import Races, follow
from fdr_core.projection import fixed_design
from harness.crowds import shaped

#: Annotators, items, answers, path, and the seconds aimed at with knockoff LBI beside the decision.
SIZES = [
    (100, 100, 10_000, "lbi", 0.8),
    (1_000, 200, 100_000, "lbi", 5.0),
    (10_000, 200, 1_000_000, "lbi", 40.0),
    (100_000, 200, 10_000_000, "marginal", 90.0),
    (5_000, 100_000, 1_000_000, "marginal", 90.0),
]
#: The same for the decision alone.
DECISIONS = [
    (100, 100, 10_000, 0.3),
    (1_000, 200, 100_000, 1.5),
    (10_000, 200, 1_000_000, 10.0),
    (100_000, 200, 10_000_000, 60.0),
]
LARGE = 2_000_000
#: Answers of the smallest crowd whose growth is measured, and how many times as many there are.
GROWN_FROM, GROWN_BY = 62_500, (1, 2, 4, 8)
SHAPES = ("ordinary", "unique pairs", "pairs met once", "six answers each")


def simulated(m: int, n: int, N: int) -> Comparisons:
    return shaped(m, n, N, rng=np.random.default_rng(1)).comparisons


def case_detect(m: int, n: int, N: int, path: str) -> dict[str, Any]:
    """`detect` with default settings."""
    comparisons = simulated(m, n, N)
    begun = time.perf_counter()
    result = detect(comparisons, clock=time.perf_counter, lbi=KnockoffLBI(path=path))
    return {"seconds": time.perf_counter() - begun, "flagged": len(result.flagged), "parts": dict(result.timings)}


def case_decision(m: int, n: int, N: int) -> dict[str, Any]:
    """The exact tests and their list, with the consensus, without knockoff LBI beside them."""
    comparisons = simulated(m, n, N)
    begun = time.perf_counter()
    result = detect(comparisons, lbi=None)
    return {"seconds": time.perf_counter() - begun, "flagged": len(result.flagged)}


def shape_of(shape: str, N: int) -> Comparisons:
    """A crowd of one of the SHAPES: a hundred answers each on 200 items, or as its name says; a tenth click a side."""
    rng, answer = np.random.default_rng(1), np.arange(N)
    people = N // (6 if shape == "six answers each" else 100)
    annotator = answer // 6 if shape == "six answers each" else rng.integers(people, size=N)
    people = int(annotator.max()) + 1
    task = answer // 3 if shape == "unique pairs" else answer
    left = 2 * task if "pairs" in shape else rng.integers(200, size=N)
    right = left + 1 if "pairs" in shape else (left + rng.integers(1, 200, size=N)) % 200
    theta = rng.normal(size=int(right.max()) + 2)
    chosen = np.where(1.5 * (theta[left] - theta[right]) + rng.logistic(size=N) > 0, 1.0, -1.0)
    clicks = (np.arange(people) % 10 == 0)[annotator] & (rng.random(N) < 0.5)
    return Comparisons.from_arrays(annotator, left, right, np.where(clicks, 1.0, chosen), task=task)


def case_stages(shape: str, N: int, draws: int) -> dict[str, Any]:
    """Seconds of the processor by stage, where the owner states that coins decided the sides."""
    comparisons = shape_of(shape, N)
    lbi = KnockoffLBI(draws=draws, seconds=None) if draws else None
    return {"parts": dict(detect(comparisons, sides="random", clock=time.process_time, lbi=lbi).timings)}


def case_glm(m: int, n: int, N: int) -> dict[str, Any]:
    """The logistic GLM with Benjamini-Hochberg, the yardstick."""
    comparisons = simulated(m, n, N)
    begun = time.perf_counter()
    glm_bh(comparisons, q=0.1)
    return {"seconds": time.perf_counter() - begun}


def case_fast_draw(m: int, n: int, N: int) -> dict[str, Any]:
    """One draw of the paper's knockoffs and the exact ISS path, from statistics."""
    statistics = SufficientStatistics.from_comparisons(simulated(m, n, N))
    sums = statistics.sums
    begun = time.perf_counter()
    rng = np.random.default_rng(0)
    problem = FixedKnockoffs(fixed_design(sums, np.arange(len(sums.counts)))).draw(rng)
    limit = loss_limit(problem.m, 0.1, 1.0, 1)
    follow(problem, "iss", races=Races(problem, close=False, limit=limit, rng=rng))
    return {"seconds": time.perf_counter() - begun}


def case_dense_draw(m: int, n: int, N: int) -> dict[str, Any]:
    """The same as the paper writes it: columns, their projection, Q and A_tilde as matrices, then the same path."""
    comparisons = simulated(m, n, N)
    begun = time.perf_counter()
    dense_paper(comparisons, np.random.default_rng(0))
    return {"seconds": time.perf_counter() - begun}


def case_growth(m: int, n: int, N: int) -> dict[str, Any]:
    """Time of ten paper draws with LBI once the statistics are there."""
    sums = SufficientStatistics.from_comparisons(simulated(m, n, N)).sums
    begun = time.perf_counter()
    construction = Fixed(fixed_design(sums, np.arange(len(sums.counts))))
    run_draws(construction, Rule(0.1, "knockoff+", 10, 0), path="lbi")
    return {"seconds": time.perf_counter() - begun}


def case_statistics(m: int, n: int, N: int) -> dict[str, Any]:
    """Bulk intake of SufficientStatistics."""
    comparisons = simulated(m, n, N)
    statistics = SufficientStatistics()
    begun = time.perf_counter()
    statistics.add(comparisons)
    _ = statistics.sums
    return {"seconds": time.perf_counter() - begun}


CASES = {name.removeprefix("case_"): function for name, function in globals().items() if name.startswith("case_")}


def measured(case: str, *arguments: object) -> dict[str, Any]:
    """Run one case in a fresh process; add its peak memory."""
    command = [sys.executable, "-m", "benchmarks.core", "--case", case, *map(str, arguments)]
    answer = subprocess.run(command, capture_output=True, text=True, check=True, timeout=3600)
    told: dict[str, Any] = json.loads(answer.stdout.strip().splitlines()[-1])
    return told


def child(case: str, arguments: list[str]) -> None:
    values = [int(a) if a.isdigit() else a for a in arguments]
    result = CASES[case](*values)
    result["megabytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps(result))


def print_growth() -> None:
    """Every stage's seconds by the number of answers, and the slope through their logarithms."""
    sizes = [GROWN_FROM * times for times in GROWN_BY]
    print(f"| processor's seconds | {' | '.join(f'{size:,}' for size in sizes)} | slope |")
    print(f"|---|{'---|' * (len(sizes) + 1)}")
    for shape in SHAPES:
        draws = 5 if shape == "ordinary" else 0
        parts = [measured("stages", shape, size, draws)["parts"] for size in sizes]
        rows = {stage: [part[stage] for part in parts] for stage in parts[0]}
        for stage, seconds in {**rows, "in all": [sum(part.values()) for part in parts]}.items():
            if seconds[-1] >= 0.02:
                slope = np.polyfit(np.log(sizes), np.log(np.maximum(seconds, 1e-4)), 1)[0]
                print(f"| {shape}: {stage} | {' | '.join(f'{one:.2f}' for one in seconds)} | {slope:.2f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--growth", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--case", nargs="+")
    options = parser.parse_args()
    if options.case:
        child(options.case[0], options.case[1:])
        return
    print(
        f"{os.cpu_count()} cores, Python {platform.python_version()}, numpy {np.__version__}, "
        f"{time.strftime('%Y-%m-%d')}"
    )
    if options.growth:
        print_growth()
        return
    print("\nthe decision alone, detect(lbi=None); GLM: the time of a logistic GLM with BH divided by ours")
    print(
        f"{'annotators':>11}{'items':>9}{'answers':>12}{'seconds':>9}{'aim':>7}{'peak MB':>9}{'flagged':>9}{'GLM':>7}"
    )
    for m, n, N, aim in DECISIONS:
        if not (options.quick and N > LARGE):
            r = measured("decision", m, n, N)
            glm = measured("glm", m, n, N)["seconds"] / r["seconds"]
            print(
                f"{m:>11,}{n:>9,}{N:>12,}{r['seconds']:>9.2f}{aim:>7.1f}{r['megabytes']:>9.0f}{r['flagged']:>9}{glm:>7.2f}"
            )
    print("\ndetect, default settings (21 draws)")
    print(
        f"{'annotators':>11}{'items':>9}{'answers':>12}  {'path':9}{'seconds':>9}{'aim':>7}{'peak MB':>9}{'flagged':>9}"
    )
    for m, n, N, path, aim in SIZES:
        if options.quick and N > LARGE:
            continue
        r = measured("detect", m, n, N, path)
        print(
            f"{m:>11,}{n:>9,}{N:>12,}  {path:9}{r['seconds']:>9.2f}{aim:>7.1f}{r['megabytes']:>9.0f}{r['flagged']:>9}"
        )
    m, n, N = (300, 200, 9_000) if options.quick else (1_000, 200, 30_000)
    fast, dense = measured("fast_draw", m, n, N), measured("dense_draw", m, n, N)
    ratio = dense["seconds"] / fast["seconds"]
    print(f"\none paper draw + exact ISS, m = {m}, n = {n}, N = {N:,}")
    print(
        f"  from statistics {fast['seconds']:.3f} s, dense construction {dense['seconds']:.1f} s: "
        f"{ratio:,.0f} times faster"
    )
    small, large = measured("growth", 500, 100, 50_000), measured("growth", 500, 100, 500_000)
    print("\nten paper draws once the statistics are there, m = 500, n = 100")
    print(
        f"  N = 50,000: {small['seconds']:.2f} s, N = 500,000: {large['seconds']:.2f} s, "
        f"ratio {large['seconds'] / small['seconds']:.2f}"
    )
    intake = measured("statistics", 1_000, 200, 2_000_000)
    print(f"\nSufficientStatistics: {2_000_000 / intake['seconds'] / 1e6:.1f} million comparisons a second in bulk")


if __name__ == "__main__":
    main()
