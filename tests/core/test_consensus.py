"""The honest model of choices, blind to sides; what placement does to estimated differences."""

from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import expit

from fdr_core.answers import Answers
from fdr_core.consensus.honest import STRENGTHS, Consensus, Grades, HonestModel
from tests.core.cases import crowd

M, ITEMS = 6, 8


def some_answers(graded: bool = False, seed: int = 3) -> Answers:
    return crowd(np.random.default_rng(seed), n_annotators=M, n_answers=240, n_biased=2, graded=graded)


def turned(answers: Answers, rows: NDArray[Any]) -> Answers:
    """The same choices of items with other sides."""
    sign = np.where(rows, -1.0, 1.0)
    left, right = np.where(rows, answers.right, answers.left), np.where(rows, answers.left, answers.right)
    return Answers(answers.annotator, left, right, sign * answers.outcome, answers.coin, answers.weight)


def test_honest_model_of_yes_and_no_is_the_logistic_curve() -> None:
    model = HonestModel(Grades.of(np.array([1.0, -1.0])), np.ones(2))
    x = np.array([-2.0, 0.0, 1.5])
    assert np.exp(model.log_probability(np.zeros(3, dtype=np.int64), x)) == pytest.approx(expit(x))
    mean, variance = model.moments(x)
    assert mean == pytest.approx(2 * expit(x) - 1)
    assert variance == pytest.approx(4 * expit(x) * expit(-x))


def test_honest_model_of_grades_and_ties_sums_to_one_and_expects_what_was_observed() -> None:
    outcome = np.array([0.0, 0.0, 1.0, -0.5, 0.5, 0.5, -1.0, 1 / 3])
    grades, x = Grades.of(outcome), np.linspace(-1, 1, 8)
    model = HonestModel(grades, np.ones(8))
    for _ in range(200):
        model.reweigh(x, np.ones(8))
    total = np.exp(model.log_probability(np.full(8, -1), x))
    for strength in range(len(grades.values)):
        for sign in (1, -1):
            total += np.exp(model.log_probability(np.full(8, strength), sign * x))
    assert total == pytest.approx(np.ones(8))
    ties = np.exp(model.log_probability(np.full(8, -1), x)).sum()
    assert ties == pytest.approx(2.0, rel=1e-6)


def test_more_grades_than_eight_are_read_in_eight_strengths() -> None:
    grades = Grades.of(np.linspace(-1, 1, 101))
    assert len(grades.values) == STRENGTHS
    assert (grades.strength == -1).sum() == 1


@pytest.mark.parametrize("graded", [False, True])
def test_consensus_does_not_see_sides(graded: bool) -> None:
    answers = some_answers(graded)
    rows = np.random.default_rng(4).random(len(answers)) < 0.5
    fit = partial(Consensus, n_items=ITEMS, n_annotators=M, ridge=5.0)
    one, other = fit(answers), fit(turned(answers, rows))
    sided = answers.outcome != 0
    assert one.support[sided] == pytest.approx(other.support[sided], abs=1e-8)
    assert one.slopes[1] == pytest.approx(other.slopes[1], abs=1e-6)
