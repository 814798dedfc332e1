"""What the audit finds in real data sets, where they are present."""

from typing import Any

import pandas as pd
import pytest

from fdr_core import Comparisons
from fdr_core.answer_table import AnswerTable
from fdr_core.audit import audit

pytestmark = [pytest.mark.data, pytest.mark.slow]

COLUMNS = ("annotator", "left", "right", "choice", "coin", "task")


@pytest.mark.parametrize(
    ("name", "renamed", "found", "how"),
    [
        ("worldcollege", {}, "sides look random", "shared coins"),
        ("humanage", {}, "one order per task", "shared coins"),
        ("iqa_ref1", {}, "placed", "sides fixed"),
        ("llmfao", {"id": "coin"}, "one order per task", "shared coins"),
        ("pandalm", {}, "placed", "none"),
        ("prd_both_orders", {}, "both orders", "both orders"),
        ("prd_both_orders", {"coin": "unused", "question": "stratum"}, "both orders", "both orders"),
        ("alpaca_eval_judges", {"instruction": "coin"}, "one order per task", "shared coins"),
        ("ukpconvarg1", {}, "one order per task", "shared coins"),
    ],
)
def test_audit_names_real_designs(dataset: Any, name: str, renamed: Any, found: Any, how: Any) -> None:
    frame = pd.read_csv(dataset(name) / "comparisons.csv").rename(columns=renamed)
    wanted = [column for column in (*COLUMNS, "stratum") if column in frame]
    result = audit(AnswerTable.of(Comparisons.from_frame(frame[wanted])).audit_input(), q=0.1)
    assert (result.found, result.how) == (found, how)
    if name == "prd_both_orders":
        assert result.figures["coins"] == 3200
