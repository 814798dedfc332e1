"""Parts of the answers: exact by enumeration, the part that speaks is named, and nothing decided later makes a part."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from numpy.random import Generator

from fdr_core import Comparisons, detect
from fdr_core.randomisation.convolution import SignSums
from fdr_core.randomisation.parts import CLOSE, LATE, LONG, SHARES, Told, smallest_of
from fdr_core.randomisation.units import UnitRows
from fdr_core.types import Floats


def units_of(n: int) -> UnitRows:
    """One annotator, one answer per coin."""
    rows = np.arange(n)
    return UnitRows(rows, np.zeros(n, dtype=np.int64), rows, np.ones(n))


def combined(value: Floats, support: Floats, told: Told) -> float:
    n = len(value)
    sums = SignSums.of(np.zeros(n, dtype=np.int64), value, 1)
    whole = sums.p_values(), np.sign(sums.total), np.array([n])
    return float(smallest_of(whole, units_of(n), value, support, told, n).p_value[0])


def test_combined_p_value_keeps_its_promise_over_all_falls_of_the_coins() -> None:
    rng = np.random.default_rng(0)
    size, support = rng.uniform(0.2, 2.0, 11), rng.normal(size=11)
    told = Told(time=rng.permutation(11).astype(float), length=rng.uniform(10, 99, 11))
    p = np.array([combined(size * np.array(signs), support, told) for signs in product((-1.0, 1.0), repeat=11)])
    for t in np.append(np.unique(p), [0.01, 0.05, 0.1, 0.5]):
        assert np.mean(p <= t) <= t + 1e-12
    assert p.min() < 0.02


def test_parts_are_halves_and_what_cannot_be_told_gives_its_share_back() -> None:
    value, units = np.array([1.0, -1, 1, 1, 1, 1, 1, 1]), units_of(8)  # p: 18/256 of all, 1/8 of a half
    sums = SignSums.of(np.zeros(8, dtype=np.int64), value, 1)
    whole = sums.p_values(), np.sign(sums.total), np.array([8])
    times, flat = np.arange(8.0), np.zeros(8)
    found = smallest_of(whole, units, value, flat, Told(time=times, length=np.full(8, np.nan)), 8)
    assert list(found.rows) == [LATE]
    assert found.rows[LATE].tolist() == [False] * 4 + [True] * 4
    assert found.p_value[0] == pytest.approx(min(whole[0][0] / (1 - SHARES[LATE]), 0.125 / SHARES[LATE], 1.0))
    every = smallest_of(whole, units, value, times, Told(times, times), 8)
    assert list(every.rows) == [LATE, CLOSE, LONG]
    assert every.rows[CLOSE].tolist() == [True] * 4 + [False] * 4


def crowd(rng: Generator, part: str) -> Comparisons:
    """Thirty people with 160 answers; two lean left by much, in a part of their answers only."""
    n, each, items = 30, 160, 40
    who, left = np.repeat(np.arange(n), each), rng.integers(items, size=n * each)
    right = (left + rng.integers(1, items, size=n * each)) % items
    score = 2.0 * rng.normal(size=items)
    gap, order = score[left] - score[right], np.tile(np.arange(each), n)
    size = rng.integers(50, 800, size=(n * each, 2))
    is_in = {
        "late": order >= each / 2,
        "close": np.abs(gap) < np.median(np.abs(gap)),
        "long": size.sum(axis=1) > np.median(size.sum(axis=1)),
    }[part]
    first = rng.random(n * each) < 1 / (1 + np.exp(-gap - 3.0 * is_in * (who < 2)))
    table = {"annotator": who, "left": left, "right": right, "outcome": np.where(first, 1, -1), "time": order + 1e9}
    return Comparisons.from_frame(pd.DataFrame({**table, "chars_left": size[:, 0], "chars_right": size[:, 1]}))


@pytest.mark.parametrize(
    ("part", "words"), [("late", "late in the day"), ("close", "on close pairs"), ("long", "on long texts")]
)
def test_part_that_speaks_is_named_with_its_own_lean_and_interval(part: str, words: str) -> None:
    data = crowd(np.random.default_rng(1), part)
    rows = detect(data, parts="all", lbi=None).annotators.set_index("annotator")
    whole = detect(data, lbi=None).annotators.set_index("annotator")
    named = [who for who in (0, 1) if rows.loc[who, "finding"] == f"leans left {words}"]
    assert named
    told = rows.loc[named]
    assert told["flagged"].all()
    assert (told["bias_low"] > 0).all()
    assert (told["bias"] > whole.loc[named, "bias"] + 0.1).all()


def test_sums_without_times_or_texts_still_tell_close_pairs() -> None:
    data = crowd(np.random.default_rng(2), "close")
    sums = Comparisons.from_frame(data.to_frame()[["annotator", "left", "right", "outcome"]])
    found = detect(sums, parts="all", lbi=None).annotators
    assert set(found.loc[found["annotator"] < 2, "flagged"]) == {True}
