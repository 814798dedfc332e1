"""A storm of random operations on projects of every form, after which the store must equal Label Studio's export.

python -m tests.label_studio.storm [operations] [seed] [stepped], the last for a service in this process: quicker
"""

from __future__ import annotations

import random
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

from harness.label_configs import PAIRWISE_SIDE_BY_SIDE
from harness.label_studio import LabelStudioServer, Person, pairwise_result
from tests.label_studio.conftest import Evenhand, Processes, Stepped
from tests.label_studio.looking import FIELDS, Json, pair, problems

SIDES = {"left": 1.0, "right": -1.0}
ABOVE = '<Pairwise name="style" toName="left,right"/>'
#: Names that the question has had; who annotates answers under the one that it has now.
NAMES = ("pw", "quality")
WORDS = {"Answer A is better": 1.0, "Answer B is better": -1.0, "About the same": 0.0}
#: Problems that name answers which were given and are not read.
NAMED = {"setup_changed", "reads_less", "unreadable_answers", "configuration"}
#: (left item, right item, outcome)
Meaning = tuple[str, str, float]


@dataclass(frozen=True)
class Form:
    """A way to ask: the labelling setup, a task's data, an answer as the page writes it, and what it means."""

    name: str
    config: str
    data: Callable[[random.Random], Json]
    give: Callable[[random.Random], list[Json]]
    means: Callable[[list[Json], Json], list[Meaning]]
    options: tuple[str, ...] = ()


def _result(control: str, kind: str, value: Any) -> Json:
    return {"from_name": control, "to_name": control, "type": kind, "value": {kind: value}}


def _two(rng: random.Random) -> Json:
    return pair(*(f"m{number}" for number in rng.sample(range(10), 2)))


def _side(result: list[Json], data: Json) -> list[Meaning]:
    given = [part for part in result if part["from_name"] in NAMES]
    return [(data["id1"], data["id2"], SIDES[given[0]["value"]["selected"]])] if given else []


def _word(result: list[Json], data: Json) -> list[Meaning]:
    return [(data["id1"], data["id2"], WORDS[result[0]["value"]["choices"][0]])] if result else []


def _grade(result: list[Json], data: Json) -> list[Meaning]:
    stars = {part["from_name"]: part["value"]["rating"] for part in result}
    return [(data["text1"], data["text2"], (stars["one"] - stars["two"]) / 4)] if stars else []


def _list(rng: random.Random) -> Json:
    return {"entries": [{"id": name, "title": name, "body": f"text {name}"} for name in rng.sample("abcd", 4)]}


def _rank(result: list[Json], data: Json) -> list[Meaning]:
    order = result[0]["value"]["ranker"]["rank"] if result else []
    shown = [entry["id"] for entry in data["entries"] if entry["id"] in order]
    return [
        (f"text {one}", f"text {other}", 1.0 if order.index(one) < order.index(other) else -1.0)
        for one, other in combinations(shown, 2)
    ]


def _turns(rng: random.Random) -> Json:
    texts = [f"text {number}" for number in rng.sample(range(9), 4)]
    return {"turns": [{"answer_a": texts[0], "answer_b": texts[1]}, {"answer_a": texts[2], "answer_b": texts[3]}]}


def _repeated(result: list[Json], data: Json) -> list[Meaning]:
    turns = [(data["turns"][int(part["from_name"][-1])], SIDES[part["value"]["selected"]]) for part in result]
    return [(turn["answer_a"], turn["answer_b"], outcome) for turn, outcome in turns]


TEXTS = '<Text name="a" value="$text1"/><Text name="b" value="$text2"/>'
FORMS = (
    Form(
        "pairwise",
        PAIRWISE_SIDE_BY_SIDE,
        _two,
        lambda rng: pairwise_result(rng.choice(list(SIDES))),
        _side,
        FIELDS,
    ),
    Form(
        "words",
        f'<View>{TEXTS}<Choices name="best" toName="a">{"".join(f"<Choice value={word!r}/>" for word in WORDS)}'
        "</Choices></View>",
        _two,
        lambda rng: [_result("best", "choices", [rng.choice(list(WORDS))])],
        _word,
        (*FIELDS, "--yes"),
    ),
    Form(
        "ratings",
        f'<View>{TEXTS}<Rating name="one" toName="a"/><Rating name="two" toName="b"/></View>',
        _two,
        lambda rng: [_result(name, "rating", rng.randint(1, 5)) for name in ("one", "two")],
        _grade,
    ),
    Form(
        "ranking",
        '<View><List name="list" value="$entries" title="Answers"/><Ranker name="rank" toName="list"/></View>',
        _list,
        lambda rng: [_result("rank", "ranker", {"rank": rng.sample("abcd", rng.randint(2, 4))})],
        _rank,
    ),
    Form(
        "repeated",
        '<View><Repeater on="$turns" indexFlag="{{idx}}"><Text name="a_{{idx}}" value="$turns[{{idx}}].answer_a"/>'
        '<Text name="b_{{idx}}" value="$turns[{{idx}}].answer_b"/>'
        '<Pairwise name="pw_{{idx}}" toName="a_{{idx}},b_{{idx}}"/></Repeater></View>',
        _turns,
        lambda rng: [
            part
            for turn in ("0", "1")[: rng.randint(1, 2)]
            for part in pairwise_result(rng.choice(list(SIDES)), f"pw_{turn}")
        ],
        _repeated,
    ),
)


@dataclass
class Project:
    """A project of the storm, and what its setup was and is."""

    id: int
    form: Form
    #: What the question is called now, and whether another was ever asked above it.
    control: str = NAMES[0]
    is_asked_twice: bool = False
    names: set[str] = field(default_factory=lambda: {NAMES[0]})


class Storm:
    """Random operations by several people on a project of each form, the service's own restarts included."""

    def __init__(
        self,
        label_studio: LabelStudioServer,
        evenhand: Evenhand,
        people: list[Person],
        projects: list[Project],
        seed: int,
    ) -> None:
        self._label_studio, self._evenhand, self._people, self._projects = label_studio, evenhand, people, projects
        self._project = projects[0]
        self._rng = random.Random(seed)
        self._number = 0
        #: Whose answers were whose account was removed, by annotation; Label Studio has forgotten it.
        self.former: dict[int, str] = {}
        self.done: Counter[str] = Counter()
        self._operations: tuple[tuple[int, Callable[[], bool]], ...] = (
            (40, self.annotate), (15, self.edit), (8, self.delete), (6, self.skip), (4, self.empty), (5, self.draft),
            (5, self.add_tasks), (3, self.import_answers), (3, self.delete_task), (2, self.change_task),
            (2, self.sync), (1, self.restart), (1, self.away), (4, self.edit_of_another), (3, self.remove_account),
            (3, self.other_setup), (3, self.rename), (3, self.answer_elsewhere),
        )  # fmt: skip

    def blow(self, operations: int) -> None:
        """Do so many operations, half of them on sides; those that find nothing to act on are chosen anew."""
        for project in self._projects:
            self._project = project
            self.add_tasks()
        weights = [weight for weight, _ in self._operations]
        chances = [len(self._projects) - 1 or 1, *(1 for _ in self._projects[1:])]
        while self.done.total() < operations:
            (self._project,) = self._rng.choices(self._projects, chances)
            (operation,) = self._rng.choices([operation for _, operation in self._operations], weights)
            if operation():
                self.done[operation.__name__] += 1

    def _give(self) -> list[Json]:
        """An answer under the name that the question has now."""
        given = self._project.form.give(self._rng)
        was = self._project.control
        return [{**part, "from_name": was, "to_name": was} if part["from_name"] in NAMES else part for part in given]

    def _annotations(self) -> list[Json]:
        """Everything that Label Studio holds of this project now, by people who still have an account."""
        known = {person.id for person in self._people}
        path = f"/api/tasks?project={self._project.id}&fields=all&page_size=500"
        tasks = self._label_studio.admin.call("GET", path)["tasks"]
        return [entry for task in tasks for entry in task["annotations"] if entry["completed_by"] in known]

    def _author(self, annotation: Json) -> Person:
        return next(person for person in self._people if person.id == annotation["completed_by"])

    def _tasks(self) -> list[int]:
        path = f"/api/tasks?project={self._project.id}&fields=task_only&include=id&page_size=500"
        return [task["id"] for task in self._label_studio.admin.call("GET", path)["tasks"]]

    def annotate(self) -> bool:
        """Somebody answers."""
        tasks = self._tasks()
        if tasks:
            self._rng.choice(self._people).submit(self._rng.choice(tasks), self._give())
        return bool(tasks)

    def edit(self) -> bool:
        """Somebody changes an answer."""
        return self._edited(lambda author: author)

    def _edited(self, by: Callable[[Person], Person]) -> bool:
        rows = self._annotations()
        if rows:
            annotation = self._rng.choice(rows)
            editor = by(self._author(annotation))
            editor.call("PATCH", f"/api/annotations/{annotation['id']}/", json={"result": self._give()})
        return bool(rows)

    def delete(self) -> bool:
        """Somebody deletes an answer."""
        rows = self._annotations()
        if rows:
            annotation = self._rng.choice(rows)
            self._author(annotation).call("DELETE", f"/api/annotations/{annotation['id']}/")
        return bool(rows)

    def skip(self) -> bool:
        """Somebody skips a task."""
        tasks = self._tasks()
        if tasks:
            self._rng.choice(self._people).submit(self._rng.choice(tasks), [], was_cancelled=True)
        return bool(tasks)

    def empty(self) -> bool:
        """Somebody submits nothing."""
        tasks = self._tasks()
        if tasks:
            self._rng.choice(self._people).submit(self._rng.choice(tasks), [])
        return bool(tasks)

    def draft(self) -> bool:
        """Somebody begins and does not submit."""
        tasks = self._tasks()
        if tasks:
            draft = {"result": self._give(), "lead_time": 1.0}
            path = f"/api/tasks/{self._rng.choice(tasks)}/drafts?project={self._project.id}"
            self._rng.choice(self._people).call("POST", path, json=draft)
        return bool(tasks)

    def add_tasks(self) -> bool:
        """New tasks are imported."""
        tasks = [{"data": self._project.form.data(self._rng)} for _ in range(self._rng.randint(1, 4))]
        self._label_studio.import_tasks(self._project.id, tasks)
        return True

    def import_answers(self) -> bool:
        """Tasks are imported with their answers, of which no event tells."""
        answers = [
            {"result": self._give(), "completed_by": person.id, "ground_truth": False, "lead_time": 3.0}
            for person in self._rng.sample(self._people, 2)
        ]
        task = {"data": self._project.form.data(self._rng), "annotations": answers}
        self._label_studio.import_tasks(self._project.id, [task])
        return True

    def delete_task(self) -> bool:
        """A task is deleted with its answers."""
        tasks = self._tasks()
        if len(tasks) > 3:
            self._label_studio.admin.call("DELETE", f"/api/tasks/{self._rng.choice(tasks)}/")
        return len(tasks) > 3

    def change_task(self) -> bool:
        """A task's items are changed, of which no event tells either."""
        tasks = self._tasks()
        if tasks:
            body = {"data": self._project.form.data(self._rng)}
            self._label_studio.admin.call("PATCH", f"/api/tasks/{self._rng.choice(tasks)}/", json=body)
        return bool(tasks)

    def edit_of_another(self) -> bool:
        """Somebody changes an answer of somebody else."""
        return self._edited(lambda author: self._rng.choice([one for one in self._people if one != author]))

    def remove_account(self) -> bool:
        """Somebody answers some tasks, and the account is removed."""
        tasks = self._tasks()
        if tasks:
            self._number += 1
            leaver = self._label_studio.add_person(f"leaver{self._number}.{self._project.id}@example.com")
            for task in self._rng.sample(tasks, min(len(tasks), 3)):
                self.former[leaver.submit(task, self._give())["id"]] = str(leaver.id)
            self._label_studio.admin.call("DELETE", f"/api/users/{leaver.id}/")
        return bool(tasks)

    def _set_up(self, change: Callable[[str], str]) -> None:
        path = f"/api/projects/{self._project.id}/"
        config = self._label_studio.admin.call("GET", path)["label_config"]
        self._label_studio.admin.call("PATCH", path, json={"label_config": change(config)})

    def other_setup(self) -> bool:
        """A second question is inserted above the first, or taken away again."""
        if self._project.form.name != "pairwise":
            return False
        self._set_up(
            lambda xml: xml.replace(ABOVE, "") if ABOVE in xml else xml.replace("<Pairwise", ABOVE + "<Pairwise", 1)
        )
        self._project.is_asked_twice = True
        return True

    def rename(self) -> bool:
        """The question gets another name, or its former one back."""
        if self._project.form.name != "pairwise":
            return False
        was = self._project.control
        self._project.control = next(name for name in NAMES if name != was)
        self._project.names.add(self._project.control)
        self._set_up(lambda xml: xml.replace(f'name="{was}"', f'name="{self._project.control}"'))
        return True

    def answer_elsewhere(self) -> bool:
        """Somebody answers only a question that is not read."""
        tasks = self._tasks() if self._project.is_asked_twice else []
        if tasks:
            result = pairwise_result(self._rng.choice(list(SIDES)), "style")
            self._rng.choice(self._people).submit(self._rng.choice(tasks), result)
        return bool(tasks)

    def sync(self) -> bool:
        """A pull comes in between."""
        self._evenhand.command("sync", str(self._project.id))
        return True

    def restart(self) -> bool:
        """The service is restarted."""
        self._evenhand.stop(kill=self._rng.random() < 0.5)
        self._evenhand.start()
        return True

    def away(self) -> bool:
        """The service is away while people work, and their events are lost."""
        self._evenhand.stop(kill=True)
        for _ in range(3):
            self._rng.choice((self.annotate, self.edit, self.delete))()
        self._evenhand.start()
        return True


Answers = Counter[tuple[Any, ...]]


def exported(label_studio: LabelStudioServer, project: Project, former: dict[int, str]) -> Answers:
    """Every answer of Label Studio's own export, taken apart here, with the authors that it has forgotten."""
    found: Answers = Counter()
    for task in label_studio.export(project.id):
        for annotation in task["annotations"]:
            who = former.get(annotation["id"], str(annotation["completed_by"]))
            result = [] if annotation["was_cancelled"] else annotation["result"]
            meanings: list[Any] = list(project.form.means(result, task["data"])) or [None]
            found.update((task["id"], who, meaning) for meaning in meanings)
    return found


def stored(evenhand: Evenhand, project: Project) -> Answers:
    """The same from the service's database."""
    with evenhand.store() as store:
        ours = next(p for p in store.projects.all() if p.ls_project_id == project.id)
        rows = [row for row in store.comparisons.rows(ours.id) if row["status"] != "draft"]
    return Counter(
        (
            row["task_id"],
            row["annotator_id"],
            (row["left_item"], row["right_item"], row["outcome"]) if row["status"] == "answer" else None,
        )
        for row in rows
    )


def storm(
    label_studio: LabelStudioServer,
    evenhand: Evenhand,
    people: list[Person],
    *,
    operations: int,
    seed: int,
    forms: tuple[Form, ...] = FORMS,
) -> Storm:
    """Blow over a new project of each form, pull once, and hold the store against the export.

    What differs after a question was renamed must be named by a problem, and be equal once its names are told.
    """
    projects = []
    for form in forms:
        title = f"Storm {seed}: {form.name}"
        projects.append(Project(label_studio.create_project(title, form.config, maximum_annotations=3)["id"], form))
        evenhand.command("connect", str(projects[-1].id), *form.options, "--sides", "unknown")
    weather = Storm(label_studio, evenhand, people, projects, seed)
    weather.blow(operations)
    for project in projects:
        evenhand.command("sync", str(project.id), "--full")
        there = exported(label_studio, project, weather.former)
        missing = there - stored(evenhand, project)
        if project.names != {project.control} and missing:
            assert problems(evenhand, project.id) & NAMED, f"nothing names {missing}"
            names = "|".join((project.control, *(project.names - {project.control})))
            evenhand.command("connect", str(project.id), "--control", names, "--changed-setup", "anew")
        evenhand.wait_for(f"the last events of {project.form.name}", partial(_is_equal, evenhand, project, there))
    return weather


def _is_equal(evenhand: Evenhand, project: Project, there: Answers) -> bool:
    here = stored(evenhand, project)
    assert here == there, f"only here: {here - there}; only there: {there - here}"
    return True


def main(arguments: list[str]) -> None:
    """Blow once and say what was done; the same seed draws the same operations."""
    operations, seed = (int(text) for text in (*arguments, *("500", "1")[len(arguments) :])[:2])
    service = Stepped if arguments[2:] == ["stepped"] else Processes
    with LabelStudioServer() as label_studio, tempfile.TemporaryDirectory(prefix="evenhand-storm-") as folder:
        people = [label_studio.add_person(f"storm{number}@example.com") for number in range(5)]
        evenhand: Evenhand = service(Path(folder), label_studio, label_studio.personal_access_token())
        evenhand.start()
        try:
            weather = storm(label_studio, evenhand, people, operations=operations, seed=seed)
        finally:
            evenhand.stop()
    print(f"{operations} operations (seed {seed}), the store equals the export: {dict(weather.done)}")


if __name__ == "__main__":
    main(sys.argv[1:])
