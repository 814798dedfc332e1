"""How answers are read is agreed once: what a labelling setup changes later is asked about, never done silently."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from evenhand.domain import Project, ProjectRef, Trigger
from evenhand.errors import UnusableValueError
from evenhand.ingest.pull import pull_project
from evenhand.label_studio.client import LabelStudioClient, project_epoch
from evenhand.label_studio.transport import Transport
from evenhand.projects.reading import (
    answers_told,
    change_config,
    confirm_reading,
    reading_of,
    settle_setup,
)
from evenhand.server.worker import Runs
from evenhand.store import Store

from harness.databases import new_store
from harness.fake_label_studio import LEGACY_TOKEN, URL, FakeLabelStudio

TEXTS = '<Text name="a" value="$text1"/><Text name="b" value="$text2"/>'
PAIRWISE = '<Pairwise name="{}" toName="a,b"/>'
ONE = f"<View>{PAIRWISE.format('pw')}{TEXTS}</View>"
ABOVE = f"<View>{PAIRWISE.format('style')}{PAIRWISE.format('pw')}{TEXTS}</View>"
RENAMED = f"<View>{PAIRWISE.format('quality')}{TEXTS}</View>"
RENAMED_BELOW = f"<View>{PAIRWISE.format('style')}{PAIRWISE.format('quality')}{TEXTS}</View>"
OTHER_ITEMS = ONE.replace("$text1", "$id1").replace("$text2", "$id2")


def choices(*words: str) -> str:
    offered = "".join(f'<Choice value="{word}"/>' for word in words)
    return f'<View>{TEXTS}<Choices name="pref" toName="a">{offered}</Choices></View>'


class World:
    """One project with four tasks, pulled whenever a test says so."""

    def __init__(self, store: Store, label_config: str) -> None:
        self.server, self.store = FakeLabelStudio(), store
        self.number = self.server.add_project("Pairs", label_config)
        transport = Transport(URL, LEGACY_TOKEN, session=self.server.session(), sleep=lambda seconds: None)
        self.client = LabelStudioClient(transport)
        ref = ProjectRef(self.number, project_epoch(self.server.projects[self.number]))
        self.id = store.projects.register(URL, ref, title="Pairs", label_config=label_config).id
        data = {"text1": "x", "text2": "y", "id1": "1", "id2": "2"}
        self.tasks = [self.server.add_task(self.number, data) for _ in range(4)]

    @property
    def project(self) -> Project:
        return self.store.projects.get(self.id)

    def answer(self, task: int, answer: str, control: str = "pw") -> int:
        kind = "choices" if control == "pref" else "pairwise"
        value: dict[str, Any] = {"choices": [answer]} if control == "pref" else {"selected": answer}
        result = [{"from_name": control, "to_name": "a", "type": kind, "value": value}]
        return self.server.annotate(self.tasks[task], 1, result)

    def pull(self, label_config: str | None = None) -> None:
        if label_config is not None:
            self.server.projects[self.number]["label_config"] = label_config
        pull_project(self.store, self.client, self.project, full=True)

    @property
    def outcomes(self) -> list[float | None]:
        return [row["outcome"] for row in self.store.comparisons.rows(self.id)]

    @property
    def problems(self) -> dict[str, str]:
        return {problem.code: f"{problem.message} {problem.remedy}" for problem in self.store.problems.find(self.id)}


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[Store]:
    with closing(new_store(tmp_path / "evenhand.db")) as store:
        yield store


def test_a_control_inserted_above_changes_nothing_until_somebody_says_so(stores: Store) -> None:
    world = World(stores, ONE)
    world.answer(0, "left")
    world.pull()
    world.pull(ABOVE)
    world.answer(1, "right", "style")
    world.answer(2, "left")
    world.pull()
    assert world.outcomes == [1.0, None, 1.0]
    assert "'style' instead of 'pw'" in world.problems["setup_changed"]
    settle_setup(stores, world.project, "keep", by="lead")
    world.pull()
    assert world.outcomes == [1.0, None, 1.0]
    assert "setup_changed" not in world.problems
    settle_setup(stores, world.project, "anew", by="lead")
    world.pull()
    assert world.outcomes == [None, -1.0, None]


@pytest.mark.parametrize("choice", ["keep", "anew"])
def test_a_renamed_control_loses_no_answers(stores: Store, choice: str) -> None:
    world = World(stores, ONE)
    change_config(stores, world.project, {"control": "pw"}, by="lead")
    world.answer(0, "left")
    world.pull()
    world.pull(RENAMED)
    world.answer(1, "right", "quality")
    world.pull()
    assert world.outcomes == [1.0, -1.0]
    assert "has no control 'pw'" in world.problems["setup_changed"]
    settle_setup(stores, world.project, choice, by="lead")
    world.pull()
    assert world.outcomes == [1.0, -1.0]
    assert world.problems == {}


def test_a_rename_beside_a_new_control_credits_nothing_to_the_wrong_question(stores: Store) -> None:
    world = World(stores, ONE)
    world.answer(0, "left")
    world.pull()
    world.pull(RENAMED_BELOW)
    world.answer(1, "right", "style")
    world.answer(2, "right", "quality")
    world.pull()
    assert world.outcomes == [1.0, None, None]
    assert "setup_changed" in world.problems


def test_a_rename_among_controls_that_are_judged_together_is_refused_with_what_is_offered(stores: Store) -> None:
    two = f"<View>{PAIRWISE.format('pw')}{PAIRWISE.format('style')}{TEXTS}</View>"
    world = World(stores, two)
    change_config(stores, world.project, {"controls": ["pw", "style"]}, by="lead")
    world.answer(0, "left")
    world.pull()
    world.pull(two.replace("pw", "quality"))
    with pytest.raises(UnusableValueError, match="offered: quality"):
        settle_setup(stores, world.project, "anew", by="lead")
    assert world.outcomes == [1.0]


def test_a_control_that_came_and_went_is_no_former_name_of_another(stores: Store) -> None:
    world = World(stores, ONE)
    world.answer(0, "left")
    world.pull()
    world.pull(ABOVE)
    world.answer(1, "right", "style")
    world.pull(RENAMED)
    world.answer(2, "right", "quality")
    settle_setup(stores, world.project, "anew", by="lead")
    world.pull()
    assert world.outcomes == [1.0, None, -1.0]
    assert world.project.config["control"] == "quality|pw"


def test_other_items_are_asked_about_and_the_old_setup_back_closes_the_problem(stores: Store) -> None:
    world = World(stores, ONE)
    world.answer(0, "left")
    world.pull()
    world.pull(OTHER_ITEMS)
    assert "'id1'" in world.problems["setup_changed"]
    assert {row["left_item"] for row in stores.comparisons.rows(world.id)} == {"x"}
    world.pull(ONE)
    assert world.problems == {}


def test_answers_that_are_read_no_longer_are_a_problem_until_they_are(stores: Store) -> None:
    world = World(stores, ONE)
    given = [world.answer(task, "left") for task in range(3)]
    world.pull()
    world.answer(3, "left", "style")  # never read, so nothing is missed
    del world.server.annotations[given[0]]
    world.server.annotations[given[1]]["result"] = []  # somebody took the answer back
    world.server.annotations[given[1]]["updated_at"] = "2033-05-18T03:33:20Z"
    world.pull()
    assert "reads_less" not in world.problems
    data = world.server.tasks[world.tasks[2]]["data"]
    lost = data.pop("text2")
    world.pull()
    assert "1 answer that was read before cannot be read now" in world.problems["reads_less"]
    data["text2"] = lost
    world.pull()
    assert "reads_less" not in world.problems


def test_a_setup_that_changes_before_the_first_answer_is_simply_read(stores: Store) -> None:
    world = World(stores, ONE)
    world.pull()
    world.pull(choices("Left", "Right"))
    world.answer(0, "Right", "pref")
    world.pull()
    assert world.outcomes == [-1.0]
    assert world.problems == {}


def test_a_control_that_is_taken_away_is_named(stores: Store) -> None:
    world = World(stores, ONE)
    world.answer(0, "left")
    world.pull()
    world.pull(f"<View>{TEXTS}</View>")
    assert "no Pairwise control" in world.problems["setup_changed"]
    with pytest.raises(UnusableValueError, match="no Pairwise"):
        settle_setup(stores, world.project, "anew", by="lead")
    assert world.outcomes == [1.0]


def test_new_wording_and_grades_are_asked_about(stores: Store) -> None:
    world = World(stores, choices("A is better", "B is better"))
    world.answer(0, "A is better", "pref")
    world.pull()
    world.pull(choices("A is much better", "A is better", "B is better", "B is much better"))
    assert "'A is better' in 'pref' would mean 0.5 instead of left" in world.problems["setup_changed"]
    assert world.outcomes == [1.0]


def test_what_is_guessed_is_a_problem_until_somebody_confirms_it_for_good(stores: Store) -> None:
    world = World(stores, choices("A is worse", "B is worse"))
    world.answer(0, "A is worse", "pref")
    world.pull()
    assert "'A is worse' in 'pref': says that it is worse" in world.problems["reading_guessed"]
    confirm_reading(stores, world.project, by="lead")
    assert world.problems == {}
    assert world.project.config["answers"] == {"A is worse": "right", "B is worse": "left"}
    world.pull()
    assert (world.outcomes, world.problems) == ([-1.0], {})


def test_unknown_words_are_named_with_the_option_by_a_pull_and_go_when_they_are_told(stores: Store) -> None:
    world = World(stores, choices("A", "B"))
    world.answer(0, "A", "pref")
    world.answer(1, "Meh", "pref")
    world.answer(2, "Meh", "pref")
    world.pull()
    assert "2 answers cannot be judged" in world.problems["unreadable_answers"]
    assert "--answers 'Meh=tie'" in world.problems["unreadable_answers"]
    reading = reading_of(world.project)
    assert reading is not None
    told = {one.answer: (one.meaning, one.count, one.task_id) for one in answers_told(stores, world.project, reading)}
    assert told == {"Meh": ("", 2, 2), "A": ("left", 1, 1), "B": ("right", 0, None)}
    change_config(stores, world.project, {"answers": "Meh=tie"}, by="lead")
    world.pull()
    assert (world.outcomes, world.problems) == ([1.0, 0.0, 0.0], {})


def test_a_run_says_in_its_audit_what_is_wrong_with_the_reading(stores: Store) -> None:
    world = World(stores, choices("A", "B"))
    for task in range(4):
        world.answer(task, "A" if task else "Meh", "pref")
    world.pull()
    stores.runs.request(world.id, Trigger.MANUAL)
    Runs(stores, "test").once()
    run = stores.runs.latest(world.id)
    assert run is not None
    assert any("1 answer cannot be judged" in reason for reason in (run.audit or {})["reasons"])
