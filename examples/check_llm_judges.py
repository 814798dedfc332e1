"""Check LLM judges: which of them prefer an answer because it is shown first?

Every pair of answers is shown in both orders, under one coin per pair, and every judge is asked three times. One judge
prefers the first position in a quarter of its calls; another is merely noisy, which is no bias.

    python examples/check_llm_judges.py
"""

import numpy as np
import pandas as pd

from fdr_core import Comparisons, detect

rng = np.random.default_rng(7)
quality = {f"model {name}": score for name, score in zip("ABCDEFGH", np.linspace(-1, 1, 8), strict=True)}
judges = {"careful": (4.0, 0.0), "noisy": (0.8, 0.0), "likes the first": (4.0, 0.25)}
judges |= {f"judge {k}": (rng.uniform(2, 5), 0.0) for k in range(1, 10)}

rows = []
for judge, (sharpness, first_position) in judges.items():
    for prompt in range(60):
        a, b = rng.choice(list(quality), size=2, replace=False)
        taste = rng.normal(scale=1.0)  # a judge's opinion of this pair is the same in every call
        for left, right in ((a, b), (b, a)):
            sign = 1 if left == a else -1
            logit = sharpness * (quality[left] - quality[right]) + sign * taste
            for _ in range(3):
                prefers_left = rng.random() < 1 / (1 + np.exp(-logit)) or rng.random() < first_position
                choice = "left" if prefers_left else "right"
                rows.append((judge, left, right, choice, f"{judge}, prompt {prompt}", prompt))

calls = pd.DataFrame(rows, columns=["annotator", "left", "right", "choice", "coin", "stratum"])

# Repeated calls and both orders of a pair share one coin: flipping call by call would see bias everywhere.
result = detect(Comparisons.from_frame(calls), q=0.1, sides="random")

print(f"{len(calls):,} calls, {calls['coin'].nunique():,} coins")
print(result)
columns = ["annotator", "comparisons", "left", "bias", "bias_low", "bias_high", "q_value", "match_ratio", "finding"]
print(result.annotators[columns].head(6).to_string(index=False, float_format="%.2f"))
print("\nmodels, best first:", ", ".join(result.ranking["item"]))
