"""The tasks behind a flag: those whose answers weigh most in it, heaviest first."""

from evenhand.domain import Project, Run
from evenhand.settings import Settings
from evenhand.store import Store
from fdr_core.report.heaviest import heaviest_answers

MOST_ANSWERS = 20_000


def heaviest_tasks(store: Store, project: Project, run: Run | None, annotator: str, *, most: int) -> list[int]:
    """Ids of the tasks whose answers by this annotator weigh most, heaviest first."""
    answers = store.comparisons.of_annotator(project.id, annotator, limit=MOST_ANSWERS)
    row = store.findings.get(run.id, annotator) if run else None
    lean = (row or {}).get("bias") or sum(
        answer["outcome"] or 0.0 for answer in answers if answer["status"] == "answer"
    )
    items = {answer[side] for answer in answers for side in ("left_item", "right_item") if answer[side]}
    scores = store.rankings.scores(run.id, items) if run else {}
    consensus = run.consensus if run else "logistic"
    weighed = heaviest_answers(answers, scores, lean, consensus=consensus, most=len(answers))
    tasks = dict.fromkeys(answer.row["task_id"] for answer in weighed if answer.row["task_id"] is not None)
    return list(tasks)[:most]


def task_link(project: Project, settings: Settings | None, task: int) -> str:
    """A task's address in Label Studio, as people reach it."""
    base = (settings.label_studio_public_url if settings else "") or project.ls_url
    return f"{base}/projects/{project.ls_project_id}/data?task={task}"
