"""Thresholds, the multi-copy rule and e-values against brute force."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fdr_core.paper.draws import e_values, loss_limit, race_results, select, smallest_list
from fdr_core.selection import e_bh

LEVELS = st.lists(
    st.tuples(st.sampled_from([0.0, 0.5, 1.0, 1.0, 2.0, 3.0, 4.0, 5.0]), st.sampled_from([-1, 0, 1, 1])),
    min_size=1,
    max_size=30,
)


def brute_force(level: NDArray[Any], result: NDArray[Any], q: float, offset: float, copies: int) -> tuple[Any, ...]:
    """The lowest positive level t with (offset + losses(t)) / d <= q wins(t), tried one by one."""
    for t in sorted(set(level[level > 0])):
        wins = ((level >= t) & (result > 0)).sum()
        losses = ((level >= t) & (result < 0)).sum()
        if wins and (offset + losses) / copies <= q * wins + 1e-12:
            return (level >= t) & (result > 0), losses
    return np.zeros(len(level), dtype=bool), 0


@given(LEVELS, st.sampled_from([0.05, 0.1, 0.2, 0.5]), st.sampled_from([0.0, 1.0]), st.sampled_from([1, 2, 5, 10]))
def test_select_equals_brute_force(races: list[Any], q: float, offset: float, copies: int) -> None:
    level = np.array([pair[0] for pair in races])
    result = np.array([pair[1] for pair in races], dtype=np.int8)
    chosen = select(level, result, q=q, offset=offset, copies=copies)
    expected, losses = brute_force(level, result, q, offset, copies)
    assert chosen.selected.tolist() == expected.tolist()
    assert chosen.losses == losses


@given(LEVELS, st.sampled_from([0.1, 0.2, 0.5]), st.sampled_from([0.0, 1.0]))
def test_select_with_one_copy_equals_the_thresholds_of_the_paper(races: list[Any], q: float, offset: float) -> None:
    level = np.array([pair[0] for pair in races])
    W = level * np.array([pair[1] for pair in races])
    passing = [t for t in np.abs(W[W != 0]) if (offset + (-t >= W).sum()) / max(1, (t <= W).sum()) <= q]
    expected = min(passing) <= W if passing else np.zeros(len(W), dtype=bool)
    chosen = select(level, np.sign(W).astype(np.int8), q=q, offset=offset, copies=1)
    assert chosen.selected.tolist() == expected.tolist()


def test_select_where_nothing_passes_selects_nobody() -> None:
    chosen = select(np.array([3.0, 2.0]), np.array([1, 1], dtype=np.int8), q=0.1, offset=1.0, copies=1)
    assert not chosen.selected.any()
    assert chosen.threshold == np.inf
    assert (e_values(chosen, 1) == 0).all()
    assert not select(np.zeros(2), np.zeros(2, dtype=np.int8), q=0.1, offset=0.0, copies=1).selected.any()


def test_select_worked_by_hand_stops_at_the_last_level_that_passes() -> None:
    level = np.array([9.0, 8.0, 7.0, 6.0, 5.0, 4.0])
    result = np.array([1, 1, -1, 1, 1, -1], dtype=np.int8)
    # d = 5, q = .1: (1 + losses)/5 <= .1 wins needs wins >= 2 (1 + losses): passes at 8 (2 wins) and at 5 (4 wins, 1)
    chosen = select(level, result, q=0.1, offset=1.0, copies=5)
    assert chosen.selected.tolist() == [True, True, False, True, True, False]
    assert chosen.losses == 1
    assert e_values(chosen, 5).tolist() == [15.0, 15.0, 0.0, 15.0, 15.0, 0.0]  # m d / (1 + losses)


def test_race_results_with_tied_and_absent_columns_are_neither_win_nor_loss() -> None:
    entry = np.array([[3.0, 1.0, 2.0, 0.0, 0.0], [1.0, 3.0, 2.0, 0.0, 1.0], [0.0, 2.0, 1.0, 0.0, 0.0]]).ravel()
    level, result = race_results(entry, 5)
    assert level.tolist() == [3.0, 3.0, 2.0, 0.0, 1.0]
    assert result.tolist() == [1, -1, 0, 0, -1]
    assert race_results(np.array([1.0 + 1e-10, 1.0]), 1)[1].tolist() == [0]


@pytest.mark.parametrize(
    ("q", "cut", "copies", "expected"),
    [(0.1, "knockoff+", 10, 1), (0.1, "knockoff+", 1, 10), (0.1, "knockoff+", 5, 2), (0.1, "knockoff", 1, 1)],
)
def test_smallest_list_is_the_fewest_wins_that_pass_without_a_loss(
    q: float, cut: str, copies: int, expected: int
) -> None:
    assert smallest_list(q, cut, copies) == expected
    offset = 1.0 if cut == "knockoff+" else 0.0
    for wins in range(1, 20):
        chosen = select(np.arange(1.0, wins + 1), np.ones(wins, dtype=np.int8), q=q, offset=offset, copies=copies)
        assert chosen.selected.any() == (wins >= expected)


@given(st.integers(1, 60), st.sampled_from([0.05, 0.1, 0.3]), st.sampled_from([0.0, 1.0]), st.sampled_from([1, 5, 10]))
def test_loss_limit_is_the_most_losses_after_which_a_threshold_can_still_pass(
    m: int, q: float, offset: float, copies: int
) -> None:
    limit = loss_limit(m, q, offset, copies)
    for losses in range(m + 1):
        can_pass = (offset + losses) / copies <= q * (m - losses) + 1e-12
        assert can_pass == (losses <= limit + 1e-9)


@given(st.lists(st.sampled_from([0.0, 1.0, 5.0, 10.0, 20.0, 40.0, 100.0]), min_size=1, max_size=12))
def test_e_bh_equals_brute_force(values: list[Any]) -> None:
    e, q = np.array(values), 0.1
    m = len(e)
    sizes = [k for k in range(1, m + 1) if np.sort(e)[::-1][k - 1] >= m / (q * k) - 1e-9]
    expected = max(sizes, default=0)
    chosen = e_bh(e, q)
    assert chosen.sum() == expected
    if expected:
        assert e[chosen].min() >= e[~chosen].max(initial=0.0)


def test_e_values_of_null_races_have_mean_at_most_one_per_annotator() -> None:
    rng = np.random.default_rng(0)
    m, copies = 20, 4
    sums = []
    for _ in range(4000):
        result = np.where(rng.random(m) < 1 / (copies + 1), 1, -1).astype(np.int8)
        sums.append(e_values(select(rng.random(m) + 0.1, result, q=0.3, offset=1.0, copies=copies), copies).sum())
    total = np.array(sums)
    assert total.mean() <= m + 3 * total.std() / np.sqrt(len(total))
    assert total.mean() > 0.2 * m


@pytest.mark.parametrize("copies", [1, 5, 10])
def test_multi_copy_rule_on_null_races_controls_the_false_discovery_rate(copies: int) -> None:
    rng = np.random.default_rng(copies)
    fdp = []
    for _ in range(4000):
        signal = np.arange(30) < 6
        result = np.where(signal | (rng.random(30) < 1 / (copies + 1)), 1, -1).astype(np.int8)
        level = rng.random(30) + 0.7 * signal
        selected = select(level, result, q=0.2, offset=1.0, copies=copies).selected
        fdp.append((selected & ~signal).sum() / max(1, selected.sum()))
    assert np.mean(fdp) <= 0.2 + 3 * np.std(fdp) / np.sqrt(len(fdp))
    assert np.mean(fdp) > 0.02


def test_race_is_won_by_any_lead_beyond_rounding() -> None:
    """Own columns enter at 3, 2, 2, 0 and 2; their two knockoffs as written below."""
    entry = np.array([[3.0, 2.0, 2.0, 0.0, 2.0], [2.0, 3.0, 2.0, 0.0, 1.0], [1.0, 1.0, 1.0, 0.0, 2.0 + 1e-15]])
    level, result = race_results(entry.ravel(), 5)
    assert level.tolist() == pytest.approx([3.0, 3.0, 2.0, 0.0, 2.0])
    assert result.tolist() == [1, -1, 0, 0, 0]
