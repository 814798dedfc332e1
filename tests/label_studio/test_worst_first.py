"""Review tabs worst first, and no prediction that nobody asked for, on a real Label Studio."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import pytest
from evenhand.label_studio.review_fields import PREFIX, review_field
from evenhand.publish.review_tasks import heaviest_tasks
from evenhand.publish.tab import SUFFIX

from harness.label_studio import LabelStudioServer, Person
from tests.label_studio.conftest import Evenhand
from tests.label_studio.looking import (
    FIELDS,
    Json,
    answer,
    assert_equal_to_export,
    latest_run,
    our_project,
    our_tabs,
    pair,
    shown_tasks,
)

pytestmark = [pytest.mark.labelstudio, pytest.mark.slow]

MOST = 12  # beyond nine, so that ranks have to be ordered as numbers


def crowd_that_leans(people: list[Person], sides: dict[str, str], rng: random.Random, n: int = 150) -> list[Json]:
    """Tasks that everybody answered; `sides` has by e-mail address whose answers are mostly one side."""
    tasks = []
    for number in range(n):
        left, right = rng.sample(range(12), 2)
        honest = "left" if (left > right) != (rng.random() < 0.1) else "right"
        given = [(p, sides[p.email] if p.email in sides and rng.random() < 0.85 else honest) for p in people]
        data = {**pair(f"m{left}", f"m{right}"), "note": f"note {number}", "image": f"s3://bucket/{number}.png"}
        tasks.append({"data": data, "annotations": [answer(p, side) for p, side in given]})
    return tasks


def task_data(label_studio: LabelStudioServer, project: int) -> dict[int, Json]:
    """What every task holds, by id."""
    return {task["id"]: task["data"] for task in label_studio.export(project)}


def ranked(label_studio: LabelStudioServer, project: int) -> set[int]:
    """The tasks that carry a rank of ours."""
    data = task_data(label_studio, project)
    return {task for task, held in data.items() if any(name.startswith(PREFIX) for name in held)}


def orders(label_studio: LabelStudioServer, project: int) -> dict[str, list[int]]:
    """Task ids as the Data Manager lists them in each of our tabs, by title."""
    tabs = our_tabs(label_studio, project).items()
    return {title: [task["id"] for task in shown_tasks(label_studio, project, tab["id"])] for title, tab in tabs}


def heaviest(evenhand: Evenhand, project: int, people: list[Person]) -> dict[str, list[int]]:
    """Their heaviest tasks by the title of the tab, heaviest first."""
    with evenhand.store() as store:
        watched, run = store.projects.get(project), store.runs.latest(project)
        return {p.email + SUFFIX: heaviest_tasks(store, watched, run, str(p.id), most=MOST) for p in people}


def test_every_tab_is_worst_first_where_tasks_may_carry_their_rank(
    label_studio: LabelStudioServer, evenhand: Evenhand, crowd: list[Person]
) -> None:
    people, leaning = crowd[:6], [crowd[3], crowd[4]]
    project = label_studio.create_project("Worst first", maximum_annotations=6)["id"]
    sides = {person.email: "left" for person in leaning}
    label_studio.import_tasks(project, crowd_that_leans(people, sides, random.Random(21), n=60))
    untouched = task_data(label_studio, project)
    evenhand.command("connect", str(project), *FIELDS, "--publish", "tab", "--review-tasks", str(MOST), "--yes")
    ours = our_project(evenhand, project)
    evenhand.wait_for("two tabs", lambda: len(our_tabs(label_studio, project)) == 2)
    assert task_data(label_studio, project) == untouched
    assert all(order == sorted(order) for order in orders(label_studio, project).values())

    evenhand.command("connect", str(project), *FIELDS, "--publish", "tab,ranks", "--yes")
    expected = heaviest(evenhand, ours, leaning)
    evenhand.wait_for("tabs worst first", lambda: orders(label_studio, project) == expected)
    assert all(len(order) == MOST and order != sorted(order) for order in expected.values())
    held = task_data(label_studio, project)
    both = [[held[task].get(review_field(slot)) for slot in (1, 2)] for task in set().union(*expected.values())]
    assert any(None not in ranks and ranks[0] != ranks[1] for ranks in both)  # in both tabs, at another place in each
    assert {task: {k: v for k, v in data.items() if not k.startswith(PREFIX)} for task, data in held.items()} == (
        untouched
    )

    # Nothing comes of it: the answers are read as before, and no run follows.
    run = latest_run(evenhand, ours)
    evenhand.command("sync", str(project))
    assert_equal_to_export(evenhand, label_studio, project)
    assert latest_run(evenhand, ours).id == run.id
    with evenhand.store() as store:
        assert not any(name.startswith(PREFIX) for name in store.projects.get(ours).task_fields)

    # What people change in a task stays, and an order that was lost comes back with the next pull.
    first = expected[leaning[0].email + SUFFIX][0]
    changed = {**untouched[first], "note": "corrected"}
    label_studio.admin.call("PATCH", f"/api/tasks/{first}/", json={"data": changed})
    evenhand.command("sync", str(project))
    evenhand.wait_for("the rank again", lambda: orders(label_studio, project) == expected)
    assert task_data(label_studio, project)[first]["note"] == "corrected"

    evenhand.command("connect", str(project), *FIELDS, "--publish", "tab", "--yes")
    evenhand.wait_for("no rank", lambda: ranked(label_studio, project) == set())
    assert all(order == sorted(order) for order in orders(label_studio, project).values())
    assert task_data(label_studio, project) == {**untouched, first: changed}
    columns = label_studio.admin.call("GET", f"/api/dm/columns?project={project}")["columns"]
    assert not any(column["id"].startswith(PREFIX) for column in columns)

    evenhand.command("connect", str(project), *FIELDS, "--publish", "tab,ranks", "--yes")
    listed = {task for tasks in expected.values() for task in tasks}
    evenhand.wait_for("all ranks", lambda: ranked(label_studio, project) == listed)  # the last one changes no order
    assert orders(label_studio, project) == expected
    assert f"ranks from {len(listed)} tasks" in evenhand.command("disconnect", str(project), "--yes")
    assert task_data(label_studio, project) == {**untouched, first: changed}


def test_opened_task_shows_no_prediction_while_none_are_published(
    label_studio: LabelStudioServer, evenhand: Evenhand, crowd: list[Person]
) -> None:
    people = crowd[:4]
    project = label_studio.create_project("Quiet", maximum_annotations=4)["id"]
    ids = label_studio.import_tasks(project, crowd_that_leans(people, {}, random.Random(22), n=40))
    evenhand.command("connect", str(project), *FIELDS)
    evenhand.wait_for("a run", lambda: latest_run(evenhand, our_project(evenhand, project)))

    def look(person: Person) -> Json:
        opened: Json = person.call("GET", f"/api/tasks/{ids[0]}/")
        return opened

    # Label Studio asks for a prediction whenever a task without one is opened; its page asks several times at once.
    with ThreadPoolExecutor(len(people)) as pages:
        assert all(task["is_labeled"] for task in pages.map(look, people))
    label_studio.admin.call("POST", f"/api/dm/actions?id=retrieve_tasks_predictions&project={project}", json={})
    assert label_studio.admin.call("GET", f"/api/predictions/?project={project}") == []

    evenhand.command("connect", str(project), *FIELDS, "--publish", "predictions")
    predictions = f"/api/predictions/?project={project}"
    evenhand.wait_for("predictions", lambda: len(label_studio.admin.call("GET", predictions)) == len(ids))
    assert all(len(look(person)["predictions"]) == 1 for person in people)
