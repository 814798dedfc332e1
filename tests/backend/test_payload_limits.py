"""Single values of what Label Studio sends: what counts as ground truth, who reviewed, which events are named."""

from typing import Any

import pytest
from evenhand.errors import PayloadError
from evenhand.label_studio import payloads

from tests.backend.test_payloads import annotation, read

CARD = {"data": {payloads.ALERT_PROJECT: 1, payloads.ALERT_ANNOTATOR: "7"}}


@pytest.mark.parametrize(
    ("value", "expected"), [(True, True), (False, False), (None, False), ("yes", False), (1, False)]
)
def test_ground_truth_is_what_label_studio_marks_as_such(value: Any, expected: bool) -> None:
    assert read(annotation(ground_truth=value)).ground_truth is expected


def test_annotation_that_says_nothing_of_ground_truth_is_none() -> None:
    assert read(annotation()).ground_truth is False


def review(**values: Any) -> Any:
    result = {"value": {"choices": ["Confirm"]}}
    return payloads.read_review({"id": 12, "completed_by": 2, "result": [result], **values}, CARD, 9)


@pytest.mark.parametrize(
    ("completed_by", "author"),
    [(2, "Label Studio user 2"), ({"id": 4}, "Label Studio user 4"), (None, "Label Studio user unknown")],
)
def test_review_names_who_answered_the_card(completed_by: Any, author: str) -> None:
    assert review(completed_by=completed_by).author == author


def test_review_is_known_by_card_project_annotation_and_time() -> None:
    found = review(updated_at="1970-01-01T00:01:00Z")
    assert (found.project_id, found.annotator_id, found.decided_at) == (1, "7", 60.0)
    assert found.source_key == "label-studio:9:12:60.000000"


@pytest.mark.parametrize("updated_at", [None, "yesterday"])
def test_review_without_a_time_counts_as_the_oldest(updated_at: Any) -> None:
    assert review(updated_at=updated_at).decided_at == 0.0


def test_review_that_was_cancelled_is_no_decision() -> None:
    assert review(was_cancelled=True) is None
    assert review(was_cancelled=False).decision == "confirm"


@pytest.mark.parametrize("project", ["1", 1])
def test_review_reads_the_project_as_number_or_text(project: Any) -> None:
    card = {"data": {payloads.ALERT_PROJECT: project, payloads.ALERT_ANNOTATOR: 7}}
    raw = {"id": 12, "result": [{"value": {"choices": ["Dismiss"]}}, {"value": {"text": ["two", "lines"]}}]}
    found = payloads.read_review(raw, card, 9)
    assert found is not None
    assert (found.project_id, found.annotator_id, found.decision) == (1, "7", "dismiss")
    assert found.comment == "two\nlines"


@pytest.mark.parametrize("action", [None, "", 5, ["ANNOTATION_CREATED"]])
def test_event_without_a_name_is_refused(action: Any) -> None:
    with pytest.raises(PayloadError, match="expected an event name such as ANNOTATION_CREATED"):
        payloads.read_event({"action": action, "project": {"id": 1}})


def test_event_says_of_its_project_what_is_text_and_nothing_else() -> None:
    project = {"id": 1, "title": "Cats", "label_config": "<View/>", "updated_at": "1970-01-01T00:01:00Z"}
    told = payloads.read_event({"action": "PROJECT_UPDATED", "project": project}).project
    assert (told.ref.ls_project_id, told.title, told.label_config, told.updated_at) == (1, "Cats", "<View/>", 60.0)
    odd = {"id": 1, "title": 5, "label_config": ["<View/>"], "updated_at": []}
    untold = payloads.read_event({"action": "PROJECT_UPDATED", "project": odd}).project
    assert (untold.title, untold.label_config, untold.updated_at) == (None, None, None)
