"""Solving with the item Laplacian, densely and sparsely, and what theta absorbs of an annotator."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from fdr_core import DesignError
from fdr_core.answers import Answers, sum_answers
from fdr_core.design import DENSE_ITEMS, DenseItems, SparseItems, components_of, information_left, item_solver
from tests.core.cases import crowd, sums_of
from tests.core.dense import dense_design


def two_groups() -> Answers:
    """Items 0-3 and 4-7 never compared with each other."""
    answers = crowd(np.random.default_rng(0))
    group = answers.left // 4
    right = group * 4 + (answers.left + 1 + answers.right % 3) % 4
    return Answers(answers.annotator, answers.left, right, answers.outcome, answers.coin, answers.weight)


@pytest.mark.parametrize("make", [lambda: crowd(np.random.default_rng(0)), two_groups], ids=["connected", "two groups"])
@pytest.mark.parametrize("ridge", [0.0, 5.0])
def test_both_solvers_equal_the_dense_projection(make: Callable[..., Any], ridge: float) -> None:
    answers = make()
    sums = sums_of(answers)
    D, _ = dense_design(answers, 8, 20)
    K = np.linalg.pinv(D.T @ D) if ridge == 0 else np.linalg.inv(D.T @ D + ridge * np.eye(8))
    rhs = np.column_stack([sums.Dy, sums.B.toarray()])
    for solver in (DenseItems(sums.laplacian, ridge), SparseItems(sums.laplacian, ridge)):
        assert D @ solver.solve(rhs) == pytest.approx(D @ K @ rhs, abs=1e-8)
        assert D @ solver.solve(sums.Dy) == pytest.approx(D @ K @ sums.Dy, abs=1e-8)
        assert solver.rank == np.linalg.matrix_rank(D)
    half = DenseItems(sums.laplacian, ridge).half(sums.B.toarray())
    assert half.T @ half == pytest.approx(sums.B.toarray().T @ K @ sums.B.toarray(), abs=1e-8)


def test_components_of_two_groups_are_two() -> None:
    assert components_of(sums_of(two_groups()).laplacian).tolist() == [0, 0, 0, 0, 1, 1, 1, 1]


@pytest.mark.parametrize("ridge", [0.0, 5.0])
def test_information_left_equals_the_projected_length_of_the_annotator_column(ridge: float) -> None:
    answers = crowd(np.random.default_rng(1))
    sums = sums_of(answers)
    D, A = dense_design(answers, 8, 20)
    K = np.linalg.pinv(D.T @ D) if ridge == 0 else np.linalg.inv(D.T @ D + ridge * np.eye(8))
    expected = 1 - np.diag(A.T @ D @ K @ D.T @ A)
    assert information_left(sums, np.arange(20), DenseItems(sums.laplacian, ridge)) == pytest.approx(expected)


def test_information_left_on_many_items_is_close_to_the_exact_one_for_unique_pairs() -> None:
    n_tasks = 40
    rows = [(j, 2 * t, 2 * t + 1) for j in range(3) for t in range(n_tasks)]
    who, left, right = (np.array(column) for column in zip(*rows, strict=True))
    answers = Answers(who, left, right, np.ones(len(who)), left // 2, np.ones(len(who)))
    sums = sum_answers(answers, 2 * n_tasks, 3)
    exact = information_left(sums, np.arange(3), DenseItems(sums.laplacian, 15.0))
    rough = information_left(sums, np.arange(3), SparseItems(sums.laplacian, 15.0))
    assert rough == pytest.approx(exact, abs=0.03)
    assert (rough <= exact).all()  # rather too little than too much


def test_item_solver_beyond_the_dense_limit_is_sparse_and_agrees() -> None:
    rng = np.random.default_rng(2)
    n = DENSE_ITEMS + 500
    left = np.concatenate([np.arange(n), rng.integers(n, size=6 * n)])
    right = np.concatenate([(np.arange(n) + 1) % n, (left[n:] + rng.integers(1, n, size=6 * n)) % n])
    answers = Answers(left % 50, left, right, rng.choice([-1.0, 1.0], size=7 * n), np.arange(7 * n), np.ones(7 * n))
    sums = sum_answers(answers, n, 50)
    solver = item_solver(sums.laplacian, ridge=5.0)
    assert isinstance(solver, SparseItems)
    assert solver.solve(sums.Dy) == pytest.approx(DenseItems(sums.laplacian, 5.0).solve(sums.Dy), abs=1e-8)
    assert isinstance(item_solver(sums_of(crowd(rng)).laplacian), DenseItems)
    with pytest.raises(DesignError, match=f"limited to {DENSE_ITEMS}"):
        solver.half(np.zeros((n, 1)))


def test_sparse_solver_on_a_long_chain_of_items_still_solves() -> None:
    n = 5000
    links = sp.coo_array((np.ones(n - 1), (np.arange(n - 1), np.arange(1, n))), shape=(n, n)).tocsr()
    both = links + links.T
    laplacian = sp.csr_array(sp.diags_array(np.asarray(both.sum(axis=1)).ravel()) - both)
    truth = np.sin(np.arange(n) / 100.0)
    truth -= truth.mean()
    found = SparseItems(laplacian, 0.0).solve(laplacian @ truth)
    assert found - found.mean() == pytest.approx(truth, abs=1e-6)
