"""`doctor FILE`, `gate`, `export-preferences`, `analyze --format`, the pytest fixture and the action."""

import csv
import gzip
import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from functools import partial
from pathlib import Path
from typing import Any

import click.testing
import numpy as np
import pytest
import yaml
from evenhand.cli import main

from fdr_core.judges.record import Recorder
from tests.core.inputs.samples import SAMPLES

ROOT = Path(__file__).resolve().parents[2]


def run(*arguments: object, **options: Any) -> click.testing.Result:
    return click.testing.CliRunner().invoke(main, [str(argument) for argument in arguments], **options)


def saying(said: str, _one: str, _two: str) -> str:
    """A judge who says the same whatever it is shown."""
    return said


def write_log(path: Path, *, lean: float, n: int, judge: str = "gpt-x") -> Path:
    """A recorded log of a judge that clicks the first shown with probability (1 + lean) / 2."""
    rng = np.random.default_rng(n)
    recorder = Recorder(path, judge=judge, seed=1, clock=lambda: 0.0)
    for _ in range(n):
        said = "first" if rng.random() < (1 + lean) / 2 else "second"
        recorder.compare({"m1": "", "m2": ""}, partial(saying, said))
    return path


def test_doctor_of_a_file_names_columns_and_what_the_data_supports() -> None:
    answer = run("doctor", SAMPLES / "fastchat_pairs.jsonl")
    assert answer.exit_code == 0
    for words in (
        "FastChat",
        "g2_winner: answer",
        "Not used:",
        "in both orders: 2 pairs",
        "left out: 1",
    ):
        assert words in answer.output


def test_doctor_of_chosen_and_rejected_exits_1_with_the_reason() -> None:
    answer = run("doctor", SAMPLES / "trl_preferences.jsonl")
    assert answer.exit_code == 1
    assert "neither on which side it stood nor who judged" in answer.output


def test_doctor_suggests_a_column_that_looks_like_the_coin(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    rows = [f"j{k % 3},x,y,left,{k // 3}" if k // 3 % 2 else f"j{k % 3},y,x,left,{k // 3}" for k in range(60)]
    path.write_text("annotator,left,right,choice,question\n" + "\n".join(rows) + "\n")
    assert "--map coin=question" in run("doctor", path).output


def test_doctor_says_that_sides_were_never_swapped(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("annotator,left,right,choice\n" + "".join(f"ann,new,old{k},left\n" for k in range(30)))
    assert "Sides were never swapped" in run("doctor", path).output


def test_doctor_of_standard_input_reads_it_once() -> None:
    answer = run("doctor", "-", input=(SAMPLES / "columns.csv").read_bytes())
    assert (answer.exit_code, "answers: 3" in answer.output) == (0, True)


def test_doctor_of_a_file_that_is_none_exits_2(tmp_path: Path) -> None:
    answer = run("doctor", tmp_path / "nothing.csv")
    assert (answer.exit_code, "there is no such file" in answer.output) == (2, True)


@pytest.mark.parametrize(
    ("lean", "n", "code", "words"), [(0.0, 1600, 0, "pass"), (0.6, 200, 1, "fail"), (0.0, 50, 3, "needs about")]
)
def test_gate_exit_code_and_table_say_the_decision(tmp_path: Path, lean: float, n: int, code: int, words: str) -> None:
    log, summary, xml = (
        write_log(tmp_path / "log.jsonl", lean=lean, n=n),
        tmp_path / "summary.md",
        tmp_path / "gate.xml",
    )
    answer = run("gate", log, "--judge", "gpt-x", "--max-lean", 0.1, "--markdown", summary, "--junit", xml)
    assert answer.exit_code == code, answer.output
    assert words in answer.output
    assert summary.read_text().startswith("| judge | gate |")
    suite = ET.parse(xml).getroot()
    assert suite.get("failures") == str(int(code == 1))
    assert suite.get("skipped") == str(int(code == 3))


def test_gate_with_baseline_and_anytime_run(tmp_path: Path) -> None:
    old = write_log(tmp_path / "old.jsonl", lean=0.0, n=900)
    new = write_log(tmp_path / "new.jsonl", lean=0.6, n=800)
    assert run("gate", new, "--baseline", old).exit_code == 1
    assert run("gate", new, "--anytime").exit_code == 1


@pytest.mark.parametrize(
    ("options", "words"), [(("--judge", "nobody"), "names no judge"), (("--max-lean", "3"), "max_lean was 3")]
)
def test_gate_bad_options_exit_2(tmp_path: Path, options: tuple[str, ...], words: str) -> None:
    answer = run("gate", write_log(tmp_path / "log.jsonl", lean=0, n=20), *options)
    assert (answer.exit_code, words in answer.output) == (2, True)


def test_gate_hostile_judge_name_stays_in_its_cell_and_in_its_xml(tmp_path: Path) -> None:
    log, xml = write_log(tmp_path / "log.jsonl", lean=0, n=20, judge='a|b"<x>\x1b[31m'), tmp_path / "gate.xml"
    answer = run("gate", log, "--junit", xml)
    assert "\x1b" not in answer.output
    ET.parse(xml)


@pytest.mark.parametrize("end", ["\r", "\n", "\r\n", "\u2028", "\x85", "\x0b"])
def test_gate_name_of_a_judge_forges_no_row(tmp_path: Path, end: str) -> None:
    name = f"gpt-x{end}| honest | ✅ pass | +0.000 | ±0.1 | 999 | |\\| <b>*_"
    log, summary = write_log(tmp_path / "log.jsonl", lean=0.9, n=200, judge=name), tmp_path / "summary.md"
    run("gate", log, "--markdown", summary)
    rows = [line for line in summary.read_text().splitlines() if line.startswith("|")]
    assert len(rows) == 3
    assert {len(re.findall(r"(?<!\\)(?:\\\\)*\|", row)) for row in rows} == {7}


@pytest.mark.slow
def test_pytest_fixture_passes_fails_and_skips(tmp_path: Path) -> None:
    for name, lean, n in (("even", 0.0, 1600), ("leaning", 0.6, 200), ("short", 0.0, 30)):
        write_log(tmp_path / f"{name}.jsonl", lean=lean, n=n)
    (tmp_path / "test_judges.py").write_text(
        "import pytest\n"
        "@pytest.mark.parametrize('name', ['even', 'leaning', 'short'])\n"
        "def test_judge(evenhand_gate, name):\n"
        "    evenhand_gate(f'{name}.jsonl', judge='gpt-x', max_lean=0.1)\n"
    )
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["fdr_core.judges.pytest_gate"]\n')
    command = [sys.executable, "-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run([*command, "test_judges.py"], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert "1 failed, 1 passed, 1 skipped" in done.stdout
    assert "needs about" in done.stdout
    assert "towards the first shown" in done.stdout


def test_action_calls_the_gate_with_options_that_exist() -> None:
    action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    assert action["runs"]["using"] == "composite"
    script = action["runs"]["steps"][-1]["run"]
    command = main.get_command(click.Context(main), "gate")
    assert command is not None
    known = {option for parameter in command.params for option in parameter.opts}
    used = {word.strip("()") for word in script.split() if word.strip("()").startswith("--") and len(word) > 2}
    assert {option for option in used if option != "--"} <= known
    lock = action["runs"]["steps"][0]["run"]
    assert lock.count("pip install") == 1
    assert {"--no-deps", "--require-hashes", "--no-build-isolation"} <= set(re.split(r"[\s()]+", lock))
    assert all(f"${name}" in script for name in action["runs"]["steps"][-1]["env"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("lean", "n", "undecided", "code"), [(0.6, 200, "pass", 1), (0.0, 50, "pass", 0), (0.0, 50, "fail", 3)]
)
def test_action_script_runs_as_a_runner_would(tmp_path: Path, lean: float, n: int, undecided: str, code: int) -> None:
    action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    log = write_log(tmp_path / "log.jsonl", lean=lean, n=n)
    (tmp_path / "evenhand").symlink_to(Path(sys.executable).parent.parent)
    environment = {
        **os.environ,
        "RUNNER_TEMP": str(tmp_path),
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
        "GITHUB_OUTPUT": str(tmp_path / "output"),
        **{"LOG": str(log), "JUDGE": "gpt-x", "MAX_LEAN": "0.1", "ALPHA": "0.05", "BASELINE": "", "ANYTIME": "false"},
        **{"UNDECIDED": undecided, "JUNIT": "", "MAP": "", "FORMAT": "auto", "SIDES": "audit", "BADGE": ""},
    }
    script = action["runs"]["steps"][-1]["run"]
    done = subprocess.run(["bash", "-e", "-c", script], env=environment, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == code, done.stderr
    outcome = {1: "fail", 0: "undecided", 3: "undecided"}[code]
    assert f"outcome={outcome}" in (tmp_path / "output").read_text().splitlines()
    assert ("::warning" in done.stdout) == (outcome == "undecided")
    assert "gpt-x" in (tmp_path / "summary.md").read_text()


def test_analyze_reads_foreign_formats_maps_and_standard_input(tmp_path: Path) -> None:
    answer = run("analyze", SAMPLES / "fastchat_pairs.jsonl", "--json")
    assert answer.exit_code == 0, answer.output
    assert json.loads(answer.stdout)["data"]["answers"] == 5
    mapped = ("--map", "annotator=judge", "--map", "left=first", "--map", "right=second", "--map", "choice=verdict")
    assert json.loads(run("analyze", SAMPLES / "unknown.csv", *mapped, "--json").stdout)["data"]["answers"] == 3
    piped = run("analyze", "-", "--json", input=(SAMPLES / "columns.jsonl").read_bytes())
    assert json.loads(piped.stdout)["data"]["answers"] == 3


def test_analyze_of_data_without_annotators_says_that_it_is_one_crowd() -> None:
    answer = run("analyze", SAMPLES / "chatbot_arena_55k.csv", "--json")
    assert answer.exit_code == 0, answer.output
    assert "one crowd" in answer.stderr


def test_analyze_refuses_a_bomb_and_names_the_option(tmp_path: Path) -> None:
    path = tmp_path / "bomb.csv.gz"
    path.write_bytes(gzip.compress(b"annotator,left,right,choice\n" + b"a,x,y,left\n" * 2_000_000))
    answer = run("analyze", path, "--max-gigabytes", 0.01)
    assert (answer.exit_code, "--max-gigabytes" in answer.output) == (2, True)


def test_analyze_map_that_is_no_pair_is_refused() -> None:
    answer = run("analyze", SAMPLES / "unknown.csv", "--map", "judge")
    assert (answer.exit_code, "ours=theirs" in answer.output) == (2, True)


def label_studio_export(path: Path, n_tasks: int = 30, n_people: int = 6) -> Path:
    """Tasks with prompt and two long texts; the longer one is better and everybody sees it, one person clicks left."""
    rng = np.random.default_rng(0)
    tasks = []
    for task in range(n_tasks):
        texts = [f"answer {task} " + "word " * 30, f"reply {task} " + "word " * 20]
        left, right = texts if rng.random() < 0.5 else texts[::-1]
        better = "left" if len(left) > len(right) else "right"
        annotations = [
            {
                "id": 100 * task + who,
                "completed_by": who,
                "result": [
                    {
                        "from_name": "pw",
                        "to_name": "pw",
                        "type": "pairwise",
                        "value": {"selected": "left" if who == 0 else better},
                    }
                ],
            }
            for who in range(n_people)
        ]
        tasks.append(
            {
                "id": task,
                "data": {"prompt": f"question {task}", "text1": left, "text2": right},
                "annotations": annotations,
            }
        )
    path.write_text(json.dumps(tasks))
    return path


def test_export_preferences_writes_full_texts_prompts_and_margins(tmp_path: Path) -> None:
    export = label_studio_export(tmp_path / "export.json")
    answer = run("export-preferences", export, "--sides", "random", "--min-probability", 0.5)
    assert answer.exit_code == 0, answer.output
    rows = [json.loads(line) for line in (tmp_path / "export.preferences.jsonl").read_text().splitlines()]
    assert len(rows) == 30
    assert all(row["prompt"].startswith("question") and len(row["chosen"]) > len(row["rejected"]) for row in rows)
    assert all(row["margin"] > 0 and 0.5 <= row["probability"] <= 1 for row in rows)
    assert {"prompt", "chosen", "rejected", "margin", "soft_label", "votes_chosen", "votes_rejected"} <= set(rows[0])
    assert {row["votes_chosen"] + row["votes_rejected"] for row in rows} == {6}
    with (tmp_path / "export.again.csv").open(newline="") as file:
        assert next(csv.reader(file))[:3] == ["item_1", "item_2", "prompt"]


def test_export_preferences_that_would_be_empty_is_an_error_and_writes_nothing(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text("annotator,left,right,choice\n" + "".join(f"ann,a{k},b{k},left\n" for k in range(20)))
    answer = run("export-preferences", log, "--only-certain")
    assert (answer.exit_code, "none of the 20 pairs is 0.75 certain" in answer.output) == (2, True)
    assert [path.name for path in tmp_path.iterdir()] == ["log.csv"]
    assert run("export-preferences", log).exit_code == 0


def test_export_preferences_of_models_asks_for_their_texts(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.jsonl", lean=0, n=30)
    answer = run(
        "export-preferences", SAMPLES / "chatbot_arena_33k.jsonl", "--out", tmp_path / "o", "--again", tmp_path / "a"
    )
    assert (answer.exit_code, "--texts" in answer.output) == (2, True)
    texts = tmp_path / "texts.csv"
    texts.write_text("item,text,prompt\nm1,the text of one,say something\nm2,the text of two,say something\n")
    answer = run("export-preferences", log, "--texts", texts, "--min-probability", 0.5, "--out", tmp_path / "o")
    assert answer.exit_code == 0, answer.output
    (row,) = [json.loads(line) for line in (tmp_path / "o").read_text().splitlines()]
    assert row["prompt"] == "say something"
    assert row["chosen"].startswith("the text of")
