"""The item part of the model as an operator: solve ``(L + ridge I) x = b`` densely for few items, sparsely for many."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Protocol

import numpy as np
import scipy.linalg as sla
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import splu

from fdr_core.answers import Answers, Sums, item_pull
from fdr_core.codes import distinct_codes
from fdr_core.errors import DesignError
from fdr_core.types import Floats, Ints

#: Up to this many items the Laplacian is factorised densely (32 MB); beyond, systems are solved by conjugate gradients.
DENSE_ITEMS = 2000


#: Ridge on theta per answer under one coin (docs/method.md, section 4): with shared coins a weaker one absorbs the
#: crowd's lean.
RIDGE_PER_SHARING = 5.0


class Pattern:
    """A sparse matrix whose places stay and whose values change: values at the same place are added."""

    def __init__(self, row: Ints, column: Ints, shape: tuple[int, int]) -> None:
        key, self._place = distinct_codes(row * shape[1] + column)
        self.row, self.column = key // shape[1], key % shape[1]
        self._indptr = np.searchsorted(self.row, np.arange(shape[0] + 1))
        self.shape = shape

    def sums(self, value: Floats) -> Floats:
        """Sum of the values at every place."""
        return np.asarray(np.bincount(self._place, value, len(self.row)), dtype=np.float64)

    def matrix(self, sums: Floats) -> sp.csr_array:
        """Return the matrix with these sums at its places."""
        return sp.csr_array((sums, self.column, self._indptr), shape=self.shape)


class ItemGraph:
    """Which items were compared: the Laplacian of any weights of the answers, its places found once."""

    def __init__(self, answers: Answers, n_items: int) -> None:
        self.left, self.right, self.n_items = answers.left, answers.right, n_items
        one, other = np.minimum(answers.left, answers.right), np.maximum(answers.left, answers.right)
        self._links = Pattern(one, other, (n_items, n_items))
        row, column, item = self._links.row, self._links.column, np.arange(n_items)
        self._cells = Pattern(np.concatenate([row, column, item]), np.concatenate([column, row, item]), (n_items,) * 2)
        self.n_links = len(row)

    def pull(self, value: Floats) -> Floats:
        """``D'v``: what every item gains and loses."""
        return item_pull(self.left, self.right, value, self.n_items)

    def links(self, weight: Floats) -> Floats:
        """Sums of weights over the answers about every pair."""
        return self._links.sums(weight)

    def degree(self, links: Floats) -> Floats:
        """Diagonal of the Laplacian."""
        one, other = (np.bincount(item, links, self.n_items) for item in (self._links.row, self._links.column))
        return np.asarray(one + other, dtype=np.float64)

    def laplacian(self, links: Floats) -> sp.csr_array:
        """``D'WD`` of the sums of weights."""
        return self._cells.matrix(self._cells.sums(np.concatenate([-links, -links, self.degree(links)])))


class ItemSolver(Protocol):
    """Solves with ``K = L + ridge I``; without a ridge, with the pseudo-inverse of L."""

    @property
    def rank(self) -> int:
        """Of the Laplacian."""
        ...

    def solve(self, b: Floats) -> Floats:
        """Return ``K^{-1} b`` for a vector or the columns of a matrix."""
        ...

    def half(self, B: Floats) -> Floats:
        """Return F with ``F'F = B' K^{-1} B`` (dense only)."""
        ...


def ridge_for(answers: Answers) -> float:
    """``5 x answers / distinct coins``."""
    n_coins = int(np.count_nonzero(np.bincount(answers.coin)))
    return RIDGE_PER_SHARING * float(answers.weight.sum()) / max(1, n_coins)


def components_of(laplacian: sp.csr_array) -> NDArray[np.int32]:
    """Connected component of every item."""
    labels: NDArray[np.int32] = connected_components(laplacian, directed=False)[1]
    return labels


def item_solver(laplacian: sp.csr_array, *, ridge: float = 0.0) -> ItemSolver:
    """Choose the solver that suits the number of items."""
    if laplacian.shape[0] <= DENSE_ITEMS:
        return DenseItems(laplacian, ridge)
    return SparseItems(laplacian, ridge)


def information_left(sums: Sums, annotators: NDArray[np.int64], solver: ItemSolver) -> Floats:
    """Share of each annotator's information that the item scores do not absorb: ``1 - b_j' K^{-1} b_j / n_j``.

    Beyond ``DENSE_ITEMS`` items K is replaced by its diagonal: an approximation, a little low for unique pairs.
    """
    B = sums.B[:, annotators]
    if isinstance(solver, SparseItems):
        absorbed = np.asarray(B.multiply(B).T @ (1.0 / solver.diagonal))
    else:
        blocks = range(0, len(annotators), 5000)
        absorbed = np.concatenate([[], *((solver.half(B[:, i : i + 5000].toarray()) ** 2).sum(axis=0) for i in blocks)])
    return np.clip(1.0 - absorbed / np.maximum(sums.counts[annotators], 1.0), 0.0, 1.0)


class DenseItems:
    """Cholesky factor of the Laplacian.

    Without a ridge the mean of every component is pinned by adding ``11'/size``: columns of ``D'`` sum to zero
    within a component, so ``D (L + 11'/size)^{-1} D' = D L^+ D'`` exactly.
    """

    def __init__(self, laplacian: sp.csr_array, ridge: float) -> None:
        K = laplacian.toarray().astype(float)
        component = components_of(laplacian)
        self.rank = len(component) - int(component.max(initial=-1) + 1)
        if ridge > 0:
            K[np.diag_indices_from(K)] += ridge
        else:
            sizes = np.bincount(component)
            K += (component[:, None] == component[None, :]) / sizes[component]
        self._factor = np.asarray(sla.cholesky(K, lower=True, check_finite=False))

    def solve(self, b: Floats) -> Floats:
        """Return ``K^{-1} b``."""
        return np.asarray(sla.cho_solve((self._factor, True), b, check_finite=False))

    def half(self, B: Floats) -> Floats:
        """Return ``F`` with ``F'F = B' K^{-1} B``."""
        return np.asarray(sla.solve_triangular(self._factor, B, lower=True, check_finite=False))


class SparseItems:
    """Jacobi-preconditioned conjugate gradients, several right-hand sides at once; where slow, a sparse factor."""

    def __init__(self, laplacian: sp.csr_array, ridge: float, *, tolerance: float = 1e-10) -> None:
        self._laplacian, self._ridge = laplacian, ridge
        self.diagonal = np.maximum(laplacian.diagonal() + ridge, 1e-300)
        self._tolerance = tolerance

    @cached_property
    def _component(self) -> NDArray[np.int32]:
        return components_of(self._laplacian)

    @property
    def rank(self) -> int:
        """Of the Laplacian."""
        return len(self._component) - int(self._component.max(initial=-1) + 1)

    def _times(self, d: Floats) -> Floats:
        """``K d``."""
        return np.asarray(self._laplacian @ d + self._ridge * d)

    def solve_reduced(self, B: sp.csr_array, counts: Floats, b: Floats) -> Floats:
        """Return ``(K - B diag(1/counts) B')^{-1} b``: the system left when biases are eliminated (ridge only)."""
        x = self._conjugate_gradients(b[:, None], lambda d: self._times(d) - B @ ((B.T @ d) / counts[:, None]))
        if x is None:
            raise DesignError(f"the biases of {len(counts)} annotators cannot be told from {len(b)} item scores")
        return x[:, 0]

    def solve(self, b: Floats) -> Floats:
        """Return ``K^{-1} b`` (the right-hand sides of this model lie in the range of L, so no pinning is needed)."""
        flat = b.ndim == 1
        rhs = b[:, None] if flat else b
        x = self._conjugate_gradients(rhs, self._times)
        x = self._factorised(rhs) if x is None else x
        return x[:, 0] if flat else x

    def half(self, B: Floats) -> Floats:
        """Refuse: a square root of the inverse is dense."""
        raise DesignError(
            f"the design has {len(self.diagonal)} items; the dense square root is limited to {DENSE_ITEMS}. "
            "Use method='flip', or path='marginal'"
        )

    def _conjugate_gradients(
        self, rhs: Floats, apply: Callable[[Floats], Floats], max_iterations: int = 2000
    ) -> Floats | None:
        """Solve ``apply(x) = rhs``, or return None where that takes too many steps."""
        x = np.zeros_like(rhs)
        residual = rhs.copy()
        z = residual / self.diagonal[:, None]
        direction = z.copy()
        rz = np.einsum("ij,ij->j", residual, z)
        goal = self._tolerance**2 * np.maximum(rz, 1e-300)
        for _ in range(max_iterations):
            if (rz <= goal).all():
                return x
            Kd = apply(direction)
            curvature = np.einsum("ij,ij->j", direction, Kd)
            alpha = np.where(curvature > 0, rz / np.where(curvature > 0, curvature, 1.0), 0.0)
            x += alpha * direction
            residual -= alpha * Kd
            z = residual / self.diagonal[:, None]
            rz, previous = np.einsum("ij,ij->j", residual, z), rz
            direction = z + direction * np.where(previous > 0, rz / np.where(previous > 0, previous, 1.0), 0.0)
        return None

    def _factorised(self, rhs: Floats) -> Floats:
        """Solve directly: graphs on which conjugate gradients are slow (long chains) have factors with little fill."""
        pinned = np.full(len(self.diagonal), self._ridge)
        if not self._ridge:
            pinned[np.unique(self._component, return_index=True)[1]] = 1.0  # one item of every component stands at 0
        return np.asarray(splu((self._laplacian + sp.diags_array(pinned)).tocsc()).solve(rhs))
