"""The results: stored cells resume, claims are computed, documents come from cells, peers find a clear signal."""

from __future__ import annotations

import json
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest

from benchmarks.results import cells, first, oracle, paper_sets, plan, real_data, speed
from benchmarks.results.cells import Cell, Progress, Store, run_cells
from benchmarks.results.claims import exponents
from benchmarks.results.consensus import PEERS as RANKERS
from benchmarks.results.consensus import crowd, note
from benchmarks.results.consensus import peers as consensus_of_peers
from benchmarks.results.consensus_ours import ours as consensus_of_ours
from benchmarks.results.dense_paper import knockoff_columns, select_plus
from benchmarks.results.design import rotated
from benchmarks.results.looks import accumulated, lasting
from benchmarks.results.ours import quality as our_quality
from benchmarks.results.page import page
from benchmarks.results.paper_exact import exact_cell
from benchmarks.results.peers import PEERS, glm_agreement
from benchmarks.results.peers import quality as peer_quality
from benchmarks.results.quality import CannotRunError, reported
from benchmarks.results.render import write
from benchmarks.results.summary import FAIL, PASS, TOO_FEW, Rate, Results
from harness.breakers import BREAKERS
from harness.crowds import shaped
from harness.scenarios import SCENARIOS, generator

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "docs" / "results.md"
NEEDS = {
    "knockpy": "knockpy",
    "statsmodels-glm": "statsmodels",
    "statsmodels-knockoff": "statsmodels",
}


def dictionary(name: str, **values: Any) -> Cell:
    """A cell whose result is its parameters."""
    return Cell(name, "builtins:dict", values)


def results_of(tmp_path: Path, stored: dict[str, Any]) -> tuple[Any, ...]:
    """Store them under their cells' names and read them back."""
    store = Store(tmp_path / "store")
    for cell in (cell for table in plan.cells(plan.FULL).values() for cell in table):
        if cell.name in stored:
            store.write(cell, stored[cell.name], 1.0)
    return store, Results(store, plan.FULL)


def test_run_cells_a_second_time_computes_only_what_is_new(tmp_path: Path) -> None:
    store = Store(tmp_path)
    said: list[str] = []
    options: dict[str, Any] = {"processes": 1, "minutes": 1, "say": said.append}
    run_cells([dictionary("one", x=1)], store, **options)
    assert run_cells([dictionary("one", x=1), dictionary("two", x=2)], store, **options) == Progress([], [])
    assert "2 cells, 1 stored, 1 to compute" in said
    record = store.read(dictionary("two", x=2))
    assert record is not None
    assert record["result"] == {"x": 2}
    assert store.read(dictionary("one", x=3)) is None


@pytest.fixture
def a_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Write a module of the project, and forget what was read of it."""
    monkeypatch.setattr(cells, "ROOT", tmp_path)
    monkeypatch.setitem(sys.modules, "fdr_core.sample", ModuleType("fdr_core.sample"))
    module = tmp_path / "fdr_core" / "sample.py"
    module.parent.mkdir()

    def write_it(text: str) -> None:
        module.write_text(text, encoding="utf-8")
        cells._module_hash.cache_clear()

    yield write_it
    cells._module_hash.cache_clear()


def test_record_is_old_once_the_code_of_a_module_changes_that_was_loaded(
    tmp_path: Path, a_module: Callable[[str], None]
) -> None:
    store, cell = Store(tmp_path / "store"), dictionary("one", x=1)
    a_module('"""A."""\nx = 1\n')
    store.write(cell, {"x": 1})
    a_module('"""B."""\n# why\nx = 1\n')
    assert store.read(cell)
    a_module("x = 2\n")
    assert store.read(cell) is None
    assert store.latest(cell)
    (tmp_path / "fdr_core" / "sample.py").unlink()
    cells._module_hash.cache_clear()
    assert store.read(cell) is None


def test_first_page_is_as_old_as_the_code_that_made_it() -> None:
    old, away = first.aged(first.kept())
    assert not old, f"older than the code: {', '.join(old)}; run `make results-quick`, in less than eight minutes"
    if away:
        warnings.warn(UserWarning(f"data sets are not at hand; as they were: {', '.join(away)}"), stacklevel=1)
    assert RESULTS.read_text(encoding="utf-8") == page(first.kept())


def test_first_page_is_old_once_a_constant_of_the_weights_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = cells._path("fdr_core.randomisation.plan")
    assert source
    text = source.read_text(encoding="utf-8")
    assert "PLANNED_RATE = 0.12" in text
    known, edited = cells._path, tmp_path / "plan.py"
    edited.write_text(text.replace("PLANNED_RATE = 0.12", "PLANNED_RATE = 0.13"), encoding="utf-8")
    monkeypatch.setattr(cells, "_path", lambda name: edited if name == "fdr_core.randomisation.plan" else known(name))
    cells._module_hash.cache_clear()
    old, _ = first.aged(first.kept())
    cells._module_hash.cache_clear()
    assert {"H1-evenhand", "lasting-10-0", "reward-30"} <= set(old)


def test_first_page_without_data_sets_keeps_what_was_computed_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVENHAND_DATA", str(tmp_path))
    records = first.kept()
    assert first.aged(records) == ([], [])
    stale = {name: record | {"code": "other"} for name, record in records.items()}
    assert "once-reife_mtbench-own" in first.aged(stale)[1]
    assert "277 LLM judges" in page(stale)
    assert "so they are as they were: once-reife_mtbench-own" in " ".join(page(stale).split())


def test_first_page_answers_five_questions_within_twenty_lines() -> None:
    lines = RESULTS.read_text(encoding="utf-8").splitlines()
    asked = [line for line in lines[:20] if line.startswith("* **") and "?**" in line]
    assert [line.split("**")[1] for line in asked] == [
        "Is it proven for my design?",
        "What if one order for all?",
        "What does it miss?",
        "What do peers do better?",
        "What does it cost?",
    ]
    assert not re.search(r"/(home|root|tmp|work|usr)/|https?://", "\n".join(lines))


def test_run_cells_with_a_failing_cell_and_no_time_left_names_what_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    failing = Cell("failing", "builtins:open", {"file": str(tmp_path / "absent")})
    assert run_cells([failing], Store(tmp_path), processes=1, minutes=1, say=lambda _: None) == Progress(
        ["failing"], []
    )
    assert "absent" in capsys.readouterr().err
    assert run_cells([dictionary("late")], Store(tmp_path), processes=1, minutes=0, say=lambda _: None) == Progress(
        [], ["late"]
    )


@pytest.mark.parametrize(
    ("fdp", "runs", "is_null", "word"),
    [
        (0.1, 60, False, PASS),
        (0.5, 60, False, FAIL),
        (0.5, 59, False, TOO_FEW),
        (0.1, 60, True, PASS),
    ],
)
def test_rate_is_judged_once_there_are_enough_data_sets(fdp: float, runs: int, is_null: bool, word: str) -> None:
    assert Rate(np.full(runs, fdp), np.ones(runs)).word(is_null=is_null) == word


def test_rate_where_nobody_leans_wants_a_small_standard_error_to_pass_but_not_to_fail() -> None:
    few, many, false = (
        np.array([1.0] * flagged + [0.0] * (runs - flagged)) for flagged, runs in ((8, 80), (25, 300), (50, 80))
    )
    assert Rate(few, few).word(is_null=True) == TOO_FEW
    assert Rate(few, few).word(is_null=False) == PASS
    assert Rate(many, many).word(is_null=True) == PASS
    assert Rate(false, false).word(is_null=True) == FAIL


def test_exponent_of_growth_is_the_slope_of_logarithms(tmp_path: Path) -> None:
    steps = plan.FULL.growth["answers"]
    stored = {f"growth-answers-{step}-exact": {"cpu": (step / 1e4) ** 1.5, "megabytes": 1.0} for step in steps}
    _, results = results_of(tmp_path, stored)
    assert exponents(results)["answers"] == pytest.approx(1.5)


def test_reported_data_sets_keep_to_the_plan() -> None:
    report = plan.SETTLED["report"]
    numbers = [reported(k) for k in range(plan.FULL.nulls)]
    assert len(set(numbers)) == len(numbers)
    assert {number[0] for number in numbers} == set(range(report["first"], report["last"] + 1))
    assert plan.SETTLED["tuning"]["last"] < report["first"]


@pytest.mark.parametrize("name", [name for name in PEERS if name != "noisy-bt"])
def test_peer_on_a_clear_signal_finds_it(name: str) -> None:
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    truth = shaped(40, 8, 1000, rng=np.random.default_rng(3), biased_share=0.4, bias=0.7)
    flagged = PEERS[name](truth.comparisons, 0, 16)
    assert truth.power(flagged) >= 0.7
    assert truth.false_discovery_proportion(flagged) <= 0.3


def test_noisy_bradley_terry_names_as_many_as_asked_for() -> None:
    pytest.importorskip("crowdkit")
    truth = shaped(10, 6, 200, rng=np.random.default_rng(3), biased_share=0.4, bias=0.9)
    flagged = PEERS["noisy-bt"](truth.comparisons, 0, 4)
    assert len(set(flagged)) == 4
    assert set(flagged) <= set(truth.comparisons.annotators)


def test_dense_knockoffs_have_the_same_inner_products() -> None:
    truth = shaped(12, 6, 400, rng=np.random.default_rng(1))
    A, _ = rotated(truth.comparisons)
    A_tilde = knockoff_columns(A, np.random.default_rng(2))
    Sigma = A.T @ A
    np.testing.assert_allclose(A_tilde.T @ A_tilde, Sigma, atol=1e-6)
    off = A.T @ A_tilde - Sigma
    np.testing.assert_allclose(off, np.diag(np.diag(off)), atol=1e-9)


def test_select_plus_worked_by_hand() -> None:
    W = np.array([12.0, 11, 10, 9, 8, 7, 6, 5, 4, 3, -2, 1])
    assert select_plus(W).tolist() == [True] * 10 + [False] * 2
    assert not select_plus(W[:9]).any()


def test_rotated_design_of_unique_pairs_cannot_run() -> None:
    with pytest.raises(CannotRunError, match="absorb"):
        rotated(SCENARIOS["unique-pairs"].simulate(0).comparisons)


@pytest.mark.parametrize("name", ["H1", "H5", "H6"])
def test_oracle_tells_those_who_lean_and_holds_its_rate(name: str) -> None:
    result = peer_quality("oracle", name, 8)
    assert np.mean(result["power"]) >= 0.8
    assert np.mean(result["fdp"]) <= 0.14


def test_oracle_likelihoods_of_seven_point_answers_sum_to_one() -> None:
    levels, utility = np.arange(-3, 4) / 3, np.full(7, 0.8)
    assert oracle._graded(levels, utility).sum() == pytest.approx(1.0)


@pytest.mark.slow
def test_cells_of_each_kind_run_on_one_data_set() -> None:
    ours, peer = our_quality("evenhand", "team-12", 1), peer_quality("binomial", "team-12", 1)
    assert ours["biased"] == peer["biased"] == 2
    assert our_quality("paper", "unique-pairs", 1)["reason"]
    assert our_quality("lbi", "team-12", 1)["ways"] == {"flip": 1}
    assert our_quality("evenhand", "never-swapped", 1)["ways"] == {"sides fixed": 1}
    assert set(our_quality("evenhand", "team-better-left", 1)["ways"]) <= {"sides fixed", "none"}
    assert our_quality("evenhand", "unrecorded", 1)["ways"] == {"none": 1}
    assert set(accumulated(12, 2, 1)["methods"]) == {"paper", "flip", "evenhand", "persistent", "warned"}
    watched = lasting("joining", 12, 2, 1)["methods"]
    assert watched["evenhand"]["power"][0] >= watched["persistent"]["power"][0]
    assert exact_cell(0.2, 0.7, 1)["methods"]["exact"]["found"][0] >= 45
    tau = consensus_of_ours(0.3, True, 1)["methods"]["logistic"]["tau"]
    assert tau[0] > 0.6


@pytest.mark.parametrize("scenario", BREAKERS, ids=lambda scenario: scenario.name)
def test_breaker_says_whether_anybody_leans(scenario: Any) -> None:
    truth = scenario.simulate(0)
    assert scenario.is_null == (not truth.is_biased.any())
    assert len(truth.theta) == truth.comparisons.n_items


@pytest.mark.parametrize(
    ("name", "package"), [("choix", "choix"), ("evalica", "evalica"), ("glm", "numpy"), ("am-elo", "scipy")]
)
def test_ranking_of_a_peer_is_near_the_truth(name: str, package: str) -> None:
    pytest.importorskip(package)
    truth = crowd(0.0, False, rng=generator(1))
    measured: dict[str, list[float]] = {"tau": [], "top": []}
    note(measured, truth.theta, RANKERS[name](truth.comparisons))
    assert measured["tau"][0] > 0.8


def test_consensus_of_peers_leaves_out_what_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(comparisons: Any) -> Any:
        raise ModuleNotFoundError("evalica")

    monkeypatch.setitem(RANKERS, "evalica", absent)
    methods = consensus_of_peers(0.0, False, 1, 0)["methods"]
    assert methods["evalica"]["tau"] == []
    assert methods["glm"]["tau"][0] > 0.8


def test_fast_regression_agrees_with_statsmodels() -> None:
    pytest.importorskip("statsmodels")
    assert min(glm_agreement("team-30", 1)["jaccard"]) >= 0.8


@pytest.mark.slow
def test_speed_measures_a_process_of_its_own_and_states_a_limit() -> None:
    done = speed.measure("benchmarks.results.peers:binomial", (60, 20, 1800), limit=60)
    assert done["seconds"] > 0
    assert done["cpu"] >= 0
    assert done["megabytes"] >= done["before"] > 10
    assert "0.01 s" not in json.dumps(done)
    assert speed.measure("benchmarks.results.peers:binomial", (60, 20, 1800), limit=0.05) == {
        "reason": "stopped after 0 s"
    }


@pytest.fixture
def data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Any]:
    """A folder with two sets of one simulated crowd, and its leaners as the paper's list."""
    monkeypatch.setenv("EVENHAND_DATA", str(tmp_path))
    truth = shaped(40, 12, 1600, rng=np.random.default_rng(5), biased_share=0.3, bias=0.8)
    frame = truth.comparisons.to_frame()
    frame["choice"] = np.where(frame.pop("outcome") > 0, "left", "right")
    leaning = truth.comparisons.annotators[truth.is_biased]
    for name in ("worldcollege", "llmfao"):
        (tmp_path / name).mkdir()
        frame.assign(id=range(len(frame))).to_csv(tmp_path / name / "comparisons.csv", index=False)
    listed = pd.DataFrame({"annotator": leaning, "left": 0, "right": 0})
    listed.to_csv(tmp_path / "worldcollege" / "paper_table8.csv", index=False)
    return tmp_path, leaning


@pytest.mark.slow
def test_real_data_cells_read_a_folder_and_compare_with_the_papers_list(data_folder: tuple[Path, Any]) -> None:
    folder, leaning = data_folder
    college, other = paper_sets.study("worldcollege", 2), real_data.other("llmfao")
    assert len(set(college["flagged"]) & set(leaning)) >= 8
    assert college["first"]["iss"] >= 10
    assert [len(college[name]) for name in ("rows", "sizes")] == [len(leaning), 2]
    assert other["annotators"] == 40
    assert other["how"] == "own coins"
    stored = {"printed-worldcollege": json.loads(json.dumps(college)), "real-llmfao": json.loads(json.dumps(other))}
    store, _ = results_of(folder, stored)
    pages = write(store, plan.FULL, folder / "out")
    text = (pages / "paper.md").read_text(encoding="utf-8")
    assert "### WorldCollege" in text
    assert "not run" in text
    assert str(folder) not in text
    assert (folder / "out" / "images" / "results" / "worldcollege-path.png").is_file()


def test_plan_gives_slow_peers_fewer_runs_and_every_cell_a_name_of_its_own() -> None:
    names = [cell.name for table in plan.cells(plan.FULL).values() for cell in table]
    assert len(names) == len(set(names))
    by_name = {cell.name: cell for table in plan.cells(plan.FULL).values() for cell in table}
    slow, fast = (by_name[f"quality-H1-{peer}"].parameters["runs"] for peer in ("knockpy", "binomial"))
    assert 0 < slow < fast


def test_plan_measures_time_last_and_alone() -> None:
    ordered = plan.in_order([cell for table in plan.cells(plan.FULL).values() for cell in table])
    quiet = [plan.needs_quiet(cell) for cell in ordered]
    assert quiet == sorted(quiet)
    assert any(quiet)
