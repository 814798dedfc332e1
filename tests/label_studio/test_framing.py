"""A colleague frames somebody in a real Label Studio: by edits, deletions, and answers given another author."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest

from harness.label_studio import LabelStudioServer, Person, pairwise_result
from tests.label_studio.conftest import Evenhand
from tests.label_studio.looking import FIELDS, Json, answer, latest_run, our_project, pair

pytestmark = [pytest.mark.labelstudio, pytest.mark.slow]
ATTACKED = 24


def by_side(label_studio: LabelStudioServer, project: int, person: Person, side: str) -> list[int]:
    """Ids of a person's answers for a side."""
    return [
        annotation["id"]
        for task in label_studio.export(project)
        for annotation in task["annotations"]
        if annotation["completed_by"] == person.id and annotation["result"] == pairwise_result(side)
    ]


def edit(colleague: Person, victim: Person, rights: Sequence[int], lefts: Sequence[int]) -> None:
    for number in rights:
        colleague.edit(number, "left")


def delete(colleague: Person, victim: Person, rights: Sequence[int], lefts: Sequence[int]) -> None:
    for number in rights:
        colleague.call("DELETE", f"/api/annotations/{number}/")


def attribute(colleague: Person, victim: Person, rights: Sequence[int], lefts: Sequence[int]) -> None:
    for number in lefts:
        colleague.call("PATCH", f"/api/annotations/{number}/", json={"completed_by": victim.id})


def honest(crowd: Sequence[Person], rng: random.Random) -> list[Json]:
    """Pairs in random order, each answered by three of the crowd as the items deserve."""
    tasks = []
    for _ in range(120):
        left, right = rng.sample(range(12), 2)
        sides = ["left" if (left > right) != (rng.random() < 0.25) else "right" for _ in crowd]
        tasks.append({"data": pair(f"m{left}", f"m{right}"), "annotations": list(map(answer, crowd, sides))})
    return tasks


@pytest.mark.parametrize(
    ("attack", "told"),
    [(edit, "edited, by"), (delete, "removed, by whom is not known"), (attribute, "given another author, by")],
    ids=["edit", "delete", "completed_by"],
)
def test_framing_ends_in_no_flag_and_a_named_problem(
    label_studio: LabelStudioServer, evenhand: Evenhand, crowd: list[Person], attack: Callable[..., None], told: str
) -> None:
    victim, colleague, others = crowd[0], crowd[1], crowd[2:5]
    project = label_studio.create_project(f"Framed by {attack.__name__}", maximum_annotations=4)["id"]
    label_studio.import_tasks(project, honest([victim, *others], random.Random(5)))
    evenhand.command("connect", str(project), *FIELDS, "--sides", "shuffled", "--yes")
    ours = our_project(evenhand, project)
    rights = by_side(label_studio, project, victim, "right")[:ATTACKED]
    lefts = by_side(label_studio, project, others[0], "left")[:ATTACKED]
    assert len(rights) == len(lefts) == ATTACKED
    attack(colleague, victim, rights, lefts)
    evenhand.command("sync", str(project))
    evenhand.command("run", str(project))
    run = evenhand.wait_for("a run", lambda: latest_run(evenhand, ours))
    with evenhand.store() as store:
        rows = store.findings.all(run.id)
        messages = [problem.message for problem in store.problems.find(ours) if problem.code == "answers_revised"]
    assert run.audit["how"] != "none"
    assert [row["annotator"] for row in rows if row["flagged"] or row["persistent"]] == []
    assert len(messages) == 1
    assert told in messages[0]
    assert str(colleague.id) in messages[0] or attack is delete
