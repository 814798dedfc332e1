"""Today, teams, one person everywhere and the page to hand out: each figure against the rows it is made of."""

from __future__ import annotations

import io
import re
from dataclasses import replace

import pytest
from evenhand.domain import Batch, Project, plain_answer
from evenhand.runs.today import DAY, DAYS, work
from evenhand.settings import Settings
from evenhand.store import Store
from flask.testing import FlaskClient

from harness import world
from tests.backend.dashboard.browsing import get, token, visible


def test_work_counts_answers_by_day_and_person_and_skips_apart(fresh: tuple[FlaskClient, Store, Settings]) -> None:
    _, store, _ = fresh
    project = world.register(store, 1, "Work")
    today = store.clock() // DAY * DAY
    given = [("1", 0, 4.0), ("1", 0, 8.0), ("1", 1, 6.0), ("2", 1, 2.0), ("2", DAYS - 1, 2.0), ("2", DAYS, 99.0)]
    rows = [
        plain_answer(k + 1, who, "a", "b", 1.0, at=today - back * DAY + 1.0, task=k + 1, lead_time=seconds)
        for k, (who, back, seconds) in enumerate(given)
    ]
    answer = plain_answer(99, "2", "a", "b", 1.0, at=today + 2.0, task=99, lead_time=50.0)
    skip = replace(answer, status="skip", outcome=None)
    store.comparisons.apply(project.id, Batch(comparisons=[*rows, skip]))
    found = work(store, project)
    one, two = found.people["1"], found.people["2"]
    assert (one["today"], one["yesterday"], one["answers"], one["seconds"], one["skipped"]) == (2, 1, 3, 6.0, 0.0)
    assert two["days"] == [1, *[0] * (DAYS - 3), 1, 0]
    assert (two["answers"], two["seconds"], two["skipped"]) == (2, 2.0, pytest.approx(1 / 3))
    assert (found.total["answers"], found.total["active"], found.total["before"]) == (5, 1, 2)
    assert found.total["seconds"] == 4.0
    assert work(store, project, among=["1"]).total["answers"] == 3
    assert work(store, world.register(store, 2, "Empty")).total["skipped"] is None


def test_today_names_who_is_to_be_reviewed_and_shows_weeks_and_agreement(
    client: FlaskClient, store: Store, judged: Project
) -> None:
    run = store.runs.latest(judged.id)
    assert run is not None
    daily = (run.summary or {})["daily"]
    page = get(client, f"/ui/projects/{judged.id}/today")
    assert f"{daily['alpha']:.2f}" in visible(page)
    who = store.findings.flagged(run.id)[0]
    section = page[page.index('id="review"') : page.index('id="changed"')]
    assert f"annotator?id={who}" in section
    trend = store.findings.rows(run.id, [who])[who]["trend"]
    assert sum(week[1] for week in trend["weeks"]) == store.findings.rows(run.id, [who])[who]["comparisons"]
    assert page.count('<svg class="weeks"') == 12
    everything = get(client, "/ui/today")
    assert "Captions" in everything
    assert f"/ui/projects/{judged.id}/today" in everything


def test_mapping_file_sets_teams_by_which_the_list_and_today_are_narrowed(
    client: FlaskClient, store: Store, judged: Project
) -> None:
    path = f"/ui/projects/{judged.id}"
    assert "example.com (12)" in visible(get(client, path))

    def send(text: str) -> int:
        form = {"csrf_token": token(client), "teams": (io.BytesIO(text.encode()), "teams.csv")}
        return client.post(f"{path}/teams", data=form, headers={"Accept": "text/html"}).status_code

    assert send("annotator,team\n1,North\nPERSON2@example.com,North\nPerson 03,South\nnobody,West\n") == 302
    assert store.annotators.teams(judged.id) == {"North": 2, "South": 1, "example.com": 9}
    narrowed = visible(get(client, f"{path}?team=North&show=everybody"))
    assert "2 annotators" in narrowed
    assert "Person 03" not in narrowed
    assert get(client, f"{path}/today?team=South").count('<svg class="weeks"') == 1
    assert get(client, f"{path}?plot=team").count("by team") == 1
    store.annotators.name(judged.id, {"1": ("Person 01", "person1@example.com")})
    assert store.annotators.teams(judged.id)["North"] == 2  # a name that is read again changes no team
    assert send("one column\n") == 400
    assert send("nobody,West\n") == 400


def test_one_person_is_found_over_all_projects(
    client: FlaskClient, store: Store, judged: Project, hostile: Project
) -> None:
    page = visible(get(client, "/ui/person?id=person3@example.com"))
    assert "Captions" in page
    assert page.count("Each project is judged by itself") == 1
    assert len(re.findall(r"annotator\?id=3", get(client, "/ui/person?id=3"))) == 2
    assert "No run knows" in visible(get(client, "/ui/person?id=nobody"))


def test_page_to_hand_out_names_nobody_else(client: FlaskClient, store: Store, judged: Project) -> None:
    page = visible(get(client, f"/ui/projects/{judged.id}/handout?id=3"))
    assert "Person 03" in page
    others = [f"Person {k:02d}" for k in range(1, 13) if k != 3]
    assert not [name for name in others if name in page]
    assert "It does not say why" in page
    assert client.get(f"/ui/projects/{judged.id}/handout?id=none").status_code == 404


def test_annotator_page_says_how_the_lean_was_seen_and_what_others_chose(
    client: FlaskClient, store: Store, judged: Project
) -> None:
    run = store.runs.latest(judged.id)
    assert run is not None
    row = store.findings.all(run.id)[0]
    page = visible(get(client, f"/ui/projects/{judged.id}/annotator?id={row['annotator']}"))
    assert f"{row['left']} of {row['left'] + row['right']} answers chose left" in page
    weighed = re.search(r"Task (\d+):\s*chose (left|right).*?of (\d+) others? (\d+) chose the left item", page, re.S)
    assert weighed is not None
    task, _, n, left = weighed.groups()
    rows = store.comparisons.rows(judged.id)
    (own,) = [one for one in rows if one["task_id"] == int(task)]
    pair = {own["left_item"], own["right_item"]}
    others = [
        one for one in rows if {one["left_item"], one["right_item"]} == pair and one["annotator_id"] != row["annotator"]
    ]
    chosen = [one["left_item"] if one["outcome"] > 0 else one["right_item"] for one in others if one["outcome"]]
    assert (int(n), int(left)) == (len(others), chosen.count(own["left_item"]))
