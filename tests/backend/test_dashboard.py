"""The dashboard without a browser: every page in every state, words, headers, forms, access."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import pytest
from flask import Flask
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from backend.app import create_app
from backend.demo_project import load_demo
from backend.domain import Project
from backend.settings import Settings
from backend.store import Store, open_store
from backend.web.auth import hash_password
from backend.weighing import heaviest_answers, side_shares, tasks_to_review, wilson
from tests.browser import world

TABS = ("", "/ranking", "/figures", "/runs", "/decisions", "/settings")
HTML = {"Accept": "text/html"}


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    folder = tmp_path_factory.mktemp("dashboard")
    return Settings(model_dir=folder, database_url=f"sqlite:///{folder / 'evenhand.db'}", log_level="ERROR")


@pytest.fixture(scope="module")
def store(settings: Settings) -> Iterator[Store]:
    opened = open_store(settings)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def judged(store: Store) -> Project:
    """Twelve people, two of whom lean, judged twice under different settings."""
    project = world.simulated(store, 1, "Captions", annotators=12, biased=2, answers=80, bias=0.8, seed=5)
    world.judge(store, project)
    return project


@pytest.fixture(scope="module")
def hostile(store: Store) -> Project:
    project = world.simulated(store, 2, "x", annotators=8, biased=1, answers=40, bias=0.8, seed=6, hostile=True)
    world.judge(store, project)
    for text in world.HOSTILE:
        store.add_decision(project.id, "1", "watch", author=text[:200], comment=text)
    return project


@pytest.fixture(scope="module")
def empty(store: Store) -> Project:
    return world.register(store, 3, "Empty")


@pytest.fixture(scope="module")
def alone(store: Store) -> Project:
    project = world.simulated(store, 4, "Alone", annotators=1, biased=0, answers=30)
    world.judge(store, project)
    return project


@pytest.fixture(scope="module")
def app(settings: Settings, store: Store) -> Flask:
    return create_app(settings, store)


@pytest.fixture
def client(app: Flask) -> FlaskClient:
    """A browser of its own on the shared app."""
    return app.test_client()


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[tuple[FlaskClient, Store, Settings]]:
    """An empty service."""
    settings = Settings(model_dir=tmp_path, database_url=f"sqlite:///{tmp_path / 'fresh.db'}", log_level="ERROR")
    store = open_store(settings)
    yield create_app(settings, store).test_client(), store, settings
    store.close()


def get(client: FlaskClient, path: str) -> str:
    answer = client.get(path, headers=HTML)
    assert answer.status_code == 200, answer.text
    return answer.text


def token(client: FlaskClient, path: str = "/ui/") -> str:
    found = re.search(r'name="csrf_token" value="([^"]+)"', client.get(path, headers=HTML).text)
    assert found is not None
    return found.group(1)


def post(client: FlaskClient, path: str, /, **form: str) -> TestResponse:
    return client.post(path, data={"csrf_token": token(client), **form}, headers=HTML)


def visible(page: str) -> str:
    return re.sub(r"<script.*?</script>|<style.*?</style>|<[^>]+>", " ", page, flags=re.DOTALL)


def person_url(project: Project, annotator: str) -> str:
    return f"/ui/projects/{project.id}/annotator?id={annotator}"


@pytest.mark.parametrize("tab", TABS)
def test_page_of_a_judged_project_answers(client: FlaskClient, judged: Project, tab: str) -> None:
    assert "Captions" in get(client, f"/ui/projects/{judged.id}{tab}")


@pytest.mark.parametrize("tab", TABS)
def test_page_of_a_project_without_data_says_so_and_what_to_do(client: FlaskClient, empty: Project, tab: str) -> None:
    page = visible(get(client, f"/ui/projects/{empty.id}{tab}"))
    said = {
        "": "No answers yet",
        "/ranking": "No run has finished yet",
        "/figures": "No run has finished yet",
        "/runs": "No run yet",
        "/decisions": "Nobody has decided anything yet",
        "/settings": "How answers are read",
    }
    assert said[tab] in page


@pytest.mark.parametrize("tab", [*TABS, "/annotator?id=1"])
def test_page_with_hostile_texts_shows_them_as_text(client: FlaskClient, hostile: Project, tab: str) -> None:
    page = get(client, f"/ui/projects/{hostile.id}{tab}")
    assert "<script>document" not in page
    assert "<img src=x" not in page
    assert "<svg/onload" not in page
    assert "&lt;script&gt;document" in page
    assert "W" * 700 not in re.sub(r"<bdi class=\"clip3\">.*?</bdi>", "", page, flags=re.DOTALL)


@pytest.mark.parametrize("path", ["/ui/", "/ui/status", "/ui/nothing", *(f"/ui/projects/1{tab}" for tab in TABS)])
def test_page_carries_a_strict_policy_and_nothing_inline(client: FlaskClient, judged: Project, path: str) -> None:
    answer = client.get(path, headers=HTML)
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    page = re.sub(r'<script type="application/json"[^>]*>.*?</script>', "", answer.text, flags=re.DOTALL)
    page = "".join(re.findall(r"<[^<>]+>", page))
    assert re.findall(r"<script(?![^>]*\bsrc=)", page) == []
    assert re.findall(r"<style|\sstyle=|\son\w+=|javascript:", page) == []
    assert [url for url in re.findall(r'(?:src|action)="([^"]+)"', page) if not url.startswith("/ui/")] == []


@pytest.mark.parametrize("tab", ["", "/ranking", "/runs", "/settings", "/decisions", "/annotator?id=1"])
def test_page_words_judge_answers_and_never_persons(client: FlaskClient, judged: Project, tab: str) -> None:
    page = get(client, f"/ui/projects/{judged.id}{tab}")
    assert re.findall(r"\b(?:good|ugly|bad)\b", page, re.IGNORECASE) == []


def test_figures_page_names_the_paper_s_words_beside_ours(client: FlaskClient, judged: Project) -> None:
    page = visible(get(client, f"/ui/projects/{judged.id}/figures"))
    for words in ("no lean found (good)", "leans to one side (ugly)", "always one side (bad)", "not assessable yet:"):
        assert words in page


def test_project_page_shows_findings_with_n_and_intervals(client: FlaskClient, store: Store, judged: Project) -> None:
    page = visible(get(client, f"/ui/projects/{judged.id}"))
    run = store.latest_run(judged.id)
    assert run is not None
    worst = store.all_annotators(run.id)[0]
    assert worst["flagged"]
    assert re.search(r"[+−]0\.\d\d\s+\([+−]\d\.\d\d to [+−]\d\.\d\d\)", page)
    assert "The shortest list these settings can flag" in page
    assert "It is not the probability that one person leans" in page
    assert "None proven (counted on copies)" in page


def test_project_page_sort_and_filter_reach_the_database(client: FlaskClient, store: Store, judged: Project) -> None:
    base = f"/ui/projects/{judged.id}"
    names = re.findall(r"<bdi>(Person \d+)</bdi>", get(client, f"{base}?sort=name&order=desc"))
    assert names == sorted(names, reverse=True)
    assert 'aria-sort="descending"' in get(client, f"{base}?sort=name&order=desc")
    flagged = re.findall(r"<bdi>(Person \d+)</bdi>", get(client, f"{base}?show=flagged"))
    run = store.latest_run(judged.id)
    assert run is not None
    assert len(flagged) == sum(row["flagged"] for row in store.all_annotators(run.id))
    assert re.findall(r"<bdi>(Person \d+)</bdi>", get(client, f"{base}?search=person+07")) == ["Person 07"]
    assert "Nobody matches" in get(client, f"{base}?search=nobody-of-that-name")


@pytest.mark.parametrize("query", ["sort=nonsense", "page=-4", "page=9999", "show=bad", "run=0", "run=x", "page=1e9"])
def test_project_page_with_odd_arguments_still_answers(client: FlaskClient, judged: Project, query: str) -> None:
    assert "Person 01" in get(client, f"/ui/projects/{judged.id}?{query}")


@pytest.mark.parametrize("path", ["?search=%00", "/annotator?id=%00", "/runs?cursor=%00", "/runs?cursor=abc"])
def test_page_with_unstorable_text_in_its_address_is_no_failure(
    client: FlaskClient, judged: Project, path: str
) -> None:
    assert client.get(f"/ui/projects/{judged.id}{path}", headers=HTML).status_code in (200, 400, 404)


@pytest.mark.postgres
def test_page_on_postgresql_answers_as_on_sqlite(postgres_url: str, tmp_path: Path) -> None:
    settings = Settings(model_dir=tmp_path, database_url=postgres_url, log_level="ERROR")
    store = open_store(settings)
    project = world.simulated(store, 1, "Elephant", annotators=12, biased=2, answers=40, bias=0.8, seed=5)
    world.judge(store, project)
    client = create_app(settings, store).test_client()
    for tab in (*TABS, "/annotator?id=1", "?search=%00", "/runs/1/report.html", "/runs/1/annotators.csv"):
        get(client, f"/ui/projects/{project.id}{tab}")
    for column in ("name", "comparisons", "left", "bias", "draw_share", "p_value", "match_ratio"):
        get(client, f"/ui/projects/{project.id}?sort={column}&order=desc&show=flagged&search=person")
    form = {"annotator": "1", "decision": "watch", "comment": "nul \x00 inside"}
    assert post(client, f"/ui/projects/{project.id}/decisions", **form).status_code == 302
    store.close()


def test_project_page_not_assessable_is_a_state_of_its_own(fresh: tuple[FlaskClient, Store, Settings]) -> None:
    client, store, _ = fresh
    project = world.simulated(store, 1, "Few", annotators=6, biased=0, answers=2)
    world.judge(store, project)
    page = visible(get(client, f"/ui/projects/{project.id}"))
    assert "not assessable yet" in page
    assert re.search(r"needs about \d+ more", page)
    assert "Nobody could be judged" in page


@pytest.mark.parametrize("tab", [*TABS, "/annotator?id=1"])
def test_page_with_one_annotator_answers(client: FlaskClient, alone: Project, tab: str) -> None:
    assert "Alone" in get(client, f"/ui/projects/{alone.id}{tab}")


def test_project_page_after_a_failed_run_says_why_and_what_to_do(fresh: tuple[FlaskClient, Store, Settings]) -> None:
    client, store, _ = fresh
    project = world.register(store, 1, "Fails")
    world.fail(store, project, "project setting 'method' needs more answers")
    page = visible(get(client, f"/ui/projects/{project.id}"))
    assert "Run 1 failed." in page
    assert "needs more answers" in page
    assert "then run again" in page


@pytest.mark.slow
def test_project_page_with_ten_thousand_annotators_is_quick(fresh: tuple[FlaskClient, Store, Settings]) -> None:
    client, store, _ = fresh
    project = world.many_annotators(store, 1, 10_000)
    for path in (f"/ui/projects/{project.id}", f"/ui/projects/{project.id}?sort=bias&order=desc&page=150", "/ui/"):
        get(client, path)
        spent = []
        for _ in range(5):
            started = time.perf_counter()
            get(client, path)
            spent.append(time.perf_counter() - started)
        assert median(spent) < 0.3, path
    for tab in TABS:
        get(client, f"/ui/projects/{project.id}{tab}")


def test_empty_service_greets_and_loads_the_demo(fresh: tuple[FlaskClient, Store, Settings]) -> None:
    client, store, _ = fresh
    page = visible(get(client, "/ui/"))
    assert "Connect Label Studio" in page
    assert "evenhand connect PROJECT" in page
    answer = post(client, "/ui/demo")
    assert answer.status_code == 302
    (project,) = store.list_projects()
    assert answer.location == f"/ui/projects/{project.id}"
    assert project.kind == "demo"
    assert project.counts["judged"] == 3122
    assert "is waiting" in visible(get(client, answer.location))


def test_demo_loaded_twice_is_one_project_with_the_same_answers(fresh: tuple[FlaskClient, Store, Settings]) -> None:
    _, store, _ = fresh
    first = load_demo(store)
    second = load_demo(store)
    assert (second.id, second.seq, second.counts) == (first.id, first.seq, first.counts)


@pytest.mark.slow
def test_demo_judged_shows_every_finding(fresh: tuple[FlaskClient, Store, Settings]) -> None:
    client, store, _ = fresh
    project = load_demo(store)
    world.judge(store, project)
    run = store.latest_run(project.id)
    assert run is not None
    rows = store.all_annotators(run.id)
    assert 5 <= sum(row["flagged"] for row in rows) <= 8
    assert {row["verdict"] for row in rows} == {"good", "ugly", "bad", "not assessable"}
    assert "simulated" in get(client, f"/ui/projects/{project.id}")


ACTIONS = ("/ui/demo", "/ui/logout", *(f"/ui/projects/1/{name}" for name in ("decisions", "runs", "settings")))


@pytest.mark.parametrize("path", ACTIONS)
@pytest.mark.parametrize("sent", [{}, {"csrf_token": "wrong"}])
def test_action_without_the_right_token_is_refused(
    client: FlaskClient, judged: Project, path: str, sent: dict[str, str]
) -> None:
    token(client)
    answer = client.post(path, data={"annotator": "1", "decision": "confirm", **sent}, headers=HTML)
    assert answer.status_code == 403
    assert "reload the page" in visible(answer.text)


def test_action_asked_for_by_another_site_is_refused(client: FlaskClient, judged: Project) -> None:
    data = {"csrf_token": token(client), "annotator": "1", "decision": "confirm"}
    answer = client.post(
        f"/ui/projects/{judged.id}/decisions", data=data, headers={**HTML, "Origin": "http://evil.example"}
    )
    assert answer.status_code == 403


def test_decision_is_recorded_with_author_and_shown_in_the_log(
    client: FlaskClient, store: Store, judged: Project
) -> None:
    path = f"/ui/projects/{judged.id}/decisions"
    assert post(client, path, annotator="3", decision="dismiss", comment="left-handed screen").status_code == 302
    page = visible(get(client, person_url(judged, "3")))
    assert "left-handed screen" in page
    assert "Dismissed" in page
    (entry,) = store.list_decisions(judged.id, annotator_id="3").rows
    assert (entry["author"], entry["source"], entry["decision"]) == ("local", "dashboard", "dismiss")
    assert "The log is intact" in visible(get(client, path))


@pytest.mark.parametrize(
    ("form", "status"),
    [
        ({"annotator": "1", "decision": "punish"}, 400),
        ({"annotator": "nobody", "decision": "confirm"}, 404),
        ({"annotator": "1", "decision": "watch", "comment": "x" * 5001}, 400),
    ],
)
def test_decision_that_cannot_be_taken_is_refused(
    client: FlaskClient, judged: Project, form: dict[str, str], status: int
) -> None:
    assert post(client, f"/ui/projects/{judged.id}/decisions", **form).status_code == status


def settings_form(page: str) -> dict[str, str]:
    """What a browser would send back unchanged."""
    form = dict(re.findall(r'<input id="set-[^"]+" name="([^"]+)" value="([^"]*)"', page))
    for name, options in re.findall(r'<select id="set-[^"]+" name="([^"]+)".*?>(.*?)</select>', page, re.DOTALL):
        (form[name],) = re.findall(r'value="([^"]+)" selected', options)
    form |= dict.fromkeys(re.findall(r'type="checkbox" id="[^"]+" name="([^"]+)"[^>]* checked', page), "on")
    return {**form, "outcomes": ""}


def test_settings_sent_back_unchanged_change_nothing(client: FlaskClient, store: Store, judged: Project) -> None:
    path = f"/ui/projects/{judged.id}/settings"
    before = store.get_project(judged.id).config
    assert post(client, path, **settings_form(get(client, path))).status_code == 302
    assert store.get_project(judged.id).config == before
    assert "Nothing was changed" in get(client, path)


def test_settings_changed_are_stored_and_empty_schedule_means_never(
    client: FlaskClient, store: Store, judged: Project
) -> None:
    path = f"/ui/projects/{judged.id}/settings"
    form = {**settings_form(get(client, path)), "q": "0.2", "every_minutes": "", "publish.tab": "on"}
    assert post(client, path, **form).status_code == 302
    config = store.get_project(judged.id).config
    assert (config["q"], config["every_minutes"], config["publish"]["tab"]) == (0.2, None, True)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"q": "1.5"}, "less than 1"),
        ({"q": "lots"}, "valid number"),
        ({"control": "nonsense"}, "has no control"),
        ({"outcomes": "{"}, "outcomes"),
        ({"draws": "0"}, "greater than or equal to 1"),
        ({"method": "magic"}, "Input should be"),
    ],
)
def test_settings_that_do_not_fit_are_explained_and_kept_on_the_form(
    client: FlaskClient, store: Store, judged: Project, change: dict[str, str], said: str
) -> None:
    path = f"/ui/projects/{judged.id}/settings"
    before = store.get_project(judged.id).config
    answer = post(client, path, **{**settings_form(get(client, path)), **change})
    assert answer.status_code == 422
    assert "Nothing was saved" in answer.text
    assert said in visible(answer.text).replace("&#39;", "'")
    assert store.get_project(judged.id).config == before


def test_run_now_queues_a_run_and_tells_its_progress(fresh: tuple[FlaskClient, Store, Settings]) -> None:
    client, store, _ = fresh
    project = world.simulated(store, 1, "Now", annotators=6, biased=0, answers=20)
    assert post(client, f"/ui/projects/{project.id}/runs").location == f"/ui/projects/{project.id}/runs"
    newest = store.latest_run(project.id, status=None)
    assert newest is not None
    path = f"/ui/projects/{project.id}/runs/{newest.id}/progress"
    assert client.get(path).json == {"status": "queued", "progress": 0.0, "note": "waiting for a worker"}
    assert f'data-poll="{path}"' in get(client, f"/ui/projects/{project.id}/runs")
    world.judge(store, project)
    assert client.get(path).json == {"status": "done", "progress": 1.0, "note": "finished"}
    assert client.get(f"/ui/projects/{project.id}/runs/999/progress").json["status"] == "done"


def test_compare_tells_who_appeared_and_which_settings_differ(fresh: tuple[FlaskClient, Store, Settings]) -> None:
    client, store, _ = fresh
    project = world.simulated(store, 1, "Two runs", annotators=12, biased=2, answers=80, bias=0.8, seed=5)
    world.judge(store, project)
    path = f"/ui/projects/{project.id}/settings"
    post(client, path, **{**settings_form(get(client, path)), "min_bias": "1"})
    world.judge(store, project)
    page = visible(get(client, f"/ui/projects/{project.id}/compare?a=2&b=1"))
    assert "Vanished" in page
    assert re.search(r"min_bias\s+0.1 → 1.0", page)
    assert "Both runs saw exactly the same answers" in page
    assert client.get(f"/ui/projects/{project.id}/compare?a=1", headers=HTML).status_code == 404


@pytest.mark.parametrize(
    "path", ["/ui/nothing", "/ui/projects/999", "/ui/projects/1/annotator?id=nobody", f"/ui/projects/{2**70}"]
)
def test_error_page_says_what_is_missing(client: FlaskClient, judged: Project, path: str) -> None:
    answer = client.get(path, headers=HTML)
    assert answer.status_code == 404
    assert "There is nothing here" in answer.text


def test_annotator_page_links_the_heaviest_answers_to_label_studio(
    client: FlaskClient, store: Store, judged: Project
) -> None:
    run = store.latest_run(judged.id)
    assert run is not None
    worst = store.all_annotators(run.id)[0]
    page = get(client, person_url(judged, worst["annotator"]))
    assert re.search(r'href="http://127\.0\.0\.1:9/projects/1/data\?task=\d+"', page)
    side = "left" if worst["bias"] > 0 else "right"
    assert f"favour the {side} side" in visible(page)


def test_status_page_counts_rejected_events_and_names_the_fix(fresh: tuple[FlaskClient, Store, Settings]) -> None:
    client, store, _ = fresh
    store.count_event("ANNOTATION_CREATED", "rejected", 12)
    store.raise_problem(None, "disk", "the disk is full", "make room")
    page = visible(get(client, "/ui/status?checks=1"))
    assert "12 events rejected" in page
    assert "evenhand connect PROJECT" in page
    assert "make room" in page
    assert "LABEL_STUDIO_URL is not set" in page


def test_status_page_label_studio_unreachable_says_what_to_do(tmp_path: Path) -> None:
    settings = Settings(
        model_dir=tmp_path,
        database_url=f"sqlite:///{tmp_path / 'e.db'}",
        log_level="ERROR",
        label_studio_url="http://127.0.0.1:9",
        label_studio_api_key="a" * 40,
    )
    store = open_store(settings)
    page = visible(get(create_app(settings, store).test_client(), "/ui/status/checks"))
    store.close()
    assert "could not be reached" in page
    assert "check that Label Studio runs" in page


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
    store.put_user("Mira", hash_password("a long password"))
    yield create_app(settings, store)
    store.close()


@pytest.fixture
def guarded(guarded_app: Flask) -> FlaskClient:
    return guarded_app.test_client()


@pytest.mark.parametrize("path", ["/ui/", "/ui/status", "/ui/projects/1", "/ui/projects/1/runs/1/report.html"])
def test_page_seen_by_a_stranger_leads_to_the_login(guarded: FlaskClient, path: str) -> None:
    answer = guarded.get(path, headers=HTML)
    assert answer.status_code == 302
    assert answer.location.startswith("/ui/login?next=")


def test_login_with_the_right_password_leads_back_and_logout_ends_it(guarded: FlaskClient) -> None:
    form = {"name": "Mira", "password": "a long password", "next": "/ui/status"}
    assert guarded.post("/ui/login", data=form, headers=HTML).location == "/ui/status"
    page = get(guarded, "/ui/status")
    assert "Mira" in page
    assert "Open without a password" not in page
    assert post(guarded, "/ui/logout").location == "/ui/login"
    assert guarded.get("/ui/", headers=HTML).status_code == 302


def test_login_with_a_wrong_password_says_so(guarded: FlaskClient) -> None:
    answer = guarded.post("/ui/login", data={"name": "Mira", "password": "x"}, headers=HTML)
    assert answer.status_code == 401
    assert "User name or password is wrong" in answer.text


@pytest.mark.parametrize(
    "target", ["http://evil.example/", "//evil.example", "/\\evil.example", "javascript:alert(1)", "/ui/\\..\\x", ""]
)
def test_login_never_leads_to_another_site(guarded: FlaskClient, target: str) -> None:
    form = {"name": "Mira", "password": "a long password", "next": target}
    assert guarded.post("/ui/login", data=form, headers=HTML).location == "/ui/"


def test_page_of_an_open_service_says_that_it_is_open(client: FlaskClient, judged: Project) -> None:
    assert "Open without a password" in get(client, "/ui/")


def test_assets_are_public_and_kept_by_their_fingerprint(guarded: FlaskClient) -> None:
    page = guarded.get("/ui/login", headers=HTML).text
    for url in re.findall(r'(?:href|src)="(/ui/static/[^"]+)"', page):
        answer = guarded.get(url)
        assert answer.status_code == 200
        assert "immutable" in answer.headers["Cache-Control"]
        answer.close()


def answer_row(number: int, outcome: float, left: str = "a", right: str = "b") -> dict[str, object]:
    return {
        "annotation_id": number,
        "status": "answer",
        "outcome": outcome,
        "left_item": left,
        "right_item": right,
        "created_at": float(number),
    }


def test_heaviest_answers_are_those_for_the_side_that_items_explain_least() -> None:
    rows = [answer_row(1, 1.0), answer_row(2, 1.0, "b", "a"), answer_row(3, -1.0), answer_row(4, 0.0)]
    found = heaviest_answers(rows, {"a": 0.4, "b": -0.4}, 0.3)
    assert [(entry.row["annotation_id"], round(entry.weight, 6)) for entry in found] == [(2, 1.8), (1, 0.2)]


def test_side_shares_of_ten_answers_are_one_window_with_wilson_s_interval() -> None:
    (window,) = side_shares([answer_row(k, 1.0 if k < 8 else -1.0) for k in range(10)])
    assert (window["left"], window["n"], window["share"]) == (8, 10, 0.8)
    # R: prop.test(8, 10, correct = FALSE)$conf.int
    assert wilson(8, 10) == pytest.approx((0.4901625, 0.9433178), abs=1e-5)


def test_tasks_to_review_begin_with_those_that_turn(store: Store, hostile: Project) -> None:
    run = store.latest_run(hostile.id)
    assert run is not None
    reviews, n_turned = tasks_to_review(store, run, most=1000)
    turns = [review.turns for review in reviews]
    assert sum(turns) == n_turned
    assert turns == sorted(turns, reverse=True)
    scores = store.item_scores(run.id, [reviews[0].task.left_item or "", reviews[0].task.right_item or ""])
    difference = scores[reviews[0].task.left_item or ""] - scores[reviews[0].task.right_item or ""]
    assert reviews[0].after == pytest.approx(difference)
