"""What LLM judges did with pairs that they saw in both orders: real answers where EVENHAND_DATA has them.

python examples/both_orders.py
"""

import os
from pathlib import Path

import numpy as np

from fdr_core import Comparisons, detect
from fdr_core.judges.both_orders import adjusted, both_orders


def simulated() -> Comparisons:
    """Three judges, 200 pairs each in both orders; one moves to the first shown when unsure."""
    rng = np.random.default_rng(1)
    lean = {"steady": 0.0, "noisy": 0.0, "first-lover": 1.2}
    rows = []
    for judge, shift in lean.items():
        for pair in range(200):
            one, two = rng.choice(6, size=2, replace=False)
            gap = (one - two) / 2 * (0.3 if judge == "noisy" else 1.0)
            for sign, left, right in ((1, one, two), (-1, two, one)):
                outcome = 1 if sign * gap + shift + rng.logistic() > 0 else -1
                rows.append((judge, f"model-{left}", f"model-{right}", outcome, f"{judge} {pair}"))
    judge_column, left_column, right_column, outcomes, coins = zip(*rows, strict=True)
    return Comparisons.from_arrays(judge_column, left_column, right_column, outcomes, coin=coins)


real = Path(os.environ.get("EVENHAND_DATA", "no such folder")) / "prd_both_orders" / "comparisons.csv"
log = Comparisons.from_file(real) if real.is_file() else simulated()
found = both_orders(log)
print("| judge | pairs | consistent | flipped | fairness | p |\n|---|---|---|---|---|---|")
for one in found:
    shares = [f"{s.value:.2f} ({s.interval[0]:.2f} to {s.interval[1]:.2f})" for s in (one.consistent, one.flipped)]
    print(f"| {one.judge} | {one.pairs} | {shares[0]} | {shares[1]} | {one.fairness:+.2f} | {one.p_value:.1e} |")
named = [one.judge for one, p in zip(found, adjusted(np.array([o.p_value for o in found])), strict=True) if p <= 0.1]
print("lean by the sign test on inconsistent pairs, Benjamini-Hochberg at .1:", ", ".join(map(str, named)) or "nobody")
print(detect(log))
