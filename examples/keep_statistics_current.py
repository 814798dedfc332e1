"""Keep the statistics of a growing project, take an answer back, and judge at any moment without a rescan.

python examples/keep_statistics_current.py
"""

import numpy as np

from fdr_core import SufficientStatistics, detect
from fdr_core.live import LiveCrowd
from fdr_core.simulate import growing
from fdr_core.spending import LastingFlags

crowd = growing(n_annotators=30, n_biased=3, n_answers=80, rng=np.random.default_rng(3), bias=0.6)
answers = crowd.comparisons.to_frame()
truth = {label for label, biased in zip(crowd.comparisons.annotators, crowd.is_biased, strict=True) if biased}

statistics, live = SufficientStatistics(), LiveCrowd(q=0.1)
rows = zip(answers["annotator"], answers["left"], answers["right"], answers["outcome"], strict=True)
for number, (annotator, left, right, outcome) in enumerate(rows, start=1):
    statistics.add(annotator, left, right, outcome)
    live.observe(annotator, outcome)
    fresh = set(live.warned)
    for warned in live.warn() - fresh:
        print(f"answer {number:5}: early warning about {warned} (really biased: {warned in truth})")

last = answers.iloc[-1]
statistics.remove(last.annotator, last.left, last.right, last.outcome)  # somebody deleted an answer

lasting = LastingFlags(q=0.1)  # in a real project: one look after every run, with states that are kept
result = detect(statistics)
table = result.annotators
print(result)
print(
    "flagged now:",
    result.flagged,
    "| lasting flags:",
    sorted(map(str, lasting.look(table["annotator"], table["comparisons"], table["p_value"]))),
    "| truth:",
    sorted(truth),
)
