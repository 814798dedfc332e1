"""Codes of rows: worked by hand, and both ways of numbering them against numpy's."""

import numpy as np
import pytest

from fdr_core import codes


def test_pairs_partners_and_codes_worked_by_hand() -> None:
    one, other = np.array([3, 3, 1, 3]), np.array([0, 2, 5, 2])
    assert [part.tolist() for part in codes.distinct_pairs(one, other)] == [[1, 3, 3], [5, 0, 2]]
    assert codes.distinct_partners(one, other, 5).tolist() == [0, 1, 0, 2, 0]
    assert codes.joint_codes(one, other).tolist() == [1, 2, 0, 2]
    assert codes.compact_codes(np.array([7, 2, 7, 9])).tolist() == [1, 0, 1, 2]
    assert codes.first_rows(np.array([1, 0, 1, 2, 0])).tolist() == [1, 0, 3]


@pytest.mark.parametrize(
    ("least", "largest"),
    [(0, 5), (0, 3_000), (0, 10**12), (0, 2**53), (0, 2**62), (-9, 9)],
    ids=["table", "nearly a table", "sorted", "just sorted with rows", "too large for rows", "negative"],
)
def test_distinct_codes_are_those_of_numpy_however_large_they_are(least: int, largest: int) -> None:
    code = np.random.default_rng(3).integers(least, largest, size=700)
    code[-1] = code[-2] = largest - 1
    distinct, place = codes.distinct_codes(code)
    expected, inverse = np.unique(code, return_inverse=True)
    assert distinct.tolist() == expected.tolist()
    assert place.tolist() == inverse.tolist()


@pytest.mark.parametrize("largest", [7, 10**12], ids=["counted", "sorted"])
def test_rows_stand_in_the_order_of_several_codes_equal_ones_as_they_stood(largest: int) -> None:
    rng = np.random.default_rng(0)
    one, two = rng.integers(5, size=300), rng.integers(largest, size=300)
    assert codes.order_by(one, two).tolist() == np.lexsort((two, one)).tolist()
    assert codes.order_by(two).tolist() == np.argsort(two, kind="stable").tolist()
    assert codes.order_by(one[:0], two[:0]).tolist() == []


def test_first_rows_are_those_of_numpy() -> None:
    code = codes.compact_codes(np.random.default_rng(4).integers(50, size=400))
    assert codes.first_rows(code).tolist() == np.unique(code, return_index=True)[1].tolist()


@pytest.mark.parametrize("times", [1, 2], ids=["every partner once", "every partner twice"])
def test_partners_met_are_counted_once_each(times: int) -> None:
    rng = np.random.default_rng(5)
    who, partner = np.tile(rng.integers(7, size=40), times), np.tile(rng.permutation(40), times)
    expected = [len(set(partner[who == code])) for code in range(9)]
    assert codes.distinct_partners(who, partner, 9).tolist() == expected


def test_partners_of_codes_that_are_all_different_are_one_each() -> None:
    assert codes.distinct_partners(np.array([2, 0, 3]), np.array([7, 7, 7]), 5).tolist() == [1, 0, 1, 1, 0]


def test_nothing_has_no_codes() -> None:
    none = np.zeros(0, dtype=np.int64)
    assert codes.compact_codes(none).tolist() == codes.first_rows(none).tolist() == []
    assert codes.distinct_partners(none, none, 2).tolist() == [0, 0]
