"""Who may decide, many flagged at once, problems that are solved, and a Label Studio that was away."""

from __future__ import annotations

import random

import pytest
import requests
from evenhand.publish.tabs import MOST_TABS, TITLE
from evenhand.settings import SECRET_HEADER

from harness.label_studio import LabelStudioServer, Person
from tests.label_studio.conftest import Evenhand, Stepped
from tests.label_studio.looking import (
    FIELDS,
    Json,
    alert_cards,
    answer,
    assert_equal_to_export,
    decide,
    our_project,
    our_tabs,
    pair,
    shown_tasks,
    stored,
)

pytestmark = [pytest.mark.labelstudio, pytest.mark.slow]


def leaning_crowd(honest: list[int], leaning: list[int], rng: random.Random, n: int) -> list[Json]:
    """Repeated items in random order, answered by these users; those who lean click left."""
    tasks = []
    for _ in range(n):
        left, right = rng.sample(range(12), 2)
        better = "left" if (left > right) != (rng.random() < 0.1) else "right"
        people = [Person("", "", "", id=number) for number in (*honest, *leaning)]
        answers = [answer(p, "left" if p.id in leaning and rng.random() < 0.9 else better) for p in people]
        tasks.append({"data": pair(f"m{left}", f"m{right}"), "annotations": answers})
    return tasks


def decisions(evenhand: Evenhand, project: int) -> dict[str, str]:
    """What stands decided, by annotator and by our project id."""
    with evenhand.store() as store:
        return {key: decision.decision for key, decision in store.decisions.current(project).items()}


def invented(card: Json, reviewer: Person) -> Json:
    """An event about an answer on a card that Label Studio does not hold."""
    result = [{"from_name": "decision", "to_name": "card", "type": "choices", "value": {"choices": ["Dismiss"]}}]
    moment = "2099-01-01T00:00:00.000000Z"
    fields = {"id": 999_999, "task": card["id"], "completed_by": reviewer.id, "result": result, "was_cancelled": False}
    told = {**fields, "created_at": moment, "updated_at": moment, "project": card["project"]}
    return {
        "action": "ANNOTATION_CREATED",
        "annotation": told,
        "task": {"id": card["id"], "data": card["data"]},
        "project": {"id": card["project"]},
    }


def test_only_reviewers_decide_and_only_what_label_studio_holds(
    label_studio: LabelStudioServer, evenhand: Evenhand, crowd: list[Person]
) -> None:
    leaning, stranger, reviewer, title = crowd[4], crowd[0], crowd[1], "Reviewers"
    project = label_studio.create_project(title, maximum_annotations=6)["id"]
    honest = [person.id for person in (*crowd[:4], crowd[5])]
    label_studio.import_tasks(project, leaning_crowd(honest, [leaning.id], random.Random(31), 80))
    evenhand.command(
        "connect", str(project), *FIELDS, "--publish", "alerts", "--reviewers", reviewer.email, "--names", "--yes"
    )
    ours, key = our_project(evenhand, project), str(leaning.id)
    card = evenhand.wait_for("a card", lambda: alert_cards(label_studio, title))[key]

    secret = {SECRET_HEADER: evenhand.environ["EVENHAND_WEBHOOK_SECRET"]}
    event = requests.post(f"{evenhand.url}/webhook", json=invented(card, reviewer), headers=secret, timeout=10)
    assert event.ok
    decide(stranger, card, "Dismiss")
    evenhand.wait_for("a refusal", lambda: "not one of the project's reviewers" in evenhand.command("status"))
    assert decisions(evenhand, ours) == {}

    decide(reviewer, card, "Confirm")
    evenhand.wait_for("a decision", lambda: decisions(evenhand, ours) == {key: "confirm"})


def test_many_flagged_share_one_tab(label_studio: LabelStudioServer, evenhand: Evenhand, crowd: list[Person]) -> None:
    project = label_studio.create_project("Many", maximum_annotations=40)["id"]
    more = [label_studio.add_person(f"leaning{number:02}@example.com") for number in range(MOST_TABS - 7)]
    honest, leaning = [person.id for person in crowd[:8]], [person.id for person in (*crowd[8:], *more)]
    assert len(leaning) == MOST_TABS + 1
    label_studio.import_tasks(project, leaning_crowd(honest, leaning, random.Random(32), 60))
    evenhand.command("connect", str(project), *FIELDS, "--publish", "tab", "--names", "--yes")
    tabs = evenhand.wait_for("a tab", lambda: our_tabs(label_studio, project))
    assert list(tabs) == [TITLE]
    assert len(shown_tasks(label_studio, project, tabs[TITLE]["id"])) == 60


def test_problem_names_its_project_and_leaves_the_status_when_it_is_solved(
    label_studio: LabelStudioServer, evenhand: Evenhand, crowd: list[Person]
) -> None:
    project = label_studio.create_project("Solved")["id"]
    evenhand.command("connect", str(project), *FIELDS, "--sides", "shuffled")
    (task,) = label_studio.import_tasks(project, [{"data": pair("m1", "m2")}])
    odd = {"value": {"selected": "sideways"}, "from_name": "pw", "to_name": "pw", "type": "pairwise"}
    annotation = crowd[0].submit(task, [odd])
    problem = f"Problem, project {project} (Solved): 1 answer cannot be judged"
    evenhand.wait_for("the problem", lambda: problem in evenhand.command("status"))
    crowd[0].edit(annotation["id"], "left")
    evenhand.command("sync", str(project))
    assert "Problem" not in evenhand.command("status")


def test_what_happened_out_of_reach_is_read_when_label_studio_is_back(
    label_studio: LabelStudioServer, evenhand: Stepped, crowd: list[Person]
) -> None:
    project = label_studio.create_project("Away")["id"]
    evenhand.command("connect", str(project), *FIELDS, "--sides", "shuffled")
    evenhand.wire.is_cut = True
    # Of imported answers no event tells.
    tasks = [{"data": pair("m1", f"m{n}"), "annotations": [answer(crowd[0], "left")]} for n in range(2, 7)]
    label_studio.import_tasks(project, tasks)
    evenhand.round()
    assert stored(evenhand, project) == {}
    evenhand.wire.is_cut = False
    evenhand.round()
    assert len(stored(evenhand, project)) == 5
    assert_equal_to_export(evenhand, label_studio, project)
    assert "Label Studio is back" in evenhand.log()
