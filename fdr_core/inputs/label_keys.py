"""Numbers that follow from labels alone: what is divided by them is divided alike, in whatever order answers came."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

import numpy as np
from pandas.util import hash_array

from fdr_core.types import Words


def label_keys(labels: Iterable[Hashable]) -> Words:
    """One number per label; 7 and "7" have the same, as files write both alike."""
    return hash_array(np.array([str(label) for label in labels] + [""], dtype=object), categorize=False)[:-1]
