"""The dashboard without a browser: every page in every state, words, headers, forms."""

from __future__ import annotations

import re
import time
from pathlib import Path
from statistics import median

import pytest
from evenhand.app import create_app
from evenhand.domain import Batch, Project, StoredEvidence, Trigger, plain_answer
from evenhand.project_config import parse_config
from evenhand.projects.demo import load_demo
from evenhand.runs.report import progress_words
from evenhand.runs.review_priority import side_shares, wilson
from evenhand.runs.run import first_look
from evenhand.settings import Settings
from evenhand.store import Store, open_store
from flask.testing import FlaskClient
from sqlalchemy import event

from fdr_core.report.heaviest import heaviest_answers
from fdr_core.report.words import finding_kind
from harness import world
from tests.backend.dashboard.browsing import HTML, TABS, get, person_url, post, settings_form, token, visible


def _beside_nobody(folder: Path) -> Settings:
    """Settings of a service whose Label Studio cannot be reached."""
    return Settings(
        model_dir=folder,
        database_url=f"sqlite:///{folder / 'e.db'}",
        log_level="ERROR",
        label_studio_url="http://127.0.0.1:9",
        label_studio_api_key="a" * 40,
    )


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
    assert "W" * 700 not in re.sub(r"<bdi class=\"(clip3|whole)\"[^>]*>.*?</bdi>", "", page, flags=re.DOTALL)


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


def test_figures_page_names_the_paper_s_words_in_the_paper_s_form_alone(client: FlaskClient, judged: Project) -> None:
    page = visible(get(client, f"/ui/projects/{judged.id}/figures"))
    assert re.findall(r"\b(?:good|ugly|bad)\b", page, re.IGNORECASE) == []
    page = visible(get(client, f"/ui/projects/{judged.id}/figures?form=paper"))
    for words in ("no lean seen (good)", "leans to one side (ugly)", "always one side (bad)", "not judged"):
        assert words in page


def test_project_page_shows_findings_with_n_and_intervals(client: FlaskClient, store: Store, judged: Project) -> None:
    page = visible(get(client, f"/ui/projects/{judged.id}"))
    run = store.runs.latest(judged.id)
    assert run is not None
    worst = store.findings.all(run.id)[0]
    assert worst["flagged"]
    assert re.search(r"(left|right) 0\.\d\d\s+\(\d\.\d\d to \d\.\d\d\)", page)
    assert "Adjusted p" in page
    assert "None proven" not in page
    assert "The shortest list these settings can flag" in page
    assert "It is not the probability that one person leans" in page
    assert "Of the entries on such lists at most about 1 in 10 is wrong" in page
    assert "exact test of each annotator" in page


def test_project_page_sort_and_filter_reach_the_database(client: FlaskClient, store: Store, judged: Project) -> None:
    base = f"/ui/projects/{judged.id}"
    names = re.findall(r"<bdi>(Person \d+)</bdi>", get(client, f"{base}?sort=name&order=desc"))
    assert names == sorted(names, reverse=True)
    assert 'aria-sort="descending"' in get(client, f"{base}?sort=name&order=desc")
    flagged = re.findall(r"<bdi>(Person \d+)</bdi>", get(client, f"{base}?show=flagged"))
    run = store.runs.latest(judged.id)
    assert run is not None
    assert len(flagged) == sum(row["flagged"] for row in store.findings.all(run.id))
    assert re.findall(r"<bdi>(Person \d+)</bdi>", get(client, f"{base}?search=person+07")) == ["Person 07"]
    assert "Nobody matches" in get(client, f"{base}?search=nobody-of-that-name")


@pytest.mark.parametrize("query", ["sort=nonsense", "page=-4", "page=9999", "show=bad", "run=0", "run=x", "page=1e9"])
def test_project_page_with_odd_arguments_still_answers(client: FlaskClient, judged: Project, query: str) -> None:
    assert "annotators match" in get(client, f"/ui/projects/{judged.id}?{query}")


@pytest.mark.parametrize("path", ["?search=%00", "/annotator?id=%00", "/runs?cursor=%00", "/runs?cursor=abc"])
def test_page_with_unstorable_text_in_its_address_is_no_failure(
    client: FlaskClient, judged: Project, path: str
) -> None:
    assert client.get(f"/ui/projects/{judged.id}{path}", headers=HTML).status_code in (200, 400, 404)


@pytest.mark.postgres
def test_page_on_postgresql_answers_as_on_sqlite(migrated_postgres_url: str, tmp_path: Path) -> None:
    settings = Settings(model_dir=tmp_path, database_url=migrated_postgres_url, log_level="ERROR")
    store = open_store(settings)
    project = world.simulated(store, 1, "Elephant", annotators=12, biased=2, answers=40, bias=0.8, seed=5)
    world.judge(store, project)
    client = create_app(settings, store).test_client()
    for tab in (*TABS, "/annotator?id=1", "?search=%00", "/runs/1/report.html", "/runs/1/annotators.csv"):
        get(client, f"/ui/projects/{project.id}{tab}")
    for column in ("name", "comparisons", "left", "bias", "lbi_share", "p_value", "match_ratio"):
        get(client, f"/ui/projects/{project.id}?sort={column}&order=desc&show=flagged&search=person")
    form = {"annotator": "1", "decision": "watch", "comment": "nul \x00 inside"}
    assert post(client, f"/ui/projects/{project.id}/decisions", **form).status_code == 302
    store.close()


def test_project_page_not_assessable_is_a_state_of_its_own(fresh: tuple[FlaskClient, Store, Settings]) -> None:
    client, store, _ = fresh
    project = world.simulated(store, 1, "Few", annotators=6, biased=0, answers=2)
    world.judge(store, project)
    page = visible(get(client, f"/ui/projects/{project.id}"))
    assert "not assessable" in page
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
            started = time.thread_time()
            get(client, path)
            spent.append(time.thread_time() - started)
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
    (project,) = store.projects.all()
    assert answer.location == f"/ui/projects/{project.id}"
    assert project.kind == "demo"
    assert project.counts["judged"] == 3122
    assert "is waiting" in visible(get(client, answer.location))


@pytest.mark.parametrize("number", ["7", "0", "x"])
def test_project_that_cannot_be_connected_is_explained_beside_its_field(tmp_path: Path, number: str) -> None:
    settings = _beside_nobody(tmp_path)
    store = open_store(settings)
    answer = post(create_app(settings, store).test_client(), "/ui/connect", project=number, sides="shuffled")
    store.close()
    assert answer.status_code == (502 if number == "7" else 400)
    said = "Check that Label Studio runs" if number == "7" else "The project number was"
    assert re.search(rf'id="ls-wrong" role="alert">[^<]*{said}', answer.text, re.IGNORECASE)
    assert re.search(rf'id="ls-project"[^>]* value="{number}" aria-invalid="true"', answer.text)
    assert 'value="shuffled" selected' in answer.text


def test_project_without_a_run_changes_its_mark_when_something_arrives(
    fresh: tuple[FlaskClient, Store, Settings],
) -> None:
    client, store, _ = fresh
    project = world.register(store, 1, "Waiting")
    path = f"/ui/projects/{project.id}"
    before = client.get(f"{path}/mark").get_json()["mark"]
    assert f'data-mark="{before}"' in get(client, path)
    assert "being fetched from Label Studio" in visible(get(client, path))
    store.runs.request(project.id, Trigger.MANUAL, "tests")
    assert client.get(f"{path}/mark").get_json()["mark"] != before


@pytest.mark.parametrize("warned", [2, 12])
def test_list_asks_the_database_no_more_often_for_more_warnings(
    fresh: tuple[FlaskClient, Store, Settings], warned: int
) -> None:
    """Once every warning cost a query of its own, and the list of 10,000 people 0.7 s."""
    client, store, _ = fresh
    project = world.simulated(store, 1, "Warned", annotators=12, biased=2, answers=20)
    world.judge(store, project)
    people = [StoredEvidence(str(key), {}, 1.0, 1.0, 20, 1.0) for key in range(1, 1 + warned)]
    store.live.put(project.id, people, from_seq=store.projects.get(project.id).live_seq, to_seq=project.seq)
    get(client, f"/ui/projects/{project.id}")
    asked: list[str] = []
    event.listen(store.database.engine, "before_cursor_execute", lambda *call: asked.append(call[2]))
    assert f"{warned} early warnings" in visible(get(client, f"/ui/projects/{project.id}"))
    assert 5 < len(asked) <= 40


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
    run = store.runs.latest(project.id)
    assert run is not None
    rows = store.findings.all(run.id)
    assert 5 <= sum(row["flagged"] for row in rows) <= 8
    kinds = {finding_kind(row["finding"]) for row in rows}
    assert kinds == {"always", "lean", "calm", "wait"}
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


def test_run_now_queues_a_run_and_tells_its_progress(fresh: tuple[FlaskClient, Store, Settings]) -> None:
    client, store, _ = fresh
    project = world.simulated(store, 1, "Now", annotators=6, biased=0, answers=20)
    assert post(client, f"/ui/projects/{project.id}/runs").location == f"/ui/projects/{project.id}/runs"
    newest = store.runs.latest(project.id, status=None)
    assert newest is not None
    path = f"/ui/projects/{project.id}/runs/{newest.id}/progress"
    assert client.get(path).json == {"status": "queued", "progress": 0.0, "note": "waiting for a worker"}
    assert f'data-poll="{path}"' in get(client, f"/ui/projects/{project.id}/runs")
    run, lease = store.runs.claim("test", 60.0) or pytest.fail("nothing was claimed")
    store.runs.progress(run.id, lease, 0.2, "testing each annotator")
    assert client.get(path).get_json()["note"].startswith("testing each annotator")
    begun = run.started_at or 0.0
    running = store.runs.get(run.id)
    assert progress_words(running, begun + 0.5) == "testing each annotator"
    assert progress_words(running, begun + 10.0) == "testing each annotator, about 40 s left"
    store.runs.put_back(run.id, lease)
    world.judge(store, project)
    assert client.get(path).json == {"status": "done", "progress": 1.0, "note": "finished"}
    assert client.get(f"/ui/projects/{project.id}/runs/999/progress").get_json()["status"] == "done"


def test_compare_tells_who_appeared_and_which_settings_differ(fresh: tuple[FlaskClient, Store, Settings]) -> None:
    client, store, _ = fresh
    project = world.simulated(store, 1, "Two runs", annotators=12, biased=2, answers=80, bias=0.8, seed=5)
    world.judge(store, project)
    path = f"/ui/projects/{project.id}/settings"
    post(client, path, **{**settings_form(get(client, path)), "min_bias": "1"})
    world.judge(store, project)
    page = visible(get(client, f"/ui/projects/{project.id}/compare?a=2&b=1"))
    assert "No longer flagged" in page
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
    run = store.runs.latest(judged.id)
    assert run is not None
    worst = store.findings.all(run.id)[0]
    page = get(client, person_url(judged, worst["annotator"]))
    assert re.search(r'href="http://127\.0\.0\.1:9/projects/1/data\?task=\d+"', page)
    side = "left" if worst["bias"] > 0 else "right"
    assert f"favour the {side} side" in visible(page)


def test_status_page_counts_rejected_events_and_names_the_fix(fresh: tuple[FlaskClient, Store, Settings]) -> None:
    client, store, _ = fresh
    store.events.count("ANNOTATION_CREATED", "rejected", 12)
    store.problems.open(None, "disk", "the disk is full", "make room")
    page = visible(get(client, "/ui/status?checks=1"))
    assert "12 events rejected" in page
    assert "evenhand connect PROJECT" in page
    assert "make room" in page
    assert "LABEL_STUDIO_URL is not set" in page


def test_status_page_label_studio_unreachable_says_what_to_do(tmp_path: Path) -> None:
    settings = _beside_nobody(tmp_path)
    store = open_store(settings)
    page = visible(get(create_app(settings, store).test_client(), "/ui/status/checks"))
    store.close()
    assert "could not be reached" in page
    assert "Check that Label Studio runs" in page


def test_page_of_an_open_service_says_that_it_is_open(client: FlaskClient, judged: Project) -> None:
    assert "Open without a password" in get(client, "/ui/")


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
    found = heaviest_answers(rows, {"a": 0.4, "b": -0.4}, 0.3, consensus="least squares")
    assert [(entry.row["annotation_id"], round(entry.weight, 6)) for entry in found] == [(2, 1.8), (1, 0.2)]


def test_side_shares_of_ten_answers_are_one_window_with_wilson_s_interval() -> None:
    (window,) = side_shares([answer_row(k, 1.0 if k < 8 else -1.0) for k in range(10)])
    assert (window["left"], window["n"], window["share"]) == (8, 10, 0.8)
    # R: prop.test(8, 10, correct = FALSE)$conf.int
    assert wilson(8, 10) == pytest.approx((0.4901625, 0.9433178), abs=1e-5)


def test_ranking_of_responses_is_the_prompts_whose_winner_changed(
    fresh: tuple[FlaskClient, Store, Settings],
) -> None:
    client, store, _ = fresh
    project = load_demo(store, "rlhf")
    world.judge(store, project)
    run = store.runs.latest(project.id)
    assert run is not None
    rows = store.rankings.all(run.id)
    groups = {row["component"]: [one for one in rows if one["component"] == row["component"]] for row in rows}
    changed = 0
    for one, other in groups.values():
        gaps = [one[name] - other[name] for name in ("score", "raw_score")]
        changed += bool(gaps[0] * gaps[1] < 0 and abs(gaps[1]) > 1e-12)
    page = get(client, f"/ui/projects/{project.id}/ranking")
    assert f"{changed} of {len(groups)} prompts have another winner" in visible(page)
    assert page.count("wins now") == changed
    assert "data-chart" not in page


def test_run_stops_where_answers_look_misread_until_somebody_says_that_it_is_meant(
    fresh: tuple[FlaskClient, Store, Settings],
) -> None:
    client, store, _ = fresh
    project = world.register(store, 1, "Misread")
    rows = [
        plain_answer(k + 1, str(k % 6), f"item {k % 5}", f"item {k % 5 + 1}", 1.0, at=float(k), task=k + 1)
        for k in range(60)
    ]
    store.comparisons.apply(project.id, Batch(comparisons=rows))
    world.judge(store, project)
    page = visible(get(client, f"/ui/projects/{project.id}"))
    assert "none of 6 annotators ever chose the right side" in page
    assert "One-sided answers are meant" in page
    assert store.runs.latest(project.id) is None
    assert first_look(store, project, lambda stage, done, of: None, page="there").is_misread
    store.projects.set_config(project.id, parse_config({"one_sided": "true"}))
    world.judge(store, store.projects.get(project.id))
    assert store.runs.latest(project.id) is not None
