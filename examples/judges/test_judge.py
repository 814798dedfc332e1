"""pytest: ask a judge in both orders and hold its lean against a limit. `pytest -p fdr_core.judges.pytest_gate`

What the log holds is not asked again: keep it between builds, or let it be made anew.
"""

from collections.abc import Callable
from pathlib import Path

from fdr_core.judges.gate import Gate
from fdr_core.judges.record import record

PAIRS = [{f"q{k}/old": f"answer {k % 7}", f"q{k}/new": f"answer {k % 5}"} for k in range(200)]


def judge(first: str, second: str) -> str:
    """Stands for a call of your judge."""
    return "tie" if first == second else "first" if first > second else "second"


def test_judge_does_not_lean(evenhand_gate: Callable[..., Gate], tmp_path: Path) -> None:
    record(PAIRS, judge, tmp_path / "judge.jsonl", judge="my-judge")
    evenhand_gate(tmp_path / "judge.jsonl", judge="my-judge", max_lean=0.1, undecided="fail")
