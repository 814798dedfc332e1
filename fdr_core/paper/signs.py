"""Counter-based coin flips: a sign is a function of (seed, draw, copy, annotator, coin), whoever asks."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fdr_core.codes import mix
from fdr_core.types import Words

COPIES_PER_WORD = 64


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
