"""What each role may do: Label Studio's calls, reading, deciding, changing settings; least by default."""

from __future__ import annotations

import pytest
from evenhand.app import create_app
from evenhand.domain import ROLES, Role
from evenhand.settings import Settings
from evenhand.store import Store
from evenhand.web.passwords import hash_password
from flask import Flask

from harness.filled import LEANS, fill
from tests.backend.closed_service import basic, every_route

PASSWORD = "a long password"


@pytest.fixture
def app(sqlite_store: Store) -> Flask:
    fill(sqlite_store)
    for role in ROLES:
        sqlite_store.users.put(role, hash_password(PASSWORD), role)
    sqlite_store.users.link("reviewer", "", "", by="an owner")
    return create_app(Settings(basic_auth_user="lead", basic_auth_pass="right-horse"), sqlite_store)


def status(app: Flask, role: Role, method: str, path: str, body: object = None) -> int:
    answer = app.test_client().open(path, method=method, json=body, headers=basic(role, PASSWORD))
    return answer.status_code


@pytest.mark.parametrize(
    ("method", "path", "body", "allowed"),
    [
        ("GET", "/versions", None, ("protocol",)),
        ("GET", "/metrics", None, ROLES),
        ("GET", "/api/v1/projects/1/annotators", None, ("reader", "reviewer", "owner")),
        ("GET", "/api/v1/projects/1/decisions", None, ("reader", "reviewer", "owner")),
        ("GET", "/ui/", None, ("reader", "reviewer", "owner")),
        ("POST", "/api/v1/projects/1/runs", {}, ("reviewer", "owner")),
        ("POST", "/api/v1/projects/1/decisions", {"annotator": LEANS, "decision": "watch"}, ("reviewer", "owner")),
        ("PATCH", "/api/v1/projects/1/config", {"q": 0.2}, ("owner",)),
    ],
)
def test_role_may_do_what_it_is_for_and_no_more(
    app: Flask, method: str, path: str, body: object, allowed: tuple[Role, ...]
) -> None:
    assert {role for role in ROLES if status(app, role, method, path, body) == 200} == set(allowed)
    assert {status(app, role, method, path, body) for role in ROLES if role not in allowed} <= {403}


def test_label_studio_s_credential_reads_no_results(app: Flask) -> None:
    client = app.test_client()
    let_in = {
        path
        for _, method, path in every_route(app)
        if path.startswith(("/ui", "/api")) and not path.startswith("/ui/static") and path != "/ui/login"
        if client.open(path, method=method, json={}, headers=basic()).status_code not in (401, 403)
    }
    assert let_in == set()
    assert client.get("/versions", headers=basic()).status_code == 200


def test_account_without_a_role_reads_and_keeps_its_role_with_a_new_password(sqlite_store: Store) -> None:
    sqlite_store.users.put("ana", hash_password(PASSWORD))
    sqlite_store.users.put("ben", hash_password(PASSWORD), "owner")
    sqlite_store.users.put("ben", hash_password(PASSWORD))
    assert {account.name: account.role for account in sqlite_store.users.all()} == {"ana": "reader", "ben": "owner"}


def test_decision_about_oneself_or_off_the_list_is_refused_on_the_api(app: Flask, sqlite_store: Store) -> None:
    client, path = app.test_client(), "/api/v1/projects/1/decisions"
    body = {"annotator": LEANS, "decision": "dismiss"}
    sqlite_store.users.put(LEANS, hash_password(PASSWORD), "reviewer")
    sqlite_store.users.link(LEANS, "", "", by="an owner")
    refused = client.post(path, json=body, headers=basic(LEANS, PASSWORD))
    assert (refused.status_code, "own answers" in refused.get_json()["error"]["message"]) == (403, True)
    config = {"reviewers": ["reviewer"]}
    assert client.patch("/api/v1/projects/1/config", json=config, headers=basic("owner", PASSWORD)).status_code == 200
    assert client.post(path, json=body, headers=basic("owner", PASSWORD)).status_code == 403
    assert client.post(path, json=body, headers=basic("reviewer", PASSWORD)).status_code == 200


def test_reviewers_are_not_changed_by_what_label_studio_sends(app: Flask, sqlite_store: Store) -> None:
    project = sqlite_store.projects.all()[0]
    ref = f"{project.ls_project_id}.{project.epoch}"
    body = {"project": ref, "schema": project.label_config, "hostname": project.ls_url, "extra_params": None}
    for params in ('{"reviewers": ["mallory"]}', {"reviewers": ["mallory"]}):
        app.test_client().post("/setup", json={**body, "extra_params": params}, headers=basic())
    assert "mallory" not in str([found.config for found in sqlite_store.projects.all()])
