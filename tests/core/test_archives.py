"""`evenhand analyze` by engine: files, folders and patterns, all with the same report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from fdr_core.commands.analyze import LARGE_BYTES, analyze, choose
from fdr_core.simulate import small_team


def run(*arguments: object, **environment: str) -> Result:
    runner = CliRunner(env=environment)
    return runner.invoke(analyze, [str(argument) for argument in arguments], catch_exceptions=False)


def report_of(*arguments: object, **environment: str) -> dict[str, Any]:
    result = run(*arguments, "--json", "--lbi", "draws=3", **environment)
    assert result.exit_code == 0, result.output
    # Sums are added in another order than answers: the last digits are not the same.
    report: dict[str, Any] = json.loads(result.stdout, parse_float=lambda text: round(float(text), 12) + 0.0)
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


def rounded(report: dict[str, Any]) -> Any:
    """A report without the last digits, which depend on the order in which answers are summed."""
    return json.loads(json.dumps(report), parse_float=lambda text: round(float(text), 12))


def test_analyze_folder_pattern_and_file_report_the_same(crowd: Path) -> None:
    expected = report_of(crowd / "all.csv")
    for sources in ([crowd / "parts"], [crowd / "parts" / "*.parquet"], sorted((crowd / "parts").iterdir())):
        found = report_of(*sources)
        assert rounded({**found, "data": None}) == rounded({**expected, "data": None})
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
        (("a.csv", "--master", "local[2]"), "--master is the address of a Spark cluster"),
        (("a.csv", "b.csv", "--engine", "memory"), "the engine memory reads one"),
        (("a.csv", "--engine", "duckdb", "--coin", "c"), "--coin applies to files that are read with --engine memory"),
    ],
)
def test_analyze_options_that_do_not_go_together_exit_2(arguments: tuple[str, ...], message: str) -> None:
    result = run(*arguments, "--json")
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())


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
