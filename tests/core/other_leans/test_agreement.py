"""Agreement beyond chance: worked by hand, Krippendorff's alpha, and who follows nothing."""

import numpy as np
import pytest
from numpy.random import Generator

from fdr_core import Comparisons, ConfigurationError
from fdr_core.other_leans.agreement import agreement, with_the_others
from fdr_core.types import Floats, Ints


def test_with_the_others_three_people_by_hand() -> None:
    """On pair 0 all agree, on pair 1 the third does not: 1 with both, then 1 and -1 with a mean of 0, and -1."""
    choice, pair, who = np.array([1.0, 1, 1, 1, 1, -1]), np.array([0, 0, 0, 1, 1, 1]), np.array([0, 1, 2, 0, 1, 2])
    mean, _, n = with_the_others(choice, pair, who, 4)
    np.testing.assert_array_equal(mean, [0.5, 0.5, 0.0, 0.0])
    np.testing.assert_array_equal(n, [2, 2, 2, 0])


def test_with_the_others_repeated_answers_of_one_person_are_one_and_unique_pairs_none() -> None:
    choice, pair, who = np.array([1.0, -1, 1, 1]), np.array([0, 0, 0, 1]), np.array([0, 0, 1, 1])
    mean, _, n = with_the_others(choice, pair, who, 2)
    np.testing.assert_array_equal(mean, [0.0, 0.0])
    np.testing.assert_array_equal(n, [1, 1])


def krippendorff(one: Floats, two: Floats) -> float:
    """Nominal alpha of two who answered everything, from the matrix of coincidences."""
    counts = np.zeros((2, 2))
    for a, b in zip(one, two, strict=True):
        counts[int(a > 0), int(b > 0)] += 1
        counts[int(b > 0), int(a > 0)] += 1
    total = counts.sum(axis=1)
    expected = 2 * total[0] * total[1] / (total.sum() - 1)
    return float(1 - 2 * counts[0, 1] / expected)


def test_with_the_others_is_krippendorffs_alpha_where_both_items_are_chosen_equally_often() -> None:
    rng = np.random.default_rng(0)
    one = rng.permutation(np.repeat([1.0, -1.0], 2000))
    two = np.where(rng.random(4000) < 0.8, one, -one)
    pair, who = np.tile(np.arange(4000), 2), np.repeat([0, 1], 4000)
    mean, _, _ = with_the_others(np.concatenate([one, two]), pair, who, 2)
    assert mean[0] == pytest.approx(1 - 2 * np.mean(one != two))
    assert mean[0] == pytest.approx(krippendorff(one, two), abs=2e-3)


def crowd(rng: Generator, *, skill: float = 0.7) -> tuple[Ints, Ints, Floats, Floats]:
    """Twelve people on 300 pairs; the first clicks at random, the second left and right in turn."""
    who, pair = np.repeat(np.arange(12), 250), np.concatenate([rng.permutation(300)[:250] for _ in range(12)])
    way = rng.choice([-1.0, 1.0], len(who))
    choice = rng.choice([-1.0, 1.0], 300)[pair] * np.where(rng.random(len(who)) < (1 + skill) / 2, 1, -1)
    choice[who == 0] = rng.choice([-1.0, 1.0], 250)
    choice[who == 1] = way[who == 1] * np.tile([1.0, -1.0], 125)
    return who, pair, way, choice


def data(who: Ints, pair: Ints, way: Floats, choice: Floats) -> Comparisons:
    return Comparisons.from_arrays(who, 2 * pair + (way < 0), 2 * pair + (way > 0), choice * way)


def test_agreement_finds_random_and_alternating_clickers_and_names_the_bound() -> None:
    found = agreement(data(*crowd(np.random.default_rng(1))))
    assert sorted(found.flagged) == [0, 1]
    row = found.annotators.iloc[0]
    assert row["finding"].startswith("answers agree with the others no better than chance: ")
    assert row["finding"].endswith("less than 0.2")
    assert row["low"] < row["effect"] < row["high"] < 0.2


def test_agreement_at_the_bound_is_rejected_once_in_twenty_at_most() -> None:
    rng, n, m = np.random.default_rng(2), 300, 400
    truth = rng.choice([-1.0, 1.0], n)
    who, pair = np.repeat(np.arange(m), n), np.tile(np.arange(n), m)
    choice = truth[pair] * np.where(rng.random(m * n) < (1 + np.sqrt(0.2)) / 2, 1, -1)  # everybody agrees by .2
    mean, error, _ = with_the_others(choice, pair, who, m)
    below = np.mean((mean - 0.2) / error < -1.645)
    assert mean.mean() == pytest.approx(0.2, abs=0.03)
    assert below < 0.08


def test_agreement_unique_pairs_say_nothing() -> None:
    who, pair, way, choice = crowd(np.random.default_rng(3))
    found = agreement(data(who, np.arange(len(pair)), way, choice))
    assert found.flagged == []
    assert "Nobody of 12 has 20 pairs" in found.reasons[0]
    assert found.annotators["finding"].eq("not judged: too few pairs that others answered too").all()


def test_agreement_crowd_that_does_not_agree_with_itself_lists_nobody() -> None:
    found = agreement(data(*crowd(np.random.default_rng(4), skill=0.1)))
    assert found.flagged == []
    assert "do not agree among themselves" in found.reasons[0]


def test_agreement_options_out_of_range_are_refused() -> None:
    for options in ({"q": 0.0}, {"least": 1.0}):
        with pytest.raises(ConfigurationError):
            agreement(data(*crowd(np.random.default_rng(5))), **options)
