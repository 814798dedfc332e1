"""Reviewing without a browser: the queue, decisions and their undo, leans in words, what to label again."""

from __future__ import annotations

import csv
import io
import itertools
import math
import re
from statistics import median

import pytest
from evenhand.domain import Project
from evenhand.settings import Settings
from evenhand.store import Store
from flask.testing import FlaskClient

from fdr_core.report.words import lean_interval, lean_words, lean_x
from harness import world
from tests.backend.dashboard.browsing import get, person_url, post, visible


def test_undo_appends_a_withdrawal_and_the_earlier_decision_holds_again(
    client: FlaskClient, store: Store, judged: Project
) -> None:
    path = f"/ui/projects/{judged.id}/decisions"
    post(client, path, annotator="5", decision="watch")
    post(client, path, annotator="5", decision="confirm")
    newest = store.decisions.current(judged.id)["5"]
    for _ in range(2):  # pressed twice, withdrawn once
        assert post(client, f"{path}/{newest.number}/withdraw").status_code == 302
    assert store.decisions.current(judged.id)["5"].decision == "watch"
    log = store.decisions.page(judged.id, annotator_id="5").rows
    assert [entry["decision"] for entry in log] == ["withdraw", "confirm", "watch"]
    assert store.decisions.verify(judged.id).intact
    assert "Withdrawn" in visible(get(client, path))
    assert post(client, f"{path}/{log[0]['number']}/withdraw").status_code == 404
    post(client, f"{path}/{log[2]['number']}/withdraw")
    assert "5" not in store.decisions.current(judged.id)


def test_queue_decides_one_after_the_other_and_ends_at_the_list(fresh: tuple[FlaskClient, Store, Settings]) -> None:
    client, store, _ = fresh
    project = world.simulated(store, 1, "Queue", annotators=12, biased=3, answers=80, bias=0.9, seed=5)
    world.judge(store, project)
    run = store.runs.latest(project.id)
    assert run is not None
    flagged = store.findings.flagged(run.id)
    assert len(flagged) >= 2
    page = visible(get(client, f"/ui/projects/{project.id}"))
    assert f"Reviewed 0 of {len(flagged)}" in page
    assert f"{len(flagged)} annotators match" in page
    path = f"/ui/projects/{project.id}/decisions"
    for here, following in itertools.pairwise(flagged):
        answer = post(client, path, annotator=here, decision="confirm", advance="1")
        assert answer.location == person_url(project, following)
    answer = post(client, path, annotator=flagged[-1], decision="dismiss", advance="1")
    assert answer.location == f"/ui/projects/{project.id}/next"
    page = visible(get(client, answer.location))
    assert f"Reviewed {len(flagged)} of {len(flagged)}" in page
    assert f"{len(flagged)} flagged: {len(flagged) - 1} confirmed, 1 dismissed." in page
    assert "Undo" in page


def test_next_step_costs_what_the_lean_can_have_changed_and_its_file_names_exactly_that(
    client: FlaskClient, store: Store, judged: Project
) -> None:
    path = f"/ui/projects/{judged.id}"
    run = store.runs.latest(judged.id)
    assert run is not None
    who = store.findings.flagged(run.id)[0]
    assert "Nobody is confirmed" in visible(get(client, f"{path}/next"))
    post(client, f"{path}/decisions", annotator=who, decision="confirm")
    rows = list(csv.DictReader(io.StringIO(get(client, f"{path}/relabel.csv"))))
    page = visible(get(client, f"{path}/next"))
    assert rows
    assert f"{len(rows)} answers may be among them" in page
    row = store.findings.get(run.id, who)
    assert row is not None
    side = 1 if row["bias"] > 0 else -1
    own = {str(one["task_id"]): one for one in store.comparisons.of_annotator(judged.id, who)}
    assert {one["annotator"] for one in rows} == {who}
    assert all(own[one["task"]]["outcome"] == side for one in rows)
    chances = [float(one["probability"]) for one in rows]
    assert chances == sorted(chances, reverse=True)
    assert chances[-1] >= 0.1
    others = [one["median_lead_time"] for one in store.findings.all(run.id) if one["annotator"] != who]
    assert f"{math.ceil(median(others) * len(rows) / 60)} min" in page
    assert post(client, f"{path}/relabel-tab").status_code == 400  # no Label Studio is configured
    store.decisions.withdraw(judged.id, store.decisions.current(judged.id)[who].number, author="local")
    assert client.get("/ui/projects/999/relabel.csv").status_code == 404


def test_problem_of_several_projects_is_one_banner(fresh: tuple[FlaskClient, Store, Settings]) -> None:
    client, store, _ = fresh
    for number in (1, 2, 3):
        project = world.register(store, number, f"Project {number}")
        store.problems.open(project.id, "pull_failed", "Label Studio could not be reached", "Start it.")
    page = get(client, "/ui/status")
    assert page.count("Label Studio could not be reached</strong>") == 1
    assert re.search(r"3 projects affected:\s+Project 1\s+,\s+Project 2\s+,\s+Project 3\s+\.", visible(page))


def test_problem_whose_calls_alone_differ_is_one_banner_on_the_first_page_too(
    fresh: tuple[FlaskClient, Store, Settings],
) -> None:
    client, store, _ = fresh
    for number in (1, 2):
        project = world.register(store, number, f"Project {number}")
        told = f"Label Studio could not be reached (ConnectionError) (GET /api/projects/{number}/)"
        store.problems.open(project.id, "pull_failed", told, "run `evenhand doctor`")
    store.problems.open(1, "odd", "only here", "look")
    page = get(client, "/ui/")
    assert page.count("Label Studio could not be reached</strong>") == 1
    assert "(2 projects)" in visible(page)
    assert "run <code>evenhand doctor</code>." in page
    assert "Technical detail: ConnectionError, GET /api/projects/" in visible(page)
    assert "only here" not in visible(page)
    assert "Only here" in visible(get(client, "/ui/projects/1"))


@pytest.mark.parametrize(
    ("row", "words", "interval"),
    [
        ({"bias": 0.65, "bias_low": 0.46, "bias_high": 0.83}, "left 0.65", "0.46 to 0.83"),
        ({"bias": -0.4, "bias_low": -0.6, "bias_high": -0.2}, "right 0.40", "0.20 to 0.60"),
        ({"bias": 0.05, "bias_low": -0.1, "bias_high": 0.2}, "left 0.05", "right 0.10 to left 0.20"),
        ({"bias": -0.001, "bias_low": -0.1, "bias_high": 0.1}, "0.00", "left 0.10 to right 0.10"),
        ({"bias": None, "bias_low": None, "bias_high": None}, "–", ""),
    ],
)
def test_lean_is_told_by_its_side_and_drawn_on_it(row: dict[str, float | None], words: str, interval: str) -> None:
    assert (lean_words(row["bias"]), lean_interval(row)) == (words, interval)
    if row["bias"]:
        assert (lean_x(row["bias"]) < 60) == (row["bias"] > 0)


def test_decision_is_recorded_with_author_and_shown_in_the_log(
    client: FlaskClient, store: Store, judged: Project
) -> None:
    path = f"/ui/projects/{judged.id}/decisions"
    assert post(client, path, annotator="3", decision="dismiss", comment="left-handed screen").status_code == 302
    page = visible(get(client, person_url(judged, "3")))
    assert "left-handed screen" in page
    assert "Dismissed" in page
    (entry,) = store.decisions.page(judged.id, annotator_id="3").rows
    assert (entry["author"], entry["source"], entry["decision"]) == ("local", "dashboard", "dismiss")
    assert "The log is intact" in visible(get(client, path))


@pytest.mark.parametrize(
    ("form", "status"),
    [
        ({"annotator": "1", "decision": "punish"}, 400),
        ({"annotator": "nobody", "decision": "confirm"}, 404),
        ({"annotator": "1", "decision": "watch", "comment": "x" * 5001}, 400),
    ],
)
def test_decision_that_cannot_be_taken_is_refused(
    client: FlaskClient, judged: Project, form: dict[str, str], status: int
) -> None:
    assert post(client, f"/ui/projects/{judged.id}/decisions", **form).status_code == status


def test_label_again_groups_tasks_by_pair_and_leaves_certain_orders_out(store: Store, hostile: Project) -> None:
    run = store.runs.latest(hostile.id)
    assert run is not None
    again = (run.summary or {})["label_again"]
    assert again
    assert len({frozenset((row["above"], row["below"])) for row in again}) == len(again)
    assert all(0.5 <= row["probability"] <= 0.95 for row in again)
    turns = [row["turns"] for row in again]
    assert turns == sorted(turns, reverse=True)
    first = again[0]
    scores = store.rankings.scores(run.id, [first["above"], first["below"]])
    assert first["difference"] == pytest.approx(scores[first["above"]] - scores[first["below"]])
    tasks = store.tasks.get(hostile.id, first["tasks"]).values()
    assert {frozenset((task.left_item, task.right_item)) for task in tasks} == {
        frozenset((first["above"], first["below"]))
    }
    on_pair = [
        task.task_id
        for task in store.tasks.all(hostile.id)
        if {task.left_item, task.right_item} == {first["above"], first["below"]}
    ]
    assert first["n_tasks"] == len(on_pair)
    assert first["tasks"] == on_pair[: len(first["tasks"])]
