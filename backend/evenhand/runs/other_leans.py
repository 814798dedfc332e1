"""Leans beyond position of a project, where its settings ask for them."""

from typing import Any

import pandas as pd

from evenhand.domain import Project
from evenhand.project_config import ProjectConfig
from evenhand.runs.statistics import coin_source_of
from evenhand.store import Store
from fdr_core import Comparisons
from fdr_core.errors import FdrCoreError
from fdr_core.other_leans import AGREEMENT, LeanList, detect_leans
from fdr_core.other_leans.features import without_taste
from fdr_core.other_leans.gold import GROUND_TRUTH
from fdr_core.report.document import LIST_KEYS, lean_document, only, taste_document

#: More answers are not read into memory for this.
MOST_ANSWERS = 500_000


def other_leans(store: Store, project: Project, config: ProjectConfig) -> dict[str, Any]:
    """What a report says of them, as plain values; a question that has no answer is one with its reason."""
    if not config.leans:
        return {"other_leans": [], "without_taste": None}
    try:
        data = _answers(store, project)
        lists = detect_leans(data, config.leans, q=config.q, with_position=False, **_gold(store, project, config, data))
        features = [name for name in config.leans if name != AGREEMENT]
        taste = without_taste(data, features) if features else None
    except FdrCoreError as error:
        refused = {
            "lean": ", ".join(config.leans),
            "chosen": "what was asked",
            "how": "goes with",
            "reasons": [str(error)],
        }
        told = {**only(refused, LIST_KEYS), "promise": "Nothing is promised: nobody was judged", "annotators": []}
        return {"other_leans": [told], "without_taste": None}
    told_of = [lean_document(one) for one in lists.values() if isinstance(one, LeanList)]
    return {"other_leans": told_of, "without_taste": taste_document(taste)}


def by_annotator(lists: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The rows of all lists by annotator and lean, each with its place, as they are stored with a run."""
    found: dict[str, dict[str, Any]] = {}
    for one in lists:
        for place, row in enumerate(one["annotators"]):
            found.setdefault(str(row["annotator"]), {})[one["lean"]] = {**row, "place": place}
    return found


def _answers(store: Store, project: Project) -> Comparisons:
    rows = pd.DataFrame(store.comparisons.with_texts(project.id))
    names = {"annotator_id": "annotator", "left_item": "left", "right_item": "right", "coin": coin_source_of(project)}
    table = rows.rename(columns={**names, "ground_truth": "is_ground_truth"}).drop(columns="created_at")
    return Comparisons.from_frame(table.head(MOST_ANSWERS))


def _gold(store: Store, project: Project, config: ProjectConfig, data: Comparisons) -> dict[str, Any]:
    """Quality as the owner names it; answers marked as ground truth only where that was named."""
    if config.lean_gold == (GROUND_TRUTH,):
        return {"gold": GROUND_TRUTH}
    people = store.annotators.get(project.id)
    ids = {person.email: key for key, person in people.items() if person.email}
    return {"reference": [ids.get(name, name) for name in config.lean_gold]}
