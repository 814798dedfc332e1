"""What the audit says about a project's answers now, without judging anybody: what an owner wants to know first."""

from dataclasses import dataclass

from evenhand.domain import Project
from evenhand.project_config import ProjectConfig
from evenhand.runs.live import sides_remedy
from evenhand.runs.run import note_left_out
from evenhand.runs.statistics import StatisticsCache
from evenhand.store import Store
from fdr_core.answer_table import AnswerTable
from fdr_core.audit import audit
from fdr_core.errors import FdrCoreError

HOW = {
    "own coins": "annotators can be judged by their own coins",
    "shared coins": "annotators can be judged by the coins of the tasks",
    "both orders": "annotators can be judged by pairs shown in both orders",
    "sides fixed": "annotators can be judged with the sides as they stood; early warnings are not given",
    "none": "nobody can be judged yet",
}


@dataclass(frozen=True)
class FirstLook:
    """The audit in words, and the next step."""

    answers: int
    audit: str
    next_step: str


def first_look(store: Store, project: Project, *, page: str) -> FirstLook:
    """Audit the stored answers of a project; `page` is where results will be shown."""
    config = ProjectConfig.model_validate(project.config)
    statistics = StatisticsCache(store).catch_up(project).statistics
    if not len(statistics):
        return FirstLook(0, "no answers yet", f"let people label; results appear at {page}")
    note_left_out(store, project, statistics)
    answers = len(statistics)
    try:
        asked = config.options.construction
        found = audit(AnswerTable.of(statistics).audit_input(), q=config.q, method=asked, sides=config.sides)
    except FdrCoreError as error:
        return FirstLook(answers, str(error), "change the project's settings as the message says")
    said = f"{HOW[found.how]}. {found.reasons[-1] if found.reasons else ''}".strip()
    if found.how != "none":
        return FirstLook(answers, said, f"a run has been asked for; see {page}")
    if found.assessable.any():
        return FirstLook(answers, said, sides_remedy(project))
    return FirstLook(answers, said, f"let people label more; results appear at {page}")
