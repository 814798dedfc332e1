"""What controls beside the one that decides say about annotators: each tested on its own answers, with its own list."""

from collections.abc import Hashable
from typing import Any

from evenhand.domain import Project
from evenhand.project_config import ProjectConfig
from evenhand.projects.reading import reading_of
from evenhand.runs.statistics import coin_source_of
from evenhand.store import Store
from fdr_core import Comparisons, SufficientStatistics, detect
from fdr_core.report.values import plain

#: What is kept of each annotator.
KEPT = ("comparisons", "left", "right", "ties", "bias", "p_value", "q_value", "flagged")


def judged_beside(store: Store, project: Project) -> dict[str, dict[str, Any]]:
    """By annotator and control, what an exact test of that control's answers says; empty where one control is read.

    Every list holds its own error rate; together they may hold as many times that as there are lists.
    """
    reading = reading_of(project)
    found: dict[str, dict[str, Any]] = {}
    for control in reading.beside if reading else ():
        for row in _tested(store, project, control.name):
            found.setdefault(str(row["annotator"]), {})[control.name] = {name: plain(row[name]) for name in KEPT}
    return found


def _tested(store: Store, project: Project, control: str) -> list[dict[Hashable, Any]]:
    """The annotator table of one control's answers."""
    statistics, coin_source = SufficientStatistics(), coin_source_of(project)
    with store.comparisons.answered(project.id, control) as parts:
        for annotator, left, right, outcome, coin in parts:
            statistics.add(Comparisons.from_arrays(annotator, left, right, outcome, **{coin_source: coin}))
    if not len(statistics):
        return []
    config = ProjectConfig.model_validate(project.config)
    detection = detect(statistics, q=config.q, min_bias=config.min_bias, sides=config.sides, lbi=None)
    return detection.annotators.to_dict("records")
