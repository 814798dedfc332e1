"""Reports: the documented shape, the same bytes everywhere, nothing a reader's program would run."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import re
import zipfile
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from click.testing import CliRunner
from evenhand.app import create_app
from evenhand.commands.projects import report as report_command
from evenhand.domain import Project, Run
from evenhand.errors import NotFoundError
from evenhand.runs.report import report_of_run
from evenhand.settings import Settings
from evenhand.store import Store

from fdr_core import KnockoffLBI, detect
from fdr_core.report import FILES, pseudonymised, render, report_of_data, write_report
from fdr_core.report.document import ANNOTATOR_KEYS, annotators_xlsx, cell, file_data
from fdr_core.report.words import (
    ago,
    duration,
    e_value,
    finding_words,
    method_words,
    number,
    p_value,
    percent,
    plural,
    sentence,
    signed,
    when,
)
from fdr_core.simulate import null_crowd, small_team
from harness import world

SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "report-schema.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def settings(module_settings: Settings) -> Settings:
    return module_settings


@pytest.fixture(scope="module")
def store(module_store: Store) -> Store:
    return module_store


@pytest.fixture(scope="module")
def project(store: Store) -> Project:
    """A judged project of twelve people, two of whom lean, whose texts are hostile."""
    made = world.simulated(store, 1, "x", annotators=12, biased=2, answers=80, bias=0.8, seed=5, hostile=True)
    world.judge(store, made)
    return made


@pytest.fixture(scope="module")
def run(store: Store, project: Project) -> Run:
    found = store.runs.latest(project.id)
    assert found is not None
    return found


@pytest.fixture(scope="module")
def report(store: Store, run: Run) -> dict[str, Any]:
    return report_of_run(store, run)


def file_report(tmp_path: Path, crowd: Any) -> dict[str, Any]:
    source = tmp_path / "answers.csv"
    source.write_text("content stands in for the answers\n", encoding="utf-8")
    return report_of_data(detect(crowd.comparisons, lbi=KnockoffLBI(draws=3)), file_data(crowd.comparisons, source))


def test_report_of_a_run_follows_the_documented_schema(report: dict[str, Any]) -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.validate(json.loads(render(report, "report.json")), SCHEMA)
    assert sum(row["flagged"] for row in report["annotators"]) >= 2
    assert report["data"]["answers"] == 960


@pytest.mark.parametrize("answers", [1, 3, 60])
def test_report_of_a_file_follows_the_documented_schema(tmp_path: Path, answers: int) -> None:
    rng = np.random.default_rng(answers)
    crowd = small_team(12, 2, answers, rng=rng) if answers > 3 else null_crowd(5, answers, rng=rng)
    made = file_report(tmp_path, crowd)
    jsonschema.validate(json.loads(render(made, "report.json")), SCHEMA)
    assert made["data"]["sha256"] == hashlib.sha256((tmp_path / "answers.csv").read_bytes()).hexdigest()
    assert render(made, "report.html").startswith(b"<!DOCTYPE html>")


def test_report_keys_stand_in_their_documented_order(report: dict[str, Any]) -> None:
    assert list(report) == SCHEMA["required"]


@pytest.mark.parametrize("name", [name for name in FILES if name != "leans.csv"])
@pytest.mark.parametrize("hidden", [False, True])
def test_report_from_page_api_and_command_line_is_the_same_bytes(
    settings: Settings, store: Store, run: Run, tmp_path: Path, name: str, hidden: bool
) -> None:
    client = create_app(settings, store).test_client()
    query = "?pseudonymise=1" if hidden else ""
    address = f"/projects/{run.project_id}/runs/{run.id}/{name}{query}"
    environment = {"MODEL_DIR": str(settings.model_dir), "LOG_LEVEL": "ERROR"}
    options = [str(run.project_id), "--out", str(tmp_path / "out"), *(["--pseudonymise"] if hidden else [])]
    done = CliRunner(env=environment).invoke(report_command, options)
    assert done.exit_code == 0, done.output
    written = (tmp_path / "out" / name).read_bytes()
    assert client.get(f"/ui{address}").data == written
    assert client.get(f"/api/v1{address}").data == written


def test_report_made_again_later_is_the_same_bytes(store: Store, run: Run, report: dict[str, Any]) -> None:
    again = report_of_run(store, store.runs.get(run.id))
    assert [render(again, name) for name in FILES] == [render(report, name) for name in FILES]


def test_report_command_without_a_run_says_what_to_do(settings: Settings, store: Store, tmp_path: Path) -> None:
    empty = world.register(store, 2, "empty")
    environment = {"MODEL_DIR": str(settings.model_dir), "LOG_LEVEL": "ERROR"}
    done = CliRunner(env=environment).invoke(report_command, [str(empty.id), "--out", str(tmp_path)])
    assert done.exit_code == 1
    assert f"`evenhand run {empty.id}` starts one" in done.output


def test_report_of_an_unfinished_run_is_refused(store: Store) -> None:
    project = world.register(store, 3, "fails")
    world.fail(store, project, "no luck")
    failed = store.runs.latest(project.id, status="failed")
    assert failed is not None
    with pytest.raises(NotFoundError, match="only finished runs have a report"):
        report_of_run(store, failed)


def test_report_with_pseudonyms_tells_neither_names_nor_ids(report: dict[str, Any], tmp_path: Path) -> None:
    named = {**report, "annotators": [{**row, "name": f"Zebulon-{k}"} for k, row in enumerate(report["annotators"])]}
    for path in write_report(pseudonymised(named), tmp_path / "shared"):
        if path.suffix == ".xlsx":
            with zipfile.ZipFile(path) as book:
                text = "".join(book.read(name).decode() for name in book.namelist())
        else:
            text = path.read_text(encoding="utf-8")
        assert "Zebulon" not in text
        assert report["data"]["source"] not in text
    rows = list(csv.DictReader(io.StringIO((tmp_path / "shared" / "annotators.csv").read_text(encoding="utf-8-sig"))))
    assert [row["annotator"] for row in rows] == [f"annotator {k}" for k in range(1, 13)]
    assert {row["first_seen"] + row["last_seen"] for row in rows} == {""}
    assert [float(row["bias"]) for row in rows] == [row["bias"] for row in report["annotators"]]


def test_report_page_shows_hostile_texts_as_text(report: dict[str, Any]) -> None:
    page = render(report, "report.html").decode()
    assert "<script" not in page
    assert "<img" not in page
    assert "<svg/onload" not in page
    assert "&lt;script&gt;document.title=&#39;owned&#39;&lt;/script&gt;" in page


def test_report_page_needs_nothing_from_outside(report: dict[str, Any]) -> None:
    """Neither addresses nor inline styles: what is loaded is the page, and its one style sheet is named by hash."""
    harmless = {**pseudonymised(report), "ranking": [], "order_changes": []}
    page = render(harmless, "report.html").decode()
    assert re.findall(r"\b(?:src|href|action|style|on\w+)=|url\(|@import|https?://", page) == []
    (style,) = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"style-src &#39;sha256-{digest}&#39;" in page


def test_report_page_served_is_under_its_own_strict_policy(settings: Settings, store: Store, run: Run) -> None:
    answer = create_app(settings, store).test_client().get(f"/ui/projects/{run.project_id}/runs/{run.id}/report.html")
    policy = answer.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy
    assert "script-src" not in policy


def test_report_page_uses_calm_words_only(report: dict[str, Any]) -> None:
    harmless = {**report, "annotators": [{**row, "name": "Ann"} for row in report["annotators"]], "ranking": []}
    text = re.sub(r"<style>.*?</style>|<[^>]+>", " ", render(harmless, "report.html").decode(), flags=re.DOTALL)
    assert re.findall(r"\b(?:good|ugly|bad)\b", text, re.IGNORECASE) == []
    assert re.search(r"leans (?:left|right)", text)


def test_report_page_says_beside_every_flag_that_few_coins_decided(report: dict[str, Any]) -> None:
    figures = {**report["audit"]["figures"], "coins": 40, "few_coins": True}
    page = render({**report, "audit": {**report["audit"], "figures": figures}}, "report.html").decode()
    assert page.count("only 40 coins") == sum(row["flagged"] for row in report["annotators"])
    assert "only 960 coins" not in render(report, "report.html").decode()


def flagged_row(report: dict[str, Any], **facts: Any) -> dict[str, Any]:
    """The report with other facts about everybody flagged."""
    rows = [{**row, **(facts if row["flagged"] else {})} for row in report["annotators"]]
    return {**report, "annotators": rows}


def test_report_page_where_lbi_decides_takes_the_evidence_from_the_persons_own_test(report: dict[str, Any]) -> None:
    method = {**report["method"], "decided_by": "lbi", "draws_done": 2}
    rows = flagged_row(report, p_value=0.0004, q_value=0.6, lbi_share=1.0)
    page = render({**rows, "method": method}, "report.html").decode()
    assert 'evidence strong <span class="muted">(own p-value 0.0004, adjusted for all 0.60)</span>' in page
    assert "evidence weak" not in page
    assert "Watch; decide when" not in page
    assert "where the evidence is strong" in page
    assert "The list is that of knockoff LBI" in page
    assert "in 2 draws" in page
    assert "The list follows from all p-values" not in page
    assert "rest on the exact tests" in page


def test_report_page_explains_flags_whose_interval_holds_0_and_only_those(report: dict[str, Any]) -> None:
    page = render(flagged_row(report, bias_low=-0.1, bias_high=0.4), "report.html").decode()
    n_flagged = sum(row["flagged"] for row in report["annotators"])
    assert page.count("Flagged although the interval holds 0") == n_flagged
    assert "Flagged although" not in render(flagged_row(report, bias_low=0.1), "report.html").decode()


def test_report_holds_what_reviewers_decided_and_what_is_open(report: dict[str, Any]) -> None:
    decided = {"decision": "confirm", "decision_by": "lead", "decision_at": 1.7e9, "decision_reason": "clicked through"}
    page = render(flagged_row(report, **decided), "report.html").decode()
    n_flagged = sum(row["flagged"] for row in report["annotators"])
    assert f"{n_flagged} confirmed" in page
    assert "<strong>confirmed</strong> by lead, 14 November 2023: clicked through" in page
    assert "Look at the answers below" not in page
    assert "Everybody flagged has been decided about." in page
    assert "decision,decision_by" in render(report, "annotators.csv").decode("utf-8-sig").splitlines()[0]


def test_report_tables_neutralise_formulas_and_keep_numbers(report: dict[str, Any]) -> None:
    rows = list(csv.DictReader(io.StringIO(render(report, "annotators.csv").decode("utf-8-sig"))))
    names = [row["name"] for row in rows]
    assert not [name for name in names if name.startswith(("=", "+", "-", "@"))]
    assert sum(name.startswith("'=HYPERLINK") for name in names) == 2
    assert min(float(row["bias"]) for row in rows) < 0
    items = list(csv.DictReader(io.StringIO(render(report, "ranking.csv").decode("utf-8-sig"))))
    assert sum(row["label"].startswith("'=HYPERLINK") for row in items) == 3


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "  =1", "\n-1", "＝1"])
def test_cell_text_that_begins_like_a_formula_gets_an_apostrophe(text: str) -> None:
    assert cell(text) == f"'{text}"


def test_cell_carriage_return_before_a_formula_becomes_a_space() -> None:
    assert cell("\r=1") == "' =1"


@pytest.mark.parametrize(
    ("value", "expected"), [(-0.5, -0.5), (3, 3), (None, ""), (True, "true"), ("a=b", "a=b"), ("", "")]
)
def test_cell_harmless_value_stays_as_it_is(value: object, expected: object) -> None:
    assert cell(value) == expected


def test_report_with_a_lone_surrogate_is_still_written(report: dict[str, Any]) -> None:
    broken = {**report, "annotators": [{**row, "name": "half \ud83d smile"} for row in report["annotators"]]}
    for name in FILES:
        assert render(broken, name).decode("utf-8")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (signed(0.456), "+0.46"),
        (signed(-0.456), "−0.46"),
        (signed(0.0), "0.00"),
        (signed(-0.0001), "0.00"),
        (signed(None), "–"),
        (number(float("nan")), "–"),
        (percent(0.984), "98 %"),
        (p_value(0.00001), "< 0.0001"),
        (p_value(0.0123), "0.0123"),
        (e_value(1_234_567.0), "1.2 × 10⁶"),
        (e_value(20.4), "20"),
        (when(0), "1970-01-01 00:00 UTC"),
        (when(1e30), "–"),
        (duration(0.04), "0.0 s"),
        (duration(7200), "2 h"),
        (ago(None, 5.0), "never"),
        (ago(100.0, 105.0), "just now"),
        (plural(1, "answer"), "1 answer"),
        (plural(1200, "entry", "entries"), "1,200 entries"),
        (sentence("modified FDR"), "Modified FDR"),
        (finding_words("leans left"), "leans left"),
        (finding_words(None), "not assessable"),
        (method_words("exact"), "exact test of each annotator"),
        (method_words(None), "–"),
    ],
)
def test_words_of_a_value_read_as_intended(words: str, expected: str) -> None:
    assert words == expected


def test_tables_for_spreadsheets_have_times_sides_and_sizes(tmp_path: Path) -> None:
    import openpyxl

    row = dict.fromkeys(ANNOTATOR_KEYS) | {"annotator": "=1+1", "name": "a\x00b", "bias": -0.25, "last_seen": 1.5e9}
    report = {"annotators": [row, {**row, "bias": None}]}
    text = render(report, "annotators.csv")
    assert text.startswith(b"\xef\xbb\xbf")
    first, second = csv.DictReader(io.StringIO(text.decode("utf-8-sig")))
    assert (first["lean_side"], first["lean_size"], first["bias"]) == ("right", "0.25", "-0.25")
    assert (second["lean_side"], second["lean_size"]) == ("", "")
    assert first["last_seen"] == "2017-07-14T02:40:00+00:00"
    (tmp_path / "annotators.xlsx").write_bytes(annotators_xlsx(report))
    header, *rows = openpyxl.load_workbook(tmp_path / "annotators.xlsx")["annotators"].iter_rows(values_only=True)
    found = dict(zip(header, rows[0], strict=True))
    assert (found["annotator"], found["name"], found["lean_size"]) == ("'=1+1", "a b", 0.25)
