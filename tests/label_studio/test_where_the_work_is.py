"""Tabs, cards, follow-ups, judges, healing and disconnecting, on a real Label Studio."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from evenhand.domain import Trigger
from evenhand.publish.alerts import OWN_ANSWER
from evenhand.publish.follow_up import SOURCE, SWAPPED
from evenhand.publish.tabs import heaviest_tasks, title_of
from evenhand.web.dashboard.runs import trigger_words

from harness.label_studio import LabelStudioServer, Person
from harness.opened import token_header
from tests.label_studio.conftest import Evenhand, Stepped, started
from tests.label_studio.looking import (
    FIELDS,
    Json,
    alert_cards,
    alerts_projects,
    answer,
    decide,
    exported,
    latest_run,
    our_project,
    our_tabs,
    pair,
    shown_tasks,
    stored,
)
from tests.label_studio.storm import FORMS, storm

pytestmark = [pytest.mark.labelstudio, pytest.mark.slow]

CHOICES = (
    '<View><Text name="q" value="$prompt"/><Text name="one" value="$answer_a"/><Text name="two" value="$answer_b"/>'
    '<Choices name="best" toName="one" choice="single-radio"><Choice value="Answer A is better"/>'
    '<Choice value="Answer B is better"/><Choice value="About the same"/></Choices></View>'
)
MOODS = (
    '<View><Text name="one" value="$answer_a"/><Choices name="mood" toName="one"><Choice value="Good"/>'
    '<Choice value="Bad"/></Choices></View>'
)


def leaning_crowd(people: list[Person], leaning: list[Person], rng: random.Random, n: int = 150) -> list[Json]:
    """Repeated items in random order; those who lean click left."""
    tasks = []
    for _ in range(n):
        left, right = rng.sample(range(12), 2)
        honest = "left" if (left > right) != (rng.random() < 0.1) else "right"
        answers = [answer(p, "left" if p in leaning and rng.random() < 0.85 else honest) for p in people]
        tasks.append({"data": pair(f"m{left}", f"m{right}"), "annotations": answers})
    return tasks


def follow_ups(evenhand: Evenhand, project: int) -> list[Json]:
    """What followed confirmed flags, by our project id, the latest first."""
    with evenhand.store() as store:
        return [row for row in store.follow_ups.all(project) if row["detail"].get("done")]


def test_flagged_annotator_has_a_tab_a_card_and_what_follows_a_confirmation(
    label_studio: LabelStudioServer, evenhand: Evenhand, crowd: list[Person]
) -> None:
    people, leaning, title = crowd[:6], crowd[4], "Where the work is"
    project = label_studio.create_project(title, maximum_annotations=6)["id"]
    label_studio.import_tasks(project, leaning_crowd(people, [leaning], random.Random(11)))
    options = (
        "--publish",
        "tab,columns,alerts",
        "--after-confirm",
        "relabel",
        "--review-tasks",
        "10",
        "--names",
        "--yes",
    )
    evenhand.command("connect", str(project), *FIELDS, *options)
    ours = our_project(evenhand, project)
    tabs = evenhand.wait_for("a tab", lambda: our_tabs(label_studio, project))
    assert list(tabs) == [title_of(leaning.email)]
    listed = shown_tasks(label_studio, project, tabs[title_of(leaning.email)]["id"])
    assert len(listed) == 10
    for task in listed:
        (own,) = [a for a in task["annotations"] if a["completed_by"] == leaning.id]
        assert own["result"][0]["value"]["selected"] == "left"
        assert int(task["data"]["id1"][1:]) < int(task["data"]["id2"][1:])  # against what everybody else says
    cards = evenhand.wait_for("a card", lambda: alert_cards(label_studio, title))
    assert set(cards) == {str(leaning.id)}
    card = cards[str(leaning.id)]
    with evenhand.store() as store:
        watched, run = store.projects.get(ours), store.runs.latest(ours)
        heaviest = heaviest_tasks(store, watched, run, str(leaning.id), most=10)
    assert set(heaviest) == {task["id"] for task in listed}
    weights = [float(task["data"]["evenhand_weight"]) for task in listed]
    assert weights == sorted(weights, reverse=True)
    assert {task["data"]["evenhand_answer"] for task in listed} == {f"{leaning.email}: left"}
    assert all(task["data"]["evenhand_consensus"].startswith("right ") for task in listed)
    assert [int(number) for number in re.findall(r"data\?task=(\d+)", card["data"]["card"])] == heaviest[:3]

    # The person concerned decides: refused, and the card says so.
    decide(leaning, card, "Dismiss")
    evenhand.wait_for(
        "words on the card", lambda: OWN_ANSWER in alert_cards(label_studio, title)[str(leaning.id)]["data"]["card"]
    )

    with evenhand.store() as store:
        assert store.decisions.current(ours) == {}
    decide(crowd[0], card, "Confirm", "looked at ten tasks")
    (row,) = evenhand.wait_for("tasks to label anew", lambda: follow_ups(evenhand, ours))
    anew = label_studio.export(row["detail"]["project"])
    assert {task["data"][SOURCE] for task in anew} == {task["id"] for task in listed}
    sources = {task["id"]: task["data"] for task in listed}
    for task in anew:
        source, is_swapped = sources[task["data"][SOURCE]], task["data"][SWAPPED]
        order = ("id2", "id1", "text2", "text1") if is_swapped else ("id1", "id2", "text1", "text2")
        assert [task["data"][key] for key in ("id1", "id2", "text1", "text2")] == [source[key] for key in order]
    assert "relabel, 10 tasks" in evenhand.command("undo", str(project))
    assert "was deleted; it held no answers" in evenhand.command("undo", str(project), str(row["id"]))
    assert "undone" in evenhand.command("undo", str(project))

    # Tab and alerts project come back when somebody deletes them.
    (alerts,) = alerts_projects(label_studio, title)
    tabs = evenhand.wait_for("the tab", lambda: our_tabs(label_studio, project))
    label_studio.admin.call("DELETE", f"/api/projects/{alerts['id']}/")
    label_studio.admin.call("DELETE", f"/api/dm/views/{tabs[title_of(leaning.email)]['id']}/?project={project}")
    evenhand.command("sync", str(project), ok=False)  # the alerts project is gone, and the message says so
    evenhand.wait_for("the tab again", lambda: our_tabs(label_studio, project))
    evenhand.wait_for("the card again", lambda: alert_cards(label_studio, title))

    printed = evenhand.command("disconnect", str(project), "--alerts", "--erase", "--yes")
    assert "1 webhook, 1 ML backend, 1 tab," in printed
    assert label_studio.admin.call("GET", f"/api/webhooks/?project={project}") == []
    assert label_studio.admin.call("GET", f"/api/ml?project={project}") == []
    assert our_tabs(label_studio, project) == {}
    assert alerts_projects(label_studio, title) == []
    assert "No projects yet" in evenhand.command("status")
    assert len(exported(label_studio, project)) == 900  # nobody's answers are touched
    assert {name for task in label_studio.export(project) for name in task["data"]} == {"id1", "id2", "text1", "text2"}


def test_confirmed_flag_raises_the_overlap_and_undo_lowers_it(
    label_studio: LabelStudioServer, evenhand: Evenhand, crowd: list[Person]
) -> None:
    people, leaning, title = crowd[:6], crowd[2], "More overlap"
    project = label_studio.create_project(title, maximum_annotations=6)["id"]
    label_studio.import_tasks(project, leaning_crowd(people, [leaning], random.Random(12)))
    evenhand.command("connect", str(project), *FIELDS, "--after-confirm", "overlap", "--review-tasks", "5")
    ours = our_project(evenhand, project)
    evenhand.wait_for("a run", lambda: latest_run(evenhand, ours))
    body = {"annotator": str(leaning.id), "decision": "confirm"}
    auth, url = ("lead", "l3ad-pass"), f"{evenhand.url}/api/v1/projects/{ours}/decisions"
    assert requests.post(url, json=body, auth=auth, timeout=10).ok
    (row,) = evenhand.wait_for("more overlap", lambda: follow_ups(evenhand, ours))
    assert overlaps(label_studio, project, row["detail"]["tasks"]) == {(7, False)}
    assert "overlap of 5 tasks is as before" in evenhand.command("undo", str(project), str(row["id"]))
    assert overlaps(label_studio, project, row["detail"]["tasks"]) == {(6, True)}


def overlaps(label_studio: LabelStudioServer, project: int, tasks: list[int]) -> set[tuple[int, bool]]:
    """(overlap, completed) of these tasks."""
    path = f"/api/tasks?project={project}&fields=all&page_size=500"
    listed = label_studio.admin.call("GET", path)["tasks"]
    return {(task["overlap"], task["is_labeled"]) for task in listed if task["id"] in tasks}


OTHER_JUDGES = tuple(f"judge-{n}" for n in range(3))


def test_judges_are_read_from_predictions_and_odd_controls_refused_in_a_sentence(
    label_studio: LabelStudioServer, evenhand: Evenhand, crowd: list[Person]
) -> None:
    rng = random.Random(13)
    project = label_studio.create_project("Judges", CHOICES)["id"]
    tasks = []
    for number in range(80):
        better = rng.random() < 0.5
        votes = {"fair-judge": better != (rng.random() < 0.1), "left-judge": rng.random() < 0.95}
        votes |= {name: better != (rng.random() < 0.1) for name in OTHER_JUDGES}
        data = {"prompt": "?", "answer_a": f"a{number}", "answer_b": f"b{number}"}
        tasks.append({"data": data, "predictions": [prediction(name, vote) for name, vote in votes.items()]})
    ids = label_studio.import_tasks(project, tasks)
    crowd[0].submit(ids[0], [choice(True)])
    printed = evenhand.command("connect", str(project), "--judges", "predictions", "--sides", "shuffled")
    assert "left item 'answer_a', right item 'answer_b'" in printed
    ours = our_project(evenhand, project)
    rows = evenhand.wait_for("a run on all answers", lambda: flagged_judges(evenhand, ours))
    assert rows == {f"judge:{name}": name == "left-judge" for name in ("fair-judge", "left-judge", *OTHER_JUDGES)}
    with evenhand.store() as store:
        names = {key: person.name for key, person in store.annotators.get(ours).items()}
    assert names["judge:left-judge"] == "judge left-judge"

    # Nothing is published, so that there is no prediction of ours beside those of the judges, whoever asks.
    label_studio.admin.call("POST", f"/api/dm/actions?id=retrieve_tasks_predictions&project={project}", json={})
    made = label_studio.admin.call("GET", f"/api/predictions/?project={project}")
    assert [entry for entry in made if entry["model_version"].startswith("evenhand")] == []

    moods = label_studio.create_project("Moods", MOODS)["id"]
    said = evenhand.command("connect", str(moods), ok=False)
    assert "If 'mood' compares two items, say what its answers mean: --control mood --answers" in said


def flagged_judges(evenhand: Evenhand, project: int) -> dict[str, bool]:
    """Who is flagged, by annotator, once somebody is: the first run may have begun before all answers were read."""
    with evenhand.store() as store:
        run = store.runs.latest(project)
        rows = {row["annotator"]: bool(row["flagged"]) for row in store.findings.all(run.id)} if run else {}
    return rows if any(rows.values()) else {}


def choice(is_a: bool) -> Json:
    """An answer of the Choices control."""
    value = {"choices": ["Answer A is better" if is_a else "Answer B is better"]}
    return {"from_name": "best", "to_name": "one", "type": "choices", "value": value}


def prediction(name: str, is_a: bool) -> Json:
    """A judge's answer as an import takes it."""
    return {"model_version": name, "score": 0.5, "result": [choice(is_a)]}


BASIC = ("BASIC_AUTH_USER", "BASIC_AUTH_PASS")


@pytest.fixture
def closed_by(label_studio: LabelStudioServer, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Evenhand]:
    """A service on loopback that lacks the credentials that the test names."""
    service = Stepped(tmp_path, label_studio, label_studio.personal_access_token())
    for name in request.param:
        del service.environ[name]
    with started(service):
        yield service


def training_runs(evenhand: Evenhand, project: int) -> list[Any]:
    """Finished runs that "Start Training" asked for."""
    with evenhand.store() as store:
        rows = store.runs.page(project).rows
    return [row for row in rows if row["trigger"] == "start_training" and row["status"] == "done"]


@pytest.mark.parametrize(
    "closed_by",
    [(), BASIC, (*BASIC, "EVENHAND_WEBHOOK_SECRET")],
    ids=["basic and secret", "secret alone", "open on loopback"],
    indirect=True,
)
def test_start_training_gets_through_and_its_run_is_shown(
    label_studio: LabelStudioServer, crowd: list[Person], closed_by: Evenhand
) -> None:
    evenhand = closed_by
    project = label_studio.create_project("Training")["id"]
    people = crowd[:2]
    label_studio.import_tasks(project, leaning_crowd(people, [], random.Random(14), n=10))
    evenhand.command("connect", str(project), *FIELDS)
    ours = our_project(evenhand, project)
    evenhand.wait_for("the first run", lambda: latest_run(evenhand, ours))
    assert "ok   start training" in evenhand.command("doctor")
    (backend,) = label_studio.admin.call("GET", f"/api/ml?project={project}")
    label_studio.admin.call("POST", f"/api/ml/{backend['id']}/train", json={})
    evenhand.wait_for("its run", lambda: training_runs(evenhand, ours))
    is_open = BASIC[0] not in evenhand.environ
    runs = requests.get(
        f"{evenhand.url}/ui/projects/{ours}/runs",
        headers=token_header(evenhand.folder) if is_open else None,
        auth=None if is_open else ("lead", "l3ad-pass"),
        timeout=60,
    )
    assert f'<td data-label="Started">{trigger_words(Trigger.TRAINING)}' in runs.text
    assert "start training in Label Studio project" in evenhand.log()


def test_what_was_lost_is_read_right_after_a_start(
    label_studio: LabelStudioServer, evenhand: Evenhand, crowd: list[Person]
) -> None:
    project = label_studio.create_project("Healing")["id"]
    evenhand.command("connect", str(project), *FIELDS)
    (task,) = label_studio.import_tasks(project, [{"data": pair("m1", "m2")}])
    evenhand.stop(kill=True)
    crowd[0].annotate(task, "left")
    evenhand.start()
    evenhand.wait_for("the lost answer", lambda: stored(evenhand, project) == exported(label_studio, project))


def test_store_equals_the_export_after_a_storm(
    label_studio: LabelStudioServer, evenhand: Evenhand, crowd: list[Person]
) -> None:
    weather = storm(label_studio, evenhand, crowd[:5], operations=40, seed=2, forms=(FORMS[0], FORMS[3]))
    assert weather.done.total() >= 40
