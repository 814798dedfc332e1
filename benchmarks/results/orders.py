"""Truth from both orders: judges who saw every pair twice, of which a method is shown one order, drawn by coins."""

from __future__ import annotations

from typing import Any

import pandas as pd

from benchmarks.results.peers import binomial, glm, sign_flip
from benchmarks.results.quality import FIRST
from benchmarks.results.real_data import folder
from fdr_core import KnockoffLBI
from fdr_core.comparisons import Comparisons
from fdr_core.detection import detect
from harness.scenarios import Q

PEERS = {"glm": glm, "binomial": binomial, "sign-flip": sign_flip}
COLUMNS = ["annotator", "left", "right", "outcome", "coin"]


def one_order(draws: int, name: str = "prd_both_orders") -> dict[str, Any]:
    """How often each judge is flagged when one order of every pair is drawn, and how often intervals hold the truth."""
    frame = pd.read_csv(folder() / name / "comparisons.csv")
    frame["outcome"] = frame["choice"].map({"left": 1.0, "right": -1.0, "tie": 0.0})
    truth = {str(judge): float(mean) for judge, mean in frame.groupby("annotator")["outcome"].mean().items()}
    counts = {method: dict.fromkeys(truth, 0) for method in ("evenhand", "lbi", *PEERS)}
    covered = dict.fromkeys(truth, 0)
    for draw in range(draws):
        drawn = frame.sample(frac=1.0, random_state=FIRST + draw).drop_duplicates("coin")
        comparisons = Comparisons.from_frame(drawn[COLUMNS])
        result = detect(comparisons, q=Q, lbi=KnockoffLBI(seed=draw))
        lists = {"evenhand": result.flagged, "lbi": result.lbi.flagged}
        lists |= {method: flag(comparisons, draw, 0) for method, flag in PEERS.items()}
        for method, flagged in lists.items():
            for judge in flagged:
                counts[method][str(judge)] += 1
        for row in result.annotators[["annotator", "bias_low", "bias_high"]].to_dict("records"):
            judge = str(row["annotator"])
            covered[judge] += bool(row["bias_low"] <= truth[judge] <= row["bias_high"])
    both = detect(Comparisons.from_frame(frame[COLUMNS]), q=Q, lbi=None)
    said = {"truth": truth, "flagged": counts, "covered": covered}
    return {"draws": draws, **said, "both": [str(judge) for judge in both.flagged], "how": both.audit.how}
