"""Agreement between people on the pairs they share: Krippendorff's alpha, and Cohen's kappa of every two.

A unit is a pair of items, whichever way it stood; the value is the item chosen, or a tie. Both measures are for names,
not for grades, and both fall where items are close: they tell how hard the work is as much as how well it is done.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from fdr_core.answers import Answers
from fdr_core.codes import compact_codes
from fdr_core.types import Floats, Ints

#: Kappa of two people is told from so many shared pairs on.
LEAST_SHARED = 10
#: Beyond this many people not every two are compared.
MOST_PEOPLE = 2000


@dataclass(frozen=True)
class Agreement:
    """``alpha`` of everybody, on ``n_units`` shared pairs (NaN where none is), and of each person the median ``kappa``
    with others and with how many (``n_others``); ``median_kappa`` is of all twos."""

    alpha: float
    n_units: int
    median_kappa: float
    kappa: Floats
    n_others: Ints


def agreement(answers: Answers, n_items: int, n_annotators: int) -> Agreement:
    """Of each person's answers about a pair the one given most often counts, a tie where two were."""
    low, high = np.minimum(answers.left, answers.right), np.maximum(answers.left, answers.right)
    unit = compact_codes(low.astype(np.int64) * n_items + high)
    first = np.sign(answers.outcome) * np.where(answers.left < answers.right, 1, -1)
    cell, place = np.unique(unit * n_annotators + answers.annotator, return_inverse=True)
    value = np.sign(np.bincount(place, first * answers.weight)).astype(np.int64) + 1
    unit, person = cell // n_annotators, cell % n_annotators
    alpha, n_units = nominal_alpha(unit, value)
    kappa, n_others, middle = np.full(n_annotators, np.nan), np.zeros(n_annotators, dtype=np.int64), np.nan
    if n_annotators <= MOST_PEOPLE:
        table = pairwise_kappa(person, unit, value, n_annotators)
        n_others = np.isfinite(table).sum(axis=1)
        for one in np.flatnonzero(n_others):
            kappa[one] = np.nanmedian(table[one])
        middle = float(np.nanmedian(table)) if n_others.any() else np.nan
    return Agreement(alpha, n_units, middle, kappa, n_others)


def nominal_alpha(unit: Ints, value: Ints) -> tuple[float, int]:
    """
    Krippendorff's alpha for names, and the number of units with two values or more.

    ``1 - D_o / D_e`` of coincidences: each unit with m values adds ``n_c n_k / (m - 1)`` to the pair of names (c, k)
    (Krippendorff, Content Analysis, chapter 11); who is alone on a unit adds nothing.
    """
    counts = np.zeros((int(unit.max(initial=-1)) + 1, int(value.max(initial=0)) + 1))
    np.add.at(counts, (unit, value), 1.0)
    counts = counts[counts.sum(axis=1) > 1]
    m = counts.sum(axis=1)
    agreed = float(((counts * (counts - 1)).sum(axis=1) / (m - 1)).sum())
    each = counts.sum(axis=0)
    n = float(each.sum())
    expected = float((each * (each - 1)).sum()) / (n - 1) if n > 1 else n
    return ((agreed - expected) / (n - expected) if n > expected else np.nan), len(counts)


def pairwise_kappa(person: Ints, unit: Ints, value: Ints, n: int) -> Floats:
    """(n, n) Cohen's kappa of every two with `LEAST_SHARED` units in common; NaN for others and on the diagonal."""
    shape = (n, int(unit.max(initial=-1)) + 1)
    ones = np.ones(len(person))
    given = sp.csr_array((ones, (person, unit)), shape=shape)
    shared = (given @ given.T).toarray()
    agreed, chance = np.zeros((n, n)), np.zeros((n, n))
    for name in np.unique(value):
        of = value == name
        chosen = sp.csr_array((ones[of], (person[of], unit[of])), shape=shape)
        agreed += (chosen @ chosen.T).toarray()
        on_shared = (chosen @ given.T).toarray()  # how often i says this where j said something
        chance += on_shared * on_shared.T
    is_told = (shared >= LEAST_SHARED) & ~np.eye(n, dtype=bool)
    shared = np.where(is_told, shared, 1.0)
    by_chance = chance / shared**2
    is_told &= by_chance < 1 - 1e-12
    return np.where(is_told, (agreed / shared - by_chance) / np.where(is_told, 1 - by_chance, 1.0), np.nan)
