"""Counter-based signs: the same for everybody who asks, fair, and independent between copies, draws and seeds."""

import numpy as np
import pytest

from fdr_core.codes import mix
from fdr_core.paper.copies import CoinFlips

N = 20_000


def many(seed: int = 0) -> CoinFlips:
    return CoinFlips(np.arange(N) % 7, np.arange(N), seed=seed)


def test_mix_equals_the_published_sequence_of_splitmix64() -> None:
    # first outputs of SplitMix64 seeded with 1234567 (reference implementation of Steele, Lea and Flood)
    gamma = 0x9E3779B97F4A7C15
    states = np.array([(1234567 + k * gamma) % 2**64 for k in range(3)], dtype=np.uint64)
    expected = [6457827717110365317, 3203168211198807973, 9817491932198370423]
    assert mix(states).tolist() == expected


def test_signs_of_one_annotator_and_coin_are_one_sign() -> None:
    annotator, coin = np.array([0, 0, 0, 1]), np.array([5, 5, 6, 5])
    draws = np.array([CoinFlips(annotator, coin, seed=3).signs(draw, 1)[0] for draw in range(400)])
    assert (draws[:, 0] == draws[:, 1]).all()
    for other in (2, 3):
        assert abs((draws[:, 0] * draws[:, other]).mean()) < 4 / np.sqrt(400)


def test_signs_of_a_part_of_the_rows_are_those_of_the_whole() -> None:
    annotator, coin = np.arange(50) % 5, np.arange(50) % 11
    whole = CoinFlips(annotator, coin, seed=9).signs(4, 70)
    part = CoinFlips(annotator[20:], coin[20:], seed=9).signs(4, 70)
    assert all((a[20:] == b).all() for a, b in zip(whole, part, strict=True))


@pytest.mark.parametrize("copy", [0, 1, 9, 63, 64, 99])
def test_signs_are_fair_and_plus_or_minus_one(copy: int) -> None:
    signs = many().signs(0, copy + 1)[copy]
    assert set(np.unique(signs).tolist()) == {-1, 1}
    assert abs(signs.mean()) < 4 / np.sqrt(N)


def test_signs_of_other_copies_draws_and_seeds_are_uncorrelated() -> None:
    base = many().signs(0, 66)
    others = [
        base[1],
        base[64],
        base[65],
        many().signs(1, 1)[0],
        many(seed=1).signs(0, 1)[0],
        many(seed=1).signs(1, 1)[0],
    ]
    for other in others:
        assert abs((base[0] * other.astype(float)).mean()) < 4 / np.sqrt(N)
    assert abs((base[63] * base[64].astype(float)).mean()) < 4 / np.sqrt(N)
