"""Numbers that follow from labels alone: what is divided by them is divided alike, in whatever order answers came."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

import numpy as np
from numpy.typing import NDArray
from pandas.util import hash_array

Words = NDArray[np.uint64]


def label_keys(labels: Iterable[Hashable]) -> Words:
    """One number per label; 7 and "7" have the same, as files write both alike."""
    return hash_array(np.array([str(label) for label in labels] + [""], dtype=object), categorize=False)[:-1]


def smallest_by(code: NDArray[np.int64], key: Words) -> Words:
    """The smallest key among the rows of every compact code."""
    smallest = np.full(int(code.max(initial=-1)) + 1, np.iinfo(np.uint64).max, dtype=np.uint64)
    np.minimum.at(smallest, code, key)
    return smallest
