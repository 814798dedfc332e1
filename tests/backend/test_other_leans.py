"""Leans beyond position of a project: off by default, gold only as named, the same on the page, in API and report."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from evenhand.app import create_app
from evenhand.domain import Batch, Project, Run, Task, plain_answer
from evenhand.errors import UnusableValueError
from evenhand.label_studio.payloads import read_task
from evenhand.project_config import parse_config
from evenhand.projects.reading import resolve
from evenhand.runs.report import report_of_run
from evenhand.settings import Settings
from evenhand.store import Store

from fdr_core.report import pseudonymised, render
from harness import world
from harness.label_configs import PAIRWISE

SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "report-schema.json").read_text(encoding="utf-8"))
PAIRS, PEOPLE = 150, 8
REFEREE = "99"


def filled(store: Store, number: int, *, sizes: bool = True) -> Project:
    """Eight people judge 150 pairs of texts; 1 and 2 prefer length; somebody else's answers are all right."""
    project = world.register(store, number, f"texts {number}")
    rng = np.random.default_rng(5)
    better, chars = rng.choice([-1, 1], PAIRS), rng.integers(40, 800, size=(PAIRS, 2))
    x = np.tanh(np.log(chars[:, 0] / chars[:, 1]))
    tasks, rows = [], []
    for k in range(PAIRS):
        left, right, at = f"text {k} a", f"text {k} b", world.START + 60 * k
        told = {left: (int(chars[k, 0]), 0), right: (int(chars[k, 1]), 0)} if sizes else {}
        tasks.append(Task(k + 1, left, right, left, right, None, None, True, at, sizes=told))
        for who in range(1, PEOPLE + 1):
            chance = 1 / (1 + np.exp(-better[k] - 2.5 * (who <= 2) * x[k]))
            outcome = 1.0 if rng.random() < chance else -1.0
            rows.append(plain_answer(100 * (k + 1) + who, str(who), left, right, outcome, at=at, task=k + 1))
        rows.append(plain_answer(100 * (k + 1), REFEREE, left, right, float(better[k]), at=at, task=k + 1))
    store.comparisons.apply(project.id, Batch(tasks=tasks, comparisons=rows))
    store.annotators.name(project.id, {REFEREE: ("Referee", "referee@example.com"), "1": ("Lena", None)})
    return store.projects.get(project.id)


def judged(store: Store, project: Project, **settings: Any) -> Run:
    store.projects.set_config(project.id, parse_config({"lbi": "off", **settings}), by="test")
    world.judge(store, store.projects.get(project.id))
    run = store.runs.latest(project.id)
    assert run is not None
    return run


@pytest.fixture(scope="module")
def store(module_store: Store) -> Store:
    return module_store


@pytest.fixture(scope="module")
def project(store: Store) -> Project:
    return filled(store, 1)


@pytest.fixture(scope="module")
def run(store: Store, project: Project) -> Run:
    return judged(store, project, leans="length, agreement", lean_gold="referee@example.com")


def test_run_with_gold_lists_leans_in_the_report(store: Store, run: Run) -> None:
    report = report_of_run(store, run)
    jsonschema.validate(json.loads(render(report, "report.json")), SCHEMA)
    length, agreement = report["other_leans"]
    assert length["how"] == "gold"
    assert {row["annotator"] for row in length["annotators"] if row["flagged"]} == {"1", "2"}
    assert agreement["lean"] == "agreement"
    rows = list(csv.DictReader(io.StringIO(render(report, "leans.csv").decode("utf-8-sig"))))
    assert {row["annotator"] for row in rows if row["flagged"] == "true" and row["lean"] == "length"} == {"1", "2"}
    assert "Lena" not in render(pseudonymised(report), "report.html").decode()


def test_run_with_gold_is_shown_on_the_page_and_by_the_api(
    module_settings: Settings, store: Store, project: Project, run: Run
) -> None:
    client = create_app(module_settings, store).test_client()
    page = client.get(f"/ui/projects/{project.id}?run={run.id}").get_data(as_text=True)
    assert "Towards the longer item: 2 of 9 annotators" in page
    assert "leans.csv" in page
    assert client.get(f"/ui/projects/{project.id}/runs/{run.id}/leans.csv").status_code == 200
    found = client.get(f"/api/v1/projects/{project.id}/annotators/1").get_json()
    assert "longer item" in json.dumps(found)


def test_run_without_the_setting_says_nothing(store: Store, project: Project) -> None:
    report = report_of_run(store, judged(store, project))
    assert report["other_leans"] == []
    assert report["without_taste"] is None


def test_ground_truth_is_gold_only_where_it_is_named(store: Store, project: Project) -> None:
    report = report_of_run(store, judged(store, project, leans="length", lean_gold="ground_truth"))
    assert "none of the answers are answers marked ground truth" in report["other_leans"][0]["reasons"][0]
    unnamed = report_of_run(store, judged(store, project, leans="length"))
    assert unnamed["other_leans"][0]["how"] in ("crowd", "goes with")


def test_texts_that_are_not_known_are_a_reason_and_no_failure(store: Store) -> None:
    report = report_of_run(store, judged(store, filled(store, 2, sizes=False), leans="length"))
    assert "chars_left is missing" in report["other_leans"][0]["reasons"][0]
    assert render(report, "report.html")


def test_settings_name_leans_that_there_are() -> None:
    assert parse_config({"leans": "length,format"}).leans == ("length", "format")
    assert parse_config({}).leans == ()
    with pytest.raises(UnusableValueError, match="leans"):
        parse_config({"leans": "colour"})


def test_task_brings_the_size_of_its_texts_and_none_of_addresses() -> None:
    reading = resolve(parse_config({"item_left": "a", "item_right": "b"}), PAIRWISE, ("a", "b"))
    task = read_task({"id": 1, "data": {"a": "- **one**\n- two", "b": "https://example.com/x.png"}}, reading)
    assert list(task.sizes.values()) == [(15, 5)]
