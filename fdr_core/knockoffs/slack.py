"""The slack s of fixed-design knockoffs: ``max sum s_j`` subject to ``0 <= s_j <= 1``, ``diag(s) <= 2 Sigma``."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fdr_core.errors import ConfigurationError, DesignError

Floats = NDArray[np.float64]

SOLVERS = ("auto", "coordinate", "cvxpy")


def smallest_eigenvalue(F: Floats) -> float:
    """``lambda_min(I - F'F)`` from the smaller of the two Gram matrices of F (n x m)."""
    n, m = F.shape
    gram = F @ F.T if n <= m else F.T @ F
    return 1.0 - float(np.linalg.eigvalsh(gram)[-1]) if min(n, m) else 1.0


def slack(F: Floats, *, solver: str = "auto") -> Floats:
    """Solve for s given ``Sigma = I - F'F``.

    ``s = 1`` is feasible, hence optimal, iff ``lambda_min(Sigma) >= 1/2``: then no solver runs. Otherwise coordinate
    ascent on the low-rank form, or cvxpy as the exact reference.

    Raises
    ------
    DesignError
        When Sigma is singular: some combination of biases cannot be told from item scores.
    """
    if solver not in SOLVERS:
        raise ConfigurationError(f"slack solver was {solver!r}; expected one of {', '.join(SOLVERS)}")
    lowest = smallest_eigenvalue(F)
    if lowest <= 1e-9:
        raise DesignError(
            "annotator biases cannot be told from item scores in this design (smallest eigenvalue of the projected Gram "
            f"matrix {lowest:.1e}, expected above 0); show more pairs in both orders"
        )
    m = F.shape[1]
    if lowest >= 0.5:
        return np.ones(m)
    equal = np.full(m, min(1.0, 2.0 * lowest))
    s = _semidefinite_program(F) if solver == "cvxpy" else _coordinate_ascent(F)
    s = _shrink_into_cone(F, s)
    return s if s.sum() >= equal.sum() else equal * (1 - 1e-10)


def _coordinate_ascent(F: Floats, *, tolerance: float = 1e-6, max_sweeps: int = 200) -> Floats:
    """Barrier coordinate ascent (Askari et al. 2021, FANOK) from the interior point s = 0.

    With ``u = 2 / (2 - s)`` the constraint reads ``M = I - sum_j u_j f_j f_j' >= 0`` (n x n). The determinant is linear in
    one s_j, so a coordinate step is ``s_j = s_max_j - mu``; mu falls geometrically.
    """
    n, m = F.shape
    s = np.zeros(m)
    inverse = np.linalg.inv(np.eye(n) - F @ F.T)
    mu = 0.5
    for sweep in range(max_sweeps):
        before = s.sum()
        for j in range(m):
            f = F[:, j]
            u = 2.0 / (2.0 - s[j])
            Mf = inverse @ f
            h = float(f @ Mf)
            h_without = h / (1.0 + u * h)  # f' M_{-j}^{-1} f
            u_max = 1.0 / max(h_without, 1e-300)
            s_max = 2.0 - 2.0 / u_max if u_max < 1e12 else 2.0
            s[j] = min(max(s_max - mu, 0.0), 1.0)
            change = 2.0 / (2.0 - s[j]) - u
            if change:
                inverse += np.outer(Mf, Mf) * (change / (1.0 - change * h))
        if sweep % 10 == 9:  # rank-one updates drift
            inverse = np.linalg.inv(np.eye(n) - (F * (2.0 / (2.0 - s))) @ F.T)
        if mu < tolerance and abs(s.sum() - before) < tolerance * m:
            break
        mu *= 0.5
    return s


def _semidefinite_program(F: Floats) -> Floats:
    """The exact reference, for small m."""
    import cvxpy as cp

    m = F.shape[1]
    s = cp.Variable(m)
    Sigma = np.eye(m) - F.T @ F
    problem = cp.Problem(cp.Maximize(cp.sum(s)), [s >= 0, s <= 1, 2 * Sigma - cp.diag(s) >> 0])
    problem.solve(solver=cp.CLARABEL)
    if s.value is None:
        raise DesignError(f"the semidefinite program for s ended as {problem.status}; use the default solver")
    return np.clip(np.asarray(s.value, dtype=float), 0.0, 1.0)


def _shrink_into_cone(F: Floats, s: Floats) -> Floats:
    """Scale s down to the largest multiple with ``2 Sigma - diag(s) >= 0`` (solvers end a little outside)."""
    low, high = 0.0, 1.0
    if _is_inside(F, s):
        return s
    for _ in range(50):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if _is_inside(F, middle * s) else (low, middle)
    return low * s


def _is_inside(F: Floats, s: Floats) -> bool:
    weighted = F * np.sqrt(2.0 / (2.0 - s))
    return smallest_eigenvalue(weighted) >= 1e-12
