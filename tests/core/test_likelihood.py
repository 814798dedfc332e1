"""Likelihood levels: worked by hand, against brute force over single answers, and blind to sides where they must be."""

from functools import partial

import numpy as np
import pytest
from scipy.special import expit

from fdr_core.knockoffs import likelihood
from fdr_core.knockoffs.flip import FlipDesign, ridge_for
from fdr_core.knockoffs.likelihood import Consensus, Grades, HonestModel
from fdr_core.selection import LevelRule
from fdr_core.statistics import Answers
from tests.core.cases import crowd

M, ITEMS = 6, 8


def some_answers(graded=False, seed=3):
    return crowd(np.random.default_rng(seed), n_annotators=M, n_answers=240, n_biased=2, graded=graded)


def turned(answers, rows):
    """The same choices of items with other sides."""
    sign = np.where(rows, -1.0, 1.0)
    left, right = np.where(rows, answers.right, answers.left), np.where(rows, answers.left, answers.right)
    return Answers(answers.annotator, left, right, sign * answers.outcome, answers.coin, answers.weight)


def test_honest_model_of_yes_and_no_is_the_logistic_curve():
    model = HonestModel(Grades.of(np.array([1.0, -1.0])), np.ones(2))
    x = np.array([-2.0, 0.0, 1.5])
    assert np.exp(model.log_probability(np.zeros(3, dtype=np.int64), x)) == pytest.approx(expit(x))
    mean, variance = model.moments(x)
    assert mean == pytest.approx(2 * expit(x) - 1)
    assert variance == pytest.approx(4 * expit(x) * expit(-x))


def test_honest_model_of_grades_and_ties_sums_to_one_and_expects_what_was_observed():
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


def test_more_grades_than_eight_are_read_in_eight_strengths():
    grades = Grades.of(np.linspace(-1, 1, 101))
    assert len(grades.values) == likelihood.STRENGTHS
    assert (grades.strength == -1).sum() == 1


@pytest.mark.parametrize("graded", [False, True])
@pytest.mark.parametrize("shares_coins", [False, True])
def test_consensus_does_not_see_sides(graded, shares_coins):
    answers = some_answers(graded)
    rows = np.random.default_rng(4).random(len(answers)) < 0.5
    fit = partial(Consensus, n_items=ITEMS, n_annotators=M, ridge=5.0, shares_coins=shares_coins)
    one, other = fit(answers), fit(turned(answers, rows))
    sided = answers.outcome != 0
    assert one.support[sided] == pytest.approx(other.support[sided], abs=1e-8)
    assert one.honest_log_likelihoods() == pytest.approx(other.honest_log_likelihoods(), abs=1e-6)


@pytest.mark.parametrize("graded", [False, True])
def test_levels_with_turned_coins_equal_the_own_levels_of_the_turned_answers(graded):
    answers, judged = some_answers(graded), np.arange(M)
    design = FlipDesign(answers, n_items=ITEMS, n_annotators=M, judged=judged, ridge=ridge_for(answers))
    sign = design.flips(1).signs(0, 1)[0]
    rows = np.zeros(len(answers), dtype=bool)
    rows[design._chosen] = sign < 0
    other = FlipDesign(turned(answers, rows), n_items=ITEMS, n_annotators=M, judged=judged, ridge=ridge_for(answers))
    drawn = design.likelihood_levels(shares_coins=False).copies([sign])[0]
    assert drawn == pytest.approx(other.likelihood_levels(shares_coins=False).levels(), abs=1e-6)


def test_level_equals_the_ratio_of_the_two_models_answer_by_answer(monkeypatch):
    monkeypatch.setattr(likelihood, "SUPPORT_BINS", 20_000)  # next to no pooling
    answers, judged = some_answers(), np.array([0, 2, 5])
    design = FlipDesign(answers, n_items=ITEMS, n_annotators=M, judged=judged, ridge=5.0)
    consensus = Consensus(answers, n_items=ITEMS, n_annotators=M, ridge=5.0)
    slopes, shares = consensus.slopes
    expected = []
    for j in judged:
        mine = np.flatnonzero((answers.annotator == j) & (answers.outcome != 0))
        honest = lean = 0.0
        for slope, share in zip(slopes, shares, strict=True):
            moderate = likelihood.moderated(slope, consensus.uncertainty[mine])
            P = np.exp(
                consensus.honest.log_probability(
                    np.zeros(len(mine), dtype=np.int64), moderate * consensus.support[mine]
                )
            )
            honest += share * np.prod(P)
            for p in likelihood.CLICKS:
                for side in (1, -1):
                    clicked = p * (np.sign(answers.outcome[mine]) == side)
                    lean += share / 12 * np.prod(clicked + (1 - p) * P)
        expected.append(np.log(lean / honest))
    assert design.likelihood_levels(shares_coins=False).levels() == pytest.approx(expected, abs=0.02)


def test_what_columns_have_in_common_is_the_mean_ratio_over_all_flips():
    answers = some_answers().take(np.arange(60))
    design = FlipDesign(answers, n_items=ITEMS, n_annotators=M, judged=np.arange(M), ridge=5.0)
    levels = design.likelihood_levels(shares_coins=False)
    drawn = np.exp(levels.copies(design.flips(5).signs(0, 20_000)))
    error = drawn.std(axis=0) / np.sqrt(len(drawn))
    assert (np.abs(drawn.mean(axis=0) - np.exp(levels.in_common())) <= 4 * error).all()


def test_an_answer_against_the_consensus_weighs_more_than_one_with_it():
    answers, judged = some_answers(), np.arange(M)
    design = FlipDesign(answers, n_items=ITEMS, n_annotators=M, judged=judged, ridge=5.0)
    levels = design.likelihood_levels(shares_coins=False)
    gain = levels._gain[np.unique(levels._key)]  # from least to most support for the chosen item
    assert (np.diff(gain, axis=0) < 0).mean() > 0.95
    assert (gain[0] > gain[-1]).all()


def level_rule_by_hand(own, copies, drawn, in_common, q, honest_from):
    """Every level tried one by one, from the lowest."""
    shift = 0.25 * in_common
    own, copies, drawn = own - shift, copies - shift, drawn - shift
    weight = ((copies > own).sum(axis=0) / (len(copies) + 1) > honest_from) / (1 - honest_from)
    if honest_from == 0:
        weight = np.ones(len(own))
    for t in np.sort(own):
        c = ((copies >= t).sum(axis=0) + 1) / (len(copies) + 1)
        false = (weight * (drawn >= t).mean(axis=0)).sum() + (c @ c) / c.sum() / (1 - honest_from)
        if false <= q * (own >= t).sum():
            return own >= t
    return np.zeros(len(own), dtype=bool)


@pytest.mark.parametrize("shares_coins", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_level_rule_equals_brute_force(seed, shares_coins):
    rng = np.random.default_rng(seed)
    own = np.concatenate([rng.normal(3, 1, 10), rng.normal(0, 1, 30)])
    copies, in_common = rng.normal(size=(60, 40)), rng.normal(size=40)

    class Fixed(np.random.Generator):
        def random(self, *_, **__):
            return np.full(40, 1e-9)  # ties do not occur

    rule = LevelRule(own, copies, in_common, shares_coins=shares_coins, rng=Fixed(np.random.PCG64(0)))
    chosen = rule.select(copies[:20], q=0.1, offset=1.0)
    expected = level_rule_by_hand(own, copies, copies[:20], in_common, 0.1, 0.0 if shares_coins else 0.5)
    if shares_coins:
        assert chosen.sum() <= rule.select(copies[:20], q=0.1, offset=0.0).sum()
    assert chosen.any()
    assert chosen.tolist() == expected.tolist()


def test_level_rule_where_copies_reach_as_high_selects_nobody():
    rng = np.random.default_rng(9)
    levels = rng.normal(size=(101, 12))
    rule = LevelRule(levels[0], levels[1:], np.zeros(12), shares_coins=False, rng=rng)
    assert not rule.select(levels[1:], q=0.01, offset=1.0).any()
