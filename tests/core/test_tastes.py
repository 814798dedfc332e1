"""Tastes of annotators with many answers: against scikit-learn, against the truth, and where there is none."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.special import expit

from fdr_core.answers import Answers
from fdr_core.consensus.honest import Consensus, Grades, HonestModel
from fdr_core.randomisation import shared as tastes
from fdr_core.randomisation.shared import fit_tastes, who_has_many

JUDGES, ITEMS, EACH, SPREAD = 4, 6, 600, 0.8


def judged(rng: np.random.Generator, *, deviation: np.ndarray, each: int = EACH) -> Answers:
    """Yes/no answers of judges whose scores are 0, 1, 2, ... plus a deviation each."""
    m, n = deviation.shape
    who = np.repeat(np.arange(m), each)
    left = rng.integers(n, size=len(who))
    right = (left + rng.integers(1, n, size=len(who))) % n
    score = np.arange(n) + deviation
    outcome = np.where(rng.random(len(who)) < expit(score[who, left] - score[who, right]), 1.0, -1.0)
    return Answers(who, left, right, outcome, np.arange(len(who)), np.ones(len(who)))


def no_consensus(answers: Answers, slope: float = 1.0) -> Any:
    """A consensus to which all items are worth the same."""
    grades = Grades.of(answers.outcome)
    return SimpleNamespace(
        slope=np.full(JUDGES, slope),
        grade=answers.outcome,
        honest=HonestModel(grades, answers.weight),
        gap=lambda left, right: np.zeros(len(left)),
        gap_variance=lambda left, right: np.ones(len(left)),
    )


@pytest.mark.parametrize("slope", [1.0, 2.0])
def test_taste_equals_ridge_regression_by_scikit_learn_at_the_learnt_variance(slope: float) -> None:
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(1)
    answers = judged(rng, deviation=rng.normal(scale=SPREAD, size=(JUDGES, ITEMS)))
    found = fit_tastes(answers, no_consensus(answers, slope), np.arange(JUDGES), ITEMS, JUDGES)
    assert found.converged
    d, V = found.deviation * slope, found.covariance * slope**2
    variance = ((d**2).sum() + np.trace(V.sum(axis=0))) / d.size
    D = np.eye(ITEMS)[answers.left] - np.eye(ITEMS)[answers.right]
    for k in range(JUDGES):
        own = answers.annotator == k
        ridge = LogisticRegression(C=variance, fit_intercept=False, tol=1e-10, max_iter=1000)
        expected = ridge.fit(D[own], answers.outcome[own]).coef_[0]
        assert d[k] == pytest.approx(expected, abs=2e-3)
        p = expit(D[own] @ expected)
        information = (D[own].T * (p * (1 - p))) @ D[own] + np.eye(ITEMS) / variance
        assert V[k] == pytest.approx(np.linalg.inv(information), rel=0.02, abs=1e-3)


def test_tastes_come_close_to_the_truth_and_leave_others_to_the_consensus() -> None:
    rng = np.random.default_rng(2)
    deviation = rng.normal(scale=SPREAD, size=(JUDGES, ITEMS))
    answers = judged(rng, deviation=deviation, each=4000)
    consensus = Consensus(answers, n_items=ITEMS, n_annotators=JUDGES, ridge=5.0)
    found = fit_tastes(answers, consensus, np.array([0, 2]), ITEMS, JUDGES)
    left, right = np.arange(ITEMS), (np.arange(ITEMS) + 1) % ITEMS
    for k in range(JUDGES):
        gap, variance = found.gaps(consensus, np.full(ITEMS, k), left, right)
        score = np.arange(ITEMS) + deviation[k]
        agreed = consensus.gap(left, right)
        if k in (0, 2):
            errors = [consensus.slope[k] * each - (score[left] - score[right]) for each in (gap, agreed)]
            assert np.sqrt(np.mean(errors[0] ** 2)) < 0.6 * np.sqrt(np.mean(errors[1] ** 2))
        else:
            assert gap.tolist() == agreed.tolist()
            assert variance.tolist() == consensus.gap_variance(left, right).tolist()


def test_judges_of_one_taste_are_left_where_the_consensus_is() -> None:
    answers = judged(np.random.default_rng(3), deviation=np.zeros((JUDGES, ITEMS)))
    consensus = Consensus(answers, n_items=ITEMS, n_annotators=JUDGES, ridge=5.0)
    found = fit_tastes(answers, consensus, np.arange(JUDGES), ITEMS, JUDGES)
    assert found.converged
    assert np.abs(found.deviation).max() < 0.2


@pytest.mark.parametrize("spread", [0.0, 0.1, 0.3, 1.5])
@pytest.mark.parametrize("each", [60, 300])
def test_fit_converges_however_much_tastes_differ(spread: float, each: int) -> None:
    rng = np.random.default_rng([6, each])
    answers = judged(rng, deviation=rng.normal(scale=spread, size=(JUDGES, ITEMS)), each=each)
    consensus = Consensus(answers, n_items=ITEMS, n_annotators=JUDGES, ridge=5.0)
    assert fit_tastes(answers, consensus, np.arange(JUDGES), ITEMS, JUDGES).converged


def test_answers_that_do_not_count_leave_no_trace() -> None:
    rng = np.random.default_rng(4)
    answers = judged(rng, deviation=rng.normal(scale=SPREAD, size=(JUDGES, ITEMS)))
    kept = np.arange(len(answers)) % 3 > 0
    weighed = replace(answers, weight=kept.astype(np.float64))
    half = answers.take(kept)
    one = fit_tastes(weighed, no_consensus(weighed), np.arange(JUDGES), ITEMS, JUDGES)
    two = fit_tastes(half, no_consensus(half), np.arange(JUDGES), ITEMS, JUDGES)
    assert one.deviation == pytest.approx(two.deviation)


def test_taste_takes_ten_answers_per_item_and_work_that_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    who = np.repeat([0, 1, 2], [59, 60, 200])
    answers = Answers(who, *(np.zeros(len(who), dtype=np.int64),) * 2, np.ones(len(who)), who, np.ones(len(who)))
    assert who_has_many(answers, np.array([0, 1, 2]), ITEMS, 3).tolist() == [1, 2]
    assert who_has_many(answers, np.array([0, 2]), ITEMS, 3).tolist() == [2]
    monkeypatch.setattr(tastes, "MOST_WORK", 2 * ITEMS**3)
    assert who_has_many(answers, np.array([0, 1, 2]), ITEMS, 3).tolist() == [1, 2]
    monkeypatch.setattr(tastes, "MOST_WORK", 2 * ITEMS**3 - 1)
    assert who_has_many(answers, np.array([0, 1, 2]), ITEMS, 3).tolist() == []


def test_nobody_with_many_answers_has_no_taste() -> None:
    answers = judged(np.random.default_rng(5), deviation=np.zeros((JUDGES, ITEMS)), each=9)
    found = fit_tastes(answers, no_consensus(answers), np.zeros(0, dtype=np.int64), ITEMS, JUDGES)
    assert found.converged
    assert found.gaps(no_consensus(answers), answers.annotator, answers.left, answers.right)[0].tolist() == [0.0] * 36
