"""Counter-based coin flips: a sign is a function of (seed, draw, copy, annotator, coin), whoever asks."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fdr_core.types import Words

COPIES_PER_WORD = 64

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MULTIPLIERS = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_SHIFTS = (np.uint64(30), np.uint64(27), np.uint64(31))


def mix(x: Words) -> Words:
    """The finaliser of SplitMix64 (Steele, Lea, Flood 2014): every input bit reaches every output bit."""
    x = x + _GOLDEN
    x ^= x >> _SHIFTS[0]
    x *= _MULTIPLIERS[0]
    x ^= x >> _SHIFTS[1]
    x *= _MULTIPLIERS[1]
    x ^= x >> _SHIFTS[2]
    return x


class CoinFlips:
    """Fresh signs for every (annotator, coin) of a table of answers.

    Parameters
    ----------
    annotator, coin : (N,) integer codes of each row.
    seed : the seed that is recorded with a run.
    """

    def __init__(self, annotator: NDArray[np.int64], coin: NDArray[np.int64], *, seed: int) -> None:
        self._key = mix(np.array([seed % 2**64], dtype=np.uint64))
        self._rows = mix(mix(annotator.astype(np.uint64)) ^ coin.astype(np.uint64))

    def words(self, draw: int, block: int = 0) -> Words:
        """64 random bits per row: bit k is the sign of copy ``64 block + k``."""
        key = mix(self._key ^ np.uint64(draw)) ^ mix(np.array([block], dtype=np.uint64))
        return mix(self._rows ^ mix(key))

    def signs(self, draw: int, copies: int) -> list[NDArray[np.int8]]:
        """The signs (+1 or -1) of copies 1 to ``copies`` in one draw."""
        signs = []
        for copy in range(copies):
            if copy % COPIES_PER_WORD == 0:
                words = self.words(draw, copy // COPIES_PER_WORD)
            bit = (words >> np.uint64(copy % COPIES_PER_WORD)).astype(np.int8) & np.int8(1)
            signs.append((2 * bit - 1).astype(np.int8))
        return signs
