"""The examples run as a reader would run them, without a warning."""

import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from fdr_core.commands.gate import gate

EXAMPLES = sorted((Path(__file__).resolve().parent.parent / "examples").glob("*.py"))


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs_and_flags_somebody(example: Any) -> None:
    answer = subprocess.run([sys.executable, "-W", "error", str(example)], capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    assert "annotators flagged" in answer.stdout


def test_examples_are_at_least_three_and_one_audits_llm_judges() -> None:
    assert len(EXAMPLES) >= 3
    assert any("llm" in path.stem for path in EXAMPLES)


JUDGES = Path(__file__).resolve().parent.parent / "examples" / "judges"


def says(first: str, second: str, lean: bool) -> str:
    """A judge who names the first shown, always or where it is the larger."""
    return "A" if lean or first > second else "C" if first == second else "B"


def promptfoo_results(cases: ModuleType, lean: bool) -> Any:
    results = [
        {
            "testIdx": number,
            "vars": case["vars"],
            "provider": {"id": "judge", "label": "judge"},
            "response": {"output": says(case["vars"]["text_first"], case["vars"]["text_second"], lean)},
        }
        for number, case in enumerate(cases.promptfoo_tests())
    ]
    return {"evalId": "e", "results": {"version": 3, "results": results}, "config": {}}


def inspect_log(cases: ModuleType, lean: bool) -> Any:
    samples = []
    for sample in cases.inspect_samples():
        _, first, _, second = sample["input"].split("\n")[-4:]
        scores = {"judge": {"value": says(first, second, lean), "metadata": {"judge": "judge"}}}
        samples.append({**sample, "epoch": 1, "scores": scores})
    return {"version": 2, "eval": {"task": "pairs", "model": "judge"}, "plan": {}, "results": {}, "samples": samples}


@pytest.mark.parametrize("results_of", [promptfoo_results, inspect_log])
@pytest.mark.parametrize(("lean", "code"), [(False, 0), (True, 1)])
def test_results_of_the_examples_cases_are_judged_in_both_orders(
    tmp_path: Path, results_of: Callable[[ModuleType, bool], Any], lean: bool, code: int
) -> None:
    spec = importlib.util.spec_from_file_location("cases", JUDGES / "both_orders_cases.py")
    assert spec
    assert spec.loader
    cases = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(cases)
    log = tmp_path / "results.json"
    log.write_text(json.dumps(results_of(cases, lean)), encoding="utf-8")
    answer = CliRunner().invoke(gate, [str(log)])
    assert (answer.exit_code, "Both orders were shown" in answer.output) == (code, True), answer.output


def test_promptfoo_example_names_the_cases() -> None:
    config = yaml.safe_load((JUDGES / "promptfooconfig.yaml").read_text(encoding="utf-8"))
    path, _, function = config["tests"].removeprefix("file://").rpartition(":")
    assert function in (JUDGES / path).read_text(encoding="utf-8")


@pytest.mark.slow
def test_pytest_example_passes(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "fdr_core.judges.pytest_gate"]
    done = subprocess.run(
        [*command, str(JUDGES / "test_judge.py"), "--rootdir", str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert "1 passed" in done.stdout, done.stdout
