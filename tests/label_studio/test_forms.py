"""What annotators really give, on a real Label Studio: rankings, questions that change, accounts that are removed."""

from __future__ import annotations

import random
from itertools import combinations
from typing import Any

import pytest

from harness.label_configs import PAIRWISE_SIDE_BY_SIDE
from harness.label_studio import LabelStudioServer, pairwise_result
from tests.label_studio.conftest import Evenhand
from tests.label_studio.looking import FIELDS, Json, alert_cards, answer, decide, our_project, pair

pytestmark = [pytest.mark.labelstudio, pytest.mark.slow]

RANKER = (
    '<View><Text name="prompt" value="$prompt"/><List name="answers" value="$answers" title="Answers"/>'
    '<Ranker name="rank" toName="answers"/></View>'
)


def ranking(*order: str) -> list[Json]:
    """What the labelling page writes for a ranking of all items."""
    value = {"ranker": {"rank": list(order)}}
    return [{"from_name": "rank", "to_name": "answers", "type": "ranker", "value": value}]


def listed(rng: random.Random, *items: str) -> Json:
    """A task with a list of items in random order."""
    shown = rng.sample(items, len(items))
    return {
        "prompt": "Say something",
        "answers": [{"id": item, "title": item, "body": f"text {item}"} for item in shown],
    }


def expected_pairs(label_studio: LabelStudioServer, project: int) -> set[tuple[Any, ...]]:
    """Every pair of every ranking in Label Studio's own export, taken apart here."""
    found = set()
    for task in label_studio.export(project):
        shown = [entry["id"] for entry in task["data"]["answers"]]
        for annotation in task["annotations"]:
            if not annotation["result"]:
                continue
            place = {name: at for at, name in enumerate(annotation["result"][0]["value"]["ranker"]["rank"])}
            for one, other in combinations([name for name in shown if name in place], 2):
                won = 1.0 if place[one] < place[other] else -1.0
                found.add((task["id"], str(annotation["completed_by"]), f"text {one}", f"text {other}", won))
    return found


def stored_pairs(evenhand: Evenhand, ls_project: int) -> set[tuple[Any, ...]]:
    with evenhand.store() as store:
        rows = store.comparisons.rows(our_project(evenhand, ls_project))
    names = ("task_id", "annotator_id", "left_item", "right_item", "outcome")
    return {tuple(row[name] for name in names) for row in rows if row["status"] == "answer"}


def test_every_pair_of_a_ranking_is_stored_by_event_and_by_pull(
    label_studio: LabelStudioServer, evenhand: Evenhand, crowd: list[Any]
) -> None:
    rng = random.Random(5)
    project = label_studio.create_project("Rankings", RANKER, maximum_annotations=3)["id"]
    tasks = label_studio.import_tasks(project, [{"data": listed(rng, "a", "b", "c", "d")} for _ in range(6)])
    printed = evenhand.command("connect", str(project), "--sides", "shuffled")
    assert "control 'rank' (ranker) (every pair of a ranking counts)" in printed
    given = [
        (person, person.submit(task, ranking(*rng.sample("abcd", 4))))
        for person in crowd[:3]
        for task in rng.sample(tasks, 3)
    ]
    assert stored_pairs(evenhand, project) == expected_pairs(label_studio, project)
    person, first = given[0]
    person.call("PATCH", f"/api/annotations/{first['id']}/", json={"result": ranking("d", "a")})
    person, second = given[1]
    person.call("DELETE", f"/api/annotations/{second['id']}/")
    assert stored_pairs(evenhand, project) == expected_pairs(label_studio, project)
    assert len(stored_pairs(evenhand, project)) == 7 * 6 + 1
    # What does not fit its list is kept with the reason, whatever way it came.
    crowd[4].submit(tasks[0], ranking("a", "nobody"))
    assert "which the task's list lacks" in evenhand.command("status")
    evenhand.command("sync", str(project), "--full")
    assert stored_pairs(evenhand, project) == {
        row for row in expected_pairs(label_studio, project) if row[1] != str(crowd[4].id)
    }


def test_a_question_above_and_a_rename_change_no_answer_until_somebody_says_so(
    label_studio: LabelStudioServer, evenhand: Evenhand, crowd: list[Any]
) -> None:
    project = label_studio.create_project("Questions", maximum_annotations=3)["id"]
    tasks = label_studio.import_tasks(project, [{"data": pair(f"l{k}", f"r{k}")} for k in range(4)])
    evenhand.command("connect", str(project), *FIELDS)
    crowd[0].annotate(tasks[0], "left")
    style = PAIRWISE_SIDE_BY_SIDE.replace("<Pairwise", '<Pairwise name="style" toName="left,right"/><Pairwise', 1)
    label_studio.admin.call("PATCH", f"/api/projects/{project}/", json={"label_config": style})
    crowd[1].submit(tasks[1], pairwise_result("right", "style"))
    crowd[1].submit(tasks[2], [*pairwise_result("right", "style"), *pairwise_result("left")])

    def outcomes() -> list[float | None]:
        with evenhand.store() as store:
            return [row["outcome"] for row in store.comparisons.rows(our_project(evenhand, project))]

    assert outcomes() == [1.0, None, 1.0]
    renamed = PAIRWISE_SIDE_BY_SIDE.replace('name="pw"', 'name="quality"')
    label_studio.admin.call("PATCH", f"/api/projects/{project}/", json={"label_config": renamed})
    crowd[2].submit(tasks[3], pairwise_result("right", "quality"))
    evenhand.command("sync", str(project), "--full")
    assert outcomes() == [1.0, None, 1.0, -1.0]
    assert "the labelling setup has changed" in evenhand.command("status")
    assert "FAIL project" in evenhand.command("doctor", ok=False)
    evenhand.command("connect", str(project), "--changed-setup", "anew")
    assert outcomes() == [1.0, None, 1.0, -1.0]
    assert "the labelling setup has changed" not in evenhand.command("status")


def test_a_removed_account_keeps_answers_flag_and_card(label_studio: LabelStudioServer, evenhand: Evenhand) -> None:
    rng, title = random.Random(11), "Removed"
    people = [label_studio.add_person(f"leaving{number}@example.com") for number in range(5)]
    leaver = people[0]
    project = label_studio.create_project(title, maximum_annotations=5)["id"]
    tasks = []
    for _ in range(60):
        left, right = rng.sample(range(10), 2)
        sides = ["left", *("left" if (left > right) != (rng.random() < 0.1) else "right" for _ in people[1:])]
        answers = [answer(person, side) for person, side in zip(people, sides, strict=True)]
        tasks.append({"data": pair(f"m{left}", f"m{right}"), "annotations": answers})
    label_studio.import_tasks(project, tasks)
    published = ("--publish", "alerts", "--names", "--yes")
    evenhand.command("connect", str(project), *FIELDS, "--sides", "shuffled", *published)
    card = evenhand.wait_for("a card", lambda: alert_cards(label_studio, title))[str(leaver.id)]
    assert leaver.email in card["data"]["annotator"]
    decide(people[1], card, "Confirm", "one side throughout")

    def decided() -> list[str]:
        with evenhand.store() as store:
            known = store.decisions.current(our_project(evenhand, project))
        return [known[key].decision for key in known if key == str(leaver.id)]

    assert evenhand.wait_for("the decision", decided) == ["confirm"]
    label_studio.admin.call("DELETE", f"/api/users/{leaver.id}/")
    assert None in {a["completed_by"] for task in label_studio.export(project) for a in task["annotations"]}
    evenhand.command("sync", str(project), "--full")
    ours = our_project(evenhand, project)
    with evenhand.store() as store:
        given = store.comparisons.of_annotator(ours, str(leaver.id))
        assert [row["outcome"] for row in given if row["status"] == "answer"] == [1.0] * 60
        assert store.annotators.get(ours)[str(leaver.id)].name == f"removed (was {leaver.email})"
        assert str(leaver.id) in {flag["annotator_id"] for flag in store.flags.all(ours)}
        assert "unreadable_answers" not in {problem.code for problem in store.problems.find(ours)}

    def renamed() -> Json | None:
        found = alert_cards(label_studio, title)[str(leaver.id)]
        return found if "removed (was" in found["data"]["annotator"] else None

    assert decided() == ["confirm"]
    kept = evenhand.wait_for("the card under the former name", renamed)
    assert kept is not None
    assert (kept["data"]["answers"], kept["data"]["lean"]) == (card["data"]["answers"], card["data"]["lean"])
