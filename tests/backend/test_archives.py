"""`evenhand analyze` by engine: files, folders, and the service's own PostgreSQL, all with the same report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner, Result
from evenhand.commands._around import SERVICE
from evenhand.domain import Batch, Comparison, Project, ProjectRef, Status
from evenhand.projects.reading import change_config
from evenhand.runs.run import note_left_out
from evenhand.runs.stored_sums import sum_stored
from evenhand.store import Store
from evenhand.store.engine import open_engine

from fdr_core import Comparisons, KnockoffLBI, detect
from fdr_core.commands._archives import LARGE_BYTES, choose
from fdr_core.commands.analyze import analyze
from fdr_core.engines import sum_comparisons
from fdr_core.simulate import small_team
from harness.judged import judged_answers
from harness.label_configs import PAIRWISE
from tests.core.engines.test_engines import assert_same


def run(*arguments: object, **environment: str) -> Result:
    runner = CliRunner(env=environment)
    return runner.invoke(analyze, [str(argument) for argument in arguments], obj=SERVICE, catch_exceptions=False)


def report_of(*arguments: object, **environment: str) -> dict[str, Any]:
    result = run(*arguments, "--json", "--lbi", "draws=3", **environment)
    assert result.exit_code == 0, result.output
    report: dict[str, Any] = json.loads(result.stdout)
    return report


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A simulated team in three files."""
    folder = tmp_path_factory.mktemp("crowd")
    table = small_team(12, 2, 80, rng=np.random.default_rng(4)).comparisons.to_frame()
    table.to_csv(folder / "all.csv", index=False)
    (folder / "parts").mkdir()
    for part in range(3):
        table.iloc[part::3].to_parquet(folder / "parts" / f"{part}.parquet", index=False)
    return folder


def test_analyze_folder_pattern_and_file_report_the_same(crowd: Path) -> None:
    expected = report_of(crowd / "all.csv")
    for sources in ([crowd / "parts"], [crowd / "parts" / "*.parquet"], sorted((crowd / "parts").iterdir())):
        found = report_of(*sources)
        assert {**found, "data": None} == {**expected, "data": None}
        same = ("answers", "annotators", "items", "ties", "coins", "coin_source", "excluded")
        assert [found["data"][name] for name in same] == [expected["data"][name] for name in same]
    forced = report_of(crowd / "all.csv", "--engine", "duckdb")
    assert forced == expected


def test_analyze_folder_names_its_report_after_it(crowd: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(crowd / "parts", "--lbi", "draws=1").exit_code == 0
    assert (tmp_path / "parts-report" / "report.html").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "DATA is missing"),
        (("a.csv", "--project", "1"), "--engine postgres and --project N go together"),
        (("--engine", "postgres"), "--engine postgres and --project N go together"),
        (("a.csv", "--engine", "postgres", "--project", "1"), "--engine postgres takes no DATA"),
        (("a.csv", "--master", "local[2]"), "--master is the address of a Spark cluster"),
        (("a.csv", "b.csv", "--engine", "memory"), "the engine memory reads one"),
        (("a.csv", "--engine", "duckdb", "--coin", "c"), "--coin applies to Label Studio exports"),
    ],
)
def test_analyze_options_that_do_not_go_together_exit_2(arguments: tuple[str, ...], message: str) -> None:
    result = run(*arguments, "--json")
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())


def test_analyze_postgres_on_sqlite_says_what_to_use(tmp_path: Path) -> None:
    result = run("--engine", "postgres", "--project", 1, "--json", MODEL_DIR=str(tmp_path), DATABASE_URL="")
    assert result.exit_code == 2
    assert "the service's database is SQLite" in " ".join(result.stderr.split())


def test_choose_auto_by_kind_and_size(tmp_path: Path) -> None:
    small, large = tmp_path / "small.csv", tmp_path / "large.csv"
    small.write_text("x")
    with large.open("wb") as file:
        file.truncate(LARGE_BYTES + 1)
    assert choose("auto", [str(small)]) == "memory"
    assert choose("auto", [str(large)]) == "duckdb"
    assert choose("auto", [str(tmp_path)]) == "duckdb"
    assert choose("auto", [str(tmp_path / "*.csv")]) == "duckdb"
    assert choose("auto", [str(small), str(small)]) == "duckdb"
    assert choose("auto", [str(tmp_path / "export.json")]) == "memory"
    assert choose("auto", ["hdfs://host/answers"]) == "spark"
    assert choose("memory", [str(large)]) == "memory"


def fill(store: Store, project: Project) -> None:
    """Answers of every sort: judged, deleted, skipped, ground truth, from predictions, with and without a coin."""
    crowd = small_team(12, 2, 80, rng=np.random.default_rng(4)).comparisons
    prediction: tuple[Status, bool] = ("prediction", False)
    sorts: dict[int, tuple[Status, bool]] = {0: ("skip", False), 1: prediction, 2: ("answer", True), 3: prediction}
    rows = []
    for k in range(len(crowd)):
        status, ground_truth = sorts.get(k % 40, ("answer", False))
        outcome = None if status == "skip" else float(crowd.outcome[k])
        left, right = f"i{crowd.left[k]}", f"i{crowd.right[k]}"
        coin = f"c{k // 3}" if k % 7 else None
        who = str(crowd.annotator[k])
        rows.append(
            Comparison(k + 1, k // 2, who, left, right, coin, None, outcome, status, None, ground_truth, 2.0, 1.0, 1.0)
        )
    store.comparisons.apply(project.id, Batch(comparisons=rows))
    store.comparisons.apply(project.id, Batch(deleted_annotations=list(range(5, 60, 9))))


@pytest.mark.postgres
def test_postgres_sums_equal_what_a_run_reads_under_every_policy(migrated_postgres_url: str) -> None:
    store = Store(open_engine(migrated_postgres_url))
    project = store.projects.register("", ProjectRef(1, 1), title="pw", label_config=PAIRWISE)
    fill(store, project)
    other = store.projects.register("", ProjectRef(2, 2), title="other", label_config=PAIRWISE)
    fill(store, other)
    seen = set()
    for policy in ({}, {"count_ground_truth": False}, {"count_predictions": True}):
        project = change_config(store, project, policy, by="test")
        answers = judged_answers(store, project.id)
        columns = (answers.annotator, answers.left, answers.right, answers.outcome)
        expected = sum_comparisons(Comparisons.from_arrays(*columns, task=answers.coin))
        found = sum_stored(store, project, migrated_postgres_url)
        assert_same(found, expected)
        seen.add(len(found))
        note_left_out(store, project, found)
        note_left_out(store, project, expected)
        here, there = (
            detect(found, sides="random", lbi=KnockoffLBI(draws=3)),
            detect(expected, sides="random", lbi=KnockoffLBI(draws=3)),
        )
        assert here.flagged == there.flagged
        pd.testing.assert_frame_equal(here.annotators, there.annotators, check_exact=True)
    assert len(seen) == 3
    store.close()


@pytest.mark.postgres
def test_analyze_postgres_reports_the_project_in_place_as_its_export(
    migrated_postgres_url: str, tmp_path: Path
) -> None:
    store = Store(open_engine(migrated_postgres_url))
    project = store.projects.register("", ProjectRef(1, 1), title="Tom's pairs", label_config=PAIRWISE)
    fill(store, project)
    answers = judged_answers(store, project.id)
    columns = {"annotator": answers.annotator, "left": answers.left, "right": answers.right}
    export = pd.DataFrame({**columns, "outcome": answers.outcome, "task": answers.coin})
    export.to_parquet(tmp_path / "export.parquet", index=False)
    store.close()
    address = migrated_postgres_url.replace("+psycopg", "")
    found = report_of("--engine", "postgres", "--project", project.id, DATABASE_URL=address)
    expected = report_of(tmp_path / "export.parquet", "--engine", "duckdb")
    assert found["annotators"] == expected["annotators"]
    assert found["ranking"] == expected["ranking"]
    assert found["data"]["source"] == "Tom's pairs"
    assert found["data"]["excluded"] == {"skip": 23, "prediction": 48}
    missing = run("--engine", "postgres", "--project", 99, "--json", DATABASE_URL=address)
    assert missing.exit_code == 2
    assert "project 99 does not exist" in " ".join(missing.stderr.split())
