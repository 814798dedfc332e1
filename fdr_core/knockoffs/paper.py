"""The paper's knockoffs: fixed design, item scores projected out, from sufficient statistics only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fdr_core.answers import Sums
from fdr_core.design import DENSE_ITEMS, DenseItems
from fdr_core.errors import DesignError
from fdr_core.knockoffs.slack import slack, smallest_eigenvalue
from fdr_core.paths.problem import PathProblem
from fdr_core.types import Floats, Ints


@dataclass(frozen=True)
class FixedDesign:
    """The projected, unit-normalised annotator columns as ``Sigma = I - F'F``.

    Attributes
    ----------
    F : (n, m); c : (m,) correlations; df : degrees of freedom left by theta and gamma; rss : residual sum of squares.
    """

    F: Floats
    c: Floats
    df: int
    rss: float

    @property
    def m(self) -> int:
        """Number of judged annotators."""
        return int(self.F.shape[1])

    def own_problem(self, *, correlations_only: bool = False) -> PathProblem:
        """The path of the annotators' own columns, without knockoffs; the rows are at hand either way."""
        return PathProblem(self.c, np.ascontiguousarray(self.F.T), self.m, 1)

    def unit_estimates(self) -> tuple[Floats, Floats]:
        """Diagonal of ``Sigma^{-1}`` and the least-squares biases of the unit-length columns."""
        inner = np.linalg.inv(np.eye(self.F.shape[0]) - self.F @ self.F.T)
        diagonal = 1.0 + np.einsum("ij,ij->j", self.F, inner @ self.F)
        return diagonal, _solve_sigma(self.F, self.c)

    def smallest_eigenvalue(self) -> float:
        """``lambda_min(Sigma)``: how well biases can be told from item scores."""
        return smallest_eigenvalue(self.F)


def fixed_design(sums: Sums, judged: Ints) -> FixedDesign:
    """Project the item scores out: ``F = L^{+1/2} B D_n^{-1/2}``, ``c = D_n^{-1/2} (A'y - B' L^+ D'y)``."""
    n_items = sums.pairs.shape[0]
    if n_items > DENSE_ITEMS:
        raise DesignError(
            f"the paper's construction needs a dense factor of the item graph; this design has {n_items} items, the "
            f"limit is {DENSE_ITEMS}. Use method='flip' where sides were assigned by chance"
        )
    solver = DenseItems(sums.laplacian, 0.0)
    scale = 1.0 / np.sqrt(sums.counts[judged])
    B = sums.B[:, judged].toarray()
    theta = solver.solve(sums.Dy)
    F = solver.half(B * scale)
    c = scale * (sums.Ay[judged] - B.T @ theta)
    gamma = _solve_sigma(F, c)
    rss = max(sums.yy - float(sums.Dy @ theta) - float(c @ gamma), 0.0)
    return FixedDesign(F, c, round(sums.n) - solver.rank - len(judged), rss)


def require_rows(n: int, n_annotators: int, n_items: int) -> None:
    """Refuse designs with too few answers for fixed-design knockoffs."""
    needed = 2 * n_annotators + n_items
    if n < needed:
        raise DesignError(
            f"the paper's construction needs at least 2 x annotators + items = {needed} answers; this design has {n} "
            f"({n_annotators} annotators, {n_items} items). Collect {needed - n} more answers, or use method='flip' "
            "where sides were assigned by chance"
        )


class FixedKnockoffs:
    """Draws of the knockoff correlations without ever building the knockoff columns.

    ``c~ = c - S Sigma^{-1} c + C'q`` with ``C'C = 2S - S Sigma^{-1} S`` and ``q = Q'y`` for a uniformly random Q:
    ``q = sqrt(RSS) g / sqrt(g'g + chi2_{df - m})``, g ~ N(0, I_m).
    """

    def __init__(self, design: FixedDesign, *, solver: str = "auto", rss: float | None = None) -> None:
        if design.df < design.m:
            raise DesignError(
                f"only {design.df} degrees of freedom are left for the knockoffs of {design.m} annotators; "
                "expected at least as many; collect more answers"
            )
        self._design = design
        self._rss = design.rss if rss is None else rss
        self.slack = slack(design.F, solver=solver)
        s = self.slack.s
        self._centre = design.c - s * _solve_sigma(design.F, design.c)
        self._link = None if (s == 1.0).all() else 1.0 - s
        self._apply_root = _low_rank_root(design.F, s)

    def draw(self, rng: np.random.Generator) -> PathProblem:
        """Draw once; lane 0 are the own columns, lane 1 the knockoffs."""
        return self.problem(self.draw_q(rng))

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


def _solve_sigma(F: Floats, b: Floats) -> Floats:
    """``(I - F'F)^{-1} b = b + F'(I - FF')^{-1} F b`` (Woodbury)."""
    inner = np.eye(F.shape[0]) - F @ F.T
    return b + F.T @ np.linalg.solve(inner, F @ b)
