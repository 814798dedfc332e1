"""Coin-flip knockoffs: the same annotator with the coins flipped anew, several copies at once."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from fdr_core.design import DENSE_ITEMS, item_solver
from fdr_core.knockoffs.rows import JudgedRows
from fdr_core.knockoffs.signs import CoinFlips
from fdr_core.paths.problem import PathProblem
from fdr_core.statistics import Answers, sum_answers

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Ridge on theta per answer under one coin (design section 2): with shared coins a weaker one absorbs the crowd's lean.
RIDGE_PER_SHARING = 5.0


def ridge_for(answers: Answers) -> float:
    """``5 x answers / distinct coins``."""
    n_coins = int(np.count_nonzero(np.bincount(answers.coin)))
    return RIDGE_PER_SHARING * float(answers.weight.sum()) / max(1, n_coins)


class FlipDesign:
    """What all draws have in common: the ridge fit, its residuals, and the judged annotators' rows.

    Under the null an annotator's choice of item does not depend on the side it stood on, so turning a coin changes the
    sign of ``y`` and of the row of D together: ``L`` and ``D'y`` stay, hence theta_hat stays, and residuals change
    sign.

    Parameters
    ----------
    answers : all answers.
    judged : codes of the annotators that take part; the answers of the others still inform theta.
    """

    def __init__(self, answers: Answers, *, n_items: int, n_annotators: int, judged: Ints, ridge: float) -> None:
        sums = sum_answers(answers, n_items, n_annotators)
        self._n_items = n_items
        self._solver = item_solver(sums.laplacian, ridge=ridge)
        self.theta = self._solver.solve(sums.Dy)
        self.rows = JudgedRows.of(answers, judged, n_annotators)
        self._rows, self._position = self.rows.answers, self.rows.position
        self._starts = np.searchsorted(self._position, np.arange(len(judged)))
        self.m = len(judged)
        self._scale = 1.0 / np.sqrt(np.maximum(sums.counts[judged], 1.0))
        self._residual = self._rows.weight * (
            self._rows.outcome - (self.theta[self._rows.left] - self.theta[self._rows.right])
        )

    @cached_property
    def own_correlations(self) -> Floats:
        """``c`` of the annotators' own columns."""
        return self._correlations(self._residual)

    @cached_property
    def own_rows(self) -> Floats | sp.csr_array:
        """``F'`` (dense) or the scaled signed item counts (sparse) of the annotators' own columns."""
        return self._factor(self._signed_counts(None))

    def own_problem(self, *, correlations_only: bool = False) -> PathProblem:
        """The path of the annotators' own columns, without knockoffs."""
        if correlations_only:
            return self._marginal_problem(self.own_correlations, lanes=1)
        return self._problem(self.own_correlations, self.own_rows, lanes=1)

    def draw(self, flips: CoinFlips, draw: int, copies: int, *, correlations_only: bool = False) -> PathProblem:
        """Draw ``copies`` knockoffs of every judged annotator.

        Returns
        -------
        PathProblem with lane 0 the annotators' own columns and one lane per copy.
        """
        signs = flips.signs(draw, copies)
        c = np.concatenate([self.own_correlations, *(self._correlations(self._residual * sign) for sign in signs)])
        if correlations_only:
            return self._marginal_problem(c, lanes=copies + 1)
        factors = [self.own_rows, *(self._factor(self._signed_counts(sign)) for sign in signs)]
        rows = np.concatenate(factors) if self._is_dense else sp.csr_array(sp.vstack(factors))
        return self._problem(c, rows, lanes=copies + 1)

    def flips(self, seed: int) -> CoinFlips:
        """The coins of the judged annotators' answers."""
        return CoinFlips(self._rows.annotator, self._rows.coin, seed=seed)

    @property
    def _is_dense(self) -> bool:
        return self._n_items <= DENSE_ITEMS

    def _problem(self, c: Floats, rows: Floats | sp.csr_array, lanes: int) -> PathProblem:
        return PathProblem(c, rows, self.m, lanes, solver=None if self._is_dense else self._solver)

    def _marginal_problem(self, c: Floats, lanes: int) -> PathProblem:
        return PathProblem(c, sp.csr_array((len(c), self._n_items)), self.m, lanes, solver=self._solver)

    def _correlations(self, signed_residual: Floats) -> Floats:
        if not self.m:
            return np.zeros(0)
        return np.asarray(np.add.reduceat(signed_residual, self._starts)) * self._scale

    def _signed_counts(self, sign: NDArray[np.int8] | None) -> Floats | sp.csr_array:
        """Rows of ``X'D``, one per judged annotator."""
        weight = self._rows.weight if sign is None else self._rows.weight * sign
        shape = (self.m, self._n_items)
        if self._is_dense:
            size, base = self.m * self._n_items, self._position * self._n_items
            counts = np.bincount(base + self._rows.left, weight, minlength=size)
            counts -= np.bincount(base + self._rows.right, weight, minlength=size)
            return counts.reshape(shape) * self._scale[:, None]
        column = np.concatenate([self._rows.left, self._rows.right])
        row = np.concatenate([self._position, self._position])
        data = np.concatenate([weight, -weight]) * self._scale[row]
        return sp.coo_array((data, (row, column)), shape=shape).tocsr()

    def _factor(self, counts: Floats | sp.csr_array) -> Floats | sp.csr_array:
        return np.ascontiguousarray(self._solver.half(counts.T).T) if self._is_dense else counts
