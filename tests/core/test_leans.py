"""Leans: against a refit without every coin, what turning coins does, coverage, and the closed forms."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from fdr_core import leans
from fdr_core.answers import Answers
from fdr_core.leans import RIDGES, absolute_leans, unit_leans

Array = NDArray[np.float64]


def answers_of(rng: np.random.Generator, *, people: int = 6, items: int = 7, coins: int = 30, n: int = 90) -> Answers:
    """Answers under coins that several people met, one pair each, some repeated; the first two lean left."""
    low = rng.integers(items - 1, size=coins)
    high = low + 1 + rng.integers(items, size=coins) % (items - 1 - low)
    coin, who = rng.integers(coins, size=n), rng.integers(people, size=n)
    is_turned = rng.random(coins)[coin] < 0.5
    left, right = np.where(is_turned, high[coin], low[coin]), np.where(is_turned, low[coin], high[coin])
    y = np.sign(0.3 * (right - left) + rng.logistic(size=n) + np.where(who < 2, 1.0, 0.0))
    return Answers(who, left, right, y, coin, rng.integers(1, 3, size=n).astype(float))


def keys(answers: Answers) -> Callable[[], NDArray[np.uint64]]:
    return lambda: answers.coin.astype(np.uint64)


def by_definition(answers: Answers, items: int, people: int) -> tuple[list[list[float]], Array]:
    """``E_u`` per annotator, and the leans, with a dense fit for every coin and ridge."""
    o = np.where(answers.left < answers.right, 1.0, -1.0)
    low, high = np.minimum(answers.left, answers.right), np.maximum(answers.left, answers.right)
    D = np.zeros((len(answers), items))
    D[np.arange(len(o)), low], D[np.arange(len(o)), high] = 1.0, -1.0
    c, w = o * answers.outcome, answers.weight
    per_coin = w.sum() / len(np.unique(answers.coin))
    tried = []
    for ridge in RIDGES:
        g = np.zeros(len(o))
        for coin in np.unique(answers.coin):
            others = w * (answers.coin != coin)
            u = np.linalg.solve(D.T @ (others[:, None] * D) + ridge * per_coin * np.eye(items), D.T @ (others * c))
            g[answers.coin == coin] = (D @ u)[answers.coin == coin]
        tried.append((float(w @ (c - g) ** 2), g))
    f = o * min(tried, key=lambda one: one[0])[1]
    units = sorted(set(zip(answers.annotator.tolist(), answers.coin.tolist(), strict=True)))
    k, b0 = 10 * (w @ f**2) / len(units), (w @ (f * answers.outcome)) / (w @ f**2)
    E: list[list[float]] = [[] for _ in range(people)]
    for j, coin in units:
        own, unit = answers.annotator == j, (answers.annotator == j) & (answers.coin == coin)
        rest = w * (own & ~unit)
        b = max((rest @ (f * answers.outcome) + k * b0) / (rest @ f**2 + k), 0.0)
        E[j].append(float((w * unit) @ (answers.outcome - b * f)))
    n = np.array([w[answers.annotator == j].sum() for j in range(people)])
    return E, np.array([sum(one) for one in E]) / n


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_leans_equal_a_refit_without_every_coin(seed: int) -> None:
    answers = answers_of(np.random.default_rng(seed))
    E, expected = by_definition(answers, 7, 6)
    units = unit_leans(answers, 7, 6, keys(answers))
    found = absolute_leans(answers, 7, 6, keys(answers))
    for j in range(6):
        assert sorted(units.value[units.owner == j]) == pytest.approx(sorted(E[j]))
    assert found.estimate == pytest.approx(np.clip(expected, -1, 1))
    assert (found.low <= found.estimate).all()
    assert (found.estimate <= found.high).all()


def test_folds_agree_with_leaving_one_coin_out_where_there_are_many_coins(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = answers_of(np.random.default_rng(3), people=10, items=12, coins=400, n=1500)
    one_out = absolute_leans(answers, 12, 10, keys(answers))
    monkeypatch.setattr(leans, "LEAVE_ONE_OUT_ITEMS", 0)
    folds = absolute_leans(answers, 12, 10, keys(answers))
    assert folds.estimate == pytest.approx(one_out.estimate, abs=0.02)
    assert folds.high - folds.low == pytest.approx(one_out.high - one_out.low, rel=0.1)


def test_coins_of_one_annotator_turned_change_the_sign_of_its_lean_and_nobody_elses() -> None:
    rng = np.random.default_rng(4)
    answers = replace(answers_of(rng), coin=np.arange(90))  # own coins
    own = answers.annotator == 2
    turned = replace(
        answers,
        left=np.where(own, answers.right, answers.left),
        right=np.where(own, answers.left, answers.right),
        outcome=np.where(own, -answers.outcome, answers.outcome),
    )
    before, after = (absolute_leans(one, 7, 6, keys(one)).estimate for one in (answers, turned))
    expected = before.copy()
    expected[2] *= -1
    assert after == pytest.approx(expected)


def test_lean_has_mean_zero_over_all_falls_of_shared_coins_whatever_people_choose() -> None:
    """Everybody judges alike, and wrongly: no fall of the coins is held against anybody on average."""
    rng = np.random.default_rng(5)
    answers = answers_of(rng, people=3, items=4, coins=8, n=24)
    choice = np.where(answers.left < answers.right, 1.0, -1.0) * answers.outcome
    low, high = np.minimum(answers.left, answers.right), np.maximum(answers.left, answers.right)
    total = np.zeros(3)
    for fall in range(2**8):
        o = np.where((fall >> answers.coin) & 1, 1.0, -1.0)
        fallen = replace(answers, left=np.where(o > 0, low, high), right=np.where(o > 0, high, low), outcome=o * choice)
        total += absolute_leans(fallen, 4, 3, keys(answers)).estimate
    assert total == pytest.approx(np.zeros(3), abs=1e-9)


def test_unique_pairs_have_the_plain_mean_of_sides_in_closed_form() -> None:
    n = 200_000  # items: nothing is solved
    coin = np.tile(np.arange(n // 2), 2)
    y = np.where(np.arange(n) % 3 == 0, -1.0, 1.0)
    answers = Answers(np.repeat([0, 1], n // 2), 2 * coin, 2 * coin + 1, y, coin, np.ones(n))
    found = absolute_leans(answers, n, 2, keys(answers))
    assert found.estimate == pytest.approx([y[: n // 2].mean(), y[n // 2 :].mean()])


def test_interval_of_four_left_answers_worked_by_hand() -> None:
    answers = Answers(
        np.zeros(4, dtype=np.int64), np.arange(4) * 2, np.arange(4) * 2 + 1, np.ones(4), np.arange(4), np.ones(4)
    )
    found = absolute_leans(answers, 8, 1, keys(answers))
    # p = 1, middle 4 / 6; squares 5 (1/3)^2 + (5/3)^2 = 30/9; se^2 = 6/5 x 30/9 / 36 = 1/9; t(.975; 5) = 2.5706
    assert found.estimate.tolist() == [1.0]
    assert found.low[0] == pytest.approx(2 / 3 - 2.570582 / 3, abs=1e-6)
    assert found.high[0] == 1.0


def test_nobody_without_answers_is_told_anything() -> None:
    answers = Answers(
        np.zeros(2, dtype=np.int64),
        np.zeros(2, dtype=np.int64),
        np.ones(2, dtype=np.int64),
        np.ones(2),
        np.arange(2),
        np.ones(2),
    )
    found = absolute_leans(answers, 2, 2, keys(answers))
    assert (found.estimate[1], found.low[1], found.high[1]) == (0.0, -1.0, 1.0)


def test_intervals_cover_the_lean_of_crowds_that_lean_one_way() -> None:
    rng, inside, errors = np.random.default_rng(6), [], []
    theta = rng.normal(size=20)
    for _ in range(40):
        low, high = np.array([rng.choice(20, size=2, replace=False) for _ in range(60)]).T
        coin, who = np.tile(np.arange(60), 8), np.repeat(np.arange(8), 60)
        is_turned = rng.random(60)[coin] < 0.5
        left, right = np.where(is_turned, high[coin], low[coin]), np.where(is_turned, low[coin], high[coin])
        honest = np.sign(theta[left] - theta[right] + rng.logistic(size=480))
        clicks = (who < 5) & (rng.random(480) < 0.4)
        answers = Answers(who, left, right, np.where(clicks, 1.0, honest), coin, np.ones(480))
        found, truth = absolute_leans(answers, 20, 8, keys(answers)), np.where(np.arange(8) < 5, 0.4, 0.0)
        errors.append(np.mean(found.estimate - truth))
        inside.append(np.mean((found.low <= truth) & (truth <= found.high)))
    assert abs(np.mean(errors)) <= 3 * np.std(errors) / np.sqrt(40)
    assert np.mean(inside) >= 0.93


def test_side_of_interest_needs_a_lean_large_enough() -> None:
    found = leans.Leans(np.array([0.3, -0.3, 0.05, 0.0]), np.full(4, -1.0), np.full(4, 1.0))
    assert found.side_of_interest(0.1).tolist() == [1, -1, 0, 0]
    assert found.side_of_interest(0.0).tolist() == [1, -1, 1, 0]


def test_interval_of_somebody_on_the_list_leaves_out_what_the_test_rejects() -> None:
    estimate, low, high = np.array([[0.3, -0.3, 0.3, 0.3], [-0.1, -0.7, -0.1, 0.1], [0.7, 0.1, 0.7, 0.5]])
    found = leans.Leans(estimate, low, high)
    seen = found.beside_tests(np.array([0, 1, 3]), np.array([1, -1, 1]))
    assert (seen.low > 0).tolist() == [True, False, False, True]
    assert (seen.high < 0).tolist() == [False, True, False, False]
    assert seen.low[1:].tolist() == [-0.7, -0.1, 0.1]
    assert seen.high[[0, 2, 3]].tolist() == [0.7, 0.7, 0.5]


def test_lean_of_a_judge_of_one_pair_whose_choices_are_even_is_not_explained_away() -> None:
    """What the other answers say of a choice is then against it, only because it was left out."""
    y = np.repeat([1.0, -1.0], [90, 10])
    first = np.arange(100) // 2 % 2
    zero = np.zeros(100, dtype=np.int64)
    answers = Answers(zero, first, 1 - first, y, np.arange(100), np.ones(100))
    assert absolute_leans(answers, 2, 1, keys(answers)).estimate[0] == pytest.approx(0.8, abs=0.01)


def test_leans_of_some_are_taken_from_another_estimate() -> None:
    one, other = leans.Leans(np.zeros(3), -np.ones(3), np.ones(3)), leans.Leans(np.full(3, 0.5), *np.full((2, 3), 0.4))
    taken = one.with_those_of(other, np.array([1]))
    assert taken.estimate.tolist() == [0.0, 0.5, 0.0]
    assert (taken.low.tolist(), taken.high.tolist()) == ([-1.0, 0.4, -1.0], [1.0, 0.4, 1.0])
    assert one.estimate.tolist() == [0.0, 0.0, 0.0]
