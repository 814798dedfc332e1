"""The paper's real sets beside what it prints: who enters the path first, how long lists are, and the rankings."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.stats import kendalltau

from benchmarks.results.real_data import PAPERS, by_hand, printed, read, summary
from fdr_core import KnockoffLBI
from fdr_core.answer_table import AnswerTable
from fdr_core.comparisons import Comparisons
from fdr_core.consensus.ranking import ranking
from fdr_core.detection import Detection, detect
from fdr_core.types import Floats
from harness.scenarios import Q

PATHS = ("iss", "lbi", "lasso")
MOST_POINTS = 120
#: Of the paper's method as it is printed: the plain cut, one draw, everybody judged, no smallest bias.
AS_PRINTED = KnockoffLBI(construction="paper", judge="everybody", cut="knockoff", draws=1)


def study(name: str, draws: int) -> dict[str, Any]:
    """One of the paper's sets, with ``draws`` single draws of its method."""
    comparisons = read(name)
    listed = printed(PAPERS[name])["annotator"].tolist()
    by_path = {path: _as_printed(comparisons, path) for path in PATHS}
    default = detect(comparisons, q=Q)
    lists = [set(_as_printed(comparisons, "iss", seed).flagged) for seed in range(draws)]
    return {
        **summary(default),
        "printed": [int(label) for label in listed],
        "first": {path: len(_first(result, len(listed)) & set(listed)) for path, result in by_path.items()},
        "rows": [_row(name, label, by_path, default) for label in listed],
        "sizes": [len(found) for found in lists],
        "outside": [len(found - set(listed)) for found in lists],
        "path": _path(by_path["lbi"]),
        "scatter": by_path["lbi"].annotators[["left", "right", "finding"]].to_numpy().tolist(),
        "peers": by_hand(comparisons),
        "ranking": _rankings(comparisons, listed) if name == "humanage" else None,
    }


def true_order(name: str) -> dict[str, Any]:
    """How many pairs of the known order each ranking has right."""
    return _rankings(read(name), printed(PAPERS[name])["annotator"].tolist())


def entry_ranks(result: Detection) -> dict[Any, int]:
    """Place of every annotator in the order of entering the path, the first is 1."""
    entry = result.annotators.set_index("annotator")["entry"].fillna(0.0)
    places = (-entry).rank(method="min").astype(int)
    return {label: int(place) for label, place in places.items()}


def _first(result: Detection, count: int) -> set[Any]:
    return {label for label, place in entry_ranks(result).items() if place <= count}


def _row(name: str, label: Any, by_path: dict[str, Detection], default: Detection) -> dict[str, Any]:
    """One listed annotator: clicks here and printed, entry ranks, and what the exact test says."""
    table = printed(PAPERS[name]).set_index("annotator")
    ours = default.annotators.set_index("annotator").loc[label]
    clicks = [int(table.loc[label, side]) if side in table else -1 for side in ("left", "right")]
    return {
        "annotator": int(label),
        "left": int(ours["left"]),
        "right": int(ours["right"]),
        "printed": clicks,
        "ranks": {path: entry_ranks(result)[label] for path, result in by_path.items()},
        "q_value": None if np.isnan(ours["q_value"]) else round(float(ours["q_value"]), 4),
        "finding": str(ours["finding"]),
    }


def _path(result: Detection) -> dict[str, Any]:
    """The path thinned for drawing, finding by annotator."""
    record = result.lbi.path
    keep = np.unique(np.linspace(0, len(record.times) - 1, MOST_POINTS).astype(int))
    finding = dict(zip(result.annotators["annotator"], result.annotators["finding"], strict=True))
    return {
        "times": np.round(record.times[keep], 5).tolist(),
        "gamma": np.round(record.gamma[keep].T, 3).tolist(),
        "finding": [str(finding[label]) for label in record.annotators],
    }


def _rankings(comparisons: Comparisons, listed: list[Any]) -> dict[str, Any]:
    """Original and corrected scores, printed and ours, against each other and against the true order of Table 5."""
    table = AnswerTable.of(comparisons)
    papers = np.flatnonzero(np.isin(table.annotators, listed))
    ours = np.flatnonzero(np.isin(table.annotators, detect(comparisons, q=Q, lbi=None).flagged))
    squares = ranking(table.answers, table.sums, papers, method="least squares")
    logistic = ranking(table.answers, table.sums, ours)
    place = {int(item): code for code, item in enumerate(table.items)}
    table4 = printed("paper_tables/table4_humanage_ranking.csv").set_index("item")
    scores = {
        "printed original": _by_code(-table4["original_rank"], place),
        "printed corrected": _by_code(-table4["corrected_rank"], place),
        "least squares": squares.raw,
        "least squares, the paper's 17 corrected": squares.theta,
        "our consensus": logistic.theta,
    }
    pairs = _true_pairs(place)
    return {
        "tau": {
            "original": _tau(scores["printed original"], scores["least squares"]),
            "corrected": _tau(scores["printed corrected"], scores["least squares, the paper's 17 corrected"]),
        },
        "right": {name: sum(bool(found[a] > found[b]) for a, b in pairs) for name, found in scores.items()},
        "pairs": len(pairs),
    }


def _by_code(values: Any, place: dict[int, int]) -> Floats:
    scores = np.zeros(len(place))
    for item, value in values.items():
        scores[place[int(item)]] = float(value)
    return scores


def _true_pairs(place: dict[int, int]) -> list[tuple[int, int]]:
    """Pairs (older, younger) of Table 5, whose rows list items from older to younger."""
    rows = printed("paper_tables/table5_humanage_true_order.csv")["older_to_younger"]
    return [pair for row in rows for pair in itertools.combinations([place[int(item)] for item in str(row).split()], 2)]


def _tau(one: Floats, other: Floats) -> float:
    return round(float(kendalltau(one, other).statistic), 4)


def _as_printed(comparisons: Comparisons, path: str, seed: int = 0) -> Detection:
    return detect(comparisons, q=Q, min_bias=0.0, decide_by="lbi", lbi=replace(AS_PRINTED, path=path, seed=seed))
