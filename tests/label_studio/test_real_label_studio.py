"""The whole way against a real Label Studio: connect, annotate, lose events, heal, flag, publish, decide."""

from __future__ import annotations

import random

import pytest
from evenhand.publish.tabs import is_ours, title_of
from evenhand.settings import SECRET_HEADER

from fdr_core.findings import ALWAYS_LEFT, ALWAYS_RIGHT, LEANS_LEFT, LEANS_RIGHT
from harness.block_list import BLOCKED
from harness.label_studio import LabelStudioServer, Person, pairwise_result
from tests.label_studio.conftest import Evenhand, Processes, Stepped
from tests.label_studio.looking import (
    Json,
    alert_cards,
    assert_equal_to_export,
    decide,
    exported,
    our_project,
    pair,
    problems,
    stored,
)

pytestmark = [pytest.mark.labelstudio, pytest.mark.slow]


def numbered(number: int) -> Json:
    return pair(f"m{number}", f"m{number + 1}")


def test_store_equals_the_export_after_edits_deletions_imports_and_down_time(
    label_studio: LabelStudioServer, processes: Processes, crowd: list[Person]
) -> None:
    ann, bob, cat = crowd[:3]
    project = label_studio.create_project("Every way to change", maximum_annotations=3)["id"]
    printed = processes.command("connect", str(project), "--item-left", "id1", "--item-right", "id2")
    assert "first pull: 0 annotations" in printed
    (hook,) = label_studio.admin.call("GET", f"/api/webhooks/?project={project}")
    assert hook["headers"] == {SECRET_HEADER: "w3bhook-secret"}
    (backend,) = label_studio.admin.call("GET", f"/api/ml?project={project}")
    assert backend["state"] == "CO"

    tasks = label_studio.import_tasks(project, [{"data": numbered(number)} for number in range(8)])
    made = [person.annotate(task, side) for task in tasks[:6] for person, side in ((ann, "left"), (bob, "right"))]
    ann.edit(made[0]["id"], "right")
    cat.submit(tasks[0], [], was_cancelled=True)
    cat.submit(tasks[1], [])
    bob.call("DELETE", f"/api/annotations/{made[1]['id']}/")
    label_studio.admin.call("DELETE", f"/api/tasks/{tasks[5]}/")
    # Events alone carry all of this; nothing is pulled here.
    processes.wait_for("events", lambda: stored(processes, project) == exported(label_studio, project))
    assert len(stored(processes, project)) == 11

    annotations = [
        {"result": pairwise_result("left"), "completed_by": person.id, "ground_truth": False} for person in (ann, bob)
    ]
    label_studio.import_tasks(project, [{"data": numbered(n), "annotations": annotations} for n in range(20, 25)])
    assert len(exported(label_studio, project)) == 21
    assert "10 added" in processes.command("sync")
    assert_equal_to_export(processes, label_studio, project)

    processes.stop(kill=True)
    cat.annotate(tasks[2], "right")
    ann.edit(made[4]["id"], "right")
    bob.call("DELETE", f"/api/annotations/{made[7]['id']}/")
    label_studio.admin.call("DELETE", f"/api/tasks/{tasks[4]}/")
    assert stored(processes, project) != exported(label_studio, project)
    processes.start()
    processes.command("sync")
    assert_equal_to_export(processes, label_studio, project)

    cat.annotate(tasks[3], "left")
    processes.wait_for(
        "events after the restart", lambda: stored(processes, project) == exported(label_studio, project)
    )
    assert "FAIL" not in processes.command("doctor")
    for secret in ("w3bhook-secret", "l3ad-pass", processes.environ["LABEL_STUDIO_API_KEY"]):
        assert secret not in processes.log()


def test_event_without_the_secret_only_asks_for_a_look_and_doctor_tells(
    label_studio: LabelStudioServer, evenhand: Evenhand, crowd: list[Person]
) -> None:
    project = label_studio.create_project("Wrong secret")["id"]
    evenhand.command("connect", str(project), "--item-left", "id1", "--item-right", "id2")
    (hook,) = label_studio.admin.call("GET", f"/api/webhooks/?project={project}")
    fields = {"url": hook["url"], "headers": {}}
    label_studio.admin.call("PATCH", f"/api/webhooks/{hook['id']}/", json=fields)
    (task,) = label_studio.import_tasks(project, [{"data": numbered(1)}])
    crowd[0].annotate(task, "left")
    assert stored(evenhand, project) == {}
    assert f"FAIL project {project}: webhook" in evenhand.command("doctor", ok=False)
    evenhand.wait_for("a look", lambda: stored(evenhand, project) == exported(label_studio, project))
    (hook,) = label_studio.admin.call("GET", f"/api/webhooks/?project={project}")
    assert SECRET_HEADER in hook["headers"], "the worker puts back what is missing"

    # One that somebody takes away is put back, too, and named until events tell everything again.
    crowd[1].annotate(task, "left")
    evenhand.wait_for("an event", lambda: stored(evenhand, project) == exported(label_studio, project))
    label_studio.admin.call("DELETE", f"/api/webhooks/{hook['id']}/")
    crowd[2].annotate(task, "left")
    assert f"FAIL project {project}: webhook" in evenhand.command("doctor", ok=False)
    evenhand.stop()
    evenhand.start()
    evenhand.wait_for("a problem", lambda: "webhook_gone" in problems(evenhand, project))
    assert len(label_studio.admin.call("GET", f"/api/webhooks/?project={project}")) == 1


def simulate(crowd: list[Person], biased: dict[int, str], rng: random.Random) -> list[Json]:
    """Tasks with answers of honest people, and of biased ones who click their side four times out of five."""
    tasks = []
    for number in range(420):
        left, right = rng.sample(range(20), 2)
        data = pair(f"m{left}", f"m{right}")
        people = rng.sample(crowd, 3 if number < 400 else 1)
        tasks.append({"data": data, "annotations": [_answer(p, biased, left, right, rng) for p in people]})
    return tasks


def _answer(person: Person, biased: dict[int, str], left: int, right: int, rng: random.Random) -> Json:
    # Items are ordered by number; neighbours are hard to tell apart.
    honest = "left" if rng.random() < 1 / (1 + 2.718281828 ** (-0.35 * (left - right))) else "right"
    side = biased[person.id] if person.id in biased and rng.random() < 0.8 else honest
    return {"result": pairwise_result(side), "completed_by": person.id, "ground_truth": False, "lead_time": 3.0}


def predictions(label_studio: LabelStudioServer, project: int) -> list[Json]:
    found: list[Json] = label_studio.admin.call("GET", f"/api/predictions/?project={project}")
    return found


def task_states(label_studio: LabelStudioServer, project: int) -> dict[int, bool]:
    """Whether Label Studio regards each task as completed."""
    path = f"/api/tasks?project={project}&fields=task_only&include=id,is_labeled&page_size=1000"
    return {task["id"]: task["is_labeled"] for task in label_studio.admin.call("GET", path)["tasks"]}


def flagged(evenhand: Evenhand, project: int) -> set[str]:
    with evenhand.store() as store:
        return {flag["annotator_id"] for flag in store.flags.all(project)}


def decisions(evenhand: Evenhand, project: int) -> dict[str, Json]:
    with evenhand.store() as store:
        return {row["annotator_id"]: row for row in store.decisions.page(project).rows}


def test_simulated_crowd_is_flagged_published_and_decided(
    label_studio: LabelStudioServer, evenhand: Evenhand, crowd: list[Person]
) -> None:
    truth = {crowd[3].id: "left", crowd[8].id: "right", crowd[12].id: "left"}
    title = "Crowd"
    project = label_studio.create_project(title, maximum_annotations=3)["id"]
    label_studio.import_tasks(project, simulate(crowd, truth, random.Random(7)))
    fields = ["--item-left", "id1", "--item-right", "id2"]
    printed = evenhand.command("connect", str(project), *fields, "--publish", "all", "--names", "--yes")
    assert "1,220 annotations on 420 tasks" in printed
    ours = our_project(evenhand, project)
    evenhand.command("run", str(project))
    evenhand.wait_for("flags", lambda: flagged(evenhand, ours))

    expected = {str(person) for person in truth}
    found = flagged(evenhand, ours)
    assert expected <= found
    assert len(found - expected) <= 1

    shown = evenhand.wait_for("predictions", lambda: predictions(label_studio, project))
    completed = task_states(label_studio, project)
    assert sum(completed.values()) == 400
    assert all(entry["result"] and completed[entry["task"]] for entry in shown)
    assert 390 <= len({entry["task"] for entry in shown}) == len(shown)

    def tabs() -> dict[str, Json]:
        views = label_studio.admin.call("GET", f"/api/dm/views/?project={project}")
        ours = {view["data"]["title"]: view for view in views if is_ours(view["data"]["title"])}
        return ours if len(ours) == len(found) else {}

    shown_tabs = evenhand.wait_for("the tabs", tabs)
    emails = {str(person.id): person.email for person in crowd}
    assert set(shown_tabs) == {title_of(emails[key]) for key in found}
    for key in found:
        path = f"/api/tasks?project={project}&view={shown_tabs[title_of(emails[key])]['id']}&page_size=1000"
        listed = label_studio.admin.call("GET", path)["tasks"]
        assert 0 < len(listed) <= 30
        assert all(key in {str(person) for person in task["annotators"]} for task in listed)

    cards = evenhand.wait_for("the cards", lambda: alert_cards(label_studio, title))
    assert set(cards) == found
    for card in cards.values():
        assert card["data"]["finding"] in (LEANS_LEFT, LEANS_RIGHT, ALWAYS_LEFT, ALWAYS_RIGHT)

    confirmed, dismissed, *_ = sorted(expected)
    decide(crowd[0], cards[confirmed], "Confirm", "looked at ten tasks")
    evenhand.wait_for("a decision by event", lambda: confirmed in decisions(evenhand, ours))
    evenhand.stop()
    decide(crowd[0], cards[dismissed], "Dismiss", "left-handed mouse")
    evenhand.start()
    evenhand.command("sync", str(project))
    made = decisions(evenhand, ours)
    assert (made[confirmed]["decision"], made[dismissed]["decision"]) == ("confirm", "dismiss")
    assert made[dismissed]["comment"] == "left-handed mouse"
    assert {made[confirmed]["author"], made[dismissed]["author"]} == {crowd[0].email}
    with evenhand.store() as store:
        assert [p.title for p in store.projects.all()] == [title]
        assert store.decisions.verify(ours).intact

    # A deleted answer reopens its task: the winner shown there has to go.
    reopened = shown[0]["task"]
    annotation = label_studio.admin.call("GET", f"/api/tasks/{reopened}/annotations/")[0]
    label_studio.admin.call("DELETE", f"/api/annotations/{annotation['id']}/")
    evenhand.command("sync", str(project))

    def winner_is_gone() -> bool:
        return reopened not in {entry["task"] for entry in predictions(label_studio, project)}

    evenhand.wait_for("the winner taken back", winner_is_gone)


def test_connect_where_our_address_is_blocked_names_the_settings(
    label_studio: LabelStudioServer, evenhand: Stepped
) -> None:
    evenhand.environ["EVENHAND_PUBLIC_URL"] = f"http://{BLOCKED}:{evenhand.port}"
    project = label_studio.create_project("Blocked")["id"]
    printed = evenhand.command("connect", str(project), ok=False)
    assert "SSRF_PROTECTION_ENABLED=false" in printed
    assert "ML_BLOCK_LOCAL_IP=false" in printed
    assert label_studio.admin.call("GET", f"/api/ml?project={project}") == []
    assert label_studio.admin.call("GET", f"/api/webhooks/?project={project}") == []
