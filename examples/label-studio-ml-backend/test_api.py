"""What Label Studio calls, answered by the mounted model.

pip install -r requirements.txt -r requirements-test.txt && pytest
"""

import pytest

CONFIG = """
<View>
  <Pairwise name="pw" toName="left,right"/>
  <Text name="left" value="$left"/>
  <Text name="right" value="$right"/>
</View>
"""
TASK = {"id": 1, "project": 1, "data": {"left": "a careful answer", "right": "a careless one"}}


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    import os

    os.environ["MODEL_DIR"] = str(tmp_path_factory.mktemp("data"))
    from _wsgi import app

    return app.test_client()


def test_health(client):
    assert client.get("/health").status_code == 200


def test_setup_then_predict(client):
    project = {"project": "1.1700000000", "schema": CONFIG, "hostname": "http://localhost:8080", "access_token": "x"}
    setup = client.post("/setup", json=project)
    assert setup.status_code == 200
    assert "model_version" in setup.get_json()
    body = {"tasks": [TASK], "project": "1.1700000000", "label_config": CONFIG, "params": {}}
    predicted = client.post("/predict", json=body)
    assert predicted.status_code == 200
    (prediction,) = predicted.get_json()["results"]
    # No run yet, and the task can still be labelled: nothing may be pre-selected.
    assert prediction["result"] == []


def test_event_is_accepted(client):
    annotation = {
        "id": 5,
        "completed_by": 7,
        "result": [{"from_name": "pw", "to_name": "pw", "type": "pairwise", "value": {"selected": "left"}}],
        "was_cancelled": False,
        "updated_at": "2026-01-01T10:00:00Z",
    }
    event = {
        "action": "ANNOTATION_CREATED",
        "annotation": annotation,
        "task": TASK,
        "project": {"id": 1, "label_config": CONFIG},
    }
    assert client.post("/webhook", json=event).status_code in (200, 201)


def test_fit_then_predict(client):
    import os
    from multiprocessing import active_children

    from evenhand.domain import Trigger
    from evenhand.project_config import parse_config
    from evenhand.server.worker import Runs
    from evenhand.settings import Settings
    from evenhand.store import open_store

    number, project = 100, {"id": 1, "label_config": CONFIG, "created_at": "2023-11-14T22:13:20Z"}
    for task in range(1, 5):
        pair = {"id": task, "project": 1, "data": {"left": "good answer", "right": "bad answer"}}
        for person in range(1, 4):
            number += 1
            result = [{"from_name": "pw", "to_name": "pw", "type": "pairwise", "value": {"selected": "left"}}]
            annotation = {"id": number, "completed_by": person, "result": result, "updated_at": "2026-01-01T10:00:00Z"}
            event = {"annotation": annotation, "task": pair, "project": project}
            client.post("/webhook", json={"action": "ANNOTATION_CREATED", **event})
            for job in active_children():  # 1.0.9 calls fit in a process of its own
                job.join()
    store = open_store(Settings.from_env(os.environ))
    (project,) = store.projects.all()
    store.projects.set_config(project.id, parse_config({"publish": "predictions"}, base=project.config))
    store.runs.request(project.id, Trigger.MANUAL)
    Runs(store, "test").once()  # what `evenhand worker` does
    store.close()
    finished = {"id": 1, "project": 1, "is_labeled": True, "data": {"left": "good answer", "right": "bad answer"}}
    body = {"tasks": [finished], "project": "1.1700000000", "label_config": CONFIG, "params": {}}
    (prediction,) = client.post("/predict", json=body).get_json()["results"]
    assert prediction["result"][0]["value"] == {"selected": "left"}
    assert prediction["model_version"].startswith("evenhand-")
