"""The SDK adapter under label-studio-ml 1.0.9's own server, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from evenhand.domain import ProjectRef
from evenhand.project_config import parse_config
from evenhand.settings import Settings
from evenhand.store import open_store

from harness.label_configs import PAIRWISE
from tests.backend.test_store_runs import finish

EPOCH = 1_794_803_224
# The server keeps global state and forks for events, so it gets its own process; its test client speaks HTTP to it.
PROGRAM = """
import json, multiprocessing, sys
from label_studio_ml.api import init_app
from evenhand.sdk_model import EvenhandModel
client = init_app(EvenhandModel, model_dir=sys.argv[1]).test_client()
answers = []
for path, body in json.load(sys.stdin):
    answer = client.post(path, json=body)
    answers.append([answer.status_code, answer.get_json()])
for job in multiprocessing.active_children():
    job.join()
print(json.dumps(answers))
"""


def call(folder: Path, requests: list[tuple[str, Any]]) -> list[Any]:
    environment = {**os.environ, "MODEL_DIR": str(folder), "PYTHONWARNINGS": "ignore"}
    environment.pop("DATABASE_URL", None)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder / "sdk")],
        input=json.dumps(requests),
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answers: list[Any] = json.loads(done.stdout.splitlines()[-1])
    return answers


@pytest.mark.slow
def test_sdk_server_predicts_from_the_stored_run(tmp_path: Path) -> None:
    settings = Settings.from_env({"MODEL_DIR": str(tmp_path)})
    store = open_store(settings)
    config = parse_config({"publish": "predictions"})
    project = store.projects.register("http://ls", ProjectRef(1, EPOCH), label_config=PAIRWISE, config=config)
    items = [{"item": "a", "score": 0.5, "rank": 1.0}, {"item": "b", "score": -0.1, "rank": 2.0}]
    run_id = finish(store, project, items=items)
    store.close()
    tasks = [
        {"id": number, "project": 1, "is_labeled": labeled, "data": {"text1": "a", "text2": "b"}}
        for number, labeled in ((1, True), (2, False))
    ]
    name = f"1.{EPOCH}"
    setup, predicted = call(
        tmp_path,
        [
            ("/setup", {"project": name, "schema": PAIRWISE, "hostname": "http://ls", "access_token": "t"}),
            ("/predict", {"tasks": tasks, "project": name, "label_config": PAIRWISE, "params": {"context": None}}),
        ],
    )
    assert setup[0] == 200
    assert predicted[0] == 200
    closed, still_open = predicted[1]["results"]
    assert closed["result"][0]["value"] == {"selected": "left"}
    assert closed["score"] == 0.8
    assert closed["model_version"] == f"evenhand-{run_id}"
    assert still_open["result"] == []


@pytest.mark.slow
def test_sdk_server_events_reach_the_store(tmp_path: Path, payload: Callable[[str], Any]) -> None:
    (answer,) = call(tmp_path, [("/webhook", payload("req_webhook_ANNOTATION_CREATED"))])
    assert answer[0] == 201
    store = open_store(Settings.from_env({"MODEL_DIR": str(tmp_path)}))
    (project,) = store.projects.all()
    assert [row["annotation_id"] for row in store.comparisons.rows(project.id)] == [5]
    store.close()


@pytest.mark.slow
def test_model_takes_events_as_either_generation_calls_it(tmp_path: Path, payload: Callable[[str], Any]) -> None:
    body = payload("req_webhook_ANNOTATION_CREATED")
    data = {key: value for key, value in body.items() if key != "action"}
    program = (
        "import json, sys\nfrom evenhand.sdk_model import EvenhandModel\n"
        "model, data = EvenhandModel(), json.load(sys.stdin)\n"
        "gone = {'annotations': [{'id': 5}], 'project': data['project']}\n"
        "print(json.dumps([model.fit((), event='ANNOTATION_CREATED', data=data, job_id='1', workdir='x'),"
        " model.fit('ANNOTATION_CREATED', data), model.fit('ANNOTATION_CREATED', {}), model.fit(()),"
        " model.process_event('ANNOTATIONS_DELETED', gone, '1', {}),"
        " model.fit(event='ANNOTATION_CREATED', data=data, job_id='1')]))"
    )
    environment = {**os.environ, "MODEL_DIR": str(tmp_path), "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=json.dumps(data),
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    first, second, refused, nothing, plural, named = json.loads(done.stdout.splitlines()[-1])
    assert first["ok"] is second["ok"] is plural["ok"] is named["ok"] is True
    assert refused["error"]["code"] == "bad_payload"
    assert nothing == {}
