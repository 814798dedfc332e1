"""Classes of items, such as the model that wrote a response, or old and new: guessed from names that all follow suit.

Where every pair is unique an item stands left once and says nothing about how sides came about; its class does.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fdr_core.types import Ints

#: What names look like: class and number, number and class, class and anything, anything and class.
_FORMS = (r"(.*\D)\d+", r"\d+(\D.*)", r"([^/:|#@]+)[/:|#@].*", r".*[/:|#@]([^/:|#@]+)")
#: So many classes are a guess worth testing, if each holds a few items.
MOST_CLASSES, FEWEST_ITEMS = 30, 5


def guessed_classes(items: Sequence[object] | NDArray[np.object_]) -> tuple[Ints, list[str]] | None:
    """Class of every item, and the classes' names; None where the items' names do not tell."""
    names = [str(item) for item in items]
    for form in _FORMS:
        pattern = re.compile(form, re.DOTALL)
        if not names or pattern.fullmatch(names[0]) is None:
            continue
        matches = [pattern.fullmatch(name) for name in names]
        found = [match[1].strip(" _-/:|#@.") for match in matches if match]
        sizes = Counter(found)
        if len(found) == len(names) and 2 <= len(sizes) <= MOST_CLASSES and min(sizes.values()) >= FEWEST_ITEMS:
            code = {name: place for place, name in enumerate(sorted(sizes))}
            return np.array([code[name] for name in found], dtype=np.int64), sorted(sizes)
    return None
