"""Findings never contradict their own numbers: on a grid of everything that can be known, and on real crowds."""

from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fdr_core import Comparisons, detect
from fdr_core.findings import FINDINGS, PARTS, Facts, findings
from fdr_core.report.words import KINDS, finding_words

MIN_BIAS = 0.1
BIASES = (-1.0, -0.6, -0.1, -0.05, -0.001, 0.0, 0.001, 0.05, 0.1, 0.6, 1.0)
REACHES = (0.01, 0.04, 0.08, 0.3, 0.5, 0.51, 2.0)
CLICKS = ((0, 0), (0, 9), (9, 0), (0, 10), (12, 0), (4, 5))


def grid() -> pd.DataFrame:
    """Every combination of bias, interval, clicks, flag, judged and selectable that can occur."""
    rows = [
        (bias, max(-1.0, bias - reach), min(1.0, bias + reach), left, right, flagged, judged, stuck, skips)
        for bias, reach, (left, right) in product(BIASES, REACHES, CLICKS)
        for flagged, judged, stuck, skips in product((False, True), repeat=4)
        # flags need a judged annotator and a bias beyond the limit, and a stuck one cannot be flagged
        if not flagged or (judged and abs(bias) >= MIN_BIAS and not stuck)
    ]
    names = ["bias", "bias_low", "bias_high", "left", "right", "flagged", "judged", "stuck", "skips"]
    return pd.DataFrame(rows, columns=names)


def found(table: pd.DataFrame, *, can_judge: bool = True) -> pd.DataFrame:
    columns = ("left", "right", "bias", "bias_low", "bias_high", "flagged", "judged", "stuck", "skips")
    facts = Facts(*(table[name].to_numpy() for name in columns))
    return table.assign(finding=findings(facts, min_bias=MIN_BIAS, can_judge=can_judge))


def assert_in_line(table: pd.DataFrame, min_bias: float) -> None:
    """What each finding says of the numbers beside it."""
    rows = {finding: table[table["finding"] == finding] for finding in FINDINGS}
    assert sum(map(len, rows.values())) == len(table)
    flagged = ["left side only", "right side only", "leans left", "leans right"]
    assert table["finding"].isin(flagged).tolist() == table["flagged"].tolist()
    for side, other, sign in (("left", "right", 1), ("right", "left", -1)):
        only = rows[f"{side} side only"]
        assert (only[other] == 0).all()
        assert (only[side] >= 10).all()
        assert ((rows[f"leans {side}"][other] > 0) | (rows[f"leans {side}"][side] < 10)).all()
        for name in (f"{side} side only", f"leans {side}"):
            assert (sign * rows[name]["bias"] >= min_bias).all()
    excludes_zero = (table["bias_low"] > 0) | (table["bias_high"] < 0)
    assert excludes_zero[rows["suspicious, not enough to flag"].index].all()
    assert (rows["suspicious, not enough to flag"]["bias"].abs() >= min_bias).all()
    assert excludes_zero[rows["small lean, below your limit"].index].all()
    assert (rows["small lean, below your limit"]["bias"].abs() < min_bias).all()
    assert not excludes_zero[rows["no lean seen"].index].any()
    assert (rows["no lean seen"]["bias_high"] - rows["no lean seen"]["bias_low"] <= 1.0).all()


def test_findings_on_a_grid_are_in_line_with_their_numbers() -> None:
    table = found(grid())
    assert set(table["finding"]) == {finding for finding in FINDINGS if not finding.endswith(PARTS[1:])}
    assert_in_line(table, MIN_BIAS)
    assert (table.loc[~table["judged"] & ~table["skips"], "finding"] == "too few answers").all()
    assert (table.loc[table["skips"] & ~table["flagged"], "finding"] == "skips by side").all()
    judged_few = table[table["judged"] & (table["finding"] == "too few answers")]
    assert (judged_few["bias_high"] - judged_few["bias_low"] > 1.0).all()


def test_finding_of_somebody_who_cannot_be_selected_is_never_that_no_lean_was_seen() -> None:
    table = found(grid())
    stuck = table[table["stuck"] & table["judged"]]
    assert "no lean seen" not in set(stuck["finding"])
    assert set(table.loc[table["finding"] == "not assessable", "stuck"]) == {True}


def test_findings_where_nobody_can_be_judged_are_all_not_assessable() -> None:
    table = found(grid(), can_judge=False)
    assert set(table.loc[~table["skips"], "finding"]) == {"not assessable"}


def test_always_one_side_against_the_bias_is_a_lean_to_the_other_side() -> None:
    """Left items were so much better that even always clicking left falls short of them."""
    facts = Facts(*(np.array([value]) for value in (9, 0, -0.4, -0.6, -0.2, True, True, False, False)))
    assert findings(facts, min_bias=MIN_BIAS, can_judge=True).tolist() == ["leans right"]


def test_every_finding_is_shown_under_its_own_name() -> None:
    assert [finding_words(finding) for finding in FINDINGS] == list(FINDINGS)
    assert set(FINDINGS) < set(KINDS)


REAL = {
    "alpaca_eval_judges": {"instruction": "coin"},
    "humanage": {},
    "iqa_ref1": {},
    "llmfao": {"id": "coin"},
    "pandalm": {},
    "prd_both_orders": {},
    "ukpconvarg1": {},
    "worldcollege": {},
}


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.parametrize(("name", "columns"), REAL.items(), ids=REAL)
def test_findings_on_real_crowds_are_in_line_with_their_numbers(
    dataset: Callable[[str], Path], name: str, columns: dict[str, str]
) -> None:
    frame = pd.read_csv(dataset(name) / "comparisons.csv").rename(columns=columns)
    wanted = [column for column in ("annotator", "left", "right", "choice", "coin") if column in frame]
    result = detect(Comparisons.from_frame(frame[wanted]), lbi=None)
    table = result.annotators
    if result.audit.how == "none":
        assert set(table["finding"]) == {"not assessable"}
    else:
        assert_in_line(table, MIN_BIAS)
        assert (table.loc[table["more_needed"] > 0, "finding"] == "too few answers").all()
        assert (table.loc[table["flagged"], "q_value"] <= 0.1).all()
