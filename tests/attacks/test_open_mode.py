"""A service without accounts is for whoever started it; events without credentials are hints."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from evenhand.app import create_app
from evenhand.commands.operate import has_screen
from evenhand.domain import ProjectRef
from evenhand.ingest.pull import pull_project
from evenhand.label_studio.client import client_from_settings, ensure_webhook, project_epoch
from evenhand.runs.schedule import pull_is_due
from evenhand.settings import SECRET_HEADER, Settings
from evenhand.store import Store
from evenhand.web.passwords import open_link
from flask import Flask
from flask.testing import FlaskClient

from harness.databases import new_store
from harness.fake_label_studio import LEGACY_TOKEN, URL, FakeLabelStudio
from harness.label_configs import PAIRWISE

NO_TOKEN = {"Authorization": ""}
HTML = {"Accept": "text/html", **NO_TOKEN}
OPEN = Settings()
WITH_API = replace(OPEN, label_studio_url=URL, label_studio_api_key=LEGACY_TOKEN)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with closing(new_store(tmp_path / "evenhand.db")) as opened:
        yield opened


@pytest.fixture
def app(store: Store) -> Flask:
    return create_app(OPEN, store)


def event(number: int = 1, project: int = 1) -> dict[str, Any]:
    result = {"value": {"selected": "left"}, "id": "x", "from_name": "pw", "to_name": "pw", "type": "pairwise"}
    stamp = {"created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-01T00:00:00Z"}
    return {
        "action": "ANNOTATION_CREATED",
        "annotation": {"id": number, "task": number, "completed_by": 777, "result": [result], **stamp},
        "task": {"id": number, "data": {"text1": "a", "text2": "b"}, **stamp},
        "project": {"id": project, "title": "pairs", "label_config": PAIRWISE, "created_at": "2026-01-01T00:00:00Z"},
    }


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/ui/"), ("GET", "/api/v1/projects"), ("PATCH", "/api/v1/projects/1/config"), ("GET", "/metrics")],
)
@pytest.mark.parametrize("sent", [NO_TOKEN, {"Authorization": "Bearer guess"}, {"Cookie": "evenhand_session=x"}])
def test_pages_and_api_want_the_token(app: Flask, method: str, path: str, sent: dict[str, str]) -> None:
    headers = {**NO_TOKEN, **sent}
    assert app.test_client().open(path, method=method, json={}, headers=headers).status_code == 401


def test_without_the_token_people_are_told_where_it_is(app: Flask) -> None:
    answer = app.test_client().get("/", headers=HTML, follow_redirects=True)
    assert (answer.status_code, "evenhand status" in answer.text) == (401, True)
    assert app.test_client().get("/ui/login", headers=HTML, follow_redirects=True).status_code == 401


def test_link_opens_the_pages_and_leaves_the_address(app: Flask, store: Store) -> None:
    client = app.test_client()
    link = open_link(OPEN, store).removeprefix("http://127.0.0.1:9090")
    first = client.get(link, headers=HTML)
    assert (first.status_code, first.headers["Location"]) == (302, "/ui/")
    assert client.get("/ui/", headers=HTML).status_code == 200
    assert client.get("/api/v1/projects", headers=NO_TOKEN).status_code == 200


def test_token_is_one_for_each_data_folder_survives_restarts_and_is_its_owner_s(app: Flask, store: Store) -> None:
    assert open_link(OPEN, store) == open_link(OPEN, store)
    (path,) = Path(str(store.engine.url.database)).parent.glob("open.token")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    client = create_app(OPEN, store).test_client()
    sent = {"Authorization": f"Bearer {path.read_text()}"}
    assert client.get("/api/v1/projects", headers=sent).status_code == 200


def test_token_in_the_address_changes_nothing(app: Flask, store: Store) -> None:
    path = open_link(OPEN, store).partition("?")[2]
    sent = app.test_client().patch(f"/api/v1/projects/1/config?{path}", json={"q": 0.2}, headers=NO_TOKEN)
    assert sent.status_code == 401


def test_token_opens_nothing_once_there_are_accounts(store: Store) -> None:
    store.users.put("ana", "x")
    assert create_app(OPEN, store).test_client().get("/api/v1/projects").status_code == 401


def test_label_studio_s_routes_never_ask_for_the_token(app: Flask, store: Store) -> None:
    client = app.test_client()
    body = {"project": "1.1767225600", "schema": PAIRWISE, "hostname": "", "extra_params": {}}
    assert client.post("/setup", json=body, headers=NO_TOKEN).status_code == 200
    assert client.post("/predict", json={"tasks": []}, headers=NO_TOKEN).status_code == 200
    assert client.get("/versions", headers=NO_TOKEN).status_code == 200
    assert client.post("/webhook", json=event(), headers=NO_TOKEN).status_code == 200


def test_event_without_credentials_is_a_hint_that_stores_nothing_and_is_read_back(store: Store) -> None:
    server = FakeLabelStudio()
    number = server.add_project("pairs")
    server.annotate(server.add_task(number, {"text1": "a", "text2": "b"}), 5, "right")
    client = client_from_settings(WITH_API, server.session())
    assert client is not None
    ls_project = client.project(number)
    epoch = project_epoch(ls_project)
    project = store.projects.register(URL, ProjectRef(number, epoch), title="pairs", label_config=PAIRWISE)
    pull_project(store, client, project, full=True)
    for settings in (WITH_API, replace(WITH_API, basic_auth_user="lead", basic_auth_pass="right-horse")):
        web = create_app(settings, store).test_client()
        invented = {**event(99, number), "project": {"id": number, "created_at": ls_project["created_at"]}}
        answers = [web.post("/webhook", json=invented, headers=NO_TOKEN) for _ in range(20)]
        assert {answer.status_code for answer in answers} == {200}
        rows = store.comparisons.rows(project.id)
        assert [row["annotator_id"] for row in rows] == ["5"]
    assert [row["count"] for row in store.events.counts() if row["outcome"] == "hint"] == [1]  # coalesced
    hinted = store.projects.get(project.id)
    assert pull_is_due(hinted, 0.0, (hinted.last_pull_at or 0.0) + 6.0)
    pull_project(store, client, hinted, full=False)
    assert store.projects.get(project.id).hinted_at is None
    assert [row["annotator_id"] for row in store.comparisons.rows(project.id)] == ["5"]


def test_hint_about_cards_is_read_back_once(store: Store) -> None:
    server = FakeLabelStudio()
    number = server.add_project("cards")
    client = client_from_settings(WITH_API, server.session())
    assert client is not None
    epoch = project_epoch(client.project(number))
    ours = store.projects.register(URL, ProjectRef(99, 1))
    cards = store.projects.register(URL, ProjectRef(number, epoch), kind="alerts", alerts_for=ours.id)
    store.projects.hint(cards.id)
    pull_project(store, client, store.projects.get(cards.id), full=False)
    assert store.projects.get(cards.id).hinted_at is None


def test_event_without_credentials_is_stored_unverified_only_where_nothing_but_loopback_is_configured(
    store: Store,
) -> None:
    def send(settings: Settings) -> int:
        return create_app(settings, store).test_client().post("/webhook", json=event(), headers=NO_TOKEN).status_code

    assert send(replace(OPEN, public_url="https://evenhand.example")) == 401
    assert send(replace(OPEN, label_studio_url="http://studio.example")) == 401
    assert send(replace(OPEN, webhook_secret="configured")) == 401
    assert store.projects.all() == []
    assert send(OPEN) == 200
    (row,) = store.comparisons.rows(store.projects.all()[0].id)
    assert row["is_verified"] is False
    assert {problem.code for problem in store.problems.find()} >= {"unverified_events"}


def test_wrong_credentials_are_refused_and_are_no_hint(store: Store) -> None:
    web = create_app(WITH_API, store).test_client()
    for headers in ({SECRET_HEADER: "wrong"}, {"Authorization": "Basic bGVhZDp3cm9uZw=="}):
        closed = create_app(replace(WITH_API, basic_auth_user="lead", basic_auth_pass="x"), store).test_client()
        assert closed.post("/webhook", json=event(), headers={**NO_TOKEN, **headers}).status_code == 401
    assert web.post("/webhook", json=event(), headers={**NO_TOKEN, SECRET_HEADER: "wrong"}).status_code == 401


def test_connect_installs_a_secret_of_our_own_where_none_is_configured(store: Store) -> None:
    server = FakeLabelStudio()
    number = server.add_project("pairs")
    settings = replace(WITH_API, webhook_secret=store.secrets.webhook(WITH_API.webhook_secret))
    client = client_from_settings(settings, server.session())
    assert client is not None
    ensure_webhook(client, number, settings, address="http://127.0.0.1:9090")
    (hook,) = server.webhooks.values()
    web: FlaskClient = create_app(WITH_API, store).test_client()
    sent = web.post("/webhook", json=event(), headers={**NO_TOKEN, **hook["headers"]})
    assert (sent.status_code, sent.get_json()["annotations"]) == (200, 1)


def test_browser_is_opened_only_where_there_is_a_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    assert not has_screen({})
    assert has_screen({"DISPLAY": ":0"})
