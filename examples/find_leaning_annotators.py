"""Find position-biased annotators in a table of comparisons, and look at the evidence.

python examples/find_leaning_annotators.py
"""

import numpy as np

from fdr_core import Comparisons, detect
from fdr_core.simulate import small_team

# A team of thirty, five of whom click one side in 40 % of their answers. Any table with the columns
# annotator, left, right, choice would do: Comparisons.from_csv("answers.csv").
team = small_team(n_annotators=30, n_biased=5, n_answers=60, rng=np.random.default_rng(1))
answers = Comparisons.from_frame(team.comparisons.to_frame())

result = detect(answers, q=0.1)

print(result)
print("\nWhy this construction:", *result.audit.reasons, sep="\n  ")
print("\nWhat the list promises:", result.guarantee.sentence)
columns = [
    "annotator",
    "comparisons",
    "left",
    "right",
    "bias",
    "bias_low",
    "bias_high",
    "q_value",
    "lbi_share",
    "finding",
]
print("\n" + result.annotators[columns].head(8).to_string(index=False, float_format="%.3f"))
# At q = 0.1 a list of five holds half a false flag on average: this one holds one, and misses one.
print("\nreally biased:", sorted(int(a) for a in answers.annotators[team.is_biased]))
