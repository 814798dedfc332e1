"""Alpha against Krippendorff's published example, kappa against scikit-learn; both by hand where they are sure."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score

from fdr_core.agreement import agreement, nominal_alpha, pairwise_kappa
from fdr_core.answers import Answers


def test_alpha_is_that_of_krippendorff_s_published_example() -> None:
    # "Computing Krippendorff's Alpha-Reliability" (2011), C: four observers, twelve units, . for none
    rows = [
        "1 2 3 3 2 1 4 1 2 . . .",
        "1 2 3 3 2 2 4 1 2 5 . 3",
        ". 3 3 3 2 3 4 2 2 5 1 .",
        "1 2 3 3 2 4 4 1 2 5 1 .",
    ]
    cells = [(k, int(text) - 1) for row in rows for k, text in enumerate(row.split()) if text != "."]
    unit, value = (np.array(column) for column in zip(*cells, strict=True))
    alpha, n_units = nominal_alpha(unit, value)
    assert alpha == pytest.approx(0.743, abs=5e-4)
    assert n_units == 11  # the last unit has one value


def test_kappa_of_two_is_that_of_scikit_learn_on_the_units_they_share() -> None:
    rng = np.random.default_rng(4)
    n, units = 5, 60
    said = rng.integers(0, 3, (n, units))
    said[1] = np.where(rng.random(units) < 0.7, said[0], said[1])
    has = rng.random((n, units)) < 0.6
    person, unit = np.nonzero(has)
    table = pairwise_kappa(person, unit, said[has], n)
    for i, j in ((0, 1), (2, 3), (1, 4)):
        both = has[i] & has[j]
        assert table[i, j] == table[j, i] == pytest.approx(cohen_kappa_score(said[i][both], said[j][both]))
    assert np.isnan(np.diag(table)).all()


def _answers(person: list[int], left: list[int], right: list[int], outcome: list[float]) -> Answers:
    who, first, second = (np.array(column, dtype=np.int64) for column in (person, left, right))
    return Answers(who, first, second, np.array(outcome), np.arange(len(person)), np.ones(len(person)))


def test_a_pair_is_one_unit_whichever_way_it_stood() -> None:
    same = _answers([0, 1, 0, 1], [0, 1, 2, 2], [1, 0, 3, 3], [1, -1, -1, -1])
    assert agreement(same, 4, 2).alpha == 1.0
    turned = _answers([0, 1, 0, 1], [0, 1, 2, 2], [1, 0, 3, 3], [1, 1, 1, -1])
    assert agreement(turned, 4, 2).alpha < 0


def test_nobody_shares_anything_and_there_is_nothing_to_say() -> None:
    found = agreement(_answers([0, 1], [0, 2], [1, 3], [1, 1]), 4, 2)
    assert np.isnan([found.alpha, found.median_kappa]).all()
    assert found.n_units == 0
    assert found.n_others.tolist() == [0, 0]
