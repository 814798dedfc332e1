"""Real crowds, read where their folder is present, and what the paper prints about its own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fdr_core.baselines import binomial_bh, glm_bh
from fdr_core.comparisons import Comparisons
from fdr_core.detection import Detection, detect
from fdr_core.findings import ALWAYS_LEFT, ALWAYS_RIGHT
from harness.scenarios import Q

#: The paper's sets, with the table of the annotators that it selected.
PAPERS = {
    "worldcollege": "worldcollege/paper_table8.csv",
    "humanage": "paper_tables/table3_humanage.csv",
    "iqa_ref1": "paper_tables/table7_iqa_ref1.csv",
}
OTHERS = ("llmfao", "ukpconvarg1", "alpaca_eval_judges", "pandalm")
COINS = {"llmfao": "id", "alpaca_eval_judges": "instruction"}


def folder() -> Path:
    """Where the data sets would be: EVENHAND_DATA, else beside the project."""
    named = os.environ.get("EVENHAND_DATA")
    return Path(named) if named else Path(__file__).resolve().parents[3] / "shared" / "data"


def state(name: str) -> str:
    """Size of a set's file; empty where it is not present."""
    files = (folder() / name / file for file in ("both_orders.csv.gz", "comparisons.csv"))
    return next((str(file.stat().st_size) for file in files if file.is_file()), "")


def printed(path: str) -> pd.DataFrame:
    """Read a table that the paper prints; empty where the folder has none."""
    file = folder() / path
    return pd.read_csv(file) if file.is_file() else pd.DataFrame()


def read(name: str) -> Comparisons:
    """Read a set; what decided the sides becomes the coin, graded answers count as such."""
    frame = pd.read_csv(folder() / name / "comparisons.csv").rename(columns={COINS.get(name, "coin"): "coin"})
    outcome = frame["choice"].map({"left": 1.0, "right": -1.0, "tie": 0.0})
    if "p_left" in frame:
        outcome = (2.0 * frame["p_left"] - 1.0).fillna(outcome)
    frame["outcome"] = outcome
    wanted = [column for column in ("annotator", "left", "right", "outcome", "coin") if column in frame]
    return Comparisons.from_frame(frame[wanted])


def other(name: str) -> dict[str, Any]:
    """Any other set: what the audit says, and who is on which list."""
    comparisons = read(name)
    result = detect(comparisons, q=Q)
    frame = result.annotators
    shown = frame[frame["flagged"] | frame["annotator"].astype(str).str.match(r"^(?!w\d)")].head(20)
    columns = [
        "annotator",
        "comparisons",
        "bias",
        "bias_low",
        "bias_high",
        "q_value",
        "lbi_share",
        "flagged",
        "finding",
    ]
    return {
        **summary(result),
        "rows": _plain(shown[columns]) if len(frame) < 1000 else _plain(frame[frame["flagged"]][columns].head(20)),
        "peers": by_hand(comparisons),
    }


def summary(result: Detection) -> dict[str, Any]:
    """What is told of any set."""
    frame = result.annotators
    return {
        "annotators": len(frame),
        "answers": int(frame["comparisons"].sum()),
        "items": len(result.ranking),
        "assessable": int(result.audit.figures["assessable"]),
        "how": result.audit.how,
        "reasons": list(result.audit.reasons),
        "flagged": [_json(label) for label in result.flagged],
        "lbi": [_json(label) for label in result.lbi.flagged],
        "one_side": int(frame["finding"].isin([ALWAYS_LEFT, ALWAYS_RIGHT]).sum()),
    }


def by_hand(comparisons: Comparisons) -> dict[str, list[Any]]:
    """Whom the two baselines flag; the regression only where it is feasible."""
    found = {"binomial": binomial_bh(comparisons, Q).flagged}
    if comparisons.n_items <= 1000 and comparisons.n_annotators <= 1000:
        found["glm"] = glm_bh(comparisons, Q).flagged
    return {name: [_json(label) for label in labels] for name, labels in found.items()}


def _plain(frame: pd.DataFrame) -> list[dict[str, Any]]:
    rounded = frame.copy()
    for name in rounded.select_dtypes(["float64"]).columns:
        rounded[name] = rounded[name].round(4)
    return [{str(key): _json(value) for key, value in row.items()} for row in rounded.to_dict("records")]


def _json(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
