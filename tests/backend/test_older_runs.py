"""Runs stored before findings existed stay readable, in their own words, as made by an older method."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest
from evenhand.app import create_app
from evenhand.runs.report import report_of_run
from evenhand.settings import Settings
from evenhand.store import Store
from evenhand.store.engine import WRITE, migrate, open_engine, upgrade
from sqlalchemy import text

from fdr_core.report import render

SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "report-schema.json").read_text(encoding="utf-8"))
OLDER = {"1": "bad", "2": "ugly", "3": "good", "4": "not assessable"}
WORDS = ["always one side", "leans to one side", "no lean found", "not assessable yet"]
PROJECT = """INSERT INTO projects (id, ls_url, ls_project_id, epoch, title, kind, label_config, config, setup_params,
    task_fields, seq, live_seq, created_at, full_pull_needed, counts)
    VALUES (1, 'http://ls', 1, 1, 'Before', 'comparison', '<View/>', '{"q": 0.1}', '{}', '[]', 1, 1, 0, :no, '{}')"""
RUN = """INSERT INTO runs (id, project_id, status, trigger, requested_at, finished_at, attempts, seq, seed, config,
    audit, guarantee, summary)
    VALUES (1, 1, 'done', 'schedule', 0, 10, 1, 1, 0, '{"q": 0.1}', '{"construction": "flip", "reasons": []}',
    'none proven (counted on copies): Aiming at 10 % of the flags.', '{"flagged": 2, "parameters": {"draws": 21}}')"""
ROW = """INSERT INTO run_annotators (run_id, annotator, position, comparisons, "left", "right", ties, bias, draw_share,
    verdict, flagged, persistent, warned)
    VALUES (1, :who, :place, 40, 30, 10, 0, 0.5, 0.75, :verdict, :flagged, :flagged, :no)"""
PERSON = "INSERT INTO annotators (project_id, annotator_id) VALUES (1, :who)"
FLAG = """INSERT INTO flags (project_id, annotator_id, run_id, since, verdict, evidence)
    VALUES (1, '1', 1, 5, 'bad', '{"draw_share": 1.0}')"""


@pytest.fixture
def older(empty_database_url: str) -> Iterator[Store]:
    """A database of the version before, with one run, brought up to date."""
    engine = open_engine(empty_database_url)
    with engine.connect().execution_options(**{WRITE: True}) as connection, connection.begin():
        upgrade(connection, "0002")
        connection.execute(text(PROJECT), {"no": False})
        connection.execute(text(RUN))
        for place, (who, verdict) in enumerate(OLDER.items(), start=1):
            values = {"who": who, "place": place, "verdict": verdict, "flagged": place <= 2, "no": False}
            connection.execute(text(ROW), values)
            connection.execute(text(PERSON), {"who": who})
        connection.execute(text(FLAG))
    migrate(engine)
    store = Store(engine)
    yield store
    store.close()


def test_older_run_after_the_migration_keeps_its_words_and_shares(older: Store) -> None:
    rows = older.findings.all(1)
    assert [row["finding"] for row in rows] == WORDS
    assert {row["draw_share"] for row in rows} == {0.75}
    assert {row["lbi_share"] for row in rows} == {None}
    assert [flag["finding"] for flag in older.flags.all(1)] == ["always one side"]


def test_older_run_on_pages_is_shown_as_an_older_method(older: Store) -> None:
    client = create_app(Settings(), older).test_client()
    page = client.get("/ui/projects/1", headers={"Accept": "text/html"}).text
    assert "older method" in page
    for words in WORDS:
        assert words in page
    narrowed = client.get("/ui/projects/1?show=leans+to+one+side", headers={"Accept": "text/html"}).text
    assert "1 annotator match" in narrowed
    person = client.get("/ui/projects/1/annotator?id=1", headers={"Accept": "text/html"}).text
    assert "always one side" in person


def test_older_run_through_the_api_and_in_exports_has_old_and_new_names(older: Store) -> None:
    client = create_app(Settings(), older).test_client()
    row = client.get("/api/v1/projects/1/annotators").get_json()["rows"][0]
    assert (row["finding"], row["verdict"], row["draw_share"]) == ("always one side", "always one side", 0.75)
    report = report_of_run(older, older.runs.get(1))
    jsonschema.validate(json.loads(render(report, "report.json")), SCHEMA)
    assert report["method"]["decided_by"] is None
    page = render(report, "report.html")
    assert b"The list was made by an older method" in page
    assert b"Every annotator" not in page
    assert b"always one side" in render(report, "annotators.csv")
