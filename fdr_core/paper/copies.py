"""Knockoff copies of annotators: by coin flips, or those of the paper's fixed design."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import lapack

from fdr_core.answers import Answers, Sums, rows_of, sum_answers
from fdr_core.codes import mix, order_by
from fdr_core.design import DENSE_ITEMS, DenseItems, ItemSolver, item_solver
from fdr_core.errors import DesignError
from fdr_core.paper.problem import PathProblem
from fdr_core.paper.slack import slack
from fdr_core.projection import FixedDesign, solve_sigma
from fdr_core.types import Floats, Ints, Words

COPIES_PER_WORD = 64


class CoinFlips:
    """Fresh signs for every (annotator, coin) of a table of answers.

    Parameters
    ----------
    annotator, coin : (N,) integer codes of each row.
    seed : the seed that is recorded with a run.
    """

    def __init__(self, annotator: NDArray[np.int64], coin: NDArray[np.int64], *, seed: int) -> None:
        self._key = mix(np.array([seed % 2**64], dtype=np.uint64))
        self._rows = mix(mix(annotator.astype(np.uint64)) ^ coin.astype(np.uint64))

    def words(self, draw: int, block: int = 0) -> Words:
        """64 random bits per row: bit k is the sign of copy ``64 block + k``."""
        key = mix(self._key ^ np.uint64(draw)) ^ mix(np.array([block], dtype=np.uint64))
        return mix(self._rows ^ mix(key))

    def signs(self, draw: int, copies: int) -> list[NDArray[np.int8]]:
        """The signs (+1 or -1) of copies 1 to ``copies`` in one draw."""
        signs = []
        for copy in range(copies):
            if copy % COPIES_PER_WORD == 0:
                words = self.words(draw, copy // COPIES_PER_WORD)
            bit = (words >> np.uint64(copy % COPIES_PER_WORD)).astype(np.int8) & np.int8(1)
            signs.append((2 * bit - 1).astype(np.int8))
        return signs


@dataclass(frozen=True)
class JudgedRows:
    """Rows of an answer table, ordered by judged annotator.

    Attributes
    ----------
    judged : codes of the judged annotators.
    chosen : positions of the rows in the whole table.
    answers : the rows.
    position : which of the judged each row belongs to, ascending.
    """

    judged: Ints
    chosen: Ints
    answers: Answers
    position: Ints

    @classmethod
    def of(cls, answers: Answers, judged: Ints, n_annotators: int) -> JudgedRows:
        """Take the rows of the judged out of a table."""
        chosen, position = rows_of(answers, judged, n_annotators)
        order = order_by(position)
        return cls(judged, chosen[order], answers.take(chosen[order]), position[order])


#: From this share of filled (annotator, item) cells on, rows are kept densely.
FILLED = 0.2
#: Up to this many (annotator, item) cells they are kept densely in any case.
SMALL = 200_000
#: Up to this many cells the filled ones are found by marking them (a byte each), beyond by sorting.
MOST_MARKS = 100_000_000


class InverseItems:
    """``K^{-1}`` as a matrix."""

    def __init__(self, solver: DenseItems, n_items: int) -> None:
        self.rank = solver.rank
        self._inverse = solver.solve(np.eye(n_items))

    def solve(self, b: Floats) -> Floats:
        """Return ``K^{-1} b``."""
        return np.asarray(self._inverse @ b)

    def half(self, B: Floats) -> Floats:
        """Return F with ``F'F = B' K^{-1} B``."""
        return np.asarray(np.linalg.cholesky(self._inverse).T @ B)


class SignedCounts:
    """How often each annotator saw each item left minus right, with the coins as they fell or turned by signs.

    Which (annotator, item) cells are filled does not depend on the signs, so one sparse product serves all copies.

    Parameters
    ----------
    rows : the answers of the judged.
    n_items : number of items.
    """

    def __init__(self, rows: JudgedRows, n_items: int) -> None:
        answers, m = rows.answers, len(rows.judged)
        self._shape = m, n_items
        n, n_cells = len(answers), m * n_items
        cell = np.concatenate([rows.position * n_items + answers.left, rows.position * n_items + answers.right])
        filled = _distinct(cell, n_cells)
        self._is_dense = n_items <= DENSE_ITEMS and (n_cells <= SMALL or len(filled) > FILLED * n_cells)
        if not self._is_dense:
            cell, n_cells = np.searchsorted(filled, cell), len(filled)
            self._column = filled % n_items
            self._starts = np.searchsorted(filled, np.arange(m + 1) * n_items)
        # counts are whole and small, hence exact in single precision
        weight = np.concatenate([answers.weight, -answers.weight]).astype(np.float32)
        answer = np.tile(np.arange(n), 2)
        self._sum = sp.csr_array(sp.coo_array((weight, (cell, answer)), shape=(n_cells, n)))
        self._own = np.asarray(self._sum.sum(axis=1), dtype=np.float32)

    def rows(self, signs: Sequence[NDArray[np.int8]], scale: Floats) -> Floats | sp.csr_array:
        """Rows of ``X'D`` times scale: the own columns of all, then those of every copy."""
        lanes = [self._own, *(self._sum @ sign.astype(np.float32) for sign in signs)]
        if self._is_dense:
            return np.concatenate([lane.reshape(self._shape) * scale[:, None] for lane in lanes])
        per_cell = np.repeat(scale, np.diff(self._starts))
        starts = [self._starts[:1], *(self._starts[1:] + k * self._starts[-1] for k in range(len(lanes)))]
        column, (m, n_items) = np.tile(self._column, len(lanes)), self._shape
        data = np.concatenate([lane * per_cell for lane in lanes])
        return sp.csr_array((data, column, np.concatenate(starts)), shape=(len(lanes) * m, n_items))


def _distinct(codes: Ints, size: int) -> Ints:
    """The distinct codes in order, by marking them where there is room to."""
    if size > MOST_MARKS:
        return np.unique(codes)
    is_there = np.zeros(size, dtype=bool)
    is_there[codes] = True
    return np.flatnonzero(is_there)


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
    def _inverse(self) -> ItemSolver:
        """For few items the inverse as a matrix: a path solves with it at every step."""
        if not isinstance(self._solver, DenseItems):
            return self._solver
        return InverseItems(self._solver, self._n_items)

    @cached_property
    def _cells(self) -> SignedCounts:
        return SignedCounts(self.rows, self._n_items)

    @cached_property
    def own_correlations(self) -> Floats:
        """``c`` of the annotators' own columns."""
        return self._correlations(self._residual)

    def own_problem(self, *, correlations_only: bool = False) -> PathProblem:
        """The path of the annotators' own columns, without knockoffs."""
        if correlations_only:
            return self._marginal_problem(self.own_correlations, lanes=1)
        return self._problem(self.own_correlations, self._cells.rows([], self._scale), lanes=1)

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
        return self._problem(c, self._cells.rows(signs, self._scale), lanes=copies + 1)

    def flips(self, seed: int) -> CoinFlips:
        """The coins of the judged annotators' answers."""
        return CoinFlips(self._rows.annotator, self._rows.coin, seed=seed)

    def _problem(self, c: Floats, rows: Floats | sp.csr_array, lanes: int) -> PathProblem:
        return PathProblem(c, rows, self.m, lanes, solver=self._inverse)

    def _marginal_problem(self, c: Floats, lanes: int) -> PathProblem:
        return PathProblem(c, sp.csr_array((len(c), self._n_items)), self.m, lanes, solver=self._solver)

    def _correlations(self, signed_residual: Floats) -> Floats:
        if not self.m:
            return np.zeros(0)
        return np.asarray(np.add.reduceat(signed_residual, self._starts)) * self._scale


def own_problem(design: FixedDesign) -> PathProblem:
    """The path of the annotators' own columns, without knockoffs."""
    return PathProblem(design.c, np.ascontiguousarray(design.F.T), design.m, 1)


class FixedKnockoffs:
    """Draws of the knockoff correlations without ever building the knockoff columns.

    ``c~ = c - S Sigma^{-1} c + C'q`` with ``C'C = 2S - S Sigma^{-1} S`` and ``q = Q'y`` for a uniformly random Q:
    ``q = sqrt(RSS) g / sqrt(g'g + chi2_{df - m})``, g ~ N(0, I_m).
    """

    def __init__(
        self, design: FixedDesign, *, solver: str = "auto", rss: float | None = None, q: Floats | None = None
    ) -> None:
        if design.df < design.m:
            raise DesignError(
                f"only {design.df} degrees of freedom are left for the knockoffs of {design.m} annotators; "
                "expected at least as many; collect more answers"
            )
        self._design = design
        self._rss = design.rss if rss is None else rss
        self.slack = slack(design.F, solver=solver)
        s = self.slack.s
        self._centre = design.c - s * solve_sigma(design.F, design.c)
        self._link = None if (s == 1.0).all() else 1.0 - s
        self._given = q
        self._apply_root = _low_rank_root(design.F, s) if q is None else _spectral_root(design.F, s)

    def draw(self, rng: np.random.Generator) -> PathProblem:
        """Draw once, or take the ``q`` that was given; lane 0 are the own columns, lane 1 the knockoffs."""
        return self.problem(self.draw_q(rng) if self._given is None else self._given)

    def draw_q(self, rng: np.random.Generator) -> Floats:
        """Draw ``q = Q'y``; its sign follows the data, so that swapping all sides changes nothing but signs."""
        design = self._design
        g = rng.standard_normal(design.m)
        rest = float(rng.chisquare(design.df - design.m)) if design.df > design.m else 0.0
        q: Floats = np.sqrt(self._rss) * g / np.sqrt(float(g @ g) + rest)
        return -q if design.m and design.c[np.argmax(np.abs(design.c))] < 0 else q

    def problem(self, q: Floats) -> PathProblem:
        """The path problem of own and knockoff columns for a given ``q``."""
        design = self._design
        knockoff = self._centre + self._apply_root(q)
        rows = np.ascontiguousarray(design.F.T)
        return PathProblem(np.concatenate([design.c, knockoff]), np.concatenate([rows, rows]), design.m, 2, self._link)

    def root(self) -> Floats:
        """C with ``C'C = 2S - S Sigma^{-1} S`` as a matrix."""
        return np.stack([self._apply_root(e) for e in np.eye(self._design.m)])


def _low_rank_root(F: Floats, s: Floats) -> Callable[[Floats], Floats]:
    """``q -> C'q`` with ``C'C = 2S - S Sigma^{-1} S = R (I - X'X) R``, ``R^2 = 2S - S^2``, X of n rows.

    ``Sigma^{-1} = I + F'(I - FF')^{-1} F`` (Woodbury), so ``X'X = T F'(I - FF')^{-1} F T`` with ``T = S R^{-1}``. Any C
    serves: q is distributed alike in all directions.
    """
    _, d, W = np.linalg.svd(F, full_matrices=False)
    _, x, Y = np.linalg.svd((d / np.sqrt(1.0 - d**2))[:, None] * W * np.sqrt(s / (2.0 - s)), full_matrices=False)
    shrink = 1.0 - np.sqrt(np.maximum(1.0 - x**2, 0.0))
    spread = np.sqrt(s * (2.0 - s))
    return lambda q: spread * (q - Y.T @ (shrink * (Y @ q)))


def householder_q(answers: Answers, sums: Sums, judged: Ints) -> Floats:
    """``Q'y`` for Q the columns m+1 to 2m of ``qr([U zeros])``, answers in the order of annotators.

    That is how the knockoff package of the paper's time completes U, the left singular vectors of the annotators'
    columns without the item scores: Q are Householder reflections of unit vectors, hence nearly the answers m+1 to 2m.
    """
    rows = JudgedRows.of(answers, judged, len(sums.counts))
    taken, m = rows.answers, len(judged)
    solver = DenseItems(sums.laplacian, 0.0)
    on_items = solver.solve(np.column_stack([sums.B[:, judged].toarray(), sums.Dy]))
    left_over = on_items[taken.right] - on_items[taken.left]
    left_over[np.arange(len(taken)), rows.position] += 1.0
    left_over[:, m] += taken.outcome
    U = np.linalg.svd(left_over[:, :m] / np.sqrt(sums.counts[judged]), full_matrices=False)[0]
    factor, tau, _, _ = lapack.dgeqrf(U)
    y = left_over[:, m:]
    turned = lapack.dormqr("L", "T", factor, tau, y, len(y))[0]
    return np.asarray(turned[m : 2 * m, 0])


def _spectral_root(F: Floats, s: Floats) -> Callable[[Floats], Floats]:
    """``q -> C'q`` with ``C = D^{1/2} V'`` from the singular vectors of ``2S - S Sigma^{-1} S``, the largest first."""
    target = np.diag(2.0 * s) - s[:, None] * solve_sigma(F, np.diag(s))
    values, vectors = np.linalg.eigh(target)
    spread = np.sqrt(np.maximum(values[::-1], 0.0))
    return lambda q: vectors[:, ::-1] @ (spread * q)
