"""Least squares on a growing and shrinking support, by a bordered inverse of its Gram matrix."""

from __future__ import annotations

import numpy as np

from fdr_core.paper.paths.problem import PathProblem
from fdr_core.types import Floats, Ints

#: A column whose part outside the span of the support is smaller than this (squared) adds nothing to it.
DEPENDENT = 1e-10


class Support:
    """The active columns with the inverse of their Gram matrix; add and remove cost O(k^2 + k n)."""

    def __init__(self, problem: PathProblem) -> None:
        self._problem = problem
        self._capacity = 64
        self._inverse = np.zeros((self._capacity, self._capacity))
        self.columns: Ints = np.zeros(0, dtype=np.int64)

    @property
    def inverse(self) -> Floats:
        """Inverse of ``G`` restricted to the support."""
        k = len(self.columns)
        return self._inverse[:k, :k]

    def add(self, column: int) -> bool:
        """Add a column; return False (and leave the support as it is) when it depends on the columns there."""
        k = len(self.columns)
        own = float(self._problem.gram(np.array([column]), column)[0])
        g = self._problem.gram(self.columns, column)
        u = self.inverse @ g
        schur = own - float(g @ u)
        if schur <= DEPENDENT:
            return False
        self._reserve(k + 1)
        inverse = self._inverse
        inverse[:k, :k] += np.outer(u, u) / schur
        inverse[:k, k] = inverse[k, :k] = -u / schur
        inverse[k, k] = 1.0 / schur
        self.columns = np.append(self.columns, column)
        return True

    def remove(self, position: int) -> None:
        """Remove the column at a position of the support."""
        k = len(self.columns)
        keep = np.delete(np.arange(k), position)
        inverse = self.inverse
        u = inverse[keep, position]
        reduced = inverse[np.ix_(keep, keep)] - np.outer(u, u) / inverse[position, position]
        self._inverse[: k - 1, : k - 1] = reduced
        self.columns = self.columns[keep]

    def _reserve(self, size: int) -> None:
        if size > self._capacity:
            grown = np.zeros((2 * self._capacity, 2 * self._capacity))
            grown[: self._capacity, : self._capacity] = self._inverse
            self._inverse, self._capacity = grown, 2 * self._capacity
