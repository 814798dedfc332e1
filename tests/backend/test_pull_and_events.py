"""Events duplicated, reordered, dropped and replayed around pulls: the store always ends as a fresh pull would."""

import tempfile
from pathlib import Path
from typing import Any

import pytest
from evenhand.domain import Project, ProjectRef
from evenhand.ingest.events import handle_event
from evenhand.ingest.pull import pull_project
from evenhand.label_studio.client import LabelStudioClient, project_epoch
from evenhand.label_studio.payloads import read_event
from evenhand.label_studio.transport import Transport
from evenhand.settings import Settings
from evenhand.store import Store
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.databases import new_store
from harness.fake_label_studio import LEGACY_TOKEN, URL, FakeLabelStudio
from harness.judged import judged_answers

SETTINGS = Settings(label_studio_url=URL)
PEOPLE = (1, 2, 3)

# Each step: what happens in Label Studio, whom it concerns, which waiting events then arrive, and whether we pull.
steps = st.lists(
    st.tuples(
        st.sampled_from(["task", "annotate", "annotate", "annotate", "edit", "skip", "delete", "delete task", "wait"]),
        st.integers(0, 1000),
        st.lists(st.integers(0, 1000), max_size=3),
        st.sampled_from(["no pull"] * 5 + ["pull"]),
    ),
    min_size=1,
    max_size=25,
)


class World:
    """A Label Studio, the events it has sent so far, and a store that sees some of them."""

    def __init__(self, folder: Path) -> None:
        self.server = FakeLabelStudio()
        self.number = self.server.add_project("Pairs", maximum_annotations=2)
        self.client = LabelStudioClient(
            Transport(URL, LEGACY_TOKEN, session=self.server.session(), sleep=lambda seconds: None)
        )
        self.folder = folder
        self.events: list[dict[str, Any]] = []
        self.store, self.project = self.open("watched.db")

    def open(self, name: str) -> tuple[Store, Project]:
        store = new_store(self.folder / name, lambda: self.server.now.timestamp())
        described = self.server.projects[self.number]
        ref = ProjectRef(self.number, project_epoch(described))
        return store, store.projects.register(URL, ref, title="Pairs", label_config=described["label_config"])

    def act(self, what: str, choice: int) -> None:
        """Let something happen in Label Studio and keep the event it sends."""
        server, person = self.server, PEOPLE[choice % 3]
        tasks, annotations = sorted(server.tasks), sorted(server.annotations)
        side = "left" if choice % 2 else "right"
        if what == "wait":
            server.tick(1000.0)
        elif what == "task" or not tasks:
            task = server.add_task(self.number, {"text1": f"item {choice % 5}", "text2": f"item {choice % 5 + 1}"})
            self.send("TASKS_CREATED", tasks=[dict(server.tasks[task])])
        elif what == "delete task":
            task = tasks[choice % len(tasks)]
            server.delete_task(task)
            self.send("TASKS_DELETED", tasks=[{"id": task}])
        elif what in ("annotate", "skip") or not annotations:
            fields: dict[str, Any] = {"was_cancelled": True} if what == "skip" else {}
            made = server.annotate(tasks[choice % len(tasks)], person, [] if fields else side, **fields)
            self.send_annotation("ANNOTATION_CREATED", made)
        elif what == "edit":
            server.edit(annotations[choice % len(annotations)], side)
            self.send_annotation("ANNOTATION_UPDATED", annotations[choice % len(annotations)])
        else:
            gone = annotations[choice % len(annotations)]
            server.delete_annotation(gone)
            self.send("ANNOTATIONS_DELETED", annotations=[{"id": gone}])

    def send_annotation(self, action: str, annotation: int) -> None:
        row = dict(self.server.annotations[annotation])
        self.send(action, annotation=row, task=dict(self.server.tasks[row["task"]]))

    def send(self, action: str, **body: Any) -> None:
        self.events.append({"action": action, "project": dict(self.server.projects[self.number]), **body})

    def deliver(self, index: int) -> None:
        """Let one of the events sent so far arrive: late, again, or in any order."""
        if self.events:
            handle_event(self.store, SETTINGS, read_event(self.events[index % len(self.events)]))

    def pull(self) -> None:
        pull_project(self.store, self.client, self.store.projects.get(self.project.id), full=False)

    def assert_as_fresh(self, name: str) -> None:
        """Compare with a store that only ever saw one full pull."""
        fresh, project = self.open(name)
        pull_project(fresh, self.client, project, full=True)
        assert _content(self.store, self.project) == _content(fresh, project)
        fresh.close()


def _content(store: Store, project: Project) -> tuple[Any, ...]:
    """Rows, judged answers, completed tasks, and the sum of all changes."""
    bookkeeping = ("seq", "first_seq", "project_id", "standing")
    rows = [
        {key: value for key, value in row.items() if key not in bookkeeping}
        for row in store.comparisons.rows(project.id)
    ]
    answers = judged_answers(store, project.id)
    judged = sorted(zip(answers.annotation_id, answers.annotator, answers.outcome, answers.coin, strict=True))
    totals: dict[tuple[Any, ...], int] = {}
    for change in store.comparisons.changes_since(project.id, 0):
        key = (change.annotation_id, change.annotator_id, change.left_item, change.right_item, change.outcome)
        totals[key] = totals.get(key, 0) + change.weight
    states = {task.task_id: task.is_labeled for task in store.tasks.all(project.id)}
    return rows, judged, {key: total for key, total in totals.items() if total}, states


@pytest.mark.slow
@settings(max_examples=60)
@given(steps=steps, late=st.lists(st.integers(0, 1000), max_size=6))
def test_any_history_of_events_and_pulls_ends_as_a_fresh_pull(steps: list[Any], late: list[int]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder))
        try:
            for what, choice, arriving, pull in steps:
                world.act(what, choice)
                for index in arriving:
                    world.deliver(index)
                if pull == "pull":
                    world.pull()
            world.pull()
            world.assert_as_fresh("fresh.db")
            for index in late:  # events of long ago, replayed after the pull
                world.deliver(index)
            world.pull()
            world.assert_as_fresh("fresh again.db")
        finally:
            world.store.close()
