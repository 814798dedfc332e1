"""The comparisons as matrices, the way regression packages want them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from benchmarks.results.quality import CannotRunError
from fdr_core.comparisons import Comparisons

Floats = NDArray[np.float64]

#: A matrix larger than this is not even tried.
MOST_GIGABYTES = 6.0


def dense(comparisons: Comparisons) -> tuple[Floats, Floats]:
    """Build D (answers by items, +1 left, -1 right) and A (answers by annotators, columns of length one)."""
    size = len(comparisons)
    require_memory(size, comparisons.n_items + comparisons.n_annotators)
    rows = np.arange(size)
    D = np.zeros((size, comparisons.n_items))
    D[rows, comparisons.left] = 1.0
    D[rows, comparisons.right] = -1.0
    A = np.zeros((size, comparisons.n_annotators))
    A[rows, comparisons.annotator] = 1.0
    return D, A / np.sqrt(A.sum(axis=0))


def rotated(comparisons: Comparisons) -> tuple[Floats, Floats]:
    """
    Rotate A and y into the orthogonal complement of D (the paper's Remark 1), so that any fixed-X filter applies.

    Raises
    ------
    CannotRunError
        Where item scores absorb a common lean, so that the rotated columns are dependent.
    """
    D, A = dense(comparisons)
    basis = D[:, _independent(D)]
    factor, tau, _, _ = lapack.dgeqrf(np.asfortranarray(basis))
    both = np.asfortranarray(np.column_stack([A, comparisons.outcome]))
    work = int(lapack.dormqr("L", "T", factor, tau, both, -1)[1][0])
    turned = lapack.dormqr("L", "T", factor, tau, both, work)[0][basis.shape[1] :]
    # knockpy takes its random columns from the first rows: in mixed order these are nobody's in particular
    turned = turned[np.random.default_rng(0).permutation(len(turned))]
    X, y = np.ascontiguousarray(turned[:, :-1]), np.ascontiguousarray(turned[:, -1])
    if X.shape[0] < 2 * X.shape[1]:
        raise CannotRunError("too few answers: a fixed design needs two rows per annotator beside the items")
    if np.linalg.eigvalsh(X.T @ X)[0] < 1e-8:
        raise CannotRunError("item scores absorb the lean: the projected columns are dependent")
    return X, y


def require_memory(rows: int, columns: int, what: str = "one dense design") -> None:
    """Refuse matrices that would not fit."""
    gigabytes = 8e-9 * rows * columns
    if gigabytes > MOST_GIGABYTES:
        raise CannotRunError(f"memory: {what} alone would take {gigabytes:.0f} GB")


def _independent(D: Floats) -> NDArray[np.int64]:
    """Columns of D without the first item of every connected group."""
    from scipy.sparse.csgraph import connected_components

    group = connected_components(np.abs(D.T @ D) > 0, directed=False)[1]
    first = np.unique(group, return_index=True)[1]
    return np.setdiff1d(np.arange(D.shape[1]), first)
