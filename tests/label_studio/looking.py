"""What people see in Label Studio and in the service, for the tests of this folder."""

from __future__ import annotations

from typing import Any

from evenhand.label_studio.payloads import ALERT_ANNOTATOR
from evenhand.publish.tabs import is_ours

from harness.label_studio import LabelStudioServer, Person, pairwise_result
from tests.label_studio.conftest import Evenhand

Json = dict[str, Any]
Rows = dict[int, tuple[int, str, float | None, str, str]]
FIELDS = ("--item-left", "id1", "--item-right", "id2")


def pair(left: str, right: str) -> Json:
    """Task data of two items that are named apart from their texts."""
    return {"text1": f"text {left}", "text2": f"text {right}", "id1": left, "id2": right}


def answer(person: Person, side: str) -> Json:
    """An annotation as an import takes it."""
    return {"result": pairwise_result(side), "completed_by": person.id, "ground_truth": False, "lead_time": 3.0}


def exported(label_studio: LabelStudioServer, project: int) -> Rows:
    """Label Studio's own export as annotation id to (task, annotator, outcome, left item, right item)."""
    rows: Rows = {}
    for task in label_studio.export(project):
        for annotation in task["annotations"]:
            outcome = None
            given = [result for result in annotation["result"] if result["from_name"] == "pw"]
            if not annotation["was_cancelled"] and given:
                outcome = {"left": 1.0, "right": -1.0}[given[0]["value"]["selected"]]
            user, data = str(annotation["completed_by"]), task["data"]
            rows[annotation["id"]] = (task["id"], user, outcome, data["id1"], data["id2"])
    return rows


def stored(evenhand: Evenhand, ls_project: int) -> Rows:
    """The same from the service's database."""
    with evenhand.store() as store:
        project = next(p for p in store.projects.all() if p.ls_project_id == ls_project)
        return {
            row["annotation_id"]: (
                row["task_id"], row["annotator_id"], row["outcome"], row["left_item"], row["right_item"]
            )
            for row in store.comparisons.rows(project.id)
            if row["status"] != "draft"
        }  # fmt: skip


def assert_equal_to_export(evenhand: Evenhand, label_studio: LabelStudioServer, project: int) -> None:
    """Nothing is lost, added or read otherwise."""
    assert stored(evenhand, project) == exported(label_studio, project)


def our_project(evenhand: Evenhand, ls_project: int) -> int:
    """The id a project has in the service's database."""
    with evenhand.store() as store:
        return next(p.id for p in store.projects.all() if p.ls_project_id == ls_project)


def problems(evenhand: Evenhand, ls_project: int) -> set[str]:
    """Codes of what is wrong with a project."""
    with evenhand.store() as store:
        ours = next(p.id for p in store.projects.all() if p.ls_project_id == ls_project)
        return {problem.code for problem in store.problems.find(ours)}


def views(label_studio: LabelStudioServer, project: int) -> list[Json]:
    """The tabs of a project."""
    found: list[Json] = label_studio.admin.call("GET", f"/api/dm/views/?project={project}")
    return found


def shown_tasks(label_studio: LabelStudioServer, project: int, view: int) -> list[Json]:
    """The tasks that a tab lists."""
    path = f"/api/tasks?project={project}&view={view}&page_size=200&fields=all"
    found: list[Json] = label_studio.admin.call("GET", path)["tasks"]
    return found


def our_tabs(label_studio: LabelStudioServer, project: int) -> dict[str, Json]:
    """Our tabs by title."""
    return {v["data"]["title"]: v for v in views(label_studio, project) if is_ours(v["data"]["title"])}


def alerts_projects(label_studio: LabelStudioServer, title: str) -> list[Json]:
    """The alerts projects that belong to a project of this title."""
    listed = label_studio.admin.call("GET", "/api/projects/?page_size=100")["results"]
    return [p for p in listed if p["title"] == f"Position bias: {title}"[:50].strip()]


def alert_cards(label_studio: LabelStudioServer, title: str) -> dict[str, Json]:
    """Cards by annotator, from the one alerts project as Label Studio shows it; none before it is there."""
    projects = alerts_projects(label_studio, title)
    assert len(projects) <= 1
    if not projects:
        return {}
    (project,) = projects
    tasks = label_studio.admin.call("GET", f"/api/tasks?project={project['id']}&fields=all&page_size=100")["tasks"]
    return {task["data"][ALERT_ANNOTATOR]: task for task in tasks}


def decide(reviewer: Person, card: Json, choice: str, comment: str = "") -> None:
    """Answer a card as a reviewer does."""
    result = [{"from_name": "decision", "to_name": "card", "type": "choices", "value": {"choices": [choice]}}]
    if comment:
        result.append({"from_name": "comment", "to_name": "card", "type": "textarea", "value": {"text": [comment]}})
    reviewer.submit(card["id"], result)


def latest_run(evenhand: Evenhand, project: int) -> Any:
    """The latest finished run of a project, by our id."""
    with evenhand.store() as store:
        return store.runs.latest(project)
