"""Real crowds, read where their folder is present: the paper's own set, and three others."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.evidence.ours import jaccard
from benchmarks.evidence.scenarios import Q
from fdr_core.baselines import binomial_bh, glm_bh
from fdr_core.comparisons import Comparisons
from fdr_core.detection import Detection, detect

SETS = ("worldcollege", "llmfao", "ukpconvarg1", "alpaca_eval_judges")
COINS = {"llmfao": "id", "alpaca_eval_judges": "instruction"}
SHARES = (0.6, 0.7, 0.8, 0.9, 1.0)
MOST_POINTS = 120


def folder() -> Path:
    """Where the data sets would be: EVENHAND_DATA, else beside the project."""
    named = os.environ.get("EVENHAND_DATA")
    return Path(named) if named else Path(__file__).resolve().parents[3] / "shared" / "data"


def state(name: str) -> str:
    """Size of a set's file; empty where it is not present."""
    path = folder() / name / "comparisons.csv"
    return str(path.stat().st_size) if path.is_file() else ""


def read(name: str) -> Comparisons:
    """Read a set; what decided the sides becomes the coin, graded answers count as such."""
    frame = pd.read_csv(folder() / name / "comparisons.csv").rename(columns={COINS.get(name, "coin"): "coin"})
    outcome = frame["choice"].map({"left": 1.0, "right": -1.0, "tie": 0.0})
    if "p_left" in frame:
        outcome = (2.0 * frame["p_left"] - 1.0).fillna(outcome)
    frame["outcome"] = outcome
    wanted = [column for column in ("annotator", "left", "right", "outcome", "coin") if column in frame]
    return Comparisons.from_frame(frame[wanted])


def worldcollege(draws: int, singles: int = 20) -> dict[str, Any]:
    """The paper's set: its 36 annotators, by the paper's method and by default; single draws; rankings; figures."""
    comparisons = read("worldcollege")
    paper_36 = pd.read_csv(folder() / "worldcollege" / "paper_table8.csv")["annotator"].tolist()
    default = detect(comparisons, q=Q, seed=0)
    papers = detect(comparisons, q=Q, seed=0, method="paper", cut="knockoff", draws=draws, min_bias=0.0)
    alone = [_single(comparisons, seed) for seed in range(singles)]
    return {
        **summary(default),
        "jaccard": jaccard(set(default.flagged), set(detect(comparisons, q=Q, seed=1).flagged)),
        "paper_36": paper_36,
        "draws": draws,
        "paper_flagged": papers.flagged,
        "single_sizes": [len(single) for single in alone],
        "single_others": [len(single - set(paper_36)) for single in alone],
        "table": _table(paper_36, default, papers),
        "ratio": _ratio(paper_36, default),
        "ranking": _ranking(default),
        "path": _path(default),
        "scatter": default.annotators[["left", "right", "verdict"]].to_numpy().tolist(),
        "peers": _peers(comparisons, paper_36),
    }


def other(name: str) -> dict[str, Any]:
    """Any other set: what the audit says, who is flagged, and whether two seeds agree."""
    comparisons = read(name)
    one, two = (detect(comparisons, q=Q, seed=seed) for seed in (0, 1))
    frame = one.annotators
    shown = frame[frame["flagged"] | frame["annotator"].astype(str).str.match(r"^(?!w\d)")].head(20)
    columns = ["annotator", "comparisons", "bias", "bias_low", "bias_high", "draw_share", "flagged", "verdict"]
    return {
        **summary(one),
        "jaccard": jaccard(set(one.flagged), set(two.flagged)),
        "rows": _plain(shown[columns]) if len(frame) < 1000 else _plain(frame[frame["flagged"]][columns].head(20)),
        "peers": _peers(comparisons, None),
    }


def summary(result: Detection) -> dict[str, Any]:
    """What is told of any set."""
    frame = result.annotators
    return {
        "annotators": len(frame),
        "answers": int(frame["comparisons"].sum()),
        "items": len(result.ranking),
        "assessable": int(result.audit.figures["assessable"]),
        "construction": result.audit.construction,
        "reasons": list(result.audit.reasons),
        "flagged": [_json(label) for label in result.flagged],
        "one_side": int((frame["verdict"] == "bad").sum()),
    }


def _single(comparisons: Comparisons, seed: int) -> set[Any]:
    """One draw of the paper's method, as the paper has it."""
    result = detect(comparisons, q=Q, seed=1000 + seed, method="paper", path="iss", cut="knockoff", draws=1, min_bias=0)
    return set(result.flagged)


def _table(paper_36: list[Any], default: Detection, papers: Detection) -> list[dict[str, Any]]:
    """The paper's Table 8 beside the draw shares."""
    ours, theirs = (result.annotators.set_index("annotator") for result in (default, papers))
    rows = []
    for label in paper_36:
        row = ours.loc[label]
        rows.append(
            {
                "annotator": _json(label),
                "left": int(row["left"]),
                "right": int(row["right"]),
                "match": round(float(row["match_ratio"]), 3),
                "paper_share": round(float(theirs.loc[label, "draw_share"]), 3),
                "share": round(float(row["draw_share"]), 3),
                "bias": round(float(row["bias"]), 3),
                "verdict": str(row["verdict"]),
            }
        )
    return rows


def _ratio(paper_36: list[Any], default: Detection) -> list[dict[str, Any]]:
    """Who a plain threshold on the share of the favoured side would flag."""
    frame = default.annotators
    n = frame["left"] + frame["right"]
    favoured = frame[["left", "right"]].max(axis=1) / n.clip(lower=1)
    is_paper, is_ours = frame["annotator"].isin(paper_36), frame["flagged"]
    rows = []
    for share in SHARES:
        hit = favoured >= share - 1e-12
        rows.append(
            {
                "share": share,
                "flagged": int(hit.sum()),
                "paper": int((hit & is_paper).sum()),
                "ours": int((hit & is_ours).sum()),
                "few": int((hit & (n < 5)).sum()),
                "accused": int((hit & ~is_ours & (n >= 5)).sum()),
                "match": round(float(frame.loc[hit & ~is_ours & (n >= 5), "match_ratio"].mean()), 3),
            }
        )
    return rows


def _ranking(result: Detection, most: int = 20) -> dict[str, Any]:
    table = result.ranking.sort_values("rank", kind="stable")
    columns = ["item", "score", "se", "rank", "rank_low", "rank_high", "raw_score", "raw_rank"]
    return {
        "top": _plain(table[columns].head(most)),
        "moved": int((table["rank"] != table["raw_rank"]).sum()),
        "largest_move": int((table["rank"] - table["raw_rank"]).abs().max()),
        "turned_pairs": len(result.order_changes),
        "tau": round(float(table["score"].corr(table["raw_score"], method="kendall")), 4),
    }


def _path(result: Detection) -> dict[str, Any]:
    """The path thinned for drawing, verdict by annotator."""
    record = result.path_record
    keep = np.unique(np.linspace(0, len(record.times) - 1, MOST_POINTS).astype(int))
    verdict = dict(zip(result.annotators["annotator"], result.annotators["verdict"], strict=True))
    return {
        "times": np.round(record.times[keep], 5).tolist(),
        "gamma": np.round(record.gamma[keep].T, 3).tolist(),
        "verdict": [str(verdict[label]) for label in record.annotators],
    }


def _peers(comparisons: Comparisons, paper_36: list[Any] | None) -> dict[str, Any]:
    """How many the two baselines flag, and how many of the paper's."""
    found = {"binomial": binomial_bh(comparisons, Q).flagged}
    if comparisons.n_items <= 1000 and comparisons.n_annotators <= 1000:
        found["glm"] = glm_bh(comparisons, Q).flagged
    known = set(paper_36 or ())
    return {name: {"flagged": len(labels), "paper": len(known & set(labels))} for name, labels in found.items()}


def _plain(frame: pd.DataFrame) -> list[dict[str, Any]]:
    rounded = frame.copy()
    for name in rounded.select_dtypes("floating").columns:
        rounded[name] = rounded[name].round(4)
    return [{key: _json(value) for key, value in row.items()} for row in rounded.to_dict("records")]


def _json(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
