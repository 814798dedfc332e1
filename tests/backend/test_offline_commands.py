"""The offline commands: what they print, what they write, and their exit codes."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner, Result

from fdr_core import Comparisons, DesignError, InputError, KnockoffLBI, detect
from fdr_core.commands._summary import summary
from fdr_core.commands.analyze import analyze
from fdr_core.commands.prepare import prepare
from fdr_core.commands.selftest import score_methods, selftest
from fdr_core.commands.simulate import simulate
from fdr_core.engines import sum_comparisons
from fdr_core.findings import FINDINGS
from fdr_core.report.document import plain, pseudonymised
from fdr_core.simulate import small_team


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A simulated team of twelve, two of whom lean, as a file."""
    path = tmp_path_factory.mktemp("crowd") / "crowd.csv"
    result = run(simulate, path, "--annotators", 12, "--biased", 2, "--answers", 100, "--bias", 0.6, "--seed", 1)
    assert result.exit_code == 0, result.output
    return path


def run(command: Any, *arguments: object) -> Result:
    """Run a command in this process."""
    return CliRunner().invoke(command, [str(argument) for argument in arguments], catch_exceptions=False)


def leaning(path: Path) -> set[int]:
    """Who leans in truth."""
    truth = pd.read_csv(path.with_suffix(".truth.csv"))
    return set(truth.loc[truth["leans"], "annotator"])


def test_simulate_writes_answers_and_truth(crowd: Path) -> None:
    c = Comparisons.from_csv(crowd)
    assert (len(c), c.n_annotators, c.n_items) == (1200, 12, 20)
    assert len(leaning(crowd)) == 2


def test_simulate_scenario_to_parquet_keeps_grades_and_coins(tmp_path: Path) -> None:
    assert run(simulate, tmp_path / "h5.parquet", "--scenario", "H5").exit_code == 0
    assert np.unique(np.abs(Comparisons.from_parquet(tmp_path / "h5.parquet").outcome)).size == 4
    assert run(simulate, tmp_path / "u.csv", "--scenario", "unique-pairs").exit_code == 0
    assert Comparisons.from_csv(tmp_path / "u.csv").coin_source == "coin"


def test_simulate_more_biased_than_annotators_exits_2(tmp_path: Path) -> None:
    result = run(simulate, tmp_path / "x.csv", "--annotators", 3, "--biased", 4)
    assert result.exit_code == 2
    assert "n_biased is 4; expected 0 to 3" in result.output


def test_analyze_json_names_who_leans_in_calm_words(crowd: Path) -> None:
    result = run(analyze, crowd, "--json", "--lbi", "draws=5")
    assert result.exit_code == 0
    report = json.loads(result.stdout)
    flagged = [row["annotator"] for row in report["annotators"] if row["flagged"]]
    assert flagged == detect(sum_comparisons(Comparisons.from_csv(crowd)), lbi=KnockoffLBI(draws=5)).flagged
    assert leaning(crowd) <= set(flagged)
    findings = {row["finding"] for row in report["annotators"]}
    assert "no lean seen" in findings
    assert findings <= set(FINDINGS)
    assert report["method"]["decided_by"] == "exact"
    assert report["schema_version"] == 2
    assert set(report) == {
        *("schema_version", "data", "parameters", "audit", "method", "guarantee"),
        *("annotators", "ranking", "order_changes", "versions", "title", "made_at", "heaviest_answers"),
        *("other_leans", "without_taste", "changes"),
    }
    assert "draws=5" in report["parameters"]["lbi"]


def test_analyze_without_draws_leaves_the_list_of_lbi_unknown(crowd: Path, tmp_path: Path) -> None:
    report = json.loads(run(analyze, crowd, "--json", "--lbi", "off", "--out", tmp_path).stdout)
    assert {row["lbi_list"] for row in report["annotators"]} == {None}
    assert {row["exact_list"] for row in report["annotators"]} == {True, False}
    table = pd.read_csv(tmp_path / "annotators.csv")
    assert table["lbi_list"].isna().all()
    assert table["exact_list"].notna().all()
    assert "was left out" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_analyze_where_nobody_can_be_judged_leaves_both_lists_unknown(tmp_path: Path) -> None:
    run(simulate, tmp_path / "short.csv", "--annotators", 5, "--answers", 1)
    report = json.loads(run(analyze, tmp_path / "short.csv", "--json").stdout)
    assert {(row["exact_list"], row["lbi_list"]) for row in report["annotators"]} == {(None, None)}
    assert not any(row["flagged"] for row in report["annotators"])


def test_analyze_json_is_the_same_every_time(crowd: Path) -> None:
    assert (
        run(analyze, crowd, "--json", "--lbi", "draws=3").stdout
        == run(analyze, crowd, "--json", "--lbi", "draws=3").stdout
    )


def test_analyze_fail_on_flags_exits_1(crowd: Path) -> None:
    assert run(analyze, crowd, "--json", "--lbi", "draws=3", "--fail-on-flags").exit_code == 1


def test_analyze_nobody_flagged_exits_0_with_fail_on_flags(tmp_path: Path) -> None:
    run(simulate, tmp_path / "six.csv", "--annotators", 6, "--answers", 60)
    # With one copy at q = .1 the shortest list of LBI has ten people, so that six can never be flagged.
    by_lbi = ("--decide-by", "lbi", "--lbi", "draws=3,copies=1")
    result = run(analyze, tmp_path / "six.csv", "--json", *by_lbi, "--fail-on-flags")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["guarantee"]["smallest_list"] == 10


def test_analyze_pseudonymise_hides_names_and_file(tmp_path: Path) -> None:
    table = small_team(12, 2, 60, rng=np.random.default_rng(0)).comparisons.to_frame()
    table["annotator"] = "person-" + table["annotator"].astype(str)
    table.to_csv(tmp_path / "secret-project.csv", index=False)
    result = run(analyze, tmp_path / "secret-project.csv", "--json", "--lbi", "draws=3", "--pseudonymise")
    assert "person-" not in result.stdout
    assert "secret-project" not in result.stdout
    assert '"annotator 12"' in result.stdout


@pytest.mark.parametrize(
    ("content", "arguments", "message"),
    [
        ("annotator,left,right,choice\na,x,x,left\n", (), "compares item 'x' with itself"),
        ("annotator,left,right,choice\na,x,y,left\n", ("--q", "2"), "2.0 is not in the range 0<x<1"),
        (
            "annotator,left,right,choice\na,x,y,left\n",
            ("--coin", "c"),
            "--coin does not apply to our own columns; leave it out",
        ),
        ("annotator,left,right,choice\na,x,y,left\n", ("--answers", "{"), "not JSON"),
        ("annotator,left,right,choice\na,x,y,left\n", ("--answers", "A=up"), "expected left, right, tie"),
    ],
)
def test_analyze_bad_input_exits_2_with_a_message(
    tmp_path: Path, content: str, arguments: tuple[Any, ...], message: str
) -> None:
    path = tmp_path / "a.csv"
    path.write_text(content)
    result = run(analyze, path, "--json", *arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())
    assert "Traceback" not in result.output


def test_analyze_missing_file_exits_2(tmp_path: Path) -> None:
    result = run(analyze, tmp_path / "nowhere.csv", "--json")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "no such file" in result.stderr


def test_summary_prints_markup_in_names_literally(crowd: Path) -> None:
    report = json.loads(run(analyze, crowd, "--json", "--lbi", "draws=1").stdout)
    report["annotators"][0]["annotator"] = "[red]x[/red]"
    text = "\n".join(summary(report, 120))
    assert "[red]x[/red]" in text
    assert "1,200 answers, 12 annotators, 20 items" in text
    assert "leans left" in text or "leans right" in text


def test_selftest_prints_every_method(crowd: Path) -> None:
    result = run(selftest, crowd, "--runs", 2, "--lbi", "draws=1", "--biased", 2)
    assert result.exit_code == 0
    for name in ("Evenhand, auto", "Evenhand, flip", "Evenhand, paper", "binomial + BH", "GLM + BH"):
        assert name in result.output


def test_selftest_scores_perfect_blind_and_impossible_methods() -> None:
    design = small_team(12, 2, 30, rng=np.random.default_rng(0)).comparisons

    def impossible(_: Comparisons) -> list[object]:
        raise DesignError("too few answers")

    compared = {"everybody": lambda c: list(c.annotators), "nobody": lambda c: [], "impossible": impossible}
    moves: list[tuple[int, int]] = []
    scores = score_methods(
        design, compared, runs=3, seed=0, n_biased=3, progress=lambda done, total: moves.append((done, total))
    )
    everybody, nobody, failed = scores
    assert (everybody.false_share, everybody.power, everybody.flagged) == (0.75, 1.0, 12.0)
    assert (nobody.false_share, nobody.power) == (0.0, 0.0)
    assert (failed.runs, failed.problem) == (0, "too few answers")
    assert moves[-1] == (9, 9)


def test_selftest_json_is_readable_by_programs(crowd: Path) -> None:
    scores = json.loads(run(selftest, crowd, "--runs", 1, "--lbi", "draws=1", "--json").stdout)
    assert {"method", "false_share", "power", "runs"} <= set(scores[0])


def test_prepare_writes_files_and_prints_the_label_config(tmp_path: Path) -> None:
    (tmp_path / "items.txt").write_text("a\nb\nc\n")
    result = run(prepare, tmp_path / "items.txt", "--out", tmp_path / "out", "--seed", 4)
    assert result.exit_code == 0
    assert "3 tasks from 3 pairs, seed 4" in result.output
    assert "<Pairwise" in result.output
    assert len(json.loads((tmp_path / "out" / "tasks.json").read_text())) == 3


def test_prepare_without_a_seed_draws_and_records_one(tmp_path: Path) -> None:
    (tmp_path / "items.txt").write_text("a\nb\nc\n")
    seeds = set()
    for name in ("one", "two"):
        run(prepare, tmp_path / "items.txt", "--out", tmp_path / name)
        seeds.add(json.loads((tmp_path / name / "coins.json").read_text())["seed"])
    assert len(seeds) == 2


def test_prepare_folder_that_cannot_be_written_exits_2(tmp_path: Path) -> None:
    (tmp_path / "items.txt").write_text("a\nb\n")
    (tmp_path / "taken").write_text("a file")
    result = run(prepare, tmp_path / "items.txt", "--out", tmp_path / "taken" / "inside")
    assert result.exit_code == 2


def test_file_tells_formats_by_content_where_the_name_does_not(tmp_path: Path) -> None:
    table = pd.DataFrame({"annotator": ["a"], "left": ["x"], "right": ["y"], "choice": ["left"]})
    table.to_parquet(tmp_path / "one")
    table.to_csv(tmp_path / "two", index=False)
    result = [{"from_name": "pw", "type": "pairwise", "value": {"selected": "left"}}]
    export = [{"id": 1, "data": {"left": "x", "right": "y"}, "annotations": [{"completed_by": "a", "result": result}]}]
    (tmp_path / "three").write_text(json.dumps(export))
    for name in ("one", "two", "three"):
        c = Comparisons.from_file(tmp_path / name)
        assert (list(c.annotators), list(c.items), c.outcome.tolist()) == (["a"], ["x", "y"], [1.0])
    with pytest.raises(InputError, match="no such file"):
        Comparisons.from_file(tmp_path / "four")


def test_plain_values_are_json_without_nan() -> None:
    value = {"a": np.float64("nan"), 1: np.int64(3), "b": np.array([1.0, np.inf]), "c": (np.bool_(True), None)}
    assert plain(value) == {"a": None, "1": 3, "b": [1.0, None], "c": [True, None]}


def test_pseudonymised_leaves_the_original_alone() -> None:
    report: dict[str, Any] = {
        "annotators": [{"annotator": "eve", "flagged": True}],
        "data": {"source": "x.csv", "answers": 1},
        "heaviest_answers": [{"annotator": "eve", "task": 7, "weight": 1.5}],
    }
    hidden = pseudonymised(report)
    assert hidden["annotators"] == [{"annotator": "annotator 1", "flagged": True}]
    assert hidden["data"] == {"source": None, "answers": 1, "settings_changed": None}
    assert hidden["heaviest_answers"] == [{"annotator": "annotator 1", "task": None, "weight": 1.5}]
    assert report["annotators"][0]["annotator"] == "eve"
