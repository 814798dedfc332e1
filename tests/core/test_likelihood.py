"""Likelihood levels: worked by hand, against brute force over single answers, and blind to sides where they must be."""

from functools import partial

import numpy as np
import pytest
from scipy.special import expit

from fdr_core.knockoffs import consensus as consensus_module
from fdr_core.knockoffs import likelihood
from fdr_core.knockoffs.consensus import Consensus, Grades, HonestModel, moderated
from fdr_core.knockoffs.flip import FlipDesign, ridge_for
from fdr_core.knockoffs.likelihood import FlippedLevels, ResampledLevels, click_shares, placement_shift
from fdr_core.knockoffs.rows import JudgedRows
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


def flipped_levels(answers, judged, ridge=5.0):
    rows = JudgedRows.of(answers, judged, M)
    return FlippedLevels(Consensus(answers, n_items=ITEMS, n_annotators=M, ridge=ridge), rows)


@pytest.fixture
def all_clicks_alike(monkeypatch):
    """Take every click for equally likely instead of learning how common it is."""
    monkeypatch.setattr(likelihood, "click_shares", lambda ratio: np.full(ratio.shape[1], 1 / ratio.shape[1]))


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
    assert len(grades.values) == consensus_module.STRENGTHS
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
def test_levels_with_turned_coins_equal_the_own_levels_of_the_turned_answers(graded, all_clicks_alike):
    answers, judged = some_answers(graded), np.arange(M)
    design = FlipDesign(answers, n_items=ITEMS, n_annotators=M, judged=judged, ridge=ridge_for(answers))
    sign = design.flips(1).signs(0, 1)[0]
    rows = np.zeros(len(answers), dtype=bool)
    rows[design.rows.chosen] = sign < 0
    drawn = flipped_levels(answers, judged, ridge_for(answers)).copies([sign])[0]
    other = flipped_levels(turned(answers, rows), judged, ridge_for(answers))
    assert drawn == pytest.approx(other.levels(), abs=1e-6)


def ratio_by_hand(answers, judged, clicks, support=None):
    """The two models answer by answer; ``support`` of every answer's chosen item, by default the consensus'."""
    consensus = Consensus(answers, n_items=ITEMS, n_annotators=M, ridge=5.0)
    support = consensus.support if support is None else support
    slopes, shares = consensus.slopes
    expected = []
    for j in judged:
        mine = np.flatnonzero((answers.annotator == j) & (answers.outcome != 0))
        honest = lean = 0.0
        for slope, share in zip(slopes, shares, strict=True):
            moderate = moderated(slope, consensus.uncertainty[mine])
            P = np.exp(consensus.honest.log_probability(np.zeros(len(mine), dtype=np.int64), moderate * support[mine]))
            honest += share * np.prod(P)
            for p, click in zip(likelihood.CLICKS, clicks, strict=True):
                for side in (1, -1):
                    clicked = p * (np.sign(answers.outcome[mine]) == side)
                    lean += share * click / 2 * np.prod(clicked + (1 - p) * P)
        expected.append(np.log(lean / honest))
    return expected


CLICKS_GIVEN = np.array([0.3, 0.2, 0.2, 0.1, 0.1, 0.1])


def test_level_equals_the_ratio_of_the_two_models_answer_by_answer(monkeypatch):
    monkeypatch.setattr(likelihood, "SUPPORT_BINS", 20_000)  # next to no pooling
    monkeypatch.setattr(likelihood, "click_shares", lambda ratio: CLICKS_GIVEN)
    monkeypatch.setattr(likelihood, "MOST_IN_COMMON", np.inf)
    answers, judged = some_answers(), np.array([0, 2, 5])
    expected = ratio_by_hand(answers, judged, CLICKS_GIVEN)
    assert flipped_levels(answers, judged).levels() == pytest.approx(expected, abs=0.02)


def test_what_columns_have_in_common_is_the_mean_ratio_over_all_flips_and_limited(monkeypatch):
    answers = some_answers().take(np.arange(60))
    flips = FlipDesign(answers, n_items=ITEMS, n_annotators=M, judged=np.arange(M), ridge=5.0).flips(5)
    monkeypatch.setattr(likelihood, "MOST_IN_COMMON", np.inf)
    levels = flipped_levels(answers, np.arange(M))
    drawn = np.exp(levels.copies(flips.signs(0, 20_000)))
    error = drawn.std(axis=0) / np.sqrt(len(drawn))
    common = levels.in_common()
    assert (np.abs(drawn.mean(axis=0) - np.exp(common)) <= 4 * error).all()
    limit = float(np.median(common))
    monkeypatch.setattr(likelihood, "MOST_IN_COMMON", limit)
    limited = flipped_levels(answers, np.arange(M))
    assert limited.levels() == pytest.approx(levels.levels() - np.maximum(0, common - limit))
    assert limited.in_common() == pytest.approx(np.minimum(common, limit))


def resampled_levels(answers, judged):
    consensus = Consensus(answers, n_items=ITEMS, n_annotators=M, ridge=5.0)
    return ResampledLevels(consensus, JudgedRows.of(answers, judged, M))


def test_level_with_sides_held_fixed_equals_the_ratio_of_the_two_models_answer_by_answer(monkeypatch):
    monkeypatch.setattr(likelihood, "SUPPORT_BINS", 20_000)
    monkeypatch.setattr(likelihood, "click_shares", lambda ratio: CLICKS_GIVEN)
    monkeypatch.setattr(likelihood, "placement_shift", lambda gap, uncertainty: 0.0)
    answers, judged = some_answers(), np.array([0, 2, 5])
    expected = ratio_by_hand(answers, judged, CLICKS_GIVEN)
    assert resampled_levels(answers, judged).levels() == pytest.approx(expected, abs=0.02)


@pytest.mark.parametrize("graded", [False, True])
def test_copies_that_answer_anew_have_a_mean_ratio_of_one(graded, monkeypatch):
    """The mean of a likelihood ratio under its denominator, exact where there is one slope."""
    monkeypatch.setattr(consensus_module, "SLOPES", np.ones(1))
    monkeypatch.setattr(likelihood, "CLICKS", np.array([0.1, 0.2]))  # or few huge ratios would make up the mean
    answers = some_answers(graded).take(np.arange(60))
    drawn = np.exp(resampled_levels(answers, np.arange(M)).copies(20_000, np.random.default_rng(5)))
    error = drawn.std(axis=0) / np.sqrt(len(drawn))
    assert (np.abs(drawn.mean(axis=0) - 1) <= 4 * error).all()
    assert (error < 0.02).all()


def test_repeated_answers_of_one_row_are_drawn_one_by_one():
    once = some_answers()
    half = once.take(np.arange(120))
    twice = Answers(half.annotator, half.left, half.right, half.outcome, half.coin, 2 * half.weight)
    spread = resampled_levels(twice, np.arange(M))
    assert len(spread._kind) == int(twice.weight.sum())


def test_clicks_are_learnt_from_those_who_lean():
    rng = np.random.default_rng(0)
    ratio = rng.normal(-4, 0.5, (100, 6))
    ratio[:20, 3] = 12.0
    share = click_shares(ratio)
    assert share.sum() == pytest.approx(1)
    assert share[3] == pytest.approx((20 + 2 / 6) / 22, abs=0.02)
    assert click_shares(np.full((10, 6), -8.0)) == pytest.approx(np.full(6, 1 / 6))  # nobody leans: as before looking


def test_placement_shifts_estimates_to_where_better_items_were_put():
    rng = np.random.default_rng(1)
    truth = np.abs(rng.normal(size=200_000))
    truth = np.where(rng.random(len(truth)) < 0.8, truth, -truth)  # the better item left in 80 %
    variance = np.full(len(truth), 0.05)
    gap = truth + rng.normal(size=len(truth)) * np.sqrt(variance)
    moved = gap + placement_shift(gap, variance)
    unclear = np.abs(gap) < 0.1
    assert np.mean(truth[unclear] - gap[unclear]) > 0.09
    assert np.mean(truth[unclear] - moved[unclear]) == pytest.approx(0, abs=0.01)


def test_random_placement_shifts_next_to_nothing():
    rng = np.random.default_rng(2)
    gap = rng.normal(size=50_000)
    assert np.abs(placement_shift(gap, np.full(len(gap), 0.1))).max() < 0.01


def test_an_answer_against_the_consensus_weighs_more_than_one_with_it():
    levels = flipped_levels(some_answers(), np.arange(M))
    gain = levels._gain[np.unique(levels._key)]  # from least to most support for the chosen item
    assert (np.diff(gain, axis=0) < 0).mean() > 0.95
    assert (gain[0] > gain[-1]).all()


def level_rule_by_hand(own, copies, drawn, q, honest_from):
    """Every level tried one by one, from the lowest."""
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
    copies = rng.normal(size=(60, 40))

    class Fixed(np.random.Generator):
        def random(self, *_, **__):
            return np.full(40, 1e-9)  # ties do not occur

    rule = LevelRule(own, copies, shares_coins=shares_coins, rng=Fixed(np.random.PCG64(0)))
    chosen = rule.select(copies[:20], q=0.1, offset=1.0)
    expected = level_rule_by_hand(own, copies, copies[:20], 0.1, 0.0 if shares_coins else 0.5)
    if shares_coins:
        assert chosen.sum() <= rule.select(copies[:20], q=0.1, offset=0.0).sum()
    assert chosen.any()
    assert chosen.tolist() == expected.tolist()


def test_level_rule_where_copies_reach_as_high_selects_nobody():
    rng = np.random.default_rng(9)
    levels = rng.normal(size=(101, 12))
    rule = LevelRule(levels[0], levels[1:], shares_coins=False, rng=rng)
    assert not rule.select(levels[1:], q=0.01, offset=1.0).any()
