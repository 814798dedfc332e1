"""Defences of one line each that nobody would miss until somebody attacks."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
import requests
from evenhand.app import create_app
from evenhand.domain import ProjectRef
from evenhand.errors import StoreBusyError, TooLargeError
from evenhand.ingest.events import handle_event
from evenhand.json_values import MOST_VALUES, parse_json
from evenhand.label_studio.payloads import read_event
from evenhand.publish.notify import send_due
from evenhand.settings import Settings
from evenhand.store import Store
from evenhand.store.engine import open_engine
from flask.testing import FlaskClient
from sqlalchemy import text
from werkzeug.security import generate_password_hash

from harness.databases import new_store
from tests.attacks.cases import ATTACKS, basic
from tests.attacks.test_open_mode import event
from tests.faults.cases import CASES

ROOT = Path(__file__).resolve().parents[2]
PASSWORD = "a long password"
CHEAP = "pbkdf2:sha256:1"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with closing(new_store(tmp_path / "evenhand.db")) as opened:
        yield opened


def test_alert_webhook_that_redirects_is_not_followed(store: Store) -> None:
    asked: list[str] = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(self.path)
            self.send_response(307)
            self.send_header("Location", "/elsewhere")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    project = store.projects.register("http://studio", ProjectRef(1, 1))
    fact = {"kind": "flagged", "project": project.id, "title": "t", "name": "n", "annotator": "1", "comparisons": 9}
    fact |= {"bias": 0.5, "finding": "left"}
    store.notifications.add("a fact", fact, project_id=project.id)
    with HTTPServer(("127.0.0.1", 0), Receiver) as server, requests.Session() as session:
        threading.Thread(target=server.handle_request, daemon=True).start()
        settings = Settings(alert_webhook_url=f"http://127.0.0.1:{server.server_port}/hook")
        send_due(store, settings, session, store.clock())
    assert asked == ["/hook"]
    assert "answered 307" in store.problems.find()[0].message


@pytest.mark.parametrize("one", [b"1,", b"[],", b"{},"])
def test_body_of_very_many_values_is_refused_before_it_is_decoded(one: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evenhand.json_values.json.loads", lambda *_, **__: pytest.fail("decoded"))
    with pytest.raises(TooLargeError, match="500,000 values"):
        parse_json(b"[" + one * (MOST_VALUES // one.count(b",") + 1) + b"1]")


def login(client: FlaskClient, name: str, *, address: str = "127.0.0.1") -> int:
    with client.session_transaction() as session:
        session["csrf_token"] = "token"
    form = {"name": name, "password": PASSWORD, "csrf_token": "token"}
    return client.post("/ui/login", data=form, environ_overrides={"REMOTE_ADDR": address}).status_code


def test_addresses_of_one_ipv6_network_share_their_guesses(store: Store) -> None:
    store.users.put("ana", generate_password_hash("another password", CHEAP), "owner")
    client = create_app(Settings(), store).test_client()
    answers = [login(client, "ana", address=f"2001:db8:1:2:{number:x}::{number}") for number in range(1, 12)]
    assert 429 in answers
    assert login(client, "ana", address="2001:db8:1:3::1") == 401  # the neighbours' are theirs


def test_session_of_a_demoted_account_loses_what_the_role_allowed(store: Store) -> None:
    store.users.put("ana", generate_password_hash(PASSWORD, CHEAP), "owner")
    hashed = store.users.all()[0].password_hash
    client = create_app(Settings(), store).test_client()
    assert login(client, "ana") == 302
    assert client.get("/api/v1/projects").status_code == 200
    store.users.put("ana", hashed, "reader")
    assert client.post("/ui/account/links", data={"name": "ana", "user": ""}).status_code == 403
    store.users.put("ana", hashed, "protocol")
    assert client.get("/api/v1/projects").status_code == 401
    assert client.get("/ui/", headers={"Accept": "text/html"}).status_code == 302


def test_deleted_task_and_its_answers_stay_deleted_whatever_comes_late(store: Store) -> None:
    handle_event(store, Settings(), read_event(event(1)))
    gone = {"action": "TASKS_DELETED", "tasks": [{"id": 1}], "project": event()["project"]}
    handle_event(store, Settings(), read_event(gone))
    for number in (1, 2):  # the answer that was there, and one nobody had heard of
        late = event(number)
        late["annotation"].update(task=1, updated_at="2027-01-01T00:00:00Z")
        late["task"].update(id=1, updated_at="2027-01-01T00:00:00Z")
        handle_event(store, Settings(), read_event(late))
    project = store.projects.all()[0]
    assert store.tasks.page(project.id, limit=1).total == 0
    assert {row["deleted"] for row in store.comparisons.rows(project.id)} <= {True}
    assert store.projects.get(project.id).counts.get("judged", 0) == 0


@pytest.mark.postgres
def test_line_of_the_log_waits_for_the_lock_of_its_project(migrated_postgres_url: str) -> None:
    """Two writers at once would both seal onto the same line."""
    with closing(Store(open_engine(migrated_postgres_url, patience=0.2))) as store:
        project = store.projects.register("http://studio", ProjectRef(1, 1))
        with store.engine.connect() as other, other.begin():
            other.execute(text("SELECT id FROM projects FOR NO KEY UPDATE"))  # which does not hold up foreign keys
            with pytest.raises(StoreBusyError):
                store.decisions.add(project.id, "1", "watch", author="ana")
        assert store.decisions.add(project.id, "1", "watch", author="ana").number == 1


def test_basic_credentials_open_no_forms(store: Store) -> None:
    """A browser sends remembered Basic credentials along with a form of another site."""
    store.users.put("ana", generate_password_hash(PASSWORD, CHEAP), "owner")
    client = create_app(Settings(), store).test_client()
    sent = client.post("/ui/account/links", data={"name": "ana", "user": "1"}, headers=basic("ana", PASSWORD))
    assert (sent.status_code, store.users.all()[0].ls_user) == (403, None)


SECURITY = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
#: What holds, by the heading above it; where the text begins that says what does not.
CLAIMS = {
    "Who may what": "whoever runs the service",
    "Ways in, and what stands there": "`python -m tests.attacks`",
    "Colleagues": "What does not hold",
}


def claims() -> Iterator[tuple[str, list[str]]]:
    """Every row, bullet and sentence of SECURITY.md that claims something, with the tests named behind it."""
    for heading, exempt in CLAIMS.items():
        section = SECURITY.split(f"## {heading}\n")[1].split("\n## ")[0]
        blocks = re.split(r"\n(?=\||- |\n)|(?<=-->)\n(?!\n)", section)
        for block in (block.strip() for block in blocks):
            if (
                block
                and exempt not in block
                and not re.match(r"\|[-|]+$|\| (who|way in) \||Label Studio Community", block)
            ):
                yield block, ",".join(re.findall(r"<!--(.*?)-->", block)).split(",")


def test_every_claim_of_the_security_page_names_tests_that_there_are() -> None:
    sources = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    known = {*re.findall(r"^def (test_\w+)", sources, re.MULTILINE)}
    known |= {f"attack:{name}" for name in ATTACKS} | {f"fault:{case.name}" for case in CASES}
    found = dict(claims())
    assert [claim for claim, tests in found.items() if tests == [""]] == []
    assert {test for tests in found.values() for test in tests} - known == set()
    assert len(found) > 35
    assert [claim for claim in found if len(re.findall(r"\. [A-Z]", claim)) > 0] == []  # a comment behind each sentence
