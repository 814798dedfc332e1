"""Who may see the dashboard: strangers, people who log in, people who log out."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from evenhand.app import create_app
from evenhand.settings import Settings
from evenhand.store import open_store
from evenhand.web.passwords import hash_password
from flask import Flask
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from tests.backend.dashboard.browsing import HTML, get, post, token


@pytest.fixture(scope="module")
def guarded_app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flask]:
    """A service with one account besides the first."""
    tmp_path = tmp_path_factory.mktemp("guarded")
    settings = Settings(
        model_dir=tmp_path,
        database_url=f"sqlite:///{tmp_path / 'g.db'}",
        log_level="ERROR",
        basic_auth_user="first",
        basic_auth_pass="first-password",
    )
    store = open_store(settings)
    store.users.put("Mira", hash_password("a long password"))
    yield create_app(settings, store)
    store.close()


@pytest.fixture
def guarded(guarded_app: Flask) -> FlaskClient:
    return guarded_app.test_client()


def log_in(client: FlaskClient, **form: str) -> TestResponse:
    """Send the login page's form with the token it holds."""
    return client.post("/ui/login", data={"csrf_token": token(client, "/ui/login"), **form}, headers=HTML)


@pytest.mark.parametrize("path", ["/ui/", "/ui/status", "/ui/projects/1", "/ui/projects/1/runs/1/report.html"])
def test_page_seen_by_a_stranger_leads_to_the_login(guarded: FlaskClient, path: str) -> None:
    answer = guarded.get(path, headers=HTML)
    assert answer.status_code == 302
    assert answer.location.startswith("/ui/login?next=")


def test_login_with_the_right_password_leads_back_and_logout_ends_it(guarded: FlaskClient) -> None:
    form = {"name": "Mira", "password": "a long password", "next": "/ui/status"}
    assert log_in(guarded, **form).location == "/ui/status"
    page = get(guarded, "/ui/status")
    assert "mira" in page
    assert "Open without a password" not in page
    assert post(guarded, "/ui/logout").location == "/ui/login"
    assert guarded.get("/ui/", headers=HTML).status_code == 302


def test_login_with_a_wrong_password_says_so(guarded: FlaskClient) -> None:
    answer = log_in(guarded, name="Mira", password="x")
    assert answer.status_code == 401
    assert "User name or password is wrong" in answer.text


@pytest.mark.parametrize(
    "target", ["http://evil.example/", "//evil.example", "/\\evil.example", "javascript:alert(1)", "/ui/\\..\\x", ""]
)
def test_login_never_leads_to_another_site(guarded: FlaskClient, target: str) -> None:
    form = {"name": "Mira", "password": "a long password", "next": target}
    assert log_in(guarded, **form).location == "/ui/"


def test_assets_are_public_and_kept_by_their_fingerprint(guarded: FlaskClient) -> None:
    page = guarded.get("/ui/login", headers=HTML).text
    for url in re.findall(r'(?:href|src)="(/ui/static/[^"]+)"', page):
        answer = guarded.get(url)
        assert answer.status_code == 200
        assert "immutable" in answer.headers["Cache-Control"]
        answer.close()


def test_login_without_the_page_s_token_is_refused(guarded: FlaskClient) -> None:
    form = {"name": "Mira", "password": "a long password"}
    assert guarded.post("/ui/login", data=form, headers=HTML).status_code == 403
    assert guarded.get("/ui/", headers=HTML).status_code == 302


def test_login_of_label_studio_s_account_is_refused_with_what_to_do(guarded: FlaskClient) -> None:
    answer = log_in(guarded, name="first", password="first-password")
    assert answer.status_code == 403
    assert "evenhand users add" in answer.text
