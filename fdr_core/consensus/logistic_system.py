"""The linear systems of the logistic consensus: item scores with the annotators' parameters eliminated."""

from __future__ import annotations

import numpy as np
import scipy.linalg as sla
import scipy.sparse as sp

from fdr_core.answers import Answers, item_pull, laplacian_of
from fdr_core.codes import distinct_codes
from fdr_core.design import DENSE_ITEMS, SparseItems, components_of
from fdr_core.types import Floats, Ints, Mask

#: Parameters are eliminated up to this many multiplications: at every step, and once for the covariance.
MOST_WORK_PER_STEP, MOST_WORK_ONCE = 1e8, 4e9
_BLOCK = 5000


def work_of(n_items: int, n_parameters: int) -> float:
    """Multiplications that eliminating the parameters takes; infinite where there are too many items for it."""
    return float(n_items) ** 2 * n_parameters if n_items <= DENSE_ITEMS else np.inf


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


class Incidence:
    """Which items were compared, and which annotators met which items."""

    def __init__(self, answers: Answers, n_items: int, n_annotators: int) -> None:
        self.left, self.right, self.n_items = answers.left, answers.right, n_items
        self._annotator, self._links = answers.annotator, Pattern(answers.left, answers.right, (n_items, n_items))
        component = components_of(self.laplacian(np.ones(len(self._links.row))))
        self.rank = n_items - int(component.max(initial=-1) + 1)
        self._met = Met(self, answers.annotator, np.zeros(n_annotators, dtype=bool))

    def pull(self, value: Floats) -> Floats:
        """``D'v``: what every item gains and loses."""
        return item_pull(self.left, self.right, value, self.n_items)

    def links(self, weight: Floats) -> Floats:
        """Sums of weights over the answers about every (left, right)."""
        return self._links.sums(weight)

    def laplacian(self, links: Floats) -> sp.csr_array:
        """``D'WD`` of the sums of weights."""
        return laplacian_of(self._links.matrix(links))

    def degree(self, links: Floats) -> Floats:
        """Diagonal of the Laplacian."""
        left, right = (np.bincount(item, links, self.n_items) for item in (self._links.row, self._links.column))
        return np.asarray(left + right, dtype=np.float64)

    def met_by(self, chosen: Mask) -> Met:
        """Which of the chosen annotators met which items; remembered until others are asked for."""
        if not np.array_equal(chosen, self._met.chosen):
            self._met = Met(self, self._annotator, chosen)
        return self._met


class Met:
    """Which of the chosen annotators met which items."""

    def __init__(self, incidence: Incidence, annotator: Ints, chosen: Mask) -> None:
        self.chosen = chosen
        self._rows = np.flatnonzero(chosen[annotator])
        code = (np.cumsum(chosen) - 1)[annotator[self._rows]]
        items = np.concatenate([incidence.left[self._rows], incidence.right[self._rows]])
        self.places = Pattern(items, np.concatenate([code, code]), (incidence.n_items, int(chosen.sum())))

    def signed(self, value: Floats) -> Floats:
        """``D'VA`` at the places."""
        of_chosen = value[self._rows]
        return self.places.sums(np.concatenate([of_chosen, -of_chosen]))


class Eliminated:
    """``K - U U'``: information on the item scores when the annotators' parameters are eliminated.

    Parameters
    ----------
    laplacian : information on the scores alone, without the ridge.
    U : (n, p) information between scores and parameters, times a square root of the parameters' covariance.
    """

    def __init__(self, laplacian: sp.csr_array, ridge: float, U: sp.csr_array) -> None:
        self.laplacian, self.ridge, self._U = laplacian, ridge, U

    def solve(self, b: Floats) -> Floats:
        """Return ``(K - U U')^{-1} b``."""
        if not self._fits:
            return SparseItems(self.laplacian, self.ridge, tolerance=1e-7).solve(b)
        factor = sla.cho_factor(self._dense(self._U), overwrite_a=True, check_finite=False)
        return np.asarray(sla.cho_solve(factor, b, check_finite=False))

    def inverse(self, essential: Mask) -> Floats | None:
        """The covariance of the scores; None beyond `DENSE_ITEMS`.

        Where eliminating everybody takes too long, parameters that are not ``essential`` (p,) are taken as known.
        """
        if not self._fits:
            return None
        U = (
            self._U
            if work_of(*self._U.shape) <= MOST_WORK_ONCE
            else sp.csr_array(self._U[:, np.flatnonzero(essential)])
        )
        return np.asarray(sla.inv(self._dense(U), check_finite=False))

    @property
    def _fits(self) -> bool:
        return bool(self.laplacian.shape[0] <= DENSE_ITEMS)

    def _dense(self, U: sp.csr_array) -> Floats:
        K: Floats = self.laplacian.toarray()
        K[np.diag_indices_from(K)] += self.ridge
        columns = sp.csc_array(U)
        for start in range(0, U.shape[1], _BLOCK):
            block = columns[:, start : start + _BLOCK].toarray()
            K -= block @ block.T
        return K
