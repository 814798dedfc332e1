"""The logistic consensus against hand-worked cases, other implementations, symmetries and simulation."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.optimize import approx_fprime, minimize_scalar
from scipy.special import expit

from fdr_core.answers import Answers, sum_answers, summed_over_annotators
from fdr_core.consensus.logistic_fit import CLICK, LEAN, SLOPE, Incidence, LogisticProblem, Spreads, maximise
from fdr_core.consensus.logistic_ranking import logistic_ranking
from fdr_core.consensus.ranking import ranking
from fdr_core.design import DENSE_ITEMS
from fdr_core.errors import ConfigurationError
from tests.core.cases import crowd
from tests.core.test_design import two_groups

NOBODY = np.zeros(0, dtype=np.int64)
FLAGGED = np.arange(4)
ITEMS = np.array([f"item {k}" for k in range(8)], dtype=object)


def table_of(rows: Any) -> Any:
    """Answers from (annotator, left, right, outcome, times)."""
    annotator, left, right, outcome, weight = (np.array(column) for column in zip(*rows, strict=True))
    return Answers(annotator, left, right, outcome.astype(float), np.arange(len(rows)), weight.astype(float))


def problem_of(answers: Answers, side: Any, n_items: Any = 8) -> Any:
    return LogisticProblem(answers, Incidence(answers, n_items, len(side)), side)


def with_ties(answers: Answers) -> Any:
    outcome = answers.outcome.copy()
    outcome[::7] = 0.0
    return Answers(answers.annotator, answers.left, answers.right, outcome, answers.coin, answers.weight)


def mirrored(answers: Answers) -> Any:
    """Every answer with left and right exchanged."""
    return Answers(answers.annotator, answers.right, answers.left, -answers.outcome, answers.coin, answers.weight)


def ranked(answers: Answers, flagged: Any = FLAGGED, n_items: Any = 8, n_annotators: Any = 20, **options: Any) -> Any:
    return ranking(answers, sum_answers(answers, n_items, n_annotators), flagged, **options)


def test_fit_of_two_items_equals_the_penalised_log_odds_worked_by_hand() -> None:
    answers = table_of([(0, 0, 1, 1, 6), (0, 0, 1, -1, 2)])
    held = np.zeros((1, 3))
    problem = problem_of(answers, np.zeros(1, dtype=np.int64), n_items=2)
    fit = maximise(problem, np.zeros(2), held, Spreads(1e4, held, learns_score=False))
    assert fit.converged
    assert fit.theta == pytest.approx([np.log(3) / 2, -np.log(3) / 2], abs=1e-6)
    shrunk = maximise(problem, np.zeros(2), held, Spreads(0.5, held, learns_score=False))
    by_hand = minimize_scalar(lambda t: t**2 / 0.25 - 6 * np.log(expit(2 * t)) - 2 * np.log(expit(-2 * t)))
    assert shrunk.theta == pytest.approx([by_hand.x, -by_hand.x], abs=1e-6)


@pytest.mark.parametrize("kind", ["yes/no", "graded", "ties"])
def test_gradient_equals_finite_differences(kind: Any) -> Any:
    rng = np.random.default_rng(1)
    answers = crowd(rng, graded=kind == "graded")
    answers = with_ties(answers) if kind == "ties" else answers
    side = np.where(np.arange(20) < 4, np.where(np.arange(20) % 2, 1, -1), 0)
    problem = problem_of(answers, side)
    theta, phi = rng.normal(size=8), rng.normal(size=(20, 3)) / 2
    phi[4:, CLICK] = 0.0
    problem.model.learn(problem.eta(theta, phi))
    spreads = Spreads(1.3, np.full((20, 3), 0.7))

    def objective(point: Any) -> Any:
        theta, phi = point[:8], point[8:].reshape(20, 3)
        return problem.objective(problem.at(theta, phi), theta, phi, spreads)

    by_theta, by_phi = problem.gradient(problem.at(theta, phi), theta, phi, spreads)
    point = np.concatenate([theta, phi.ravel()])
    assert np.concatenate([by_theta, by_phi.ravel()]) == pytest.approx(approx_fprime(point, objective), abs=2e-4)


@pytest.mark.parametrize("kind", ["yes/no", "graded"])
def test_expected_information_equals_the_variance_of_the_score(kind: Any) -> None:
    answers = table_of([(0, 0, 1, y, 1) for y in ([1, -1] if kind == "yes/no" else [1, 0.5, 0, -0.5, -1])])
    problem = problem_of(answers, np.array([1]), n_items=2)
    theta, phi = np.array([0.4, -0.3]), np.array([[0.2, 0.1, -0.5]])
    here = problem.at(theta, phi)
    P = np.exp(here.log_likelihood)
    assert P.sum() == pytest.approx(1.0)
    assert P @ here.score == pytest.approx(0.0, abs=1e-12)
    assert here.information == pytest.approx(P @ here.score**2)
    assert here.click_information == pytest.approx(P @ here.click_score**2)
    assert here.click_cross == pytest.approx(P @ (here.score * here.click_score))


@pytest.mark.parametrize("size", [1.0, 0.5])
def test_scores_of_answers_summed_over_annotators_equal_those_of_all_rows(size: float) -> None:
    answers = crowd(np.random.default_rng(12))
    answers = replace(answers, outcome=size * answers.outcome, weight=1.0 + np.arange(600.0) % 3)
    together = summed_over_annotators(answers, 8)
    assert len(together) <= 2 * 8 * 7
    assert together.weight.sum() == answers.weight.sum()
    held = np.zeros((20, 3))
    by_row = maximise(problem_of(answers, np.zeros(20, dtype=np.int64)), np.zeros(8), held, Spreads(1.0, held))
    summed = maximise(problem_of(together, np.zeros(1, dtype=np.int64)), np.zeros(8), held[:1], Spreads(1.0, held[:1]))
    assert summed.theta == pytest.approx(by_row.theta, abs=1e-12)
    assert (summed.n_iter, summed.converged) == (by_row.n_iter, by_row.converged)
    assert summed.spreads.score == pytest.approx(by_row.spreads.score)


def test_answers_beyond_doubt_have_finite_derivatives() -> None:
    problem = problem_of(table_of([(0, 0, 1, y, 1) for y in (1, -1)]), np.zeros(1, dtype=np.int64), n_items=2)
    here = problem.at(np.array([600.0, -600.0]), np.zeros((1, 3)))
    assert here.log_likelihood == pytest.approx([0.0, -1200.0])
    assert here.score == pytest.approx([0.0, -1.0])
    assert here.information == pytest.approx([0.0, 0.0])


def test_fit_with_leans_equals_ridge_regression_by_scikit_learn() -> None:
    from sklearn.linear_model import LogisticRegression

    answers = crowd(np.random.default_rng(2))
    D = np.zeros((len(answers), 8))
    rows = np.arange(len(answers))
    D[rows, answers.left], D[rows, answers.right] = 1.0, -1.0
    A = np.eye(20)[answers.annotator]
    spread, lean = 0.8, 0.4
    X = np.concatenate([D * spread, A * lean], axis=1)
    peer = LogisticRegression(C=1.0, fit_intercept=False, tol=1e-10, max_iter=1000).fit(X, answers.outcome > 0)
    sd = np.zeros((20, 3))
    sd[:, LEAN] = lean
    problem = problem_of(answers, np.zeros(20, dtype=np.int64))
    fit = maximise(problem, np.zeros(8), np.zeros((20, 3)), Spreads(spread, sd, learns_score=False))
    assert fit.theta == pytest.approx(peer.coef_[0, :8] * spread, abs=1e-5)
    assert fit.phi[:, LEAN] == pytest.approx(peer.coef_[0, 8:] * lean, abs=1e-5)


def test_fit_without_penalty_equals_statsmodels_with_its_standard_errors() -> None:
    sm = pytest.importorskip("statsmodels.api")
    answers = crowd(np.random.default_rng(3))
    D = np.zeros((len(answers), 8))
    rows = np.arange(len(answers))
    D[rows, answers.left], D[rows, answers.right] = 1.0, -1.0
    X = np.concatenate([D[:, :7] - D[:, 7:], np.eye(20)[answers.annotator][:, 4:8]], axis=1)
    peer = sm.GLM(answers.outcome > 0, X, family=sm.families.Binomial()).fit(tol=1e-12)
    sd = np.zeros((20, 3))
    sd[4:8, LEAN] = 1e3
    problem = problem_of(answers, np.zeros(20, dtype=np.int64))
    spreads = Spreads(1e3, sd, learns_score=False)
    fit = maximise(problem, np.zeros(8), np.zeros((20, 3)), spreads)
    assert fit.theta[:7] == pytest.approx(np.asarray(peer.params)[:7], abs=1e-4)
    system, _ = problem.system(problem.at(fit.theta, fit.phi), fit.theta, fit.phi, spreads)
    cov = system.inverse(np.ones(20, dtype=bool))
    contrast = cov[:7, :7] - cov[:7, 7:] - cov[7:, :7] + cov[7, 7]
    expected = np.asarray(peer.cov_params())[:7, :7]
    centred = np.linalg.inv(np.eye(7) + 1)  # params are centred scores of the first seven: differences to the eighth
    assert np.diag(centred @ contrast @ centred) == pytest.approx(np.diag(expected), rel=1e-3)


def test_fit_in_turns_equals_the_fit_together(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = crowd(np.random.default_rng(4), n_answers=2000)
    together = logistic_ranking(answers, FLAGGED, n_items=8, n_annotators=20)
    monkeypatch.setattr("fdr_core.consensus.logistic_fit.MOST_WORK_PER_STEP", 0.0)
    in_turns = logistic_ranking(answers, FLAGGED, n_items=8, n_annotators=20)
    assert together.converged
    assert in_turns.converged
    assert in_turns.theta == pytest.approx(together.theta, abs=5e-3)


def test_grades_on_a_grid_equal_the_exact_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = with_ties(crowd(np.random.default_rng(5), graded=True))
    exact = ranked(answers)
    monkeypatch.setattr("fdr_core.consensus.honest.GRID_POINTS", 500)
    assert ranked(answers).theta == pytest.approx(exact.theta, abs=2e-3)


@pytest.mark.parametrize("kind", ["yes/no", "graded", "ties"])
def test_ranking_depends_neither_on_the_order_of_rows_nor_on_the_side(kind: Any) -> None:
    rng = np.random.default_rng(6)
    answers = crowd(rng, graded=kind == "graded")
    answers = with_ties(answers) if kind == "ties" else answers
    first = ranked(answers)
    shuffled = ranked(answers.take(rng.permutation(len(answers))))
    turned = ranked(mirrored(answers))
    for other in (shuffled, turned):
        assert other.theta == pytest.approx(first.theta, abs=1e-6)
        assert other.raw == pytest.approx(first.raw, abs=1e-6)
        assert other.se == pytest.approx(first.se, abs=1e-6)


def test_ranking_twice_is_identical() -> None:
    answers = crowd(np.random.default_rng(7))
    assert ranked(answers).table(ITEMS).equals(ranked(answers).table(ITEMS))


def test_answers_summed_by_weight_equal_answers_repeated() -> None:
    answers = crowd(np.random.default_rng(8))
    doubled = Answers.concatenate([answers, answers])
    heavier = Answers(answers.annotator, answers.left, answers.right, answers.outcome, answers.coin, 2 * answers.weight)
    assert ranked(doubled).theta == pytest.approx(ranked(heavier).theta, abs=1e-9)


def test_ties_only_leave_all_items_equal() -> None:
    answers = table_of([(0, 0, 1, 0, 5), (1, 1, 2, 0, 5), (1, 2, 0, 0, 5)])
    result = ranked(answers, NOBODY, 3, 2)
    assert result.theta == pytest.approx(np.zeros(3), abs=1e-6)
    assert result.table(np.array(["a", "b", "c"], dtype=object))["rank_high"].tolist() == [3, 3, 3]


def test_stronger_grades_make_larger_gaps() -> None:
    rows = [(j, 0, 1, strength, 4) for j in range(3) for strength in (1.0, 0.5)]
    rows += [(j, 2, 1, strength, 4) for j in range(3) for strength in (0.5, 0.5, -0.5)]
    theta = ranked(table_of(rows), NOBODY, 3, 3).theta
    assert theta[0] > theta[2] > theta[1]


@pytest.mark.parametrize("flagged", [NOBODY, np.array([0])], ids=["not flagged", "flagged"])
def test_one_annotator_is_ranked_with_finite_standard_errors(flagged: Any) -> None:
    rng = np.random.default_rng(9)
    answers = crowd(rng, n_annotators=1, n_biased=0, n_answers=80)
    result = ranked(answers, flagged, 8, 1)
    assert np.isfinite(result.theta).all()
    assert (result.se > 0).all()


def test_item_that_always_wins_has_a_finite_score() -> None:
    rows = [(j, 0, k, 1, 5) for j in range(3) for k in (1, 2)] + [(j, 1, 2, (-1) ** j, 5) for j in range(3)]
    result = ranked(table_of(rows), NOBODY, 3, 3)
    assert result.converged
    assert 0 < result.theta[0] < 10


def test_groups_that_never_met_are_ranked_on_their_own() -> None:
    result = ranked(two_groups(), np.array([1, 2]))
    table = result.table(ITEMS)
    for _, group in table.groupby("component"):
        assert sorted(group["rank"]) == [1, 2, 3, 4]
        assert group["score"].sum() == pytest.approx(0.0, abs=1e-9)
        assert group["rank_high"].max() <= 4


def test_nobody_flagged_leaves_raw_and_corrected_equal() -> None:
    result = ranked(crowd(np.random.default_rng(10)), NOBODY)
    assert np.array_equal(result.theta, result.raw)
    assert result.order_changes(ITEMS).empty


def test_order_changes_carry_the_probability_of_the_order() -> None:
    result = ranked(crowd(np.random.default_rng(3), n_answers=120, n_biased=10, bias=0.9), np.arange(10))
    changes = result.order_changes(ITEMS)
    assert list(changes.columns) == ["above", "below", "raw_difference", "difference", "probability"]
    assert len(changes)
    assert changes["probability"].between(0.5, 1.0).all()


def test_least_squares_is_kept_and_an_unknown_method_is_refused() -> None:
    answers = crowd(np.random.default_rng(11))
    table = ranked(answers, method="least squares").table(ITEMS)
    assert list(table.columns) == list(ranked(answers).table(ITEMS).columns)
    with pytest.raises(ConfigurationError, match="expected one of 'logistic', 'least squares'"):
        ranked(answers, method="guess")


def test_unique_pairs_beyond_the_dense_size_have_intervals_of_their_own() -> None:
    rng = np.random.default_rng(12)
    n_tasks = DENSE_ITEMS
    task = np.repeat(np.arange(n_tasks), 3)
    annotator = rng.integers(30, size=len(task))
    outcome = np.where(3 * rng.normal(size=n_tasks)[task] + rng.logistic(size=len(task)) > 0, 1.0, -1.0)
    answers = Answers(annotator, 2 * task, 2 * task + 1, outcome, task, np.ones(len(task)))
    result = ranked(answers, np.array([0]), 2 * n_tasks, 30)
    assert result.converged
    assert set(np.unique(result.rank_high)) <= {1, 2}
    assert result.theta[::2] == pytest.approx(-result.theta[1::2], abs=1e-6)
    assert result.se[::2] == pytest.approx(result.se[1::2])


def test_shift_leaner_with_many_answers_gets_a_lean_and_a_clicker_gets_clicks() -> None:
    rng = np.random.default_rng(13)
    annotator = np.repeat(np.arange(20), 1500)
    left = rng.integers(30, size=len(annotator))
    right = (left + rng.integers(1, 30, size=len(annotator))) % 30
    theta = 2 * rng.normal(size=30)
    latent = theta[left] - theta[right] + rng.logistic(size=len(annotator)) + np.where(annotator == 0, 1.5, 0.0)
    outcome = np.where(latent > 0, 1.0, -1.0)
    outcome[(annotator == 1) & (rng.random(len(annotator)) < 0.5)] = 1.0
    answers = Answers(annotator, left, right, outcome, np.arange(len(annotator)), np.ones(len(annotator)))
    phi = logistic_ranking(answers, np.array([0, 1]), n_items=30, n_annotators=20).fit.phi
    assert phi[0, LEAN] == pytest.approx(1.5, abs=0.3)
    assert expit(phi[1, CLICK]) == pytest.approx(0.5, abs=0.06)


def test_slopes_are_learnt_where_annotators_differ() -> None:
    rng = np.random.default_rng(14)
    annotator = np.repeat(np.arange(40), 200)
    left = rng.integers(20, size=len(annotator))
    right = (left + rng.integers(1, 20, size=len(annotator))) % 20
    theta, log_slope = rng.normal(size=20), rng.normal(size=40) * 0.7
    latent = 1.5 * np.exp(log_slope[annotator]) * (theta[left] - theta[right]) + rng.logistic(size=len(annotator))
    answers = Answers(
        annotator, left, right, np.where(latent > 0, 1.0, -1.0), np.arange(len(annotator)), np.ones(len(annotator))
    )
    fit = logistic_ranking(answers, NOBODY, n_items=20, n_annotators=40)
    assert np.corrcoef(fit.fit.phi[:, SLOPE], log_slope)[0, 1] > 0.85


@pytest.mark.slow
def test_intervals_cover_the_true_scores_and_ranks() -> None:
    covered, ranks_covered = [], []
    for seed in range(40):
        rng = np.random.default_rng([15, seed])
        n_items, annotator = 15, np.repeat(np.arange(20), 60)
        left = rng.integers(n_items, size=len(annotator))
        right = (left + rng.integers(1, n_items, size=len(annotator))) % n_items
        theta = rng.normal(size=n_items)
        theta -= theta.mean()
        outcome = np.where(theta[left] - theta[right] + rng.logistic(size=len(annotator)) > 0, 1.0, -1.0)
        outcome[(annotator < 4) & (rng.random(len(annotator)) < 0.6)] = 1.0
        answers = Answers(annotator, left, right, outcome, np.arange(len(annotator)), np.ones(len(annotator)))
        found = ranked(answers, FLAGGED, n_items, 20)
        covered.append(np.abs(found.theta - theta) < 1.96 * found.se)
        true_rank = 1 + (theta[None, :] > theta[:, None]).sum(axis=1)
        ranks_covered.append((found.rank_low <= true_rank) & (true_rank <= found.rank_high))
    assert 0.92 < np.mean(covered) < 0.98
    assert np.mean(ranks_covered) > 0.95
