"""Pieces of many rows, on several threads: every row once, errors told, the same results."""

import threading
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from fdr_core import codes, detect, simulate
from fdr_core.simulate import Simulated


@pytest.mark.parametrize("n", [0, 1, codes.ROWS, codes.ROWS + 1, 40 * codes.ROWS + 7])
def test_rows_are_each_worked_on_once(n: int) -> None:
    times = np.zeros(n, dtype=np.int64)

    def work(rows: slice) -> None:
        times[rows] += 1

    codes.by_rows(work, n)
    assert (times == 1).all()


def test_few_pieces_stay_on_the_thread_that_asked_and_many_do_not() -> None:
    seen: set[int] = set()
    codes.for_each(lambda _: seen.add(threading.get_ident()), range(15))
    assert seen == {threading.get_ident()}
    seen.clear()
    codes.for_each(lambda _: seen.add(threading.get_ident()), range(16))
    assert threading.get_ident() not in seen


@pytest.mark.parametrize("n", [3, 30])
def test_an_error_of_a_piece_is_raised(n: int) -> None:
    def work(piece: int) -> None:
        if piece == 2:
            raise ValueError("piece 2")

    with pytest.raises(ValueError, match="piece 2"):
        codes.for_each(work, range(n))


def one_order_for_all() -> Simulated:
    return simulate.unique_pairs(rng=np.random.default_rng(1))


def graded() -> Simulated:
    return simulate.large_crowd("H5", rng=np.random.default_rng(2))


@pytest.mark.parametrize("make", [graded, one_order_for_all])
def test_detection_on_two_threads_equals_that_on_one(
    make: Callable[[], Simulated], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pieces so small that every loop over rows has many."""
    comparisons = make().comparisons
    monkeypatch.setattr(codes, "ROWS", 64)
    results = []
    for threads in (1, 2):
        monkeypatch.setattr(codes, "_THREADS", threads)
        results.append(detect(comparisons, lbi=None))
    one, two = results
    assert one.flagged == two.flagged
    pd.testing.assert_frame_equal(one.annotators, two.annotators, check_exact=True)
    pd.testing.assert_frame_equal(one.ranking, two.ranking, check_exact=True)
