"""The paper's knockoffs: fixed design, item scores projected out, from sufficient statistics only."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fdr_core.errors import DesignError
from fdr_core.paper.paths.problem import PathProblem
from fdr_core.paper.slack import slack
from fdr_core.projection import FixedDesign, solve_sigma
from fdr_core.types import Floats


def own_problem(design: FixedDesign) -> PathProblem:
    """The path of the annotators' own columns, without knockoffs."""
    return PathProblem(design.c, np.ascontiguousarray(design.F.T), design.m, 1)


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
        self._centre = design.c - s * solve_sigma(design.F, design.c)
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
