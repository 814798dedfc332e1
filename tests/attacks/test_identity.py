"""Somebody who is judged tries to decide about themselves under another account, or another spelling of a name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from evenhand.app import create_app
from evenhand.commands.people import users
from evenhand.domain import normal_name
from evenhand.ingest.reviews import refusal
from evenhand.settings import Settings
from evenhand.store import Store
from evenhand.web.dashboard import status as account
from flask import Flask
from flask.testing import FlaskClient
from werkzeug.security import generate_password_hash

from harness.databases import new_store
from harness.fake_label_studio import LEGACY_TOKEN, URL, FakeLabelStudio
from harness.filled import LEANS, fill
from tests.attacks.cases import basic

PASSWORD, CHEAP = "a long password", "pbkdf2:sha256:1"
HASH = generate_password_hash(PASSWORD, CHEAP)
SETTINGS = Settings(label_studio_url=URL)
DECISIONS = "/api/v1/projects/1/decisions"
DISMISS = {"annotator": LEANS, "decision": "dismiss"}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with closing(new_store(tmp_path / "evenhand.db")) as opened:
        fill(opened)
        opened.users.put("owner", HASH, "owner")
        yield opened


@pytest.fixture
def app(store: Store) -> Flask:
    return create_app(SETTINGS, store)


def decide(app: Flask, name: str) -> tuple[int, str]:
    answer = app.test_client().post(DECISIONS, json=DISMISS, headers=basic(name, PASSWORD))
    return answer.status_code, answer.get_data(as_text=True)


@pytest.mark.parametrize("name", [f"{LEANS}-2", f" {LEANS}", f"{LEANS}\u00a0", LEANS.upper(), "somebody"])
def test_reviewer_who_is_nobody_known_decides_about_nobody(app: Flask, store: Store, name: str) -> None:
    before = store.decisions.page(1).total
    store.users.put(name, HASH, "reviewer")
    status, said = decide(app, name)
    assert (status, "evenhand users link" in said) == (403, True)
    assert store.decisions.page(1).total == before


def test_decision_on_oneself_is_refused_by_id_whatever_the_account_is_called(app: Flask, store: Store) -> None:
    ls_url = store.projects.get(1).ls_url
    for name, role in (("somebody else", "reviewer"), ("owner", "owner")):
        store.users.put(name, HASH, role)  # type: ignore[arg-type]  # a role
        store.users.link(name, ls_url, LEANS, by="an owner")
        status, said = decide(app, name)
        assert (status, "own answers" in said) == (403, True)
    store.users.link("somebody else", ls_url, "999", by="an owner")
    assert decide(app, "somebody else")[0] == 200


def test_link_to_another_label_studio_does_not_count(app: Flask, store: Store) -> None:
    store.users.put("ben", HASH, "reviewer")
    store.users.link("ben", "http://elsewhere.example", "999", by="an owner")
    assert decide(app, "ben")[0] == 403


@pytest.mark.parametrize("spelling", ["Ana", " ana ", "ＡＮＡ", "a\u200ana".replace("\u200a", ""), "\u00a0aNa\t"])
def test_spellings_of_a_name_are_one_account(app: Flask, store: Store, spelling: str) -> None:
    store.users.put("ana", HASH, "reviewer")
    store.users.put(spelling, generate_password_hash("another password", CHEAP))
    assert [found.name for found in store.users.all()] == ["ana", "owner"]
    sent = basic(spelling, "another password")
    assert app.test_client().get("/api/v1/projects", headers=sent).status_code == 200


def test_log_names_the_account_and_not_the_spelling_it_was_called_with(app: Flask, store: Store) -> None:
    assert decide(app, " OWNER ")[0] == 200
    assert store.decisions.current(1)[LEANS].author == "owner"


def test_normal_name_is_its_own_normal_name() -> None:
    for text in ("ẞ", "ﬁ", " É ", "İstanbul", "Σίσυφος"):
        assert normal_name(normal_name(text)) == normal_name(text)


def test_reviewers_of_a_project_are_compared_alike(app: Flask, store: Store) -> None:
    client = app.test_client()
    config = {"reviewers": ["ＢＥＮ "]}
    assert client.patch("/api/v1/projects/1/config", json=config, headers=basic("owner", PASSWORD)).status_code == 200
    store.users.put("ben", HASH, "reviewer")
    store.users.link("ben", "", "", by="an owner")
    assert decide(app, "ben")[0] == 200
    assert decide(app, "owner")[0] == 403
    assert refusal(store, 1, LEANS, {"4", " Ben\u00a0"}) is None  # as an answer on a card names its author


# -- the person's own token


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> FakeLabelStudio:
    studio = FakeLabelStudio()
    monkeypatch.setattr(account, "Session", studio.session)
    return studio


@pytest.fixture
def ben(app: Flask, store: Store) -> FlaskClient:
    store.users.put("ben", HASH, "reviewer")
    return logged_in(app)


def logged_in(app: Flask) -> FlaskClient:
    client = app.test_client()
    with client.session_transaction() as session:
        session["csrf_token"] = "token"
    sent = {"name": "Ben", "password": PASSWORD, "csrf_token": "token"}
    assert client.post("/ui/login", data=sent).status_code == 302
    return client


def post(client: FlaskClient, path: str, **form: str) -> int:
    with client.session_transaction() as session:
        token = session["csrf_token"]
    return client.post(path, data={**form, "csrf_token": token}).status_code


def test_own_token_links_the_account_and_is_not_kept(
    ben: FlaskClient, store: Store, server: FakeLabelStudio, caplog: pytest.LogCaptureFixture
) -> None:
    assert "token of Label Studio" in ben.get("/ui/account").text
    assert post(ben, "/ui/account", token=LEGACY_TOKEN) == 302
    (linked,) = [found for found in store.users.all() if found.name == "ben"]
    assert (linked.ls_url, linked.ls_user, linked.linked_by) == (URL, "1", "their own token")
    assert LEGACY_TOKEN not in caplog.text
    with open(str(store.engine.url.database), "rb") as file:
        assert LEGACY_TOKEN.encode() not in file.read()


def test_wrong_token_links_nobody(ben: FlaskClient, store: Store, server: FakeLabelStudio) -> None:
    assert post(ben, "/ui/account", token="0" * 40) == 422
    assert {found.ls_user for found in store.users.all()} == {None}


def test_link_is_changed_by_owners_only(app: Flask, ben: FlaskClient, store: Store, server: FakeLabelStudio) -> None:
    store.users.link("ben", URL, "17", by="owner")
    assert post(ben, "/ui/account", token=LEGACY_TOKEN) == 409
    assert post(ben, "/ui/account/links", name="ben", user="1") == 403
    store.users.put("ben", HASH, "owner")
    ben = logged_in(app)
    assert post(ben, "/ui/account/links", name="owner", user="12") == 302
    assert post(ben, "/ui/account/links", name="owner", user="1; drop") == 422
    linked = {found.name: found.ls_user for found in store.users.all() if found.ls_user}
    assert linked == {"ben": "17", "owner": "12"}


def test_command_links_and_lists(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", f"sqlite:///{store.engine.url.database}")
    monkeypatch.setenv("LABEL_STUDIO_URL", URL)

    def run(*arguments: str) -> Result:
        return CliRunner().invoke(users, list(arguments))

    assert run("link", "OWNER", "17").exit_code == 0
    assert "owner: owner, 17 in Label Studio (by evenhand users link)" in run("list").output
    assert run("link", "owner", "nobody").exit_code == 0
    assert "nobody in Label Studio" in run("list").output
    assert run("link", "owner", "ana").exit_code == 2
    assert run("link", "nobody-here", "17").exit_code == 1


def test_erased_person_is_in_no_account(store: Store) -> None:
    ls_url = store.projects.get(1).ls_url
    store.users.link("owner", ls_url, LEANS, by="an owner")
    store.people.erase(ls_url, [LEANS])
    (owner,) = store.users.all()[-1:]
    assert (owner.ls_user, owner.linked_by) == (None, None)
