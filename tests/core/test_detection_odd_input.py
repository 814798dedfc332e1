"""Input that is bad, and input that is odd: the one is refused, the other gives a sound result without a flag."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.random import Generator

from fdr_core import Comparisons, DesignError, InputError, KnockoffLBI, detect
from tests.core.cases import comparisons_of
from tests.core.test_detection import numbers_are_sound

GOOD_ROW = {"annotator": "a", "left": "x", "right": "y", "outcome": 1.0}
BAD_ROWS = {
    "self-comparison": {"right": "x"},
    "NaN outcome": {"outcome": float("nan")},
    "infinite outcome": {"outcome": float("inf")},
    "outcome outside": {"outcome": 1.2},
}


@pytest.mark.parametrize("change", [*BAD_ROWS.values()], ids=[*BAD_ROWS])
def test_bad_row_raises_an_input_error(change: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        Comparisons.from_frame(pd.DataFrame([GOOD_ROW, {**GOOD_ROW, **change}]))


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame([{"annotator": "a", "left": "x", "right": "y", "choice": "middle"}]),
        pd.DataFrame([GOOD_ROW]).drop(columns="left"),
        pd.DataFrame([["a", "b", "x", "y", 1.0]], columns=["annotator", "annotator", "left", "right", "outcome"]),
        pd.DataFrame([GOOD_ROW]).iloc[:0],
        pd.DataFrame([{**GOOD_ROW, "right": "x"}]),  # one item only
    ],
    ids=["unknown choice", "missing column", "duplicate column", "empty", "one item"],
)
def test_bad_table_raises_an_input_error(frame: pd.DataFrame) -> None:
    with pytest.raises(InputError):
        Comparisons.from_frame(frame)


def spread(rng: Generator, n: int, m: int, size: int, outcome: float | None = None) -> Comparisons:
    left = rng.integers(n, size=size)
    right = (left + rng.integers(1, n, size=size)) % n
    y = rng.choice([-1.0, 1.0], size=size) if outcome is None else np.full(size, outcome)
    return Comparisons.from_arrays(rng.integers(m, size=size), left, right, y)


ODD_INPUT = {
    "one answer": lambda rng: comparisons_of([("a", "x", "y", 1.0)]),
    "one tie": lambda rng: comparisons_of([("a", "x", "y", 0.0)]),
    "one annotator": lambda rng: spread(rng, 6, 1, 40),
    "two items": lambda rng: spread(rng, 2, 10, 200),
    "an annotator with one answer": lambda rng: comparisons_of(
        [("once", 0, 1, 1.0), *((k % 5, *rng.choice(6, 2, replace=False).tolist(), (-1.0) ** k) for k in range(150))]
    ),
    "two groups": lambda rng: comparisons_of(
        [
            (k % 8, *(k % 2 * 10 + rng.choice(5, 2, replace=False)).tolist(), float(rng.choice([-1, 1])))
            for k in range(400)
        ]
    ),
    "all ties": lambda rng: spread(rng, 6, 8, 300, outcome=0.0),
    "one group all ties": lambda rng: comparisons_of(
        [
            (k % 2, *(k % 2 * 10 + rng.choice(5, 2, replace=False)).tolist(), float(k % 2 * rng.choice([-1, 1])))
            for k in range(300)
        ]
    ),
    "sides never swapped": lambda rng: comparisons_of(
        [(k % 6, int(rng.integers(4)), 4 + int(rng.integers(4)), float(rng.choice([-1, 1]))) for k in range(300)]
    ),
    "everybody alike": lambda rng: comparisons_of(
        [
            (who, *pair, 1.0 if pair[0] < pair[1] else -1.0)
            for who in range(8)
            for pair in [(0, 1), (1, 0), (1, 2), (2, 1)] * 5
        ]
    ),
}


@pytest.mark.parametrize("path", ["lbi", "iss", "lasso", "marginal"])
@pytest.mark.parametrize("make", [*ODD_INPUT.values()], ids=[*ODD_INPUT])
def test_odd_input_gives_a_sound_result_without_a_flag(make: Callable[..., Any], path: str) -> None:
    result = numbers_are_sound(detect(make(np.random.default_rng(11)), lbi=KnockoffLBI(path=path, draws=5)))
    assert result.flagged == []
    assert result.audit.reasons


@pytest.mark.parametrize("make", [*ODD_INPUT.values()], ids=[*ODD_INPUT])
@pytest.mark.parametrize("variance", ["plain", "two-pass"])
def test_odd_input_with_the_papers_construction_gives_no_flag_or_a_design_error(
    make: Callable[..., Any], variance: str
) -> None:
    comparisons = make(np.random.default_rng(11))
    try:
        result = detect(comparisons, decide_by="lbi", lbi=KnockoffLBI(construction="paper", draws=5, variance=variance))
    except DesignError as error:
        message = str(error)
    else:
        numbers_are_sound(result)
        message = "" if result.flagged else "nobody flagged"
    assert "needs at least 2 x annotators + items" in message or message == "nobody flagged"


def test_papers_construction_on_fewer_rows_than_it_needs_raises() -> None:
    chain = [(k % 10, k, k + 1, 1.0) for k in range(110)]
    with pytest.raises(DesignError, match=r"needs at least 2 x annotators \+ items = 131 answers; this design has 110"):
        detect(comparisons_of(chain), decide_by="lbi", lbi=KnockoffLBI(construction="paper"))
