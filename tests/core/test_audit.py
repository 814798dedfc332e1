"""The design audit: which construction, why, and what would help, before anybody is looked at."""

import numpy as np
import pytest

from fdr_core import Comparisons, ConfigurationError, DesignError, SufficientStatistics, detect, simulate
from fdr_core.audit import AuditInput, audit, coins_per_annotator, effective_coins, sides_z
from fdr_core.knockoffs.flip import ridge_for
from fdr_core.statistics import Answers
from tests.core.cases import crowd


def input_of(comparisons):
    statistics = SufficientStatistics.from_comparisons(comparisons)
    return AuditInput(
        statistics.answers(), statistics.sums, statistics.coin_source, statistics.skips(), statistics.excluded
    )


def judged(comparisons, **options):
    return audit(input_of(comparisons), q=0.1, **options)


def arrays(rng, *, m=20, n=12, size=1200, heads=0.5, coins=None):
    """A crowd on items of known order; the better item stands left with probability ``heads``."""
    who = rng.integers(m, size=size)
    one = rng.integers(n, size=size)
    two = (one + rng.integers(1, n, size=size)) % n
    left, right = np.minimum(one, two), np.maximum(one, two)  # items of lower number are better
    turned = rng.random(size) >= heads
    left, right = np.where(turned, right, left), np.where(turned, left, right)
    y = np.where((right - left) / 3 + rng.logistic(size=size) > 0, 1.0, -1.0)
    return Comparisons.from_arrays(who, left, right, y, coin=coins)


def test_audit_of_random_sides_chooses_flips():
    verdict = judged(arrays(np.random.default_rng(2)))
    assert verdict.construction == "flip"
    assert any(reason.startswith("Sides look random") for reason in verdict.reasons)
    assert abs(verdict.figures["sides_z"]) < 1.96
    assert not verdict.shares_coins


def test_audit_of_sides_that_follow_the_items_chooses_the_papers_construction_and_says_why():
    verdict = judged(arrays(np.random.default_rng(0), heads=0.8))
    assert verdict.construction == "paper"
    assert any("better item stands left too often" in reason for reason in verdict.reasons)
    assert any("prepare" in remedy for remedy in verdict.remedies)
    assert verdict.figures["lambda_min"] > 0.1


def test_audit_with_the_owners_word_follows_it():
    comparisons = arrays(np.random.default_rng(0), heads=0.8)
    stated = judged(comparisons, sides="random")
    assert stated.construction == "flip"
    assert any("please check" in reason for reason in stated.reasons)
    assert judged(arrays(np.random.default_rng(0)), sides="not random").construction == "paper"


def test_audit_with_flips_asked_for_against_the_test_is_marked_as_forced():
    verdict = judged(arrays(np.random.default_rng(0), heads=0.8), method="flip")
    assert verdict.construction == "flip"
    assert verdict.figures["forced"]


def test_audit_with_options_that_do_not_fit_raises():
    comparisons = arrays(np.random.default_rng(0))
    with pytest.raises(ConfigurationError, match="auto, flip, paper"):
        judged(comparisons, method="lasso")
    with pytest.raises(ConfigurationError, match="audit, random, not random"):
        judged(comparisons, sides="maybe")
    with pytest.raises(ConfigurationError, match="sides='not random' was given"):
        judged(comparisons, method="flip", sides="not random")


def test_audit_of_unique_pairs_needs_recorded_coins_or_the_owners_word():
    comparisons = simulate.unique_pairs(rng=np.random.default_rng(0)).comparisons
    frame = comparisons.to_frame()
    assert judged(comparisons).construction == "flip"
    as_task = Comparisons.from_frame(frame.rename(columns={"coin": "task"}))
    untold = judged(as_task)
    assert untold.construction == "none"
    assert untold.reasons[-1].startswith("Cannot be judged")
    assert any("sides='random'" in remedy for remedy in untold.remedies)
    assert judged(as_task, sides="random").construction == "flip"
    assert detect(as_task).flagged == []
    assert detect(as_task).guarantee.kind == "none proven (nobody judged)"


def test_audit_of_sides_never_swapped_refuses_whatever_is_asked_for():
    rng = np.random.default_rng(1)
    left, right = rng.integers(6, size=400), 6 + rng.integers(6, size=400)
    comparisons = Comparisons.from_arrays(rng.integers(10, size=400), left, right, rng.choice([-1, 1], size=400))
    for options in ({}, {"method": "flip"}, {"method": "paper"}, {"sides": "random"}):
        verdict = judged(comparisons, **options)
        assert verdict.construction == "none"
        assert verdict.figures["sides_never_swapped"]
        assert any("never swapped" in reason for reason in verdict.reasons)


def test_audit_with_few_shared_coins_says_so():
    rng = np.random.default_rng(2)
    pairs = [tuple(rng.choice(8, size=2, replace=False)) for _ in range(40)]
    task = np.tile(np.arange(40), 15)
    left, right = np.array(pairs)[task].T
    y = np.where((right - left) / 3 + rng.logistic(size=600) > 0, 1.0, -1.0)
    verdict = judged(Comparisons.from_arrays(np.repeat(np.arange(15), 40), left, right, y, task=task))
    assert verdict.shares_coins
    assert verdict.figures["coins"] == 40
    assert any("Only 40 distinct coins" in reason for reason in verdict.reasons)


def test_audit_of_skips_that_follow_the_side_voids_the_coin():
    rng = np.random.default_rng(3)
    comparisons = arrays(rng)
    statistics = SufficientStatistics.from_comparisons(comparisons)
    options = {"q": 0.1}
    data = AuditInput(statistics.answers(), statistics.sums, "own", statistics.skips())
    assert audit(data, **options).construction == "flip"
    for k in range(60):
        statistics.skip(int(k % 4), int(6 + k % 5))  # always a good item on the left
    data = AuditInput(statistics.answers(), statistics.sums, "own", statistics.skips())
    verdict = audit(data, **options)
    assert verdict.construction == "paper"
    assert any(reason.startswith("Skips depend on the side") for reason in verdict.reasons)
    for k in range(60):
        statistics.skip(int(6 + k % 5), int(k % 4))
    data = AuditInput(statistics.answers(), statistics.sums, "own", statistics.skips())
    assert audit(data, **options).construction == "flip"


def test_audit_of_answers_too_few_says_how_many_more():
    rng = np.random.default_rng(4)
    who = np.concatenate([np.repeat(np.arange(10), 60), [10, 10]])
    left = rng.integers(8, size=len(who))
    right = (left + rng.integers(1, 8, size=len(who))) % 8
    comparisons = Comparisons.from_arrays(who, left, right, rng.choice([-1.0, 1.0], size=len(who)))
    verdict = judged(comparisons)
    assert verdict.assessable.tolist() == [True] * 10 + [False]
    assert verdict.more_needed[10] == 1
    table = detect(comparisons).annotators.set_index("annotator")
    assert table.loc[10, "verdict"] == "not assessable"
    assert table.loc[10, "more_needed"] == verdict.more_needed[10]
    assert not table.loc[10, "flagged"]


def test_audit_counts_exclusions_orientations_and_shares():
    comparisons = Comparisons.from_arrays(
        ["a"] * 6, ["x", "x", "y", "y", "x", "z"], ["y", "y", "x", "z", "z", "x"], [1, 1, 1, -1, 0, 0.5]
    )
    figures = judged(comparisons).figures
    assert figures["answers"] == 6
    assert figures["left_share"] == pytest.approx(4 / 6, abs=1e-4)
    assert figures["right_share"] == pytest.approx(1 / 6, abs=1e-4)
    assert figures["components"] == 1
    assert figures["one_orientation_pairs"] == 0
    two = judged(Comparisons.from_arrays(["a"] * 3, ["x", "x", "y"], ["y", "y", "z"], [1, 1, 1]))
    assert two.figures["one_orientation_pairs"] == 1


def test_audit_of_two_groups_of_items_names_them():
    comparisons = Comparisons.from_arrays(["a"] * 8, ["x", "y", "u", "v"] * 2, ["y", "x", "v", "u"] * 2, [1, -1] * 4)
    verdict = judged(comparisons)
    assert verdict.figures["components"] == 2
    assert any("2 groups" in reason for reason in verdict.reasons)


def test_papers_construction_on_too_few_answers_is_refused_or_explained():
    rng = np.random.default_rng(5)
    who = np.repeat(np.arange(6), 6)
    left = rng.integers(30, size=36)
    right = (left + rng.integers(1, 30, size=36)) % 30
    comparisons = Comparisons.from_arrays(who, left, right, rng.choice([-1.0, 1.0], size=36))
    with pytest.raises(DesignError, match="more answers"):
        judged(comparisons, method="paper")
    verdict = judged(comparisons, sides="not random")
    assert verdict.construction == "none"


def test_papers_construction_where_biases_cannot_be_separated_judges_nobody():
    # everybody sees one pair of items of his own, always in one orientation: the pair's score absorbs the bias
    who = np.repeat(np.arange(5), 30)
    comparisons = Comparisons.from_arrays(who, 2 * who, 2 * who + 1, np.tile([1.0, 1.0, -1.0], 50), coin=np.arange(150))
    verdict = judged(comparisons, sides="not random")
    assert verdict.construction == "none"


def test_effective_coins_without_ids_joins_pairs_that_keep_one_orientation():
    fixed = Answers(
        np.repeat(np.arange(4), 10),
        np.tile(np.arange(10), 4),
        np.tile(np.arange(10), 4) + 10,
        np.ones(40),
        np.arange(40),
        np.ones(40),
    )
    joined = effective_coins(fixed, "own")
    assert len(np.unique(joined)) == 10
    assert (effective_coins(fixed, "coin") == fixed.coin).all()
    mixed = crowd(np.random.default_rng(0))  # fair coins per answer keep their own
    assert (effective_coins(mixed, "own") == mixed.coin).all()


def test_effective_coins_make_the_ridge_follow_the_overlap():
    fixed = Answers(
        np.repeat(np.arange(4), 10),
        np.tile(np.arange(10), 4),
        np.tile(np.arange(10), 4) + 10,
        np.ones(40),
        np.arange(40),
        np.ones(40),
    )
    assert ridge_for(fixed.with_coin(effective_coins(fixed, "own"))) == 20.0


def test_coins_per_annotator_counts_distinct_ones():
    answers = Answers(np.array([0, 0, 0, 2]), *(np.zeros(4, int),) * 2, np.ones(4), np.array([1, 1, 2, 1]), np.ones(4))
    assert coins_per_annotator(answers, 3).tolist() == [2.0, 0.0, 1.0]


def test_sides_z_of_both_orders_under_one_coin_rests_on_no_coin():
    rng = np.random.default_rng(6)
    left = rng.integers(8, size=200)
    right = (left + rng.integers(1, 8, size=200)) % 8
    both = Answers(
        np.tile(rng.integers(10, size=200), 2),
        np.concatenate([left, right]),
        np.concatenate([right, left]),
        rng.choice([-1.0, 1.0], size=400),
        np.tile(np.arange(200), 2),
        np.ones(400),
    )
    z, n_coins = sides_z(both, 8, 10)
    assert n_coins == 0
    assert z == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("turn", [1, -1])
def test_sides_z_has_the_sign_of_the_side_where_better_items_stand(turn):
    comparisons = arrays(np.random.default_rng(7), heads=0.5 + 0.2 * turn)
    data = input_of(comparisons)
    z, n_coins = sides_z(data.answers, comparisons.n_items, comparisons.n_annotators)
    assert z * turn > 3
    assert z == pytest.approx(turn * 0.8 * 0.4 * np.sqrt(n_coins), rel=0.35)
