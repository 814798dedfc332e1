"""The judged answers of a project, picked from all its rows by an independent rule and compared with the store's."""

from dataclasses import dataclass
from typing import Any, Literal

from evenhand.store import Store

from fdr_core import Comparisons, SufficientStatistics


@dataclass(frozen=True)
class JudgedAnswers:
    """Parallel columns, by annotation id."""

    seq: int
    annotation_id: list[int]
    annotator: list[str]
    left: list[str]
    right: list[str]
    outcome: list[float]
    coin: list[str]

    def __len__(self) -> int:
        return len(self.annotation_id)

    def statistics(self, coin_source: Literal["coin", "task"]) -> SufficientStatistics:
        """Statistics from scratch."""
        if not len(self):
            return SufficientStatistics()
        coins: dict[str, Any] = {coin_source: self.coin}
        return SufficientStatistics.from_comparisons(
            Comparisons.from_arrays(self.annotator, self.left, self.right, self.outcome, **coins)
        )


def judged_answers(store: Store, project_id: int) -> JudgedAnswers:
    """All judged answers; fails where the store's own stream of them differs."""
    config = store.projects.get(project_id).config
    kinds = {"answer", "prediction"} if config["count_predictions"] else {"answer"}
    rows = [
        row
        for row in store.comparisons.rows(project_id)
        if row["status"] in kinds
        and row["outcome"] is not None
        and (config["count_ground_truth"] or not row["ground_truth"])
    ]
    coins = [f"task:{row['task_id']}" if row["coin"] is None else row["coin"] for row in rows]
    names = ("annotation_id", "annotator_id", "left_item", "right_item", "outcome")
    key, annotator, left, right, outcome = ([row[name] for row in rows] for name in names)
    expected = list(zip(annotator, left, right, outcome, coins, strict=True))
    with store.comparisons.judged(project_id) as (seq, parts):
        assert [tuple(row) for part in parts for row in zip(*part, strict=True)] == expected
    return JudgedAnswers(seq, key, annotator, left, right, outcome, coins)
