"""Who may set what: extra_params name fields and nothing else, and every change is a sealed line of the log."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from evenhand.app import create_app
from evenhand.settings import Settings
from evenhand.store import Store
from flask.testing import FlaskClient


@pytest.fixture
def local(sqlite_store: Store) -> FlaskClient:
    return create_app(Settings(), sqlite_store).test_client()


HOSTILE_PARAMS: Mapping[str, Any] = {
    "judges": "predictions", "min_bias": 0.0, "q": 0.45, "sides": "random", "every_minutes": None,
    "publish": {"alerts": True}, "after_confirm": "relabel", "answers": {"left": -1, "right": 1},
    "reviewers": ["mallory"], "item_left": "text2", "item_right": "text1",
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE_PARAMS)
def test_extra_params_change_nothing_about_how_people_are_judged(
    local: FlaskClient, sqlite_store: Store, payload: Callable[[str], Any], name: str
) -> None:
    body = {**payload("req_setup"), "extra_params": {}}
    local.post("/setup", json=body)
    local.post("/webhook", json=payload("req_webhook_ANNOTATION_CREATED"))
    before = sqlite_store.projects.get(1)
    assert before.counts["judged"] == 1
    tried = {**body, "extra_params": {name: HOSTILE_PARAMS[name]}}
    assert local.post("/setup", json=tried).status_code == 200
    assert sqlite_store.projects.get(1).config == before.config
    assert sqlite_store.statements.all(1) == []
    (problem,) = (problem for problem in sqlite_store.problems.find(1) if problem.code == "extra_params")
    assert f"tried to set {name} = " in problem.message
    local.post("/setup", json=tried)
    assert problem in sqlite_store.problems.find(1)  # health calls repeat it, and nobody is told again


def test_extra_params_before_the_first_answer_name_fields_and_nothing_else(
    local: FlaskClient, sqlite_store: Store, payload: Callable[[str], Any]
) -> None:
    local.post("/setup", json={**payload("req_setup"), "extra_params": {}})
    before = sqlite_store.projects.get(1).config
    local.post("/setup", json={**payload("req_setup"), "extra_params": {**HOSTILE_PARAMS, "item_left": "id1"}})
    after = sqlite_store.projects.get(1).config
    named = ("item_left", "item_right")
    assert after["item_left"] == "id1"
    assert {key: after[key] for key in after if key not in named} == {
        key: before[key] for key in before if key not in named
    }


def test_extra_params_that_repeat_the_settings_open_no_problem(
    local: FlaskClient, sqlite_store: Store, payload: Callable[[str], Any]
) -> None:
    body = {**payload("req_setup"), "extra_params": {}}
    local.post("/setup", json=body)
    assert local.patch("/api/v1/projects/1/config", json={"q": 0.2, "judges": "both"}).status_code == 200
    local.post("/setup", json={**body, "extra_params": {"q": "0.2", "judges": "both"}})
    assert sqlite_store.problems.find(1) == []


def test_every_change_of_a_setting_is_a_sealed_line_with_its_author(
    local: FlaskClient, sqlite_store: Store, payload: Callable[[str], Any]
) -> None:
    local.post("/setup", json={**payload("req_setup"), "extra_params": {"item_left": "id1"}})
    local.patch("/api/v1/projects/1/config", json={"q": 0.2, "min_bias": 0.2})
    local.patch("/api/v1/projects/1/config", json={"q": 0.2})
    lines = sqlite_store.decisions.setting_changes(1)
    assert [(line.author, line.comment) for line in lines[::-1]] == [
        ("extra_params of the ML backend", "item_left: nothing → id1"),
        ("local", "q: 0.1 → 0.2"),
        ("local", "min_bias: 0.1 → 0.2"),
    ]
    assert json.loads(str(lines[0].detail)) == {"key": "min_bias", "from": 0.1, "to": 0.2}
    assert sqlite_store.decisions.verify(1).length == 3
    assert sqlite_store.decisions.page(1).total == 0  # the log of decisions about people
    assert "min_bias: 0.1 → 0.2" in local.get("/ui/projects/1/settings").text
