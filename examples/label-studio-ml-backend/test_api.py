"""What Label Studio calls, answered by the mounted model.

pip install -r requirements.txt pytest && pytest
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
