"""A storm of random operations on a Label Studio project, after which the store must equal Label Studio's export.

python -m tests.label_studio.storm [operations] [seed]
"""

from __future__ import annotations

import random
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from harness.label_studio import LabelStudioServer, Person, pairwise_result
from tests.label_studio.conftest import Evenhand, Processes
from tests.label_studio.looking import FIELDS, answer, exported, pair, stored

SIDES = ("left", "right")
ABOVE = '<Pairwise name="style" toName="left,right"/>'


class Storm:
    """Random operations by several people on one project, the service's own restarts included."""

    def __init__(
        self, label_studio: LabelStudioServer, evenhand: Evenhand, people: list[Person], project: int, seed: int
    ) -> None:
        self._label_studio, self._evenhand, self._people, self._project = label_studio, evenhand, people, project
        self._rng = random.Random(seed)
        self._number = 0
        #: Whose answers were whose account was removed, by annotation; Label Studio has forgotten it.
        self.former: dict[int, str] = {}
        self._is_asked_twice = False
        self.done: Counter[str] = Counter()
        self._operations: tuple[tuple[int, Callable[[], bool]], ...] = (
            (40, self.annotate), (15, self.edit), (8, self.delete), (6, self.skip), (4, self.empty), (5, self.draft),
            (5, self.add_tasks), (3, self.import_answers), (3, self.delete_task), (2, self.change_task),
            (2, self.sync), (1, self.restart), (1, self.away), (4, self.edit_of_another), (1, self.remove_account),
            (1, self.other_setup), (3, self.answer_elsewhere),
        )  # fmt: skip

    def blow(self, operations: int) -> None:
        """Do so many operations; those that find nothing to act on are chosen anew."""
        self.add_tasks()
        weights = [weight for weight, _ in self._operations]
        while self.done.total() < operations:
            (operation,) = self._rng.choices([operation for _, operation in self._operations], weights)
            if operation():
                self.done[operation.__name__] += 1

    def _rows(self) -> list[tuple[int, int, Person]]:
        """(annotation, task, author) of everything Label Studio holds now."""
        authors = {person.id: person for person in self._people}
        tasks = self._label_studio.admin.call("GET", f"/api/tasks?project={self._project}&fields=all&page_size=500")
        return [
            (entry["id"], task["id"], authors[entry["completed_by"]])
            for task in tasks["tasks"]
            for entry in task["annotations"]
            if entry["completed_by"] in authors
        ]

    def _tasks(self) -> list[int]:
        path = f"/api/tasks?project={self._project}&fields=task_only&include=id&page_size=500"
        return [task["id"] for task in self._label_studio.admin.call("GET", path)["tasks"]]

    def _data(self) -> dict[str, str]:
        self._number += 1
        left, right = self._rng.sample(range(10), 2)
        return pair(f"m{left}", f"m{right}")

    def annotate(self) -> bool:
        """Somebody chooses a side."""
        tasks = self._tasks()
        if tasks:
            self._rng.choice(self._people).annotate(self._rng.choice(tasks), self._rng.choice(SIDES))
        return bool(tasks)

    def edit(self) -> bool:
        """Somebody changes an answer."""
        rows = self._rows()
        if rows:
            annotation, _, author = self._rng.choice(rows)
            author.edit(annotation, self._rng.choice(SIDES))
        return bool(rows)

    def delete(self) -> bool:
        """Somebody deletes an answer."""
        rows = self._rows()
        if rows:
            annotation, _, author = self._rng.choice(rows)
            author.call("DELETE", f"/api/annotations/{annotation}/")
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
            draft = {"result": pairwise_result(self._rng.choice(SIDES)), "lead_time": 1.0}
            path = f"/api/tasks/{self._rng.choice(tasks)}/drafts?project={self._project}"
            self._rng.choice(self._people).call("POST", path, json=draft)
        return bool(tasks)

    def add_tasks(self) -> bool:
        """New tasks are imported."""
        tasks = [{"data": self._data()} for _ in range(self._rng.randint(1, 4))]
        self._label_studio.import_tasks(self._project, tasks)
        return True

    def import_answers(self) -> bool:
        """Tasks are imported with their answers, of which no event tells."""
        answers = [answer(person, self._rng.choice(SIDES)) for person in self._rng.sample(self._people, 2)]
        self._label_studio.import_tasks(self._project, [{"data": self._data(), "annotations": answers}])
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
            body = {"data": self._data()}
            self._label_studio.admin.call("PATCH", f"/api/tasks/{self._rng.choice(tasks)}/", json=body)
        return bool(tasks)

    def edit_of_another(self) -> bool:
        """Somebody changes an answer of somebody else."""
        rows = self._rows()
        if rows:
            annotation, _, author = self._rng.choice(rows)
            self._rng.choice([one for one in self._people if one != author]).edit(annotation, self._rng.choice(SIDES))
        return bool(rows)

    def remove_account(self) -> bool:
        """Somebody answers, and the account is removed."""
        tasks = self._tasks()
        if tasks:
            self._number += 1
            leaver = self._label_studio.add_person(f"leaver{self._number}.{self._project}@example.com")
            given = leaver.annotate(self._rng.choice(tasks), self._rng.choice(SIDES))
            self.former[given["id"]] = str(leaver.id)
            self._label_studio.admin.call("DELETE", f"/api/users/{leaver.id}/")
        return bool(tasks)

    def other_setup(self) -> bool:
        """A second question is inserted above the first, or taken away again."""
        path = f"/api/projects/{self._project}/"
        config = self._label_studio.admin.call("GET", path)["label_config"]
        changed = config.replace(ABOVE, "") if ABOVE in config else config.replace("<Pairwise", ABOVE + "<Pairwise", 1)
        self._label_studio.admin.call("PATCH", path, json={"label_config": changed}, ok=(200, 400))
        self._is_asked_twice = True
        return True

    def answer_elsewhere(self) -> bool:
        """Somebody answers only a question that is not read."""
        tasks = self._tasks() if self._is_asked_twice else []
        if tasks:
            result = pairwise_result(self._rng.choice(SIDES), "style")
            self._rng.choice(self._people).submit(self._rng.choice(tasks), result)
        return bool(tasks)

    def sync(self) -> bool:
        """A pull comes in between."""
        self._evenhand.command("sync", str(self._project))
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


def storm(
    label_studio: LabelStudioServer, evenhand: Evenhand, people: list[Person], *, operations: int, seed: int
) -> Storm:
    """Blow over a new project, pull once, and hold the store against the export."""
    project = label_studio.create_project(f"Storm {seed}", maximum_annotations=3)["id"]
    evenhand.command("connect", str(project), *FIELDS, "--sides", "unknown")
    weather = Storm(label_studio, evenhand, people, project, seed)
    weather.blow(operations)
    evenhand.command("sync", str(project), "--full")

    def is_equal() -> bool:
        """The store is the export, with the authors that Label Studio has forgotten."""
        there = exported(label_studio, project)
        known = {key: (row[0], weather.former.get(key, row[1]), *row[2:]) for key, row in there.items()}
        return stored(evenhand, project) == known

    evenhand.wait_for("the last events", is_equal)
    return weather


def main() -> None:
    """Blow once and say what was done."""
    operations, seed = (int(text) for text in (*sys.argv[1:], *("500", "1")[len(sys.argv) - 1 :])[:2])
    with LabelStudioServer() as label_studio, tempfile.TemporaryDirectory(prefix="evenhand-storm-") as folder:
        people = [label_studio.add_person(f"storm{number}@example.com") for number in range(5)]
        evenhand: Evenhand = Processes(Path(folder), label_studio, label_studio.personal_access_token())
        evenhand.start()
        try:
            weather = storm(label_studio, evenhand, people, operations=operations, seed=seed)
        finally:
            evenhand.stop()
    print(f"{operations} operations (seed {seed}), the store equals the export: {dict(weather.done)}")


if __name__ == "__main__":
    main()
