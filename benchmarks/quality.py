"""Error rate and power beside what people do by hand, on crowds with known truth; everything in one run, from seeds.

python -m benchmarks.quality             40 data sets per scenario
python -m benchmarks.quality --runs 10
"""

import argparse
import time
from collections.abc import Callable

import numpy as np

from fdr_core import DesignError, detect
from fdr_core.baselines import binomial_bh, glm_bh
from fdr_core.simulate import Simulated, large_crowd, small_team, unique_pairs

Q = 0.1
SCENARIOS: dict[str, Callable[[np.random.Generator], Simulated]] = {
    "30 annotators, 5 lean": lambda rng: small_team(30, 5, 60, rng=rng),
    "12 annotators, 2 lean": lambda rng: small_team(12, 2, 100, rng=rng),
    "12 annotators, nobody leans": lambda rng: small_team(12, 0, 100, rng=rng),
    "300 annotators, 45 lean": lambda rng: large_crowd("H1", rng=rng),
    "300 annotators, 90 bots": lambda rng: large_crowd("H7", rng=rng),
    "unique pairs, shared coins": lambda rng: unique_pairs(rng=rng),
    "better item left in 80 %": lambda rng: large_crowd("H8", rng=rng),
}


def paper(comparisons, seed):
    return detect(comparisons, q=Q, method="paper", draws=1, seed=seed, min_bias=0.0).flagged


def evenhand(comparisons, seed):
    return detect(comparisons, q=Q, seed=seed).flagged


METHODS = {
    "binomial + BH": lambda c, seed: binomial_bh(c, Q).flagged,
    "logistic GLM + BH": lambda c, seed: glm_bh(c, Q).flagged,
    "paper, knockoff+": paper,
    "Evenhand (default)": evenhand,
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=40)
    runs = parser.parse_args().runs
    print(f"FDR / power at q = {Q}, {runs} data sets each, {time.strftime('%Y-%m-%d')}")
    print(f"| {'scenario':28} | " + " | ".join(f"{name:20}" for name in METHODS) + " |")
    print("|---" * (len(METHODS) + 1) + "|")
    for name, make in SCENARIOS.items():
        cells = []
        for method in METHODS.values():
            fdp, power = [], []
            for run in range(runs):
                simulated = make(np.random.default_rng([2016, run]))
                try:
                    flagged = method(simulated.comparisons, run)
                except DesignError:
                    cells.append("not applicable")
                    break
                fdp.append(simulated.false_discovery_proportion(flagged))
                power.append(simulated.power(flagged))
            else:
                found = f" / {np.mean(power):.2f}" if simulated.is_biased.any() else ""
                cells.append(f"{np.mean(fdp):.2f}{found}")
        print(f"| {name:28} | " + " | ".join(f"{cell:20}" for cell in cells) + " |", flush=True)


if __name__ == "__main__":
    main()
