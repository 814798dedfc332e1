"""Several comparison controls in one project: each named and read, judged together or apart."""

from __future__ import annotations

import random
from typing import Any

import pytest
from evenhand.domain import Comparison, Project, ProjectRef, Task, Trigger
from evenhand.errors import PayloadError, UnusableValueError
from evenhand.ingest.events import handle_event
from evenhand.label_studio.payloads import prediction, read_comparison, read_event, read_judgement
from evenhand.project_config import ProjectConfig, parse_config
from evenhand.projects.reading import change_config, reading_of, resolve
from evenhand.publish import follow_up
from evenhand.server.worker import Runs
from evenhand.settings import Settings
from evenhand.store import Store

from fdr_core.inputs.label_studio.reading import Reading, other_controls
from fdr_core.inputs.label_studio.setup import parse_label_config
from harness.label_configs import TWO_QUESTIONS

SETTINGS = Settings(label_studio_url="http://ls")
BOTH = {"controls": "helpful, harmless"}
APART = {**BOTH, "control": "harmless"}
MIXED = (
    '<View><Choices name="best" toName="one"><Choice value="left"/><Choice value="tie"/><Choice value="right"/>'
    '</Choices><Pairwise name="pw" toName="one,two"/><Rating name="stars" toName="one" maxRating="3"/>'
    '<Text name="one" value="$answer1"/><Text name="two" value="$answer2"/></View>'
)
TASK = Task(5, "a", "b", "a", "b", None, None, True, 100.0)


def reading(config: dict[str, Any], xml: str = TWO_QUESTIONS) -> Reading:
    return resolve(ProjectConfig.model_validate(config), xml)


def result(control: str, side: str, **more: Any) -> dict[str, Any]:
    return {"from_name": control, "to_name": control, "type": "pairwise", "value": {"selected": side}, **more}


def annotation(*results: dict[str, Any], **more: Any) -> dict[str, Any]:
    times = {"created_at": "2026-03-01T12:00:00Z", "updated_at": "2026-03-01T12:00:00Z"}
    return {"id": 9, "task": 5, "completed_by": 7, "result": list(results), **times, **more}


def read(config: dict[str, Any], *results: dict[str, Any], **more: Any) -> Comparison:
    return read_comparison(annotation(*results, **more), TASK, reading(config))


def test_one_control_is_read_unless_several_are_named() -> None:
    how = reading({})
    assert (how.control, [control.name for control in how.controls]) == ("helpful", ["helpful"])
    assert how.words == "control 'helpful' (pairwise)"
    assert other_controls(parse_label_config(TWO_QUESTIONS), ["helpful"]) == ["harmless"]
    assert other_controls(parse_label_config(TWO_QUESTIONS), ["helpful", "harmless"]) == []


def test_reading_says_whether_controls_are_judged_together_or_apart() -> None:
    together, apart = reading(BOTH), reading(APART)
    assert together.decides is None
    assert together.words.endswith("together (the mean of an annotation's answers counts)")
    assert apart.decides is not None
    assert (apart.decides.name, [control.name for control in apart.beside]) == ("harmless", ["helpful"])
    assert "apart ('harmless' decides" in apart.words
    assert (together.item_left, together.item_right) == ("answer_a", "answer_b")


@pytest.mark.parametrize(
    ("before", "values", "decides"),
    [
        ({"control": "helpful"}, BOTH, None),  # what connect pins where it finds one
        ({"control": "harmless", "controls": "harmless"}, BOTH, None),
        ({"control": "helpful"}, APART, "harmless"),
        (APART, BOTH, "harmless"),
        (APART, {"control": ""}, None),
        (APART, {"q": 0.2}, "harmless"),
    ],
)
def test_control_decides_among_several_only_where_somebody_said_so(
    before: Any, values: Any, decides: str | None
) -> None:
    how = reading(parse_config(values, base=parse_config(before).to_json()).to_json())
    assert (how.decides.name if how.decides else None) == decides


@pytest.mark.parametrize(
    ("config", "xml", "words"),
    [
        ({"controls": ["helpful", "nope"]}, TWO_QUESTIONS, "no control 'nope'; offered: helpful"),
        ({"controls": ["harmless"], "control": "helpful"}, TWO_QUESTIONS, "expected one of controls: harmless"),
        (BOTH, TWO_QUESTIONS.replace('toName="c,d"', 'toName="d,c"'), "'harmless' shows answer_b, answer_a"),
        ({"controls": ["pw", "stars"]}, MIXED, "control 'stars' needs 'answers'"),
        ({"controls": ["best", "stars"], "answers": {"4": 1}}, MIXED, "lowest value .1, 2, 3."),
    ],
)
def test_controls_that_do_not_fit_are_refused_with_what_is_offered(config: Any, xml: str, words: str) -> None:
    with pytest.raises(UnusableValueError, match=words):
        reading(config, xml)


def test_controls_of_several_kinds_have_outcomes_of_their_own() -> None:
    how = reading({"controls": ["best", "pw", "stars"], "answers": {"1": "left", "3": "right"}}, MIXED)
    outcomes = {control.name: dict(control.outcomes) for control in how.controls}
    assert outcomes["best"] == {"left": 1.0, "tie": 0.0, "right": -1.0}
    assert outcomes["stars"] == {"1": 1.0, "2": 0.0, "3": -1.0}
    assert outcomes["pw"].items() >= {("left", 1.0), ("right", -1.0)}
    assert (how.item_left, how.item_right) == ("answer1", "answer2")


def test_names_of_controls_come_as_text_or_list_and_count_once() -> None:
    assert parse_config({"controls": "a, b,a"}).controls == ("a", "b")
    assert parse_config({"controls": ""}).controls == ()
    assert ProjectConfig.model_validate(parse_config(BOTH).to_json()) == parse_config(BOTH)


@pytest.mark.parametrize(
    ("helpful", "harmless", "outcome", "answers"),
    [
        ("left", "left", 1.0, {"helpful": 1.0, "harmless": 1.0}),
        ("left", "right", 0.0, {"helpful": 1.0, "harmless": -1.0}),
        (None, "right", -1.0, {"harmless": -1.0}),
    ],
)
def test_answers_together_are_one_row_with_their_mean(
    helpful: str | None, harmless: str, outcome: float, answers: dict[str, float]
) -> None:
    given = [result("helpful", helpful)] if helpful else []
    row = read(BOTH, *given, result("harmless", harmless))
    assert (row.status, row.outcome, row.answers) == ("answer", outcome, answers)


def test_answer_together_with_one_that_cannot_be_read_is_unreadable() -> None:
    row = read(BOTH, result("helpful", "left"), result("harmless", "middle"))
    assert (row.status, row.outcome) == ("unreadable", None)
    assert "'middle' is not understood" in (row.reason or "")


def test_answer_together_with_one_from_a_prediction_counts_as_from_a_prediction() -> None:
    row = read(BOTH, result("helpful", "left"), result("harmless", "left", origin="prediction"))
    assert (row.status, row.outcome, row.answers) == ("prediction", 1.0, {"helpful": 1.0})


def test_answers_apart_are_judged_by_the_deciding_control_alone() -> None:
    row = read(APART, result("helpful", "left"), result("harmless", "right"))
    assert (row.status, row.outcome, row.answers) == ("answer", -1.0, {"helpful": 1.0, "harmless": -1.0})
    other = read(APART, result("helpful", "left"))
    assert (other.status, other.outcome, other.answers) == ("answer", None, {"helpful": 1.0})


@pytest.mark.parametrize("config", [BOTH, APART])
def test_skips_and_annotations_without_an_answer_hold_none(config: dict[str, Any]) -> None:
    assert read(config, was_cancelled=True).status == "skip"
    assert read(config).status == "empty"
    elsewhere = read(config, result("another", "left"))
    assert (elsewhere.status, elsewhere.answers) == ("empty", None)


def test_judges_answer_several_controls_too() -> None:
    (row,) = read_judgement({**annotation(result("helpful", "left")), "model_version": "gpt"}, TASK, reading(BOTH))
    assert row is not None
    assert (row.status, row.outcome, row.answers) == ("judge", 1.0, {"helpful": 1.0})


def test_prediction_is_made_for_the_deciding_control_and_for_none_of_several_together() -> None:
    assert prediction(TASK, reading(BOTH), 0.8, "v")["result"] == []
    (shown,) = prediction(TASK, reading(APART), 0.8, "v")["result"]
    assert (shown["from_name"], shown["value"]) == ("harmless", {"selected": "left"})


def test_tasks_to_label_anew_are_swapped_whichever_control_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow_up, "drawn_coin", lambda *_: ("a coin", False))
    how = reading({"controls": ["best", "pw"], "item_left": "id1", "item_right": "id2"}, MIXED)
    data = {"answer1": "A", "answer2": "B", "id1": "a", "id2": "b"}
    swapped = follow_up._flipped({"id": 3, "data": data}, how, MIXED)
    assert [swapped[key] for key in data] == ["B", "A", "b", "a"]


# -- through the store


@pytest.fixture
def asked(store: Store) -> Project:
    """A project with two questions that are judged together."""
    ref = ProjectRef(4, 1_794_803_224)
    made = store.projects.register("http://ls", ref, title="Two questions", label_config=TWO_QUESTIONS)
    return change_config(store, made, dict(BOTH), by="test")


class Desk:
    """Sends events as Label Studio does, each a second after the last."""

    def __init__(self, store: Store, project: Project) -> None:
        self.store, self.project, self.second = store, project, 0

    def send(self, action: str, **body: Any) -> None:
        described = {"id": self.project.ls_project_id, "created_at": "2026-11-16T04:27:04Z"}
        handle_event(self.store, SETTINGS, read_event({"action": action, "project": described, **body}))

    def say(self, number: int, task: int, *results: dict[str, Any], person: int = 7, **more: Any) -> None:
        """Submit or change an annotation."""
        self.second += 1
        at = f"2026-11-16T{self.second // 3600:02}:{self.second // 60 % 60:02}:{self.second % 60:02}Z"
        raw = {**annotation(*results, **more), "id": number, "task": task, "completed_by": person, "updated_at": at}
        data = {"answer_a": f"a{task}", "answer_b": f"b{task}"}
        self.send("ANNOTATION_UPDATED", annotation=raw, task={"id": task, "data": data, "updated_at": at})

    def judged(self) -> list[tuple[int, float]]:
        """What counts now, as the sum of all signed changes."""
        totals: dict[tuple[int, float], int] = {}
        for change in self.store.comparisons.changes_since(self.project.id, 0):
            key = (change.annotation_id, change.outcome)
            totals[key] = totals.get(key, 0) + change.weight
        assert set(totals.values()) <= {0, 1}
        return sorted(key for key, total in totals.items() if total)

    def answered(self, control: str) -> list[tuple[Any, ...]]:
        """(annotator, outcome, coin) of one control's answers."""
        with self.store.comparisons.answered(self.project.id, control) as parts:
            return [(row[0], row[3], row[4]) for part in parts for row in zip(*part, strict=True)]


def test_annotation_with_two_answers_is_edited_skipped_and_deleted_as_one(store: Store, asked: Project) -> None:
    desk = Desk(store, asked)
    desk.say(1, 5, result("helpful", "left"), result("harmless", "left"))
    desk.say(2, 6, result("helpful", "right"))
    assert desk.judged() == [(1, 1.0), (2, -1.0)]
    assert desk.answered("harmless") == [("7", 1.0, "task:5")]
    desk.say(1, 5, result("helpful", "left"), result("harmless", "right"))  # one of the two is changed
    assert desk.judged() == [(1, 0.0), (2, -1.0)]
    assert desk.answered("harmless") == [("7", -1.0, "task:5")]
    desk.say(2, 6, was_cancelled=True)
    assert desk.judged() == [(1, 0.0)]
    assert desk.answered("helpful") == [("7", 1.0, "task:5")]
    desk.send("ANNOTATIONS_DELETED", annotations=[{"id": 1}])
    assert desk.judged() == []
    assert desk.answered("helpful") == []
    counts = store.projects.get(asked.id).counts
    assert (counts["answer"], counts["skip"], counts["judged"]) == (0, 1, 0)


def test_change_of_controls_asks_for_all_answers_anew(store: Store, asked: Project) -> None:
    store.projects.finish_pull(asked.id, {}, watermark=1.0, was_full=True)
    assert not store.projects.get(asked.id).full_pull_needed
    changed = change_config(store, store.projects.get(asked.id), {"control": "helpful"}, by="test")
    assert store.projects.get(asked.id).full_pull_needed
    how = reading_of(changed)
    assert how is not None
    assert how.control == "helpful"


def test_erased_person_leaves_no_answers_to_any_control(store: Store, asked: Project) -> None:
    desk = Desk(store, asked)
    desk.say(1, 5, result("helpful", "left"), result("harmless", "left"))
    desk.say(2, 6, result("helpful", "left"), person=8)
    store.people.erase("http://ls", ["7"])
    assert {row["annotation_id"]: row["answers"] for row in store.comparisons.rows(asked.id)} == {
        1: None,
        2: {"helpful": 1.0},
    }


def answer_all(desk: Desk, leaning: dict[str, int], *, same: bool = False, seed: int = 4) -> None:
    """Sixty tasks by eight people, sides by chance; who leans on a question answers left to it."""
    rng = random.Random(seed)
    number = 0
    for task in range(1, 61):
        truth = {control: rng.choice(["left", "right"]) for control in ("helpful", "harmless")}
        for person in range(1, 9):
            number += 1
            sides = {
                control: "left" if leaning.get(control) == person else side if rng.random() < 0.9 else "left"
                for control, side in truth.items()
            }
            if same:
                sides["harmless"] = sides["helpful"]
            desk.say(number, task, *(result(control, side) for control, side in sides.items()), person=person)


def run_of(store: Store, project: Project) -> dict[str, dict[str, Any]]:
    """A run now; its annotators by id."""
    run = store.runs.request(project.id, Trigger.MANUAL)
    assert Runs(store, "me").once()
    done = store.runs.get(run.id)
    assert done.status == "done", done.error
    return {row["annotator"]: row for row in store.findings.all(run.id)}


def fresh(store: Store, number: int, config: dict[str, Any]) -> Project:
    made = store.projects.register("http://ls", ProjectRef(number, 1_794_803_224), label_config=TWO_QUESTIONS)
    return change_config(store, made, {**config, "sides": "random", "lbi": "draws=1"}, by="test")


def test_second_answer_that_repeats_the_first_is_no_second_coin(sqlite_store: Store) -> None:
    tables = []
    for number, config in ((1, {}), (2, BOTH)):
        project = fresh(sqlite_store, number, config)
        answer_all(Desk(sqlite_store, project), {"helpful": 3}, same=True)
        tables.append(run_of(sqlite_store, project))
    one, two = ({key: (row["comparisons"], row["p_value"]) for key, row in table.items()} for table in tables)
    assert one == two
    assert one["3"][0] == 60


def test_controls_apart_have_a_list_each(sqlite_store: Store) -> None:
    project = fresh(sqlite_store, 1, {**BOTH, "control": "helpful"})
    answer_all(Desk(sqlite_store, project), {"helpful": 3, "harmless": 6})
    table = run_of(sqlite_store, project)
    assert [key for key, row in table.items() if row["flagged"]] == ["3"]
    beside = {key: row["controls"]["harmless"] for key, row in table.items()}
    assert [key for key, row in beside.items() if row["flagged"]] == ["6"]
    assert beside["6"]["left"] == beside["6"]["comparisons"] == 60
    alone = fresh(sqlite_store, 2, {"control": "harmless"})
    answer_all(Desk(sqlite_store, alone), {"helpful": 3, "harmless": 6})
    assert {key: row["p_value"] for key, row in run_of(sqlite_store, alone).items()} == {
        key: row["p_value"] for key, row in beside.items()
    }


def test_lean_on_both_questions_is_found_together(sqlite_store: Store) -> None:
    project = fresh(sqlite_store, 1, BOTH)
    answer_all(Desk(sqlite_store, project), {"helpful": 3, "harmless": 3})
    table = run_of(sqlite_store, project)
    assert [key for key, row in table.items() if row["flagged"]] == ["3"]
    assert all(row["controls"] is None for row in table.values())


def test_annotators_are_not_sorted_by_what_other_controls_say(store: Store, asked: Project) -> None:
    run = store.runs.request(asked.id, Trigger.MANUAL)
    with pytest.raises(PayloadError, match="expected one of"):
        store.findings.page(run.id, sort="controls")
