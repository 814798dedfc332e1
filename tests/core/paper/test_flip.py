"""Coin-flip knockoffs: worked by hand, against dense columns, and fair races on null data."""

from typing import Any

import numpy as np
import pytest

from fdr_core.answers import Answers
from fdr_core.design import ridge_for
from fdr_core.paper.copies import FlipDesign
from fdr_core.paper.draws import Flips, Rule, race_results, run_draws
from fdr_core.paper.paths import PATHS, Races, follow
from tests.core.cases import crowd
from tests.core.dense import dense_design


def answers_of(rows: list[Any], coin: list[Any] | None = None) -> Answers:
    """Answers from (annotator, left, right, outcome)."""
    table = np.array(rows, dtype=float)
    who, left, right = (table[:, k].astype(np.int64) for k in range(3))
    coins = np.arange(len(rows)) if coin is None else np.asarray(coin)
    return Answers(who, left, right, table[:, 3], coins, np.ones(len(rows)))


def test_ridge_is_five_times_the_answers_per_coin() -> None:
    rows = [(0, 0, 1, 1), (1, 0, 1, 1), (0, 1, 0, -1), (1, 1, 0, 1)]
    assert ridge_for(answers_of(rows)) == 5.0
    assert ridge_for(answers_of(rows, coin=[0, 0, 1, 1])) == 10.0


def test_one_coin_of_one_annotator_worked_by_hand() -> None:
    # one answer: K = [[1, -1], [-1, 1]] + 5 I, theta = (1, -1)/7, residual 5/7, column of length one
    design = FlipDesign(answers_of([(0, 0, 1, 1.0)]), n_items=2, n_annotators=1, judged=np.array([0]), ridge=5.0)
    assert design.theta == pytest.approx([1 / 7, -1 / 7])
    problem = design.draw(design.flips(0), 0, 3)
    signs = np.array([1, *(sign[0] for sign in design.flips(0).signs(0, 3))])
    assert problem.c == pytest.approx(5 / 7 * signs)
    assert problem.gram(np.array([0]), 0) == pytest.approx([5 / 7])


def test_repeated_answers_and_both_orders_under_one_coin_share_the_sign() -> None:
    # 'left' both times whatever stood there: the coin turns both answers together
    rows = [(0, 0, 1, 1.0), (0, 1, 0, 1.0)]
    design = FlipDesign(answers_of(rows, coin=[0, 0]), n_items=2, n_annotators=1, judged=np.array([0]), ridge=5.0)
    assert design.theta == pytest.approx([0.0, 0.0])
    problem = design.draw(design.flips(1), 0, 8)
    assert np.abs(problem.c) == pytest.approx(np.full(9, 2 / np.sqrt(2)))


@pytest.mark.parametrize("shared", [False, True])
def test_draw_equals_the_dense_columns_with_the_drawn_signs(shared: bool) -> None:
    rng = np.random.default_rng(2)
    answers = crowd(rng, n_annotators=6, n_answers=120, n_biased=2, graded=True)
    if shared:
        answers = answers.with_coin(rng.integers(30, size=120))
    judged, ridge, copies = np.array([0, 2, 3, 5]), ridge_for(answers), 3
    design = FlipDesign(answers, n_items=8, n_annotators=6, judged=judged, ridge=ridge)
    flips = design.flips(7)
    problem = design.draw(flips, 2, copies)
    D, A = dense_design(answers, 8, 6)
    sign_of: dict[tuple[Any, Any], Any] = {}
    for who, coin, *signs in zip(flips_rows(design)[0], flips_rows(design)[1], *flips.signs(2, copies), strict=True):
        assert sign_of.setdefault((who, coin), signs) == signs  # one sign per annotator and coin
    lanes = [A[:, judged]]
    for copy in range(copies):
        sign = np.array(
            [sign_of.get(key, [1] * copies)[copy] for key in zip(answers.annotator, answers.coin, strict=True)]
        )
        lanes.append(A[:, judged] * sign[:, None])
    X = np.concatenate(lanes, axis=1)
    K = np.linalg.inv(D.T @ D + ridge * np.eye(8))
    project = np.eye(120) - D @ K @ D.T
    assert problem.c == pytest.approx(X.T @ project @ answers.outcome)
    G = X.T @ project @ X
    fast = np.stack([problem.gram(np.arange(16), k) for k in range(16)], axis=1)
    other = np.arange(16)[:, None] % 4 != np.arange(16)[None, :] % 4  # lanes of one annotator are never active together
    together = other | np.eye(16, dtype=bool)
    assert fast[together] == pytest.approx(G[together])


def flips_rows(design: FlipDesign) -> tuple[Any, ...]:
    """Annotator and coin of the rows that the signs refer to."""
    return design._rows.annotator, design._rows.coin


def test_theta_and_item_statistics_are_the_same_after_any_turn_of_the_coins() -> None:
    rng = np.random.default_rng(4)
    answers = crowd(rng)
    turned = rng.random(len(answers)) < 0.5
    left, right = np.where(turned, answers.right, answers.left), np.where(turned, answers.left, answers.right)
    y = np.where(turned, -answers.outcome, answers.outcome)
    again = Answers(answers.annotator, left, right, y, answers.coin, answers.weight)
    options: dict[str, Any] = {"n_items": 8, "n_annotators": 20, "judged": np.arange(20), "ridge": 5.0}
    assert FlipDesign(answers, **options).theta == pytest.approx(FlipDesign(again, **options).theta)


@pytest.mark.parametrize("path", PATHS)
def test_null_races_with_three_answers_each_are_won_by_the_own_column_one_time_in_eleven(path: str) -> None:
    entered = won = 0
    for seed in range(25):
        rng = np.random.default_rng(seed)
        answers = crowd(rng, n_annotators=40, n_items=10, n_answers=120, n_biased=0)
        answers = Answers(
            np.repeat(np.arange(40), 3), *(getattr(answers, k) for k in ("left", "right", "outcome", "coin", "weight"))
        )
        design = FlipDesign(answers, n_items=10, n_annotators=40, judged=np.arange(40), ridge=5.0)
        flips = Flips(design, copies=10, seed=seed, path=path)
        problem = flips.draw(0, rng)
        races = Races(problem, close=True, limit=np.inf, rng=rng)
        level, result = race_results(follow(problem, path, races=races).entry, 40)
        entered += (level > 0).sum()
        won += (result > 0).sum()
    assert entered > 700
    assert won / entered == pytest.approx(1 / 11, abs=3 * np.sqrt(1 / 11 * 10 / 11 / entered))


def test_draws_with_the_same_seed_are_the_same_and_with_another_are_not() -> None:
    answers = crowd(np.random.default_rng(1))
    design = FlipDesign(answers, n_items=8, n_annotators=20, judged=np.arange(20), ridge=5.0)
    first, again, other = (design.draw(design.flips(seed), 0, 4).c.tolist() for seed in (5, 5, 6))
    assert first == again
    assert first != other
    assert first != design.draw(design.flips(5), 1, 4).c.tolist()


def test_run_draws_reports_every_draw_to_the_progress_callback() -> None:
    answers = crowd(np.random.default_rng(1))
    design = FlipDesign(answers, n_items=8, n_annotators=20, judged=np.arange(20), ridge=5.0)
    seen = []
    flips, rule = Flips(design, copies=10, seed=0, path="lbi"), Rule(0.1, "knockoff+", draws=3, seed=0)
    run_draws(flips, rule, path="lbi", progress=lambda *at: seen.append(at))
    assert seen == [(1, 3), (2, 3), (3, 3)]
