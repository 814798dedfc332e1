"""Keep the statistics of a growing project, take an answer back, and judge at any moment without a rescan.

python examples/keep_statistics_current.py
"""

import numpy as np

from fdr_core import SufficientStatistics, detect
from fdr_core.live import LiveCrowd
from fdr_core.simulate import growing

crowd = growing(n_annotators=30, n_biased=3, n_answers=80, rng=np.random.default_rng(3), bias=0.6)
answers = crowd.comparisons.to_frame()
truth = {label for label, biased in zip(crowd.comparisons.annotators, crowd.is_biased, strict=True) if biased}

statistics, live = SufficientStatistics(), LiveCrowd(q=0.1)
for number, row in enumerate(answers.itertuples(), start=1):
    statistics.add(row.annotator, row.left, row.right, row.outcome)
    live.observe(row.annotator, row.outcome)
    fresh = set(live.warned)
    for annotator in live.warn() - fresh:
        print(f"answer {number:5}: early warning about {annotator} (really biased: {annotator in truth})")

last = answers.iloc[-1]
statistics.remove(last.annotator, last.left, last.right, last.outcome)  # somebody deleted an answer

result = detect(statistics)
print(result)
print(
    "flagged now:", result.flagged, "| flags that persist:", live.persistent(result.flagged), "| truth:", sorted(truth)
)
