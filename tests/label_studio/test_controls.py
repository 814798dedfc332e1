"""Two questions about each pair, on a real Label Studio: judged together, then apart."""

from __future__ import annotations

import random
from typing import Any

import pytest

from harness.label_configs import TWO_QUESTIONS
from harness.label_studio import LabelStudioServer, Person, pairwise_result
from tests.label_studio.conftest import Evenhand
from tests.label_studio.looking import Json, alert_cards, our_project

pytestmark = [pytest.mark.labelstudio, pytest.mark.slow]

SIDES = {"left": 1.0, "right": -1.0}
CONTROLS = ["helpful", "harmless"]


def both(helpful: str, harmless: str) -> list[Json]:
    """What the labelling page writes for two answers."""
    return [*pairwise_result(helpful, "helpful"), *pairwise_result(harmless, "harmless")]


def asked_crowd(people: list[Person], leaning: dict[int, tuple[str, ...]], rng: random.Random) -> list[Json]:
    """A hundred pairs in random order; who leans on a question answers left to it."""
    tasks = []
    for _ in range(100):
        left, right = rng.sample(range(12), 2)
        truth = {"helpful": left > right, "harmless": (7 * left) % 12 > (7 * right) % 12}
        answers = []
        for number, person in enumerate(people):
            sides = {
                control: "left" if control in leaning.get(number, ()) or is_left != (rng.random() < 0.1) else "right"
                for control, is_left in truth.items()
            }
            result = both(sides["helpful"], sides["harmless"])
            answers.append({"result": result, "completed_by": person.id, "ground_truth": False, "lead_time": 3.0})
        data = {"prompt": "Say something", "answer_a": f"m{left}", "answer_b": f"m{right}"}
        tasks.append({"data": data, "annotations": answers})
    return tasks


def means(label_studio: LabelStudioServer, project: int) -> dict[int, float | None]:
    """Label Studio's own export: of each annotation the mean of its answers, None for skips."""
    found: dict[int, float | None] = {}
    for task in label_studio.export(project):
        for annotation in task["annotations"]:
            given = [] if annotation["was_cancelled"] else annotation["result"]
            sides = [SIDES[result["value"]["selected"]] for result in given]
            found[annotation["id"]] = sum(sides) / len(sides) if sides else None
    return found


def stored(evenhand: Evenhand, project: int) -> dict[int, float | None]:
    """The same from the service's database."""
    with evenhand.store() as store:
        rows = store.comparisons.rows(project)
    return {row["annotation_id"]: row["outcome"] for row in rows if row["status"] != "draft"}


def latest(evenhand: Evenhand, project: int, control: str | None) -> dict[str, Json]:
    """Annotators of the latest run if it was made with this deciding control."""
    with evenhand.store() as store:
        run = store.runs.latest(project)
        if run is None or run.config is None or (run.config["control"], run.config["controls"]) != (control, CONTROLS):
            return {}
        return {row["annotator"]: row for row in store.findings.all(run.id)}


def card_of(label_studio: LabelStudioServer, title: str, person: Person) -> str:
    """The card of somebody, as reviewers read it; nothing while there is none."""
    cards = alert_cards(label_studio, title)
    return str(cards[str(person.id)]["data"]["card"]) if str(person.id) in cards else ""


def flagged(table: dict[str, Any]) -> set[str]:
    return {key for key, row in table.items() if row["flagged"]}


def test_two_controls_are_judged_together_and_apart(
    label_studio: LabelStudioServer, evenhand: Evenhand, crowd: list[Person]
) -> None:
    people, title = crowd[:6], "Two questions"
    on_both, on_harmless = people[4], people[1]
    project = label_studio.create_project(title, TWO_QUESTIONS, maximum_annotations=6)["id"]
    leaning = {4: ("helpful", "harmless"), 1: ("harmless",)}
    label_studio.import_tasks(project, asked_crowd(people, leaning, random.Random(21)))

    # One control is read, and the other named.
    printed = evenhand.command("connect", str(project), "--sides", "shuffled")
    assert "reads:      control 'helpful' (pairwise), left item 'answer_a', right item 'answer_b'" in printed
    assert "not read: harmless; `--controls helpful,harmless` judges them together" in printed

    # Together: one annotation is one answer, however many controls it answers.
    printed = evenhand.command("connect", str(project), "--controls", "helpful,harmless")
    assert "controls 'helpful' (pairwise) and 'harmless' (pairwise) together" in printed
    ours = our_project(evenhand, project)
    table = evenhand.wait_for("a run of both together", lambda: latest(evenhand, ours, None))
    assert str(on_both.id) in flagged(table)
    assert flagged(table) <= {str(on_both.id), str(on_harmless.id)}
    assert {row["comparisons"] for row in table.values()} == {100}
    assert stored(evenhand, ours) == means(label_studio, project)

    # Edits of one of the two, skips and deletions arrive by events, or with the next pull where one got lost.
    exported = label_studio.export(project)
    first, second, third = (task["annotations"][0]["id"] for task in exported[:3])
    admin = label_studio.admin
    admin.call("PATCH", f"/api/annotations/{first}/", json={"result": both("left", "right")})
    admin.call("PATCH", f"/api/annotations/{second}/", json={"result": pairwise_result("right", "harmless")})
    admin.call("DELETE", f"/api/annotations/{third}/")
    people[0].submit(exported[3]["id"], [], was_cancelled=True)
    expected = means(label_studio, project)
    assert (expected[first], expected[second], third in expected) == (0.0, -1.0, False)
    evenhand.command("sync", str(project))
    evenhand.wait_for("the same answers", lambda: stored(evenhand, ours) == expected)

    # Apart: one decides, and every run says what the other one says; the card does too.
    printed = evenhand.command(
        "connect", str(project), "--control", "helpful", "--publish", "alerts", "--names", "--yes"
    )
    assert "apart ('helpful' decides, every other one is tested beside it)" in printed
    table = evenhand.wait_for("a run of both apart", lambda: latest(evenhand, ours, "helpful"))
    assert flagged(table) == {str(on_both.id)}
    beside = {key: row["controls"]["harmless"] for key, row in table.items()}
    assert flagged(beside) == {str(on_both.id), str(on_harmless.id)}
    # The card may have been made for the run before.
    evenhand.wait_for("what the other control says", lambda: "On “harmless”" in card_of(label_studio, title, on_both))
    assert "leans there too" in card_of(label_studio, title, on_both)
