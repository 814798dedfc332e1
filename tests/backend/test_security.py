"""What an attacker tries, besides knocking at the door (test_access): forms, sessions, headers, paths, injections."""

from __future__ import annotations

import ast
import csv
import io
import json
import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from evenhand.app import create_app
from evenhand.domain import Batch, ProjectRef, Trigger
from evenhand.server.worker import Chores
from evenhand.settings import Settings
from evenhand.store import Store
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import inspect

from harness.fake_label_studio import FakeLabelStudio
from harness.filled import LEANS, OTHERS, answer, fill
from tests.backend.closed_service import CLOSED, PUBLIC, STRANGER, basic, every_route

BACKEND = Path(__file__).resolve().parent.parent.parent / "backend" / "evenhand"
HTML = {"Accept": "text/html"}
EVIL = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "{{7919*1299709*15485863}}{% print(7919*1299709*15485863) %}${7919*1299709*15485863}",
    "'; DROP TABLE decisions; --",
    "' OR '1'='1",
    '=HYPERLINK("http://evil.example","x")',
    "../../../../etc/passwd",
    "\x1b[31m\u202e",
)


@pytest.fixture
def client(closed: Flask) -> FlaskClient:
    return closed.test_client()


def log_in(client: FlaskClient, **form: str) -> Any:
    page = client.get("/ui/login", headers=HTML)
    assert page.status_code == 200
    form = {"name": "lead", "password": "right-horse", "csrf_token": token_of(client), **form}
    return client.post("/ui/login", data=form, headers=HTML)


def token_of(client: FlaskClient) -> str:
    with client.session_transaction() as session:
        return str(session.get("csrf_token", ""))


# -- forms and sessions


def test_every_changing_route_under_a_session_without_the_token_is_refused(closed: Flask) -> None:
    client = closed.test_client()
    log_in(client)
    changing = [route for route in every_route(closed) if route[1] not in ("GET", "HEAD", "OPTIONS")]
    assert len(changing) >= 8
    bodies: tuple[dict[str, Any], ...] = ({"json": {}}, {"data": {"csrf_token": "guess"}})
    let_in = [
        (endpoint, method)
        for endpoint, method, path in changing
        for body in bodies
        if endpoint != "dashboard.login" and client.open(path, method=method, **body).status_code != 403
    ]
    assert let_in == []


def test_login_throws_away_whatever_the_session_held_before(client: FlaskClient) -> None:
    with client.session_transaction() as planted:
        planted["csrf_token"] = "planted-by-somebody-else"
        planted["user"] = "lead"
    log_in(client)
    assert token_of(client) not in ("", "planted-by-somebody-else")


def test_logout_ends_the_session_and_needs_the_token(client: FlaskClient) -> None:
    log_in(client)
    assert client.get("/ui/", headers=HTML).status_code == 200
    assert client.post("/ui/logout", headers=HTML).status_code == 403
    assert client.post("/ui/logout", data={"csrf_token": token_of(client)}, headers=HTML).status_code == 302
    assert client.get("/ui/", headers=HTML).location.startswith("/ui/login")
    assert client.get("/api/v1/projects").status_code == 401


def test_session_ends_by_itself(closed: Flask, monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    client = closed.test_client()
    log_in(client)
    assert closed.permanent_session_lifetime <= timedelta(hours=12)
    assert client.get("/api/v1/projects").status_code == 200
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 12 * 3600 + 60)
    assert client.get("/api/v1/projects").status_code == 401


@pytest.mark.parametrize(("public_url", "secure"), [("https://evenhand.example", True), ("http://127.0.0.1:9", False)])
def test_cookie_travels_over_tls_only_where_there_is_tls(sqlite_store: Store, public_url: str, secure: bool) -> None:
    settings = replace(CLOSED, public_url=public_url)
    client = create_app(settings, sqlite_store).test_client()
    cookie = log_in(client).headers["Set-Cookie"]
    assert ("Secure" in cookie, "HttpOnly" in cookie, "SameSite=Lax" in cookie) == (secure, True, True)


def test_wrong_name_and_wrong_password_look_the_same(client: FlaskClient) -> None:
    pages = [log_in(client, **form) for form in ({"name": "nobody"}, {"password": "wrong"})]
    assert [page.status_code for page in pages] == [401, 401]
    assert "is wrong" in pages[0].text
    assert pages[0].text.replace("nobody", "lead") == pages[1].text


# -- answers


@pytest.mark.parametrize(
    "path",
    [
        "/health",
        "/ui/login",
        "/ui/",
        "/api/v1/projects",
        "/metrics",
        "/nothing",
        "/ui/static/evenhand.css",
        "/versions",
    ],
)
def test_every_answer_carries_the_headers(client: FlaskClient, path: str) -> None:
    answer = client.get(path, headers={**basic(), **HTML})
    policy = answer.headers["Content-Security-Policy"]
    assert all(part in policy for part in ("default-src 'none'", "script-src 'self'", "frame-ancestors 'none'"))
    assert "base-uri 'none'" in policy
    assert "unsafe" not in policy
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["X-Frame-Options"] == "DENY"
    assert answer.headers["Referrer-Policy"] == "same-origin"
    if "static" not in path:
        assert answer.headers["Cache-Control"] == "no-store"
    answer.close()


def test_reports_are_not_kept_by_caches_and_run_no_scripts_of_others(client: FlaskClient, sqlite_store: Store) -> None:
    project = fill(sqlite_store)
    run = sqlite_store.runs.latest(project.id)
    assert run is not None
    for name in ("report.html", "report.json", "annotators.csv", "ranking.csv"):
        answer = client.get(f"/ui/projects/{project.id}/runs/{run.id}/{name}", headers=basic())
        assert answer.status_code == 200
        assert answer.headers["Cache-Control"] == "no-store"
        assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]
        assert "default-src 'none'" in answer.headers["Content-Security-Policy"]


ELSEWHERE = (
    "https://evil.example",
    "//evil.example",
    "/\\evil.example",
    "/ui/\\evil",
    "/\t/evil.example",
    "/ui/\r\nX: y",
    "ui/",
)


@pytest.mark.parametrize("target", ELSEWHERE)
def test_login_leads_to_pages_of_ours_only(client: FlaskClient, target: str) -> None:
    answer = log_in(client, next=target)
    assert (answer.status_code, answer.location) == (302, "/ui/")
    assert client.get("/ui/login", query_string={"next": target}).location == "/ui/"


@pytest.mark.parametrize("bad", ["[", "[::1", "http://[", "a\u2100b", "x" * 5000, "]", "%"])
def test_headers_that_are_no_addresses_are_refused_and_not_an_error(sqlite_store: Store, bad: str) -> None:
    client = create_app(Settings(), sqlite_store).test_client()
    for name in ("Host", "Origin", "Referer"):
        sent = {name: bad.encode().decode("latin-1")}
        assert client.get("/api/v1/projects", headers=sent).status_code in (200, 400, 401)
        assert client.post("/webhook", json={}, headers=sent).status_code in (400, 401, 403)
    assert client.get("/ui/login", query_string={"next": f"//{bad}"}, headers=HTML).location == "/ui/"


def test_foreign_host_name_appears_in_no_answer(client: FlaskClient) -> None:
    for path in ("/", "/ui/", "/ui/projects/1", "/api/v1/openapi.json"):
        answer = client.get(path, headers={**HTML, "Host": "evil.example", "X-Forwarded-Host": "evil.example"})
        assert "evil.example" not in answer.text + str(answer.headers)


@pytest.mark.parametrize(
    "path",
    [
        "/ui/static/../settings.py",
        "/ui/static/..%2f..%2fsettings.py",
        "/ui/static/%2e%2e/%2e%2e/settings.py",
        "/ui/static/....//settings.py",
        "/ui/static/..\\..\\settings.py",
        "/ui/projects/1/runs/1/..%2f..%2fsettings.py",
        "/api/v1/projects/1/runs/1/report.html%00.csv",
        "/ui/static/evenhand.css%00",
    ],
)
def test_paths_out_of_the_folder_lead_nowhere(client: FlaskClient, path: str) -> None:
    answer = client.get(path, headers=basic())
    assert answer.status_code == 404
    assert "SettingsError" not in answer.text
    assert "root:" not in answer.text


# -- injections


@pytest.fixture
def poisoned(sqlite_store: Store) -> int:
    """A project in which every name, text and comment is an attack."""
    project = fill(sqlite_store)
    sqlite_store.projects.describe(project.id, title=EVIL[0] + EVIL[2], label_config=EVIL[1])
    rows = [answer(5000 + k, evil, left_item=evil, right_item=EVIL[k - 1]) for k, evil in enumerate(EVIL)]
    sqlite_store.comparisons.apply(project.id, Batch(comparisons=rows))
    people = {key: (evil, evil) for key, evil in zip((*OTHERS, LEANS), EVIL, strict=False)}
    sqlite_store.annotators.name(project.id, {**people, **{evil: (evil, evil) for evil in EVIL}})
    for evil in EVIL:
        sqlite_store.decisions.add(project.id, evil, "watch", author=evil, comment=evil)
        sqlite_store.problems.open(project.id, evil[:20], evil, evil)
    return project.id


def looks_safe(text: str) -> bool:
    return not any(bad in text for bad in (EVIL[0], "<img src=x", str(7919 * 1299709 * 15485863)))


def test_pages_show_hostile_texts_literally(client: FlaskClient, sqlite_store: Store, poisoned: int) -> None:
    run = sqlite_store.runs.latest(poisoned)
    assert run is not None
    base = f"/ui/projects/{poisoned}"
    pages = ["", "/ranking", "/figures", "/runs", "/decisions", "/settings", f"/runs/{run.id}/report.html"]
    pages += [f"/annotator?id={LEANS}", f"/runs/{run.id}/report.html?pseudonymise=1"]
    for path in ("/ui/", "/ui/status", *(base + page for page in pages)):
        answer = client.get(path, headers={**basic(), **HTML})
        assert answer.status_code == 200, (path, answer.text[:300])
        assert looks_safe(answer.text), path
    log = client.get(f"{base}/decisions", headers={**basic(), **HTML}).text
    assert "&lt;script&gt;alert(1)" in log
    assert "{{7919*1299709*15485863}}" in log
    assert "decisions" in inspect(sqlite_store.engine).get_table_names()


@pytest.mark.parametrize("evil", EVIL)
def test_parameters_are_values_and_never_code(client: FlaskClient, poisoned: int, evil: str) -> None:
    names = ("search", "sort", "order", "cursor", "id", "run", "page", "limit", "annotator", "next", "project")
    paths = ("", "/ranking", "/annotator", "/decisions", "/runs", "/compare")
    for path in (f"/ui/projects/{poisoned}{page}" for page in paths):
        answer = client.get(path, query_string=dict.fromkeys(names, evil), headers={**basic(), **HTML})
        assert answer.status_code < 500, path
        assert looks_safe(answer.text), path
    for path in ("annotators", "ranking", "decisions", "tasks", "runs"):
        for name in names:
            answer = client.get(f"/api/v1/projects/{poisoned}/{path}", query_string={name: evil}, headers=basic())
            assert answer.status_code in (200, 400), (path, name)
            assert answer.content_type == "application/json"


def test_search_with_wildcards_finds_only_what_is_written(client: FlaskClient, sqlite_store: Store) -> None:
    path = f"/api/v1/projects/{fill(sqlite_store).id}/annotators"
    assert client.get(path, query_string={"search": "ana@"}, headers=basic()).get_json()["total"] == 1
    for wildcard in ("%", "_", "\\"):
        assert client.get(path, query_string={"search": wildcard}, headers=basic()).get_json()["total"] == 0


def test_tables_for_spreadsheets_hold_no_formulas(client: FlaskClient, sqlite_store: Store) -> None:
    formulas = ("=1+1", "+1+1", "-1+1", "@SUM(A1)", "\t=1+1", "\r=1+1", " =1+1", "＝1+1", '"=1+1')
    project = sqlite_store.projects.register("http://ls", ProjectRef(7, 7), title="=1+1")
    sqlite_store.runs.request(project.id, Trigger.MANUAL)
    claimed = sqlite_store.runs.claim("test", 60.0)
    assert claimed is not None
    from evenhand.domain import RunResult

    rows = [{"annotator": name, "comparisons": 1, "left": 1, "right": 0, "ties": 0} for name in formulas]
    items = [{"item": name, "score": -0.5, "rank": 1.0} for name in formulas]
    empty: dict[str, Any] = {}
    result = RunResult(1, 0, empty, empty, empty, "", empty, empty, "", annotators=list(rows), items=list(items))
    sqlite_store.runs.finish(claimed[0].id, claimed[1], result)
    for name, column in (("annotators.csv", "annotator"), ("ranking.csv", "item")):
        answer = client.get(f"/api/v1/projects/{project.id}/runs/{claimed[0].id}/{name}", headers=basic())
        table = list(csv.DictReader(io.StringIO(answer.text.removeprefix("\ufeff"), newline="")))
        assert len(table) == len(formulas)
        assert all(not row[column].lstrip().startswith(("=", "+", "-", "@", "＝")) for row in table)
        numbers = [row.get("score") for row in table]
        assert set(numbers) <= {"-0.5", None}


# -- bodies


def test_body_beyond_the_limit_is_refused(sqlite_store: Store) -> None:
    client = create_app(Settings(max_body_mb=0.01), sqlite_store).test_client()
    for path in ("/webhook", "/setup", "/predict"):
        assert client.post(path, data=b"x" * 20_000, content_type="application/json").status_code == 413
        assert client.post(path, data=b"x" * 5_000, content_type="application/json").status_code == 400


def test_compressed_body_is_not_unpacked(client: FlaskClient) -> None:
    import gzip

    bomb = gzip.compress(b"[" * 5_000_000)
    answer = client.post(
        "/webhook", data=bomb, headers={**basic(), "Content-Encoding": "gzip"}, content_type="application/json"
    )
    assert answer.status_code == 400


BOMBS = {
    "billion laughs": '<!DOCTYPE x [<!ENTITY a "aaaaa"><!ENTITY b "' + "&a;" * 10 + '">]><View>&b;</View>',
    "quadratic": '<!DOCTYPE x [<!ENTITY a "' + "a" * 50_000 + '">]><View>' + "&a;" * 1000 + "</View>",
    "external entity": '<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]><View>&a;</View>',
    "external subset": '<!DOCTYPE View SYSTEM "http://127.0.0.1:1/x.dtd"><View/>',
    "parameter entity": '<!DOCTYPE x [<!ENTITY % a SYSTEM "file:///etc/passwd"> %a;]><View/>',
    "deep": "<a>" * 50_000 + "</a>" * 50_000,
    "many attributes": "<View " + " ".join(f'a{n}="x"' for n in range(50_000)) + "/>",
    "utf-16 declaration": '<?xml version="1.0" encoding="utf-16"?><!DOCTYPE x []><View/>',
}


@pytest.mark.parametrize("name", BOMBS)
def test_label_config_that_is_a_bomb_is_a_problem_and_not_an_outage(
    client: FlaskClient, sqlite_store: Store, name: str
) -> None:
    body = {"project": "3.1794803224", "schema": BOMBS[name], "hostname": "http://ls", "extra_params": None}
    answer = client.post("/setup", json=body, headers=basic())
    assert answer.status_code == 200
    (problem,) = sqlite_store.problems.find()
    assert problem.code == "configuration"
    assert "root:" not in problem.message
    assert len(problem.message) < 1000


# -- calls to elsewhere


def test_address_in_a_setup_call_is_never_called(sqlite_store: Store) -> None:
    server = FakeLabelStudio()
    settings = Settings(label_studio_url="http://label-studio.test:8080", label_studio_api_key="f" * 40)
    client = create_app(settings, sqlite_store).test_client()
    body = {"project": "3.1794803224", "schema": "<View/>", "hostname": "http://169.254.169.254/latest"}
    assert client.post("/setup", json=body).status_code == 200
    sqlite_store.projects.register("http://169.254.169.254", ProjectRef(4, 4))
    called: list[str] = []
    session = server.session()
    session.hooks["response"].append(lambda answer, **_: called.append(answer.request.url))
    Chores(sqlite_store, settings, "test", session).once()
    assert called
    assert all(url.startswith("http://label-studio.test:8080/") for url in called)


def test_only_the_two_clients_speak_http() -> None:
    """Whoever else imports an HTTP library hands a session on; calls are made in these modules alone."""
    callers = {"transport.py", "notify.py"}
    verbs = re.compile(r"(session|requests)\.(get|post|put|patch|delete|request|head|send)\(|urlopen\(|http\.client")
    found = {
        path.name
        for path in BACKEND.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and verbs.search(f"{ast.unparse(node.func)}(")
    }
    assert found - {"auth.py"} == callers


SECRET_WORDS = re.compile(r"secret|password|passwd|csrf|signature|fingerprint|api_key|digest|token", re.IGNORECASE)
# Comparisons that decide nothing about access: numbers of leases, seals of a log without a key, names of kinds.
HARMLESS = re.compile(
    r"^(lease|row|leases|publications?|told|record|part|digest|manifest)\b|_kind|\.token != lease\.token"
)


def test_secrets_are_compared_in_constant_time() -> None:
    wrong = []
    for path in (
        *sorted((BACKEND / "web").rglob("*.py")),
        BACKEND / "pseudonyms.py",
        BACKEND / "ingest" / "reviews.py",
    ):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Compare) or not isinstance(node.ops[0], ast.Eq | ast.NotEq):
                continue
            sides = [node.left, *node.comparators]
            is_secret = any(
                SECRET_WORDS.search(ast.unparse(side)) for side in sides if not isinstance(side, ast.Constant)
            )
            if is_secret and not any(HARMLESS.search(ast.unparse(side)) for side in sides):
                wrong.append(f"{path.name}:{node.lineno} {ast.unparse(node)}")
    assert wrong == []
    assert "hmac.compare_digest" in (BACKEND / "web" / "passwords.py").read_text(encoding="utf-8")


def test_strangers_learn_nothing_from_answers(client: FlaskClient, sqlite_store: Store) -> None:
    fill(sqlite_store)
    for path in ("/api/v1/projects/1", "/api/v1/projects/999", "/nothing", "/metrics", "/versions?project=1"):
        answer = client.get(path, environ_base=STRANGER)
        assert answer.status_code == 401
        assert json.loads(answer.text)["error"]["message"] == "log in, or send Basic credentials"
    assert client.get("/health", environ_base=STRANGER).get_json() == {"status": "UP"}
    assert "dashboard.login" in PUBLIC
