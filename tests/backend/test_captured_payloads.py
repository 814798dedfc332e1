"""What Label Studio 1.23.2 really sent and answered, beside the events: other calls, responses, exports, lists."""

import json
from dataclasses import replace
from typing import Any

import pytest
from evenhand.app import create_app
from evenhand.label_studio.client import project_epoch
from evenhand.label_studio.payloads import prediction, read_comparison, read_task
from evenhand.project_config import ProjectConfig
from evenhand.projects.reading import resolve
from evenhand.settings import Settings
from evenhand.store import Store

from fdr_core import Comparisons
from harness.label_configs import PAIRWISE
from tests.backend.conftest import PAYLOADS

READING = resolve(ProjectConfig.model_validate({}), PAIRWISE, ("text1", "text2"))


def captured(name: str) -> Any:
    return json.loads((PAYLOADS / f"{name}.json").read_text(encoding="utf-8"))


CALLS = ("req_health", "req_setup", "req_setup_from_UI_form", "req_predict", "req_predict_interactive", "req_versions")


@pytest.mark.parametrize("name", CALLS)
def test_captured_call_is_answered(sqlite_store: Store, name: str) -> None:
    client = create_app(Settings(), sqlite_store).test_client()
    calls = captured(name)
    for call in calls if isinstance(calls, list) else [calls]:
        answer = client.open(call["path"], method=call["method"], json=call["body"])
        assert answer.status_code == 200, answer.text
        if call["path"].startswith("/predict"):
            assert len(answer.get_json()["results"]) == len(call["body"]["tasks"])


def test_batch_of_captured_size_gets_one_entry_per_task(sqlite_store: Store) -> None:
    client = create_app(Settings(), sqlite_store).test_client()
    sizes = [row[4] for row in captured("req_predict_batch_summary") if row[1] == "/predict"]
    assert sizes == [258]
    tasks = [{"id": k, "data": {"text1": "a", "text2": "b"}, "is_labeled": False} for k in range(sizes[0])]
    results = client.post("/predict", json={"tasks": tasks, "project": "1.1794803224"}).get_json()["results"]
    assert results == [[]] * 258


def test_created_annotation_is_read_as_the_answer_it_holds() -> None:
    raw = captured("annotation_create_response")
    row = read_comparison(raw, None, READING)
    assert (row.annotation_id, row.annotator_id) == (12, "5")


def test_listed_task_with_its_annotations_is_read_as_comparisons() -> None:
    raw = captured("tasks_list_fields_all_one")
    task = read_task(raw, READING)
    rows = [read_comparison(annotation, task, READING) for annotation in raw["annotations"]]
    assert {row.status for row in rows} == {"answer"}
    assert rows[0].outcome == 1.0
    assert read_task(captured("tasks_list_task_only_one"), READING).task_id == task.task_id


@pytest.mark.parametrize("name", ["export_JSON_one_task", "export_JSON_MIN_one"])
def test_exported_task_is_read_by_the_library(name: str) -> None:
    export = captured(name)
    comparisons = Comparisons.from_label_studio(export if isinstance(export, list) else [export])
    assert len(comparisons) >= 1
    assert comparisons.n_items == 2


def test_project_response_gives_the_epoch_of_setup() -> None:
    assert project_epoch(captured("project_create_response")) == int(
        captured("req_setup")["body"]["project"].split(".")[1]
    )


def test_our_prediction_has_the_shape_of_a_stored_one() -> None:
    stored = captured("predictions_list")[0]
    task = replace(read_task(captured("tasks_list_fields_all_one"), READING), is_labeled=True)
    ours = prediction(task, READING, 0.6, "evenhand-1")
    assert {"result", "score", "model_version"} <= set(stored)
    assert ours["result"][0]["value"] == stored["result"][0]["value"] == {"selected": "left"}


def test_every_event_that_label_studio_offers_for_tasks_and_annotations_is_known(sqlite_store: Store) -> None:
    client = create_app(Settings(), sqlite_store).test_client()
    project = captured("project_create_response")
    for action in captured("webhooks_info"):
        answer = client.post("/webhook", json={"action": action, "project": project})
        assert answer.status_code < 500, action
