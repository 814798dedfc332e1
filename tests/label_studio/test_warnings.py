"""Who is warned of in a real Label Studio, who is not, and how soon it is seen."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
from evenhand.publish.tabs import is_ours

from fdr_core.findings import LEANS_LEFT
from fdr_core.report.words import ASK_SIDES
from harness.label_studio import LabelStudioServer, Person
from tests.label_studio.conftest import Evenhand, Stepped, started
from tests.label_studio.looking import (
    FIELDS,
    Json,
    alert_cards,
    alerts_projects,
    answer,
    latest_run,
    our_project,
    pair,
    views,
)
from tests.label_studio.receiver import Receiver, receiving

pytestmark = [pytest.mark.labelstudio, pytest.mark.slow]
PUBLISH = ("--publish", "all", "--names", "--yes")


@pytest.fixture
def chat() -> Iterator[Receiver]:
    """A chat channel."""
    with receiving() as receiver:
        yield receiver


@pytest.fixture
def evenhand(label_studio: LabelStudioServer, tmp_path: Path, chat: Receiver) -> Iterator[Stepped]:
    """A running service that tells a chat channel."""
    service = Stepped(tmp_path, label_studio, label_studio.personal_access_token())
    service.environ["EVENHAND_ALERT_WEBHOOK_URL"] = chat.url
    with started(service):
        yield service


def page(evenhand: Evenhand, path: str) -> str:
    """A page of the dashboard, as the lead sees it."""
    answered = requests.get(f"{evenhand.url}/ui{path}", auth=("lead", "l3ad-pass"), timeout=10)
    assert answered.ok, f"{path}: {answered.status_code}"
    return answered.text


def unique_pairs(raters: list[Person], rng: random.Random, n: int = 60) -> list[Json]:
    """Unique prompts; model X always stands left and is the better one in about 85 % of the eyes of honest raters."""
    tasks = []
    for number in range(n):
        is_better = rng.random() < 0.85
        answers = [answer(p, "left" if is_better != (rng.random() < 0.05) else "right") for p in raters]
        tasks.append({"data": pair(f"X{number}", f"Y{number}"), "annotations": answers})
    return tasks


def test_honest_raters_of_one_order_unique_pairs_are_never_named_anywhere(
    label_studio: LabelStudioServer, evenhand: Stepped, crowd: list[Person], chat: Receiver
) -> None:
    raters, title = crowd[:8], "Model X left"
    project = label_studio.create_project(title, maximum_annotations=9)["id"]
    label_studio.import_tasks(project, unique_pairs(raters, random.Random(1)))
    printed = evenhand.command("connect", str(project), *FIELDS, *PUBLISH)
    assert "480 annotations on 60 tasks" in printed
    assert "nobody can be judged" in printed
    assert f"Next: Say how sides were assigned: `evenhand connect {project} --sides" in printed
    ours = our_project(evenhand, project)
    run = evenhand.wait_for("a run", lambda: latest_run(evenhand, ours))
    assert run.audit["how"] == "none"
    # More one-sided answers, live, by events.
    extra = label_studio.import_tasks(project, [{"data": pair(f"X{n}", f"Y{n}")} for n in range(60, 64)])
    for task in extra:
        for person in raters[:2]:
            person.annotate(task, "left")
    evenhand.wait_for("the events", lambda: project_counts(evenhand, ours) == 488)
    evenhand.command("run", str(project))
    evenhand.round()
    evenhand.round()  # nothing is published, and nobody told
    with evenhand.store() as store:
        _, evidence = store.live.standing(ours)
        assert len(evidence) == 8
        assert store.live.warned(ours) == {}
        assert store.flags.all(ours) == []
    rows = findings(evenhand, ours)
    assert {row["finding"] for row in rows} == {ASK_SIDES}
    assert alerts_projects(label_studio, title) == []
    assert not [view for view in views(label_studio, project) if is_ours(view["data"]["title"])]
    assert chat.messages == []
    shown = page(evenhand, f"/projects/{ours}")
    assert "early warning</span>" not in shown
    assert ASK_SIDES in shown
    assert f"evenhand connect {project} --sides shuffled" in shown

    # The owner states that sides were shuffled (wrongly): warnings come; and takes it back: they go, with a note.
    said = evenhand.command("connect", str(project), "--sides", "shuffled", "--yes")
    assert "annotators can be judged" in said
    evenhand.wait_for("warnings", lambda: warned(evenhand, ours))
    evenhand.wait_for("a message", lambda: "early warning" in chat.kinds())
    evenhand.command("connect", str(project), "--sides", "unknown", "--yes")
    evenhand.wait_for("no warnings", lambda: not warned(evenhand, ours))
    evenhand.wait_for("a note to the chat", lambda: "warning withdrawn" in chat.kinds())
    status = evenhand.command("status")
    assert f"Problem, project {project} ({title})" in status
    assert "withdrawn" in status
    with evenhand.store() as store:
        assert [line["sides"] for line in store.statements.all(ours)] == ["unknown", "shuffled"]
        assert store.flags.all(ours) == []
    evenhand.wait_for("cards gone", lambda: not alert_cards(label_studio, title))


def project_counts(evenhand: Evenhand, project: int) -> int:
    """Judged answers of a project, by our id."""
    with evenhand.store() as store:
        return store.projects.get(project).counts.get("judged", 0)


def warned(evenhand: Evenhand, project: int) -> list[str]:
    """Who is warned of, by our project id."""
    with evenhand.store() as store:
        return list(store.live.warned(project))


def honest_answers(raters: list[Person], rng: random.Random, n: int = 120) -> list[Json]:
    """Repeated items in random order; the one with the higher number is nearly always preferred."""
    tasks = []
    for _ in range(n):
        left, right = rng.sample(range(12), 2)
        side = "left" if (left > right) != (rng.random() < 0.05) else "right"
        tasks.append({"data": pair(f"m{left}", f"m{right}"), "annotations": [answer(p, side) for p in raters]})
    return tasks


def test_newcomer_who_clicks_one_side_is_seen_in_the_next_round_of_the_worker(
    label_studio: LabelStudioServer, evenhand: Stepped, crowd: list[Person]
) -> None:
    raters, newcomer, title = crowd[:3], crowd[9], "Newcomer"
    project = label_studio.create_project(title, maximum_annotations=4)["id"]
    label_studio.import_tasks(project, honest_answers(raters, random.Random(3)))
    printed = evenhand.command("connect", str(project), *FIELDS, *PUBLISH)
    assert "annotators can be judged by the coins of the tasks" in printed
    ours = our_project(evenhand, project)
    evenhand.wait_for("the first audit", lambda: latest_run(evenhand, ours))
    # The consensus prefers the right item every time; the newcomer clicks left.
    tasks = label_studio.import_tasks(project, [{"data": pair(f"m{n % 4}", f"m{n % 4 + 6}")} for n in range(8)])
    evenhand.wait_for("the last run to end", lambda: not is_busy(evenhand, ours))
    for task in tasks:
        newcomer.annotate(task, "left")
    evenhand.round()
    assert "early warning</span>" in page(evenhand, f"/projects/{ours}/annotator?id={newcomer.id}")
    found = page(evenhand, f"/projects/{ours}?search={newcomer.email}")
    assert newcomer.email in found  # the name came with the first sight, without a pull
    assert "early warning" in found
    told = evenhand.get(f"/api/v1/projects/{ours}")
    assert told["warned"] == 1
    card = alert_cards(label_studio, title)
    assert set(card) == {str(newcomer.id)}
    assert "data?task=" in card[str(newcomer.id)]["data"]["card"]
    run = evenhand.wait_for("a run", lambda: (r := latest_run(evenhand, ours)) and r.trigger == "warning" and r)
    assert run.requested_at is not None


def is_busy(evenhand: Evenhand, project: int) -> bool:
    """Whether a run waits or runs."""
    with evenhand.store() as store:
        newest = store.runs.latest(project, status=None)
        return newest is not None and newest.status in ("queued", "running")


def test_usual_rlhf_design_is_judged_once_the_owner_says_how_sides_were_assigned(
    label_studio: LabelStudioServer, evenhand: Evenhand, crowd: list[Person]
) -> None:
    rng, raters, leaning = random.Random(5), crowd[:7], crowd[7]
    tasks = []
    for number in range(60):
        better = rng.choice(("left", "right"))
        answers = [answer(p, better if rng.random() < 0.9 else rng.choice(("left", "right"))) for p in raters]
        answers.append(answer(leaning, "left" if number % 15 else "right"))
        tasks.append({"data": pair(f"a{number}", f"b{number}"), "annotations": answers})
    project = label_studio.create_project("Unique prompts", maximum_annotations=8)["id"]
    label_studio.import_tasks(project, tasks)
    printed = evenhand.command("connect", str(project), *FIELDS)
    assert "reads:      control 'pw' (pairwise), left item 'id1', right item 'id2'" in printed
    ours = our_project(evenhand, project)
    evenhand.wait_for("a run", lambda: latest_run(evenhand, ours))
    assert finding(evenhand, ours, leaning) == ASK_SIDES
    assert "shuffled by us per task" in evenhand.command("connect", str(project), "--sides", "shuffled")
    evenhand.wait_for("a run after the statement", lambda: finding(evenhand, ours, leaning) == LEANS_LEFT)
    with evenhand.store() as store:
        (line,) = store.statements.all(ours)
        assert (line["sides"], bool(line["said_by"]), line["said_at"] > 0) == ("shuffled", True, True)
    assert [row["finding"] for row in findings(evenhand, ours)].count(LEANS_LEFT) == 1


def findings(evenhand: Evenhand, project: int) -> list[Json]:
    """What the latest run says of everybody."""
    with evenhand.store() as store:
        run = store.runs.latest(project)
        assert run is not None
        return store.findings.all(run.id)


def finding(evenhand: Evenhand, project: int, person: Person) -> str:
    """What the latest run says of somebody."""
    (row,) = [row for row in findings(evenhand, project) if row["annotator"] == str(person.id)]
    return str(row["finding"])
