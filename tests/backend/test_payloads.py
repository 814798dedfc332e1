"""Label Studio's JSON to our records: the captured payloads, and everything its API lets through."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from evenhand.domain import ProjectRef
from evenhand.errors import PayloadError, UnusableValueError
from evenhand.label_studio import payloads
from evenhand.project_config import ProjectConfig, parse_config
from evenhand.projects.reading import resolve
from hypothesis import given
from hypothesis import strategies as st

from fdr_core.inputs.label_studio.reading import Reading
from fdr_core.inputs.label_studio.setup import parse_label_config
from harness.label_configs import PAIRWISE
from tests.backend.conftest import PAYLOADS

CHOICES = (
    '<View><Text name="p" value="$prompt"/><Text name="a" value="$answer1"/><Text name="b" value="$answer2"/>'
    '<Choices name="pref" toName="p"><Choice value="Left is better" alias="left"/><Choice value="Tie" alias="tie"/>'
    '<Choice value="Right is better" alias="right"/></Choices><Rating name="strength" toName="p" maxRating="5"/></View>'
)
TASK = {"id": 5, "data": {"text1": "A", "text2": "B"}, "is_labeled": True, "updated_at": "2026-11-16T04:29:25Z"}


def reading(config: dict[str, Any] | None = None, xml: str = PAIRWISE) -> Reading:
    return resolve(ProjectConfig.model_validate(config or {}), xml)


def annotation(selected: Any = "left", **values: Any) -> dict[str, Any]:
    result = {"from_name": "pw", "to_name": "pw", "type": "pairwise", "value": {"selected": selected}}
    return {"id": 1, "result": [result], "completed_by": 3, "task": 5, "updated_at": "2026-11-16T04:29:25Z", **values}


def read(raw: dict[str, Any], how: Reading | None = None, task: dict[str, Any] | None = None) -> Any:
    how = how or reading()
    return payloads.read_comparison(raw, payloads.read_task(task or TASK, how), how)


WEBHOOKS = [*sorted(path.stem for path in PAYLOADS.glob("req_webhook_*.json")), "req_train"]


@pytest.mark.parametrize("name", WEBHOOKS)
def test_event_captured_from_label_studio_is_read(name: str, payload: Callable[[str], Any]) -> None:
    body = payload(name)
    event = payloads.read_event(body)
    assert event.action == body["action"]
    assert event.project.ref.ls_project_id == body["project"]["id"]
    assert "redacted" not in repr(event.project)


def test_event_and_setup_of_one_project_meet_in_one_reference(payload: Callable[[str], Any]) -> None:
    setup = payloads.read_setup(payload("req_setup"))
    event = payloads.read_event(payload("req_webhook_ANNOTATION_CREATED"))
    assert setup.project.ref == event.project.ref == ProjectRef(1, 1_794_803_224)


def test_setup_from_the_form_carries_its_parameters_as_text(payload: Callable[[str], Any]) -> None:
    assert payloads.read_setup(payload("req_setup_from_UI_form")).params == {"a": 1}
    assert payloads.read_setup(payload("req_setup")).params == {"item_left": "id1", "item_right": "id2"}


def test_setup_never_keeps_the_token(payload: Callable[[str], Any]) -> None:
    assert "token" not in repr(payloads.read_setup(payload("req_setup")))


def test_answer_captured_is_read_with_items_side_and_times(payload: Callable[[str], Any]) -> None:
    body = payload("req_webhook_ANNOTATION_CREATED")
    how = reading({"item_left": "id1", "item_right": "id2"})
    row = read(body["annotation"], how, body["task"])
    assert (row.annotation_id, row.task_id, row.annotator_id) == (5, 5, "3")
    assert (row.left_item, row.right_item, row.outcome, row.status) == ("m4", "m0", -1.0, "answer")
    assert row.updated_at == pytest.approx(1794803365.089176)


@pytest.mark.parametrize(
    ("name", "status", "outcome"),
    [
        ("req_webhook_ANNOTATION_CREATED_skipped", "skip", None),
        ("req_webhook_ANNOTATION_CREATED_from_prediction", "prediction", -1.0),
    ],
)
def test_answer_left_out_by_default_is_kept_and_marked(
    name: str, status: str, outcome: float | None, payload: Callable[[str], Any]
) -> None:
    body = payload(name)
    row = read(body["annotation"], None, body["task"])
    assert (row.status, row.outcome) == (status, outcome)


def test_answer_with_a_parent_prediction_alone_counts(payload: Callable[[str], Any]) -> None:
    body = payload("req_webhook_ANNOTATIONS_CREATED")
    assert body["annotation"][0]["parent_prediction"] is not None
    assert read(body["annotation"][0], None, body["task"][0]).status == "answer"


@pytest.mark.parametrize("selected", [None, {}, "", 1, True, ["left"], "up"])
def test_answer_that_names_no_side_is_unreadable_with_a_reason(selected: Any) -> None:
    row = read(annotation(selected))
    assert (row.status, row.outcome) == ("unreadable", None)
    assert row.reason


@pytest.mark.parametrize("result", [None, []])
def test_answer_without_choice_is_empty(result: Any) -> None:
    assert read(annotation(result=result)).status == "empty"


@pytest.mark.parametrize("result", [{}, "x", 3, [3], [{"from_name": "pw", "type": "pairwise", "value": None}]])
def test_answer_of_a_wrong_shape_is_never_judged(result: Any) -> None:
    assert read(annotation(result=result)).outcome is None


@pytest.mark.parametrize("person", [None, "", True, [], {}, {"id": None}])
def test_answer_of_nobody_names_nobody(person: Any) -> None:
    assert read(annotation(completed_by=person)).annotator_id is None


@pytest.mark.parametrize(
    "data", [{}, {"text1": "A"}, {"text1": "A", "text2": None}, {"text1": " ", "text2": "B"}, [], None]
)
def test_answer_on_a_task_without_the_items_is_unreadable(data: Any) -> None:
    row = read(annotation(), task={**TASK, "data": data})
    assert row.status == "unreadable"
    assert "text" in (row.reason or "")


def test_answer_comparing_an_item_with_itself_is_unreadable() -> None:
    row = read(annotation(), task={**TASK, "data": {"text1": "A", "text2": "A"}})
    assert "itself" in (row.reason or "")


def test_answer_of_a_control_renamed_in_mid_project_still_counts() -> None:
    renamed = reading(xml=PAIRWISE.replace('name="pw"', 'name="better"'))
    assert read(annotation(), renamed).outcome == 1.0


def test_answer_of_another_existing_control_is_not_mistaken_for_ours() -> None:
    two = PAIRWISE.replace("<View>", '<View><Pairwise name="first" toName="left,right"/>', 1)
    assert read(annotation(), reading(xml=two)).status == "empty"


def test_answer_by_choices_and_rating_follows_the_outcomes() -> None:
    fields = {"item_left": "answer1", "item_right": "answer2"}
    task = {**TASK, "data": {"prompt": "?", "answer1": "A", "answer2": "B"}}
    how = reading(fields, CHOICES)
    result = {"from_name": "pref", "to_name": "p", "type": "choices", "value": {"choices": ["tie"]}}
    assert read(annotation(result=[result]), how, task).outcome == 0.0
    both = {**result, "value": {"choices": ["tie", "left"]}}
    assert read(annotation(result=[both]), how, task).status == "unreadable"
    graded = reading({**fields, "control": "strength", "answers": "1=left,5=right"}, CHOICES)
    rated = {"from_name": "strength", "to_name": "p", "type": "rating", "value": {"rating": 4}}
    assert read(annotation(result=[rated]), graded, task).outcome == -0.5
    assert read(annotation(result=[{**rated, "value": {"rating": 6}}]), graded, task).status == "unreadable"


def test_draft_is_kept_under_an_id_of_its_own() -> None:
    how = reading()
    (row,) = payloads.read_draft({**annotation(), "id": 9, "user": 3}, payloads.read_task(TASK, how), how)
    assert (row.annotation_id, row.status, row.outcome, row.annotator_id) == (-9, "draft", None, "3")


@pytest.mark.parametrize(("length", "shown"), [(200, "x" * 200), (201, "x" * 199 + "…")])
def test_label_of_long_text_is_cut_at_two_hundred_characters(length: int, shown: str) -> None:
    assert payloads.item_of({"a": "x" * length}, "a")[1] == shown


@pytest.mark.parametrize(
    ("created", "updated", "expected"),
    [(100, 200, (100.0, 200.0)), (100, None, (100.0, 100.0)), (None, 200, (200.0, 200.0)), (None, None, (0.0, 0.0))],
)
def test_answer_without_one_of_its_times_borrows_the_other(
    created: int | None, updated: int | None, expected: tuple[float, float]
) -> None:
    times = {"created_at": created, "updated_at": updated}
    written = {key: at and datetime.fromtimestamp(at, UTC).isoformat() for key, at in times.items()}
    row = read(annotation(**written))
    assert (row.created_at, row.updated_at) == expected


def test_review_with_two_choices_at_once_is_no_decision() -> None:
    card = {"data": {payloads.ALERT_PROJECT: 1, payloads.ALERT_ANNOTATOR: "7"}}

    def review(*choices: str) -> Any:
        result = {"value": {"choices": list(choices)}}
        return payloads.read_review({"id": 1, "completed_by": 2, "result": [result]}, card, 9)

    assert review("Confirm").decision == "confirm"
    assert review("Confirm", "Dismiss") is None
    assert review() is None


def test_item_names_are_short_stable_and_readable() -> None:
    long = "An answer that goes on and on. " * 30
    key, label = payloads.item_of({"x": long}, "x")
    assert key is not None
    assert label is not None
    assert len(key) <= 80
    assert label.startswith("An answer that goes on")
    assert payloads.item_of({"x": long}, "x")[0] == key
    assert payloads.item_of({"x": long + "!"}, "x")[0] != key
    assert payloads.item_of({"x": 7}, "x")[0] == "7"
    url, shown = payloads.item_of({"x": "https://host/a/cat.png?token=secret"}, "x")
    assert "secret" not in f"{url}{shown}"
    assert "cat.png" in str(shown)
    assert payloads.item_of({"a": {"b": ["z"]}}, "a.b[0]")[0] == "z"


@pytest.mark.parametrize(
    "body",
    [
        None, [], "x", 3, {}, {"action": None}, {"action": ""}, {"action": ["X"]}, {"action": "ANNOTATION_CREATED"},
        {"action": "ANNOTATION_CREATED", "project": {"id": 1}},
        {"action": "ANNOTATION_CREATED", "project": {"id": 1}, "annotation": 5},
        {"action": "ANNOTATION_CREATED", "project": {"id": 1}, "annotation": {"id": "5"}},
        {"action": "ANNOTATION_CREATED", "project": {"id": 1}, "annotation": {"id": 2**70}},
        {"action": "ANNOTATIONS_DELETED", "project": {"id": 1}, "annotations": [{"id": -4}]},
        {"action": "TASKS_DELETED", "project": {"id": True}, "tasks": []},
        {"action": "TASKS_DELETED", "project": "one", "tasks": []},
    ],
)  # fmt: skip
def test_event_that_breaks_the_protocol_is_refused_with_what_was_expected(body: Any) -> None:
    with pytest.raises(PayloadError, match=r"expected|nothing|no "):
        payloads.read_event(body)


def test_setup_whose_parameters_are_no_object_is_refused() -> None:
    with pytest.raises(PayloadError, match="extra_params is"):
        payloads.read_setup({"project": "1.5", "schema": "<View/>", "extra_params": [1]})


def test_title_and_hostname_are_cut_where_the_columns_end() -> None:
    setup = {"project": "1.5", "schema": "<View/>", "hostname": "h" * 501}
    assert payloads.read_setup(setup).hostname == "h" * 500
    event = {"action": "PROJECT_UPDATED", "project": {"id": 1, "title": "t" * 501}}
    assert payloads.read_event(event).project.title == "t" * 500


@pytest.mark.parametrize("value", ["1", "1.", "1.5e3", "-1.5", "1.1.1", "", " 1", 0, -1, 2**64, 1.5, [], {"id": None}])
def test_project_reference_is_read_or_refused(value: Any) -> None:
    if value in ("1", "1."):
        assert payloads.project_ref(value) == ProjectRef(1, None)
    else:
        with pytest.raises(PayloadError):
            payloads.project_ref(value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda part: st.lists(part, max_size=3) | st.dictionaries(st.text(max_size=6), part, max_size=3),
    max_leaves=8,
)
KEYS = [
    "id",
    "task",
    "completed_by",
    "result",
    "was_cancelled",
    "lead_time",
    "updated_at",
    "created_at",
    "ground_truth",
]


@given(
    raw=st.dictionaries(st.sampled_from(KEYS), JSON), data=st.dictionaries(st.sampled_from(["text1", "text2"]), JSON)
)
def test_annotation_of_any_shape_is_read_or_refused_never_more(raw: dict[str, Any], data: dict[str, Any]) -> None:
    try:
        row = read({"id": 1, **raw}, task={**TASK, "data": data})
    except PayloadError:
        return
    assert row.outcome in (None, 1.0, -1.0)
    assert (row.outcome is None) == (row.status not in ("answer", "prediction"))
    assert row.lead_time is None or 0 <= row.lead_time <= 1e9


@given(body=JSON | st.dictionaries(st.sampled_from(["action", "project", "annotation", "task", "tasks"]), JSON))
def test_event_of_any_shape_is_read_or_refused_never_more(body: Any) -> None:
    for read_body in (payloads.read_event, payloads.read_setup):
        with contextlib.suppress(PayloadError):
            assert read_body(body).project.ref.ls_project_id > 0


@pytest.mark.parametrize(
    ("difference", "side", "score"),
    [(0.4, "left", 0.7), (-5.0, "right", 0.98), (0.0, None, 0.0), (None, None, 0.0)],
)
def test_prediction_names_the_winner_of_a_finished_task(
    difference: float | None, side: str | None, score: float
) -> None:
    made = payloads.prediction(payloads.read_task(TASK, reading()), reading(), difference, "evenhand-3")
    assert made["score"] == score
    assert made["model_version"] == "evenhand-3"
    assert [result["value"]["selected"] for result in made["result"]] == ([side] if side else [])
    assert all(result["to_name"] == "left" for result in made["result"])


@pytest.mark.parametrize("labeled", [False, None, "true"])
def test_prediction_on_an_open_task_selects_nothing(labeled: Any) -> None:
    task = payloads.read_task({**TASK, "is_labeled": labeled}, reading())
    assert payloads.prediction(task, reading(), 0.9, "v")["result"] == []


# --- label config and project settings ---------------------------------------------------------------------------


def test_label_config_defaults_to_the_first_pairwise_and_its_objects() -> None:
    how = reading()
    (control,) = how.controls
    assert (how.control, how.item_left, how.item_right, control.object_name) == ("pw", "text1", "text2", "left")


def test_choices_with_texts_for_either_side_are_read_without_settings() -> None:
    how = reading({}, CHOICES)
    assert (how.control, how.item_left, how.item_right) == ("pref", "answer1", "answer2")
    assert how.controls[0].outcomes == {"left": 1.0, "tie": 0.0, "right": -1.0}


def test_prediction_of_a_judge_is_read_like_an_answer_and_ours_is_not() -> None:
    task = payloads.read_task(TASK, reading())
    raw = {**annotation("left", id=7, model_version="gpt"), "completed_by": None}
    (row,) = payloads.read_judgement(raw, task, reading())
    assert row is not None
    assert (row.annotator_id, row.outcome, row.status) == ("judge:gpt", 1.0, "judge")
    assert row.annotation_id > 2**52
    assert payloads.read_judgement({**raw, "model_version": "evenhand-3"}, task, reading()) == []
    assert payloads.read_judgement({**raw, "model_version": None}, task, reading()) == []


@pytest.mark.parametrize(
    ("config", "xml", "words"),
    [
        ({}, "<View/>", "Pairwise"),
        ({}, "<View", "XML"),
        ({}, '<!DOCTYPE x [<!ENTITY a "b">]><View>&a;</View>', "DOCTYPE"),
        ({}, '<View><Pairwise name="p" toName="a"/></View>', "two"),
        ({"control": "zz"}, PAIRWISE, "pw"),
        ({"control": "pref"}, CHOICES.replace("answer2", "other"), "answer1, other, prompt"),
        ({}, '<View><Text name="l" value="$l"/><Ranker name="r" toName="l"/></View>', "points at no List"),
        (
            {},
            '<View><Text name="a" value="$a"/><Rating name="r1" toName="a"/><Rating name="r2" toName="a"/></View>',
            "grades one response at a time",
        ),
        ({"control": "strength", "item_left": "answer1", "item_right": "answer2"}, CHOICES, "1, 2, 3, 4, 5"),
        ({"item_left": "text2"}, PAIRWISE, "both"),
        (
            {"control": "pref", "item_left": "answer1", "item_right": "answer2", "answers": {"left": 0, "right": 0}},
            CHOICES,
            "tie",
        ),
    ],
)
def test_label_config_that_does_not_fit_names_what_is_offered(config: dict[str, Any], xml: str, words: str) -> None:
    with pytest.raises(UnusableValueError, match=words):
        reading(config, xml)


def test_label_config_fields_are_checked_against_the_tasks_seen() -> None:
    config = ProjectConfig.model_validate({"item_left": "id1", "item_right": "id2"})
    assert resolve(config, PAIRWISE).item_left == "id1"
    assert resolve(config, PAIRWISE, ["id1", "id2"]).item_left == "id1"
    with pytest.raises(UnusableValueError, match="name1"):
        resolve(config, PAIRWISE, ["name1", "name2"])


def test_label_config_nested_very_deeply_does_no_harm() -> None:
    depth = 20_000
    with pytest.raises(UnusableValueError):
        resolve(ProjectConfig.model_validate({}), "<View>" * depth + "</View>" * depth)
    assert parse_label_config("<View/>").controls == ()


@pytest.mark.parametrize(
    "values",
    [
        {"q": 0}, {"q": "much"}, {"q": float("nan")}, {"draws": -1}, {"lbi": "draws"}, {"lbi": 3}, {"path": 3},
        {"publish": "all the"},
        {"answers": {"left": 2}}, {"answers": "left"}, {"every_minutes": -1}, {"copies": 1e9}, {"unknown": 1},
    ],
)  # fmt: skip
def test_settings_that_make_no_sense_are_refused_by_name(values: dict[str, Any]) -> None:
    with pytest.raises(UnusableValueError, match=next(iter(values))):
        parse_config(values)


@pytest.mark.parametrize(
    ("values", "key", "expected"),
    [
        ({"q": "0.2"}, "q", 0.2),
        ({"answers": '{"left": 1}'}, "answers", {"left": 1.0}),
        ({"answers": "A is worse=right, tie=0"}, "answers", {"A is worse": "right", "tie": "0"}),
        ({"control": "  "}, "control", None),
        ({"every_answers": ""}, "every_answers", 200),
    ],
)
def test_settings_from_forms_and_command_lines_are_understood(values: dict[str, Any], key: str, expected: Any) -> None:
    assert getattr(parse_config(values), key) == expected


@pytest.mark.parametrize("value", [True, "true", ["predictions", "tab", "alerts"], "predictions,tab,alerts"])
def test_settings_publish_is_understood_in_every_form(value: Any) -> None:
    made = parse_config({"publish": value}).publish
    assert (made.predictions, made.tab, made.alerts, made.pseudonyms) == (True, True, True, False)


def test_settings_survive_json() -> None:
    config = parse_config({"q": 0.2, "publish": "tab", "answers": "left=1"})
    assert ProjectConfig.model_validate(json.loads(json.dumps(config.to_json()))) == config
