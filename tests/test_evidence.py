"""The evidence: stored cells resume, verdicts are computed, documents come from cells, peers find a clear signal."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks.evidence import cells, oracle, plan, real_data, speed
from benchmarks.evidence.cells import Cell, Progress, Store, closure, run_cells
from benchmarks.evidence.consensus import peers as consensus_of_peers
from benchmarks.evidence.consensus_ours import ours as consensus_of_ours
from benchmarks.evidence.dense_paper import knockoff_columns, select_plus
from benchmarks.evidence.design import rotated
from benchmarks.evidence.looks import accumulated, flicker
from benchmarks.evidence.ours import quality as our_quality
from benchmarks.evidence.paper_flips import flips_cell
from benchmarks.evidence.paper_tables import paper_cell
from benchmarks.evidence.peers import PEERS, glm_agreement
from benchmarks.evidence.peers import quality as peer_quality
from benchmarks.evidence.quality import CannotRun
from benchmarks.evidence.render import write
from benchmarks.evidence.scenarios import SCENARIOS
from benchmarks.evidence.summary import Evidence
from benchmarks.evidence.verdicts import verdicts
from fdr_core.simulate import shaped

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "docs" / "results.md"
NEEDS = {
    "knockpy": "knockpy",
    "statsmodels-glm": "statsmodels",
    "statsmodels-knockoff": "statsmodels",
}


def dictionary(name, **values):
    """A cell whose result is its parameters."""
    return Cell(name, "builtins:dict", values)


def evidence_of(tmp_path, results):
    """Store results under their cells' names and read them as evidence."""
    store = Store(tmp_path / "store")
    for cell in (cell for table in plan.cells(plan.QUICK).values() for cell in table):
        if cell.name in results:
            store.write(cell, results[cell.name], 1.0)
    return store, Evidence(store, plan.QUICK)


def rates(fdp, power, **more):
    """The result of a quality cell."""
    return {"fdp": fdp, "power": power, "constructions": {"flip": len(fdp)}, "biased": 45, **more}


def test_run_cells_a_second_time_computes_only_what_is_new(tmp_path):
    store, said = Store(tmp_path), []
    options = {"processes": 1, "minutes": 1, "say": said.append}
    run_cells([dictionary("one", x=1)], store, **options)
    assert run_cells([dictionary("one", x=1), dictionary("two", x=2)], store, **options) == Progress([], [])
    assert "2 cells, 1 stored, 1 to compute" in said
    assert store.read(dictionary("two", x=2))["result"] == {"x": 2}
    assert store.read(dictionary("one", x=3)) is None


def test_run_cells_with_a_failing_cell_and_no_time_left_names_what_is_missing(tmp_path, capsys):
    failing = Cell("failing", "builtins:open", {"file": str(tmp_path / "absent")})
    assert run_cells([failing], Store(tmp_path), processes=1, minutes=1, say=lambda _: None) == Progress(
        ["failing"], []
    )
    assert "absent" in capsys.readouterr().err
    assert run_cells([dictionary("late")], Store(tmp_path), processes=1, minutes=0, say=lambda _: None) == Progress(
        [], ["late"]
    )


def test_closure_of_peers_leaves_the_detection_out_and_ours_has_it():
    assert "fdr_core.detection" not in closure("benchmarks.evidence.peers")
    assert "fdr_core.detection" not in closure("benchmarks.evidence.speed_peers")
    assert {"fdr_core.detection", "fdr_core.knockoffs.flip"} <= closure("benchmarks.evidence.ours")
    assert "fdr_core.loaders" not in closure("benchmarks.evidence.ours")


def test_code_hash_follows_the_code_and_not_its_comments(tmp_path, monkeypatch):
    monkeypatch.setattr(cells, "ROOT", tmp_path)
    module = tmp_path / "fdr_core" / "sample.py"
    module.parent.mkdir()

    def hashed(text):
        module.write_text(text, encoding="utf-8")
        cells._tree.cache_clear()
        cells.code_hash.cache_clear()
        return cells.code_hash("fdr_core.sample")

    plain = hashed('"""A."""\nx = 1\n')
    assert hashed('"""B."""\n# why\nx = 1\n') == plain
    assert hashed("x = 2\n") != plain
    cells._tree.cache_clear()
    cells.code_hash.cache_clear()


@pytest.mark.parametrize(("fdp", "word"), [([0.1, 0.08, 0.12], "PASS"), ([0.5, 0.52, 0.48], "FAIL")])
def test_verdict_on_the_error_rate_follows_the_stored_cells(tmp_path, fdp, word):
    _, evidence = evidence_of(tmp_path, {"quality-H1-evenhand": rates(fdp, [0.8] * 3)})
    reproduced, first, *rest = verdicts(evidence)
    assert first.word == word
    assert "H1" in first.seen
    assert {verdict.word for verdict in (reproduced, *rest)} == {"not run"}


@pytest.mark.parametrize(("fdp", "found", "word"), [(0.12, 50, "PASS"), (0.3, 50, "FAIL"), (0.12, 40, "FAIL")])
def test_verdict_on_the_papers_study_wants_its_rate_and_its_finds(tmp_path, fdp, found, word):
    measured = {"iss T0": {"fdp": [fdp] * 4, "found": [found] * 4}}
    _, evidence = evidence_of(tmp_path, {"paper-10-40": {"runs": 4, "methods": measured}})
    assert verdicts(evidence)[0].word == word


@pytest.mark.parametrize(("peer", "peer_fdp", "word"), [(0.7, 0.0, "PASS"), (0.9, 0.0, "FAIL"), (0.9, 0.9, "not run")])
def test_verdict_on_peers_counts_those_that_hold_their_rate(tmp_path, peer, peer_fdp, word):
    results = {
        "quality-H1-evenhand": rates([0.1] * 3, [0.8] * 3),
        "quality-H1-glm": rates([peer_fdp] * 3, [peer] * 3),
    }
    _, evidence = evidence_of(tmp_path, results)
    assert next(v for v in verdicts(evidence) if "every peer" in v.claim).word == word


def test_verdict_on_speed_compares_the_same_work(tmp_path):
    results = {
        "speed-600-knockpy": {"seconds": 60.0, "megabytes": 500.0},
        "speed-600-paper-draw": {"seconds": 0.1, "megabytes": 100.0},
        "speed-600-evenhand": {"seconds": 3.0, "megabytes": 100.0},
    }
    _, evidence = evidence_of(tmp_path, results)
    (speed_verdict,) = [verdict for verdict in verdicts(evidence) if "knockpy" in verdict.claim]
    assert speed_verdict.word == "PASS"
    assert "600 times" in speed_verdict.seen
    assert "20.0 times" in speed_verdict.seen


def test_document_from_few_cells_says_what_was_not_run_and_names_no_path(tmp_path):
    results = {
        "quality-H1-evenhand": rates([0.1] * 3, [0.8] * 3),
        "quality-unique-pairs-knockpy": {"reason": "item scores absorb the lean", "runs": 0},
        "speed-150-knockpy": {"reason": "stopped after 100 s"},
        "paper-20-70": paper_cell(0.2, 0.7, 1),
    }
    store, _ = evidence_of(tmp_path, results)
    text = write(store, plan.QUICK, tmp_path / "out").read_text(encoding="utf-8")
    assert "python -m benchmarks.evidence --quick" in text
    assert re.search(r"Computed \d{4}-\d\d-\d\d", text)
    for said in ("not run", "item scores absorb the lean", "stopped after 100 s", "0.10 ± 0.01 / 0.80 ± 0.00"):
        assert said in text
    assert str(tmp_path) not in text
    pictures = re.findall(r"\]\((images/results/[^)]+)\)", text)
    assert "images/results/paper.svg" in pictures
    assert all((tmp_path / "out" / picture).stat().st_size <= 150_000 for picture in pictures)


def test_results_in_docs_carry_the_command_and_no_path_of_a_machine():
    text = RESULTS.read_text(encoding="utf-8")
    assert "python -m benchmarks.evidence" in text
    assert "## What must be seen" in text
    assert not re.search(r"/(home|root|tmp|work|usr)/|https?://", text)
    pictures = re.findall(r"\]\((images/results/[^)]+)\)", text)
    assert pictures
    assert all((RESULTS.parent / picture).stat().st_size <= 150_000 for picture in pictures)


@pytest.mark.parametrize("name", [name for name in PEERS if name != "noisy-bt"])
def test_peer_on_a_clear_signal_finds_it(name):
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    truth = shaped(40, 8, 1000, rng=np.random.default_rng(3), biased_share=0.4, bias=0.7)
    flagged = PEERS[name](truth.comparisons, 0, 16)
    assert truth.power(flagged) >= 0.7
    assert truth.false_discovery_proportion(flagged) <= 0.3


def test_noisy_bradley_terry_names_as_many_as_asked_for():
    pytest.importorskip("crowdkit")
    truth = shaped(10, 6, 200, rng=np.random.default_rng(3), biased_share=0.4, bias=0.9)
    flagged = PEERS["noisy-bt"](truth.comparisons, 0, 4)
    assert len(set(flagged)) == 4
    assert set(flagged) <= set(truth.comparisons.annotators)


def test_dense_knockoffs_have_the_same_inner_products():
    truth = shaped(12, 6, 400, rng=np.random.default_rng(1))
    A, _ = rotated(truth.comparisons)
    A_tilde = knockoff_columns(A, np.random.default_rng(2))
    Sigma = A.T @ A
    np.testing.assert_allclose(A_tilde.T @ A_tilde, Sigma, atol=1e-6)
    off = A.T @ A_tilde - Sigma
    np.testing.assert_allclose(off, np.diag(np.diag(off)), atol=1e-9)


def test_select_plus_worked_by_hand():
    W = np.array([12.0, 11, 10, 9, 8, 7, 6, 5, 4, 3, -2, 1])
    assert select_plus(W).tolist() == [True] * 10 + [False] * 2
    assert not select_plus(W[:9]).any()


def test_rotated_design_of_unique_pairs_cannot_run():
    with pytest.raises(CannotRun, match="absorb"):
        rotated(SCENARIOS["unique-pairs"].simulate(0).comparisons)


@pytest.mark.parametrize("name", ["H1", "H5", "H6"])
def test_oracle_tells_those_who_lean_and_holds_its_rate(name):
    result = peer_quality("oracle", name, 8)
    assert np.mean(result["power"]) >= 0.8
    assert np.mean(result["fdp"]) <= 0.14


def test_oracle_likelihoods_of_seven_point_answers_sum_to_one():
    levels, utility = np.arange(-3, 4) / 3, np.full(7, 0.8)
    assert oracle._graded(levels, utility).sum() == pytest.approx(1.0)


def test_cells_of_each_kind_run_on_one_data_set():
    ours, peer = our_quality("evenhand", "team-12", 1), peer_quality("binomial", "team-12", 1)
    assert ours["biased"] == peer["biased"] == 2
    assert our_quality("paper", "unique-pairs", 1)["reason"]
    assert our_quality("evenhand", "never-swapped", 1)["constructions"] == {"none": 1}
    assert set(our_quality("evenhand", "team-better-left", 1)["constructions"]) <= {"paper", "none"}
    assert our_quality("evenhand", "unrecorded", 1)["constructions"] == {"none": 1}
    watched = accumulated(12, 2, 1)["methods"]
    assert set(watched) == {"paper", "flip", "evenhand", "persistent", "warned"}
    assert watched["evenhand"]["power"][0] >= watched["persistent"]["power"][0]
    assert len(flicker(1, 1, looks=2)["grown"]) == 1
    assert flips_cell(0.2, 0.7, 1, 0)["methods"]["flip"]["found"][0] >= 45
    tau = consensus_of_ours(0.3, True, 1)["methods"]["corrected"]["tau"]
    assert tau[0] > 0.6


def test_consensus_of_peers_ranks_near_the_truth():
    pytest.importorskip("choix")
    assert consensus_of_peers(0.0, False, 1, 0)["methods"]["choix"]["tau"][0] > 0.8


def test_fast_regression_agrees_with_statsmodels():
    pytest.importorskip("statsmodels")
    assert min(glm_agreement("team-30", 1)["jaccard"]) >= 0.8


def test_speed_measures_a_process_of_its_own_and_states_a_limit():
    done = speed.measure("benchmarks.evidence.peers:binomial", 60, limit=60)
    assert done["seconds"] > 0
    assert done["megabytes"] >= done["before"] > 10
    assert "0.01 s" not in json.dumps(done)
    assert speed.measure("benchmarks.evidence.peers:binomial", 60, limit=0.05) == {"reason": "stopped after 0 s"}


def test_real_data_cells_read_a_folder_and_compare_with_the_papers_list(tmp_path, monkeypatch):
    monkeypatch.setenv("EVENHAND_DATA", str(tmp_path))
    assert plan.cells(plan.QUICK)["real"] == []
    truth = shaped(40, 12, 1600, rng=np.random.default_rng(5), biased_share=0.3, bias=0.8)
    frame = truth.comparisons.to_frame()
    frame["choice"] = np.where(frame.pop("outcome") > 0, "left", "right")
    leaning = truth.comparisons.annotators[truth.is_biased]
    for name in ("worldcollege", "llmfao"):
        (tmp_path / name).mkdir()
        frame.assign(id=range(len(frame))).to_csv(tmp_path / name / "comparisons.csv", index=False)
    pd.DataFrame({"annotator": leaning}).to_csv(tmp_path / "worldcollege" / "paper_table8.csv", index=False)
    college, other = real_data.worldcollege(1, singles=2), real_data.other("llmfao")
    assert len(set(college["flagged"]) & set(leaning)) >= 8
    assert [row["share"] for row in college["ratio"]] == [0.6, 0.7, 0.8, 0.9, 1.0]
    assert other["annotators"] == 40
    assert other["construction"] == "flip"
    results = {"real-worldcollege": json.loads(json.dumps(college)), "real-llmfao": json.loads(json.dumps(other))}
    store, _ = evidence_of(tmp_path, results)
    text = write(store, plan.QUICK, tmp_path / "out").read_text(encoding="utf-8")
    assert "Table 8 of the paper" in text
    assert (tmp_path / "out" / "images" / "results" / "worldcollege-path.png").is_file()


def test_plan_gives_slow_peers_fewer_runs_and_every_cell_a_name_of_its_own():
    names = [cell.name for table in plan.cells(plan.FULL).values() for cell in table]
    assert len(names) == len(set(names))
    by_name = {cell.name: cell for table in plan.cells(plan.FULL).values() for cell in table}
    slow, fast = (by_name[f"quality-H1-{peer}"].parameters["runs"] for peer in ("knockpy", "binomial"))
    assert 0 < slow < fast
    more = replace(plan.FULL, gap=plan.FULL.gap + 1)
    again = {cell.name: cell for table in plan.cells(more).values() for cell in table}
    assert again["quality-H1-binomial"].key != by_name["quality-H1-binomial"].key
    assert again["quality-H1-knockpy"].key == by_name["quality-H1-knockpy"].key
