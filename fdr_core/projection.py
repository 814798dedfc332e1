"""The annotators' columns with the item scores projected out, from sufficient statistics only."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fdr_core.answers import Sums
from fdr_core.design import DENSE_ITEMS, DenseItems
from fdr_core.errors import DesignError
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

    def unit_estimates(self) -> tuple[Floats, Floats]:
        """Diagonal of ``Sigma^{-1}`` and the least-squares biases of the unit-length columns."""
        inner = np.linalg.inv(np.eye(self.F.shape[0]) - self.F @ self.F.T)
        diagonal = 1.0 + np.einsum("ij,ij->j", self.F, inner @ self.F)
        return diagonal, solve_sigma(self.F, self.c)

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
    gamma = solve_sigma(F, c)
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


def solve_sigma(F: Floats, b: Floats) -> Floats:
    """``(I - F'F)^{-1} b = b + F'(I - FF')^{-1} F b`` (Woodbury)."""
    inner = np.eye(F.shape[0]) - F @ F.T
    return b + F.T @ np.linalg.solve(inner, F @ b)


def smallest_eigenvalue(F: Floats) -> float:
    """``lambda_min(I - F'F)`` from the smaller of the two Gram matrices of F (n x m)."""
    n, m = F.shape
    gram = F @ F.T if n <= m else F.T @ F
    return 1.0 - float(np.linalg.eigvalsh(gram)[-1]) if min(n, m) else 1.0
