"""The JSON API: paged, described by itself, field names of the detection, decisions under the caller's name."""

from __future__ import annotations

import re
from typing import Any

import pytest
from evenhand.app import create_app
from evenhand.domain import Batch, Project, ProjectRef
from evenhand.settings import Settings
from evenhand.store import Store
from flask.testing import FlaskClient

from harness.label_configs import PAIRWISE
from tests.backend.test_store_comparisons import BASE, TASK
from tests.backend.test_store_runs import annotator_row, finish


@pytest.fixture
def project(sqlite_store: Store) -> Project:
    made = sqlite_store.projects.register("http://ls", ProjectRef(1, 1), title="Répliques <b>", label_config=PAIRWISE)
    sqlite_store.comparisons.apply(made.id, Batch(comparisons=[BASE], tasks=[TASK], events=("ANNOTATION_CREATED",)))
    sqlite_store.annotators.name(made.id, {"7": ("Ana", "ana@example.com")})
    worst = annotator_row("7", flagged=True, finding="left side only", first_seen=100.0)
    rows = [worst, annotator_row("8"), annotator_row("9")]
    finish(sqlite_store, made, annotators=rows)
    return made


@pytest.fixture
def client(sqlite_store: Store, project: Project) -> FlaskClient:
    return create_app(Settings(), sqlite_store).test_client()


def get(client: FlaskClient, path: str) -> Any:
    answer = client.get(f"/api/v1{path}")
    assert answer.status_code == 200, answer.get_data(as_text=True)
    return answer.get_json()


def test_openapi_describes_exactly_the_routes_there_are(client: FlaskClient) -> None:
    described = {
        (method, re.sub(r"\{[^}]*\}", "{}", path))
        for path, methods in get(client, "/openapi.json")["paths"].items()
        for method in methods
    }
    served = {
        (method.lower(), re.sub(r"<[^>]*>", "{}", rule.rule))
        for rule in client.application.url_map.iter_rules()
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}
    }
    assert described <= served
    assert {route for route in served if route[1].startswith("/api/")} == {
        route for route in described if route[1].startswith("/api/")
    }
    assert {"/health", "/setup", "/predict", "/webhook", "/metrics", "/versions"} <= {path for _, path in described}


def test_openapi_names_every_path_parameter(client: FlaskClient) -> None:
    for path, methods in get(client, "/openapi.json")["paths"].items():
        for operation in methods.values():
            named = {param["name"] for param in operation["parameters"] if param["in"] == "path"}
            assert named == set(re.findall(r"\{([^}]*)\}", path))


def test_every_list_answers_with_rows_next_and_total(client: FlaskClient) -> None:
    for path in (
        "/projects",
        *(f"/projects/1/{name}" for name in ("annotators", "ranking", "tasks", "runs", "decisions")),
    ):
        assert {"rows", "next", "total"} <= set(get(client, path)), path


def test_annotators_speak_the_words_for_people(client: FlaskClient) -> None:
    rows = get(client, "/projects/1/annotators")["rows"]
    assert [row["finding"] for row in rows] == ["left side only", "no lean seen", "no lean seen"]
    assert rows[0]["name"] == "Ana"
    assert rows[0]["first_seen"] == "1970-01-01T00:01:40.000Z"
    assert {"annotator", "comparisons", "left", "right", "ties", "bias", "lbi_share", "flagged"} <= set(rows[0])


def test_annotators_follow_the_cursor_to_the_end(client: FlaskClient) -> None:
    first = get(client, "/projects/1/annotators?limit=2&sort=annotator&order=desc")
    second = get(client, f"/projects/1/annotators?limit=2&sort=annotator&order=desc&cursor={first['next']}")
    assert [row["annotator"] for row in first["rows"] + second["rows"]] == ["9", "8", "7"]
    assert (first["total"], second["next"]) == (3, None)


def test_annotator_alone_shows_evidence_and_decisions(client: FlaskClient) -> None:
    made = client.post("/api/v1/projects/1/decisions", json={"annotator": "7", "decision": "watch", "comment": "hm"})
    assert made.get_json()["author"] == "local"
    shown = get(client, "/projects/1/annotators/7")
    assert (shown["decision"], shown["decisions"][0]["comment"]) == ("watch", "hm")
    assert client.get("/api/v1/projects/1/annotators/nobody").status_code == 404


def test_run_now_is_queued_once_and_shown(client: FlaskClient) -> None:
    first = client.post("/api/v1/projects/1/runs", json={}).get_json()
    assert client.post("/api/v1/projects/1/runs", json={}).get_json()["id"] == first["id"]
    assert get(client, f"/projects/1/runs/{first['id']}")["status"] == "queued"
    assert client.get(f"/api/v1/projects/1/annotators?run={first['id']}").status_code == 404


def test_audit_and_status_and_ranking(client: FlaskClient) -> None:
    assert get(client, "/projects/1/audit")["audit"]["construction"] == "flip"
    status = get(client, "/status")
    assert status["projects"][0]["title"] == "Répliques <b>"
    assert status["events"][0]["kind"] == "ANNOTATION_CREATED"
    ranking = get(client, "/projects/1/ranking")
    assert [row["item"] for row in ranking["rows"]] == ["a", "b"]
    assert ranking["order_changes"][0]["above"] == "a"


@pytest.mark.parametrize(
    "body",
    [
        [], {}, {"annotator": "7"}, {"annotator": 7, "decision": "watch"}, {"annotator": "7", "decision": "fire"},
        {"annotator": "7", "decision": "watch", "comment": "x" * 5001},
        {"annotator": "7", "decision": "watch", "run": "1"},
    ],
)  # fmt: skip
def test_decision_that_makes_no_sense_is_refused(client: FlaskClient, sqlite_store: Store, body: Any) -> None:
    assert client.post("/api/v1/projects/1/decisions", json=body).status_code == 400
    assert sqlite_store.decisions.page(1).total == 0


def test_decision_about_nobody_or_an_unknown_run_is_404(client: FlaskClient) -> None:
    for body in ({"annotator": "nobody", "decision": "watch"}, {"annotator": "7", "decision": "watch", "run": 999}):
        assert client.post("/api/v1/projects/1/decisions", json=body).status_code == 404


def test_config_is_changed_and_checked_against_the_label_config(client: FlaskClient) -> None:
    assert client.patch("/api/v1/projects/1/config", json={"q": 0.2}).get_json()["config"]["q"] == 0.2
    refused = client.patch("/api/v1/projects/1/config", json={"control": "zz"})
    assert refused.status_code == 422
    assert "pw" in refused.get_json()["error"]["message"]
    assert client.patch("/api/v1/projects/1/config", json=[]).status_code == 400
    assert get(client, "/projects/1")["config"]["control"] is None


@pytest.mark.parametrize(
    "path",
    [
        "/projects/1/annotators?limit=0", "/projects/1/annotators?limit=x", "/projects/1/annotators?sort=password",
        "/projects/1/annotators?flagged=perhaps", "/projects/1/annotators?run=0", "/projects/1/annotators?cursor=%00",
        "/projects/1/annotators?run=99999999999999999999", "/projects/1/ranking?order=up",
    ],
)  # fmt: skip
def test_query_that_makes_no_sense_is_400(client: FlaskClient, path: str) -> None:
    answer = client.get(f"/api/v1{path}")
    assert answer.status_code == 400
    assert answer.get_json()["ok"] is False


@pytest.mark.parametrize(
    "path", ["/projects/999", "/projects/0", "/projects/99999999999999999999", "/projects/x", "/projects/1/runs/999"]
)
def test_what_does_not_exist_is_404_in_the_one_shape(client: FlaskClient, path: str) -> None:
    answer = client.get(f"/api/v1{path}")
    assert answer.status_code == 404
    assert answer.get_json()["error"]["code"] == "not_found"


def test_text_no_database_holds_is_harmless(client: FlaskClient) -> None:
    assert client.get("/api/v1/projects/1/annotators/%00%ED%A0%80").status_code == 404
    assert get(client, "/projects/1/annotators?search=%00%25_'%22")["total"] == 0
