"""Leans without gold: the likelihood's derivatives, crowds whose truth is known, and when nothing is listed."""

import numpy as np
import pandas as pd
import pytest
from numpy.random import Generator
from scipy.special import expit

from fdr_core import Comparisons
from fdr_core.other_leans import LeanList, detect_leans
from fdr_core.other_leans import latent as module
from fdr_core.types import Floats, Ints


def crowd(rng: Generator, *, m: int = 16, leaning: tuple[int, ...] = (), second: bool = False) -> Comparisons:
    """People of unequal skill on 150 pairs whose quality goes with length; ``second``: half judge by another one."""
    n, each = 150, 120
    quality = rng.normal(size=(n, 2))
    x = 0.6 * quality[:, 0] + 0.8 * rng.normal(size=n)
    who, pair = np.repeat(np.arange(m), each), np.concatenate([rng.permutation(n)[:each] for _ in range(m)])
    way = rng.choice([-1.0, 1.0], len(who))
    slope = 1.5 * np.exp(rng.normal(size=m) / 2)
    eta = slope[who] * quality[pair, (who % 2) * second] + 2.0 * np.isin(who, leaning) * x[pair]
    first = np.where(rng.random(len(who)) < expit(eta), 1.0, -1.0)
    table = pd.DataFrame({"annotator": who, "outcome": first * way, "x_length": x[pair] * way})
    for side, place in (("left", way < 0), ("right", way > 0)):
        table[side] = 2 * pair + place
    return Comparisons.from_frame(table)


def length_of(data: Comparisons, *, placebos: int = 0) -> LeanList:
    found = detect_leans(data, ["length"], with_position=False, placebos=placebos)["length"]
    assert isinstance(found, LeanList)
    return found


def small(rng: Generator) -> tuple[module._Answers, module._Point]:
    who: Ints = np.tile(np.arange(3), 5)
    pair, way = np.repeat(np.arange(5), 3), rng.choice([-1.0, 1.0], 15)
    x = rng.normal(size=(5, 2))[pair] * way[:, None]
    y = rng.choice([0.0, 0.5, 1.0], 15)
    data = module._Answers(who, pair, way, y, np.ones(15), x, 3)
    return data, module._Point(rng.normal(size=(3, 4)), rng.normal(size=2))


def log_likelihood(data: module._Answers, at: Floats) -> float:
    """Written out pair by pair on a fine grid of the quality."""
    own, beta = at[:12].reshape(3, 4), at[12:]
    grid = np.linspace(-9, 9, 2001)
    total = 0.0
    for p in range(5):
        rows = np.flatnonzero(data.pair == p)
        mean = data.own_x[p] @ beta
        likely = np.exp(-((grid - mean) ** 2) / 2) / np.sqrt(2 * np.pi)
        for i in rows:
            a, b, *delta = own[data.who[i]]
            chance = expit(a * grid * data.way[i] + b + data.x[i] @ np.array(delta))
            likely *= chance ** data.y[i] * (1 - chance) ** (1 - data.y[i])
        total += np.log(likely.sum() * (grid[1] - grid[0]))
    return float(total)


def test_score_and_information_are_the_derivatives_of_the_marginal_likelihood() -> None:
    data, point = small(np.random.default_rng(0))
    at = np.append(point.own.ravel(), point.beta)
    gradient, of_pair, information = module._score(data, point)
    steps = 1e-4 * np.eye(len(at))
    seen = np.array([log_likelihood(data, at + s) - log_likelihood(data, at - s) for s in steps]) / 2e-4
    np.testing.assert_allclose(gradient, seen, atol=2e-3)
    np.testing.assert_allclose(of_pair.toarray().sum(axis=0), gradient, atol=1e-9)

    def gradient_at(where: Floats) -> Floats:
        return module._score(data, module._Point(where[:12].reshape(3, 4), where[12:]))[0]

    curved = -np.array([gradient_at(at + s) - gradient_at(at - s) for s in steps]) / 2e-4
    np.testing.assert_allclose(information, curved, atol=2e-2)


def test_leans_beyond_the_crowd_are_found_whatever_the_skill_and_although_quality_goes_with_length() -> None:
    found = length_of(crowd(np.random.default_rng(2), leaning=(0, 1)), placebos=1)
    assert found.how == "crowd"
    assert set(found.flagged) == {0, 1}
    assert "than quality and the crowd's taste explain" in found.annotators["finding"][0]
    assert found.placebos is not None
    assert "what all agree on" in found.promise


def test_leans_without_gold_nobody_leans_small_p_values_are_as_rare_as_they_should_be() -> None:
    found = [length_of(crowd(np.random.default_rng([2, k]))) for k in range(4)]
    p = np.concatenate([one.annotators["p_value"].to_numpy() for one in found if one.how == "crowd"])
    assert len(p) >= 32
    assert np.mean(p < 0.05) < 0.1


def test_two_qualities_are_seen_in_the_residuals_and_nobody_is_listed() -> None:
    found = length_of(crowd(np.random.default_rng(3), second=True))
    assert found.flagged == []
    assert found.how == "goes with"
    assert any("one quality per pair does not explain" in reason for reason in found.reasons)
    assert found.annotators["p_value"].isna().all()
    assert found.annotators["finding"].str.contains("which one is better is not known").all()
    assert found.gold_needed is not None
    assert 50 < found.gold_needed < 1000


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t: t[t["annotator"] < 4], "4 annotators are too few"),
        (lambda t: t.assign(left=t["left"] + 1000 * t.index, right=t["right"] + 1000 * t.index), "only ones to their"),
    ],
)
def test_designs_that_cannot_tell_quality_are_described_only(change: object, words: str) -> None:
    assert callable(change)
    table = crowd(np.random.default_rng(4)).to_frame()
    found = length_of(Comparisons.from_frame(change(table)))
    assert found.flagged == []
    assert words in found.reasons[0]
    assert "pairs with gold" in found.reasons[-1]


def test_where_more_than_a_third_seem_to_lean_there_is_a_doubt() -> None:
    none = np.zeros((6, 1))
    found = module.Latent(none, none, none[:, 0], none[:, 0], np.arange(6) < 3, 0.5)
    assert "3 of 6 annotators seem to lean" in found.doubts()[0]
