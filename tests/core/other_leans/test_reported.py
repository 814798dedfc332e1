"""Leans beyond position on the command line and in the report: the same lists everywhere, and what is refused."""

import csv
import io
import json
from pathlib import Path

import jsonschema
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner, Result
from evenhand.cli import main

from fdr_core import Comparisons
from fdr_core.other_leans.features import without_taste
from fdr_core.report import render
from tests.core.other_leans.test_detect_leans import crowd

SCHEMA = json.loads((Path(__file__).parents[3] / "docs" / "report-schema.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("answers") / "answers.csv"
    crowd().to_csv(path, index=False)
    return path


def run(*words: object) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words])


def test_analyze_with_leans_lists_them_in_all_files_and_on_the_terminal(answers: Path, tmp_path: Path) -> None:
    leans = ("--leans", "length,agreement", "--gold", "gold", "--lbi", "off")
    result = run("analyze", answers, *leans, "--out", tmp_path, "--pseudonymise")
    assert result.exit_code == 0, result.output
    assert "length: 2 of 10 annotators flagged" in result.output
    assert "Placebos on these answers" in result.output
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    jsonschema.validate(report, SCHEMA)
    assert [one["lean"] for one in report["other_leans"]] == ["length", "agreement"]
    rows = list(csv.DictReader(io.StringIO((tmp_path / "leans.csv").read_text(encoding="utf-8-sig"))))
    assert len(rows) == 20
    listed = {row["annotator"] for row in rows if row["flagged"] == "true"}
    assert len(listed) == 2
    assert all(name.startswith("annotator ") for name in listed)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<h2>Other leans</h2>" in page
    assert page.count('class="point"') >= 2
    assert "Towards the longer item: 2 of 10 annotators" in page
    assert page == render(report, "report.html").decode()


def test_analyze_without_leans_has_neither_section_nor_file(answers: Path, tmp_path: Path) -> None:
    assert run("analyze", answers, "--lbi", "off", "--out", tmp_path).exit_code == 0
    assert "Other leans" not in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert not (tmp_path / "leans.csv").exists()


def test_gate_with_a_lean_fails_who_leans_and_passes_who_does_not(answers: Path) -> None:
    words = ("gate", answers, "--lean", "length", "--gold", "gold", "--max-lean", 0.12)
    result = run(*words, "--judge", 0, "--judge", 5)
    assert "towards the longer item" in result.output
    assert "of pairs that differ in length" in result.output
    assert result.exit_code == 1
    assert run(*words, "--judge", 5).exit_code in (0, 3)
    unknown = run("gate", answers, "--lean", "length", "--judge", 5)
    assert (unknown.exit_code, "pairs with gold" in unknown.output) in ((0, False), (3, True), (3, False))
    assert run(*words, "--anytime").exit_code == 2
    assert "names no judge 'x'" in run(*words, "--judge", "x").output


def test_selftest_placebo_prints_what_features_without_meaning_give(answers: Path) -> None:
    result = run("selftest", answers, "--placebo", "--leans", "length", "--gold", "gold", "--runs", 3)
    assert result.exit_code == 0, result.output
    assert "of 30 tests each, where 5.0% are expected" in result.output
    assert "--placebo needs the leans" in run("selftest", answers, "--placebo").output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--leans", "lenght", "--gold", "gold"), "nothing tells the lenght_left of the answers' items"),
        (("--leans", "length", "--gold", "golf"), "there is no column golf"),
        (("--leans", "length", "--reference", "x"), "reference names 'x'"),
        (("--leans", "own family", "--family", "u"), "--family takes NAME=FAMILY"),
        (("--leans", "position", "--gold", "gold"), "expected different names beside position"),
    ],
)
def test_leans_that_cannot_be_asked_are_refused_with_reason_and_remedy(
    answers: Path, words: tuple[str, ...], said: str
) -> None:
    result = run("analyze", answers, *words, "--lbi", "off")
    assert result.exit_code == 2
    assert said in result.output
    assert "Traceback" not in result.output


def test_ranking_without_the_crowds_taste_is_the_true_one_where_the_worse_items_write_longer() -> None:
    """Six models of rising quality, the worst of which writes longest; everybody likes length."""
    rng = np.random.default_rng(0)
    left, gap = rng.integers(0, 6, 6000), rng.integers(1, 6, 6000)
    right = (left + gap) % 6
    x = rng.normal(size=6000) - 0.5 * (left - right)
    chance = 1 / (1 + np.exp(-0.4 * (left - right) - 1.2 * x))
    outcome = np.where(rng.random(6000) < chance, 1, -1)
    data = Comparisons.from_frame(
        pd.DataFrame(
            {"annotator": rng.integers(0, 9, 6000), "left": left, "right": right, "outcome": outcome, "x_length": x}
        )
    )
    found = without_taste(data, ["length"])
    assert found.ranking["item"].tolist() == [5, 4, 3, 2, 1, 0]
    assert found.ranking["plain_rank"].tolist() == [6, 5, 4, 3, 2, 1]
    taste = found.tastes.iloc[0]
    size = float(np.sqrt(np.mean(x * x)))
    assert abs(taste["coefficient"] - 1.2 * size) < 4 * taste["se"]
    score = found.ranking.set_index("item")["score"]
    assert score[5] - score[0] == pytest.approx(2.0, abs=0.3)


def test_taste_that_items_explain_is_not_taken_out() -> None:
    assert "cannot be told from their quality" in without_taste(Comparisons.from_frame(crowd()), ["length"]).reason
