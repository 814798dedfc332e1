"""The examples run as a reader would run them, without a warning."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

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
