"""Refit, standard errors, rank intervals and order changes against dense least squares."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import ndtr

from fdr_core import Comparisons, detect
from fdr_core.answers import Answers, sum_answers
from fdr_core.consensus import ranking
from fdr_core.consensus import ranking as rank_intervals
from fdr_core.consensus.ranking import (
    Z95,
    Refit,
    Uncertainty,
    _centred,
    ranking_of_refit,
    refit,
    spread_and_ranks,
)
from fdr_core.design import DENSE_ITEMS
from tests.core.cases import crowd, sums_of
from tests.core.dense import dense_design
from tests.core.test_design import two_groups

FLAGGED = np.array([1, 2])
ITEMS = np.array([f"item {k}" for k in range(8)], dtype=object)


def dense_refit(answers: Answers, flagged: NDArray[Any]) -> tuple[Any, ...]:
    """Least squares on [D, A_S], scores centred; with the covariance of the scores."""
    D, A = dense_design(answers, 8, 20)
    A = A[:, flagged] * np.sqrt(np.bincount(answers.annotator, minlength=20)[flagged])
    X = np.concatenate([D, A], axis=1)
    estimate = np.linalg.lstsq(X, answers.outcome, rcond=None)[0]
    residual = answers.outcome - X @ estimate
    variance = residual @ residual / (len(answers) - np.linalg.matrix_rank(X))
    cov = variance * np.linalg.pinv(X.T @ X)
    return estimate[:8], estimate[8:], variance, cov[:8, :8]


@pytest.mark.parametrize("flagged", [FLAGGED, np.zeros(0, dtype=np.int64)], ids=["two flagged", "nobody flagged"])
def test_refit_equals_dense_least_squares(flagged: NDArray[Any]) -> None:
    answers = crowd(np.random.default_rng(0), graded=True)
    fit = refit(sums_of(answers), flagged, fallback_ridge=5.0)
    theta, gamma, variance, _ = dense_refit(answers, flagged)
    assert fit.theta == pytest.approx(theta - theta.mean())
    assert fit.gamma == pytest.approx(gamma)
    assert fit.variance == pytest.approx(variance)
    raw = dense_refit(answers, np.zeros(0, dtype=np.int64))[0]
    assert fit.raw == pytest.approx(raw - raw.mean())


@pytest.mark.parametrize("flagged", [FLAGGED, np.zeros(0, dtype=np.int64)], ids=["two flagged", "nobody flagged"])
def test_standard_errors_and_rank_intervals_equal_the_dense_formula(flagged: NDArray[Any]) -> None:
    answers = crowd(np.random.default_rng(0), n_answers=150)
    sums = sums_of(answers)
    table = ranking_of_refit(refit(sums, flagged, fallback_ridge=5.0), sums).table(ITEMS).set_index("item").loc[ITEMS]
    theta, _, _, cov = dense_refit(answers, flagged)
    centre = np.eye(8) - 1 / 8
    cov = centre @ cov @ centre
    assert table["se"].to_numpy() == pytest.approx(np.sqrt(np.diag(cov)))
    low, high = np.ones(8, dtype=int), np.full(8, 8)
    for i in range(8):
        for j in range(8):
            margin = Z95 * np.sqrt(max(cov[i, i] + cov[j, j] - 2 * cov[i, j], 0.0))
            low[i] += theta[j] - theta[i] > margin
            high[i] -= theta[i] - theta[j] > margin
    assert table["rank_low"].tolist() == low.tolist()
    assert table["rank_high"].tolist() == high.tolist()
    assert table["rank"].tolist() == [1 + int((theta > t + 1e-12).sum()) for t in theta]
    assert (table["rank_low"] <= table["rank"]).all()
    assert (table["rank"] <= table["rank_high"]).all()


def test_order_changes_equal_brute_force_the_clearest_first() -> None:
    sums = sums_of(crowd(np.random.default_rng(3), n_answers=120, n_biased=10, bias=0.9))
    fit = refit(sums, np.arange(10), fallback_ridge=5.0)
    found = ranking_of_refit(fit, sums).order_changes(ITEMS)
    expected = {
        (ITEMS[i], ITEMS[j])
        for i in range(8)
        for j in range(8)
        if fit.theta[i] > fit.theta[j] and fit.raw[i] < fit.raw[j]
    }
    assert expected
    assert set(zip(found["above"], found["below"], strict=True)) == expected
    assert (np.diff(found["difference"]) <= 0).all()
    score = dict(zip(ITEMS, fit.theta, strict=True))
    raw = dict(zip(ITEMS, fit.raw, strict=True))
    row: Any
    for row in found.itertuples():
        assert row.difference == pytest.approx(score[row.above] - score[row.below])
        assert row.raw_difference == pytest.approx(raw[row.above] - raw[row.below])
        assert row.difference > 0 > row.raw_difference


def test_order_changes_without_any_flag_are_none() -> None:
    sums = sums_of(crowd(np.random.default_rng(3)))
    fit = refit(sums, np.zeros(0, dtype=np.int64), fallback_ridge=5.0)
    found = ranking_of_refit(fit, sums).order_changes(ITEMS)
    assert list(found.columns) == ["above", "below", "raw_difference", "difference", "probability"]
    assert found.empty


def test_ranking_of_two_groups_ranks_each_on_its_own() -> None:
    answers = two_groups()
    sums = sums_of(answers)
    fit = refit(sums, FLAGGED, fallback_ridge=5.0)
    table = ranking_of_refit(fit, sums).table(ITEMS)
    for _, group in table.groupby("component"):
        assert sorted(group["rank"]) == [1, 2, 3, 4]
        assert group["score"].sum() == pytest.approx(0.0, abs=1e-12)
        assert group["rank_high"].max() <= 4
    changes = ranking_of_refit(fit, sums).order_changes(ITEMS)
    part = dict(zip(table["item"], table["component"], strict=True))
    assert all(part[a] == part[b] for a, b in zip(changes["above"], changes["below"], strict=True))
    theta, _, _, cov = dense_refit(answers, FLAGGED)
    for part_of in (range(4), range(4, 8)):
        centre = np.eye(4) - 1 / 4
        local = centre @ cov[np.ix_(part_of, part_of)] @ centre
        rows = table.set_index("item").loc[ITEMS[list(part_of)]]
        assert rows["se"].to_numpy() == pytest.approx(np.sqrt(np.diag(local)))
        assert rows["score"].to_numpy() == pytest.approx(theta[list(part_of)] - theta[list(part_of)].mean())


def test_ranking_of_equal_scores_shares_the_better_rank() -> None:
    fit = Refit(np.array([0.5, 0.5 + 1e-15, -1.0]), np.zeros(3), np.zeros(0), 1.0, np.zeros(3, dtype=np.int64), None)
    answers = Answers(np.zeros(3, int), np.array([0, 1, 2]), np.array([1, 2, 0]), np.zeros(3), np.arange(3), np.ones(3))
    table = ranking_of_refit(fit, sum_answers(answers, 3, 1)).table(np.array(["a", "b", "c"], dtype=object))
    assert table["rank"].tolist() == [1, 1, 3]
    assert table["raw_rank"].tolist() == [1, 1, 1]


def test_refit_where_items_absorb_the_bias_falls_back_on_the_ridge() -> None:
    n_tasks = 30
    rows = [(j, 2 * t, 2 * t + 1, 1.0 if j == 0 else (-1.0) ** t) for j in range(2) for t in range(n_tasks)]
    frame = pd.DataFrame(rows, columns=["annotator", "left", "right", "outcome"])
    comparisons = Comparisons.from_frame(frame.assign(coin=frame["left"]))
    answers = Answers(
        comparisons.annotator.astype(np.int64),
        comparisons.left.astype(np.int64),
        comparisons.right.astype(np.int64),
        comparisons.outcome,
        comparisons.coin,
        np.ones(len(comparisons)),
    )
    fit = refit(sum_answers(answers, 2 * n_tasks, 2), np.array([0, 1]), fallback_ridge=10.0)
    assert fit.gamma == pytest.approx([1.0, 0.0], abs=0.05)
    assert np.isfinite(fit.theta).all()


def test_rank_intervals_of_a_large_component_count_the_items_whose_intervals_lie_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rank_intervals, "DENSE_ITEMS", 3)
    rng = np.random.default_rng(8)
    theta = np.array([3.0, 2.8, 2.6, 0.1, 0.0, -2.9, -3.0, -6.0])
    left = rng.integers(8, size=600)
    right = (left + rng.integers(1, 8, size=600)) % 8
    outcome = np.tanh(theta[left] - theta[right]) + rng.normal(scale=0.3, size=600)
    sums = sum_answers(Answers(left % 5, left, right, outcome, np.arange(600), np.ones(600)), 8, 5)
    fit = refit(sums, np.zeros(0, dtype=np.int64), fallback_ridge=5.0)
    table = ranking_of_refit(fit, sums).table(ITEMS)
    low, high = (table["score"] - Z95 * table["se"]).to_numpy(), (table["score"] + Z95 * table["se"]).to_numpy()
    better = [1 + sum(other > own for other in low) for own in high]
    worse = [8 - sum(other < own for other in high) for own in low]
    assert table["rank_low"].tolist() == better
    assert table["rank_high"].tolist() == worse
    assert 1 < len(set(better)) < 8
    L = sums.laplacian.toarray()
    exact = np.sqrt(fit.variance * np.diag(np.linalg.inv(L + 1 / 8) - 1 / 8))
    assert table.sort_values("item")["se"].to_numpy() == pytest.approx(exact, rel=0.4)


@pytest.mark.slow
def test_ranking_of_many_items_has_standard_errors_close_to_the_exact_ones() -> None:
    rng = np.random.default_rng(5)
    n = DENSE_ITEMS + 100
    left = np.concatenate([np.arange(n), rng.integers(n, size=9 * n)])
    right = (left + rng.integers(1, n, size=10 * n)) % n
    theta = rng.normal(size=n)
    outcome = np.where(theta[left] - theta[right] + rng.logistic(size=10 * n) > 0, 1.0, -1.0)
    result = detect(Comparisons.from_arrays(left % 20, left, right, outcome), consensus="least squares", lbi=None)
    table = result.ranking.sort_values("item")
    answers = Answers(left % 20, left, right, outcome, np.arange(10 * n), np.ones(10 * n))
    L = sum_answers(answers, n, 20).laplacian.toarray()
    pseudo_inverse = np.linalg.inv(L + 1 / n) - 1 / n
    scores = pseudo_inverse @ sum_answers(answers, n, 20).Dy
    fit = scores[left] - scores[right]
    variance = ((outcome - fit) ** 2).sum() / (10 * n - n + 1)
    if not result.flagged:
        assert table["score"].to_numpy() == pytest.approx(scores, abs=1e-6)
    ratio = table["se"].to_numpy() / np.sqrt(variance * np.diag(pseudo_inverse))
    assert np.median(ratio) == pytest.approx(1.0, abs=0.05)
    assert np.quantile(ratio, 0.01) > 0.7
    assert np.quantile(ratio, 0.99) < 1.3
    assert (table["rank_low"] <= table["rank"]).all()
    assert (table["rank"] <= table["rank_high"]).all()
    inside = (table["rank_low"] <= n / 2) & (table["rank_high"] >= n / 2)
    assert 0.1 < inside.mean() < 0.95


@pytest.mark.parametrize("ridge", [0.0, 0.3])
def test_small_components_of_any_size_have_the_errors_and_ranks_of_the_whole_matrix(ridge: float) -> None:
    rng = np.random.default_rng(4)
    size = np.array([1, 2, 2, 3, 2, 4, 3, 2, 1])
    item = rng.permutation(int(size.sum()))
    component = np.empty(len(item), dtype=np.int64)
    component[item] = np.repeat(np.arange(len(size)), size)
    links = np.triu(rng.random((len(item), len(item))) * (component[:, None] == component), 1)
    laplacian = np.diag((links + links.T).sum(axis=1)) - links - links.T
    theta = _centred(rng.normal(size=len(item)), component)
    uncertainty = Uncertainty(sp.csr_array(laplacian), component, variance=1.7, ridge=ridge)
    se, low, high = spread_and_ranks(theta, uncertainty)
    same = component[:, None] == component
    centre = np.eye(len(item)) - same / same.sum(axis=1)
    cov = 1.7 * centre @ np.linalg.pinv(laplacian + ridge * np.eye(len(item))) @ centre
    assert se == pytest.approx(np.sqrt(np.diag(cov)))
    margin = Z95 * np.sqrt(np.maximum(np.diag(cov)[:, None] + np.diag(cov) - 2 * cov, 0.0))
    is_worse, is_better = (theta[:, None] - theta < -margin) & same, (theta[:, None] - theta > margin) & same
    assert low.tolist() == (1 + is_worse.sum(axis=1)).tolist()
    assert high.tolist() == (same.sum(axis=1) - is_better.sum(axis=1)).tolist()


def test_pairs_of_their_own_have_a_probable_winner_instead_of_ranks() -> None:
    rng = np.random.default_rng(6)
    pair = np.repeat(np.arange(30), 20)
    outcome = np.where(rng.random(600) < 0.2 + 0.02 * pair, 1.0, -1.0)
    answers = Answers(np.arange(600) % 20, 2 * pair, 2 * pair + 1, outcome, np.arange(600), np.ones(600))
    sums = sum_answers(answers, 60, 20)
    found = ranking.ranking(answers, sums, np.zeros(0, dtype=np.int64))
    table = found.table(np.arange(60).astype(object))
    assert table[["rank", "rank_low", "rank_high", "raw_rank"]].isna().all(axis=None)
    better, worse = table.iloc[::2], table.iloc[1::2]
    assert better["component"].tolist() == worse["component"].tolist()
    assert better["probability"].to_numpy() == pytest.approx(1 - worse["probability"].to_numpy())
    assert (better["probability"] >= 0.5).all()
    won = np.bincount(pair, outcome)
    clear = np.abs(won) > 6
    first = table.set_index("item")["probability"].reindex(2 * np.arange(30)).to_numpy()
    assert ((first > 0.5) == (won > 0))[clear].all()
    weight = found.uncertainty.of_differences(2 * np.arange(30), 2 * np.arange(30) + 1, found.se)
    assert first == pytest.approx(ndtr((found.theta[::2] - found.theta[1::2]) / weight))
    alone = ranking.Ranking(**{**vars(found), "component": np.arange(60) // 3}).table(np.arange(60).astype(object))
    assert "probability" not in alone
    assert alone["rank"].max() == 3


def test_scores_are_centred_within_each_component_worked_by_hand() -> None:
    centred = _centred(np.array([1.0, 3.0, 10.0, 20.0, 30.0]), np.array([0, 0, 1, 1, 1]))
    assert centred.tolist() == [-1.0, 1.0, -10.0, 0.0, 10.0]


def test_ranking_of_a_refit_is_settled_in_one_step() -> None:
    sums = sums_of(crowd(np.random.default_rng(3)))
    found = ranking_of_refit(refit(sums, FLAGGED, fallback_ridge=5.0), sums)
    assert (found.method, found.converged, found.n_iter) == ("least squares", True, 1)


@pytest.mark.parametrize(("most", "changed"), [(3, [(0, 1), (0, 2)]), (2, [])])
def test_order_changes_are_told_of_components_that_are_not_too_large(
    monkeypatch: pytest.MonkeyPatch, most: int, changed: list[tuple[int, int]]
) -> None:
    monkeypatch.setattr(ranking, "DENSE_ITEMS", most)
    theta, raw, one = np.array([1.0, 0.5, 0.0]), np.array([0.0, 1.0, 0.5]), np.zeros(3, dtype=np.int64)
    above, below = ranking._changed_pairs(theta, raw, one)
    assert list(zip(above.tolist(), below.tolist(), strict=True)) == changed
