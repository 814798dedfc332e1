"""The slack s of fixed-design knockoffs: ``max sum s_j`` subject to ``0 <= s_j <= 1``, ``diag(s) <= 2 Sigma``."""

from __future__ import annotations

from typing import Any

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
            "annotator biases cannot be told from item scores in this design (smallest eigenvalue of the projected "
            f"Gram matrix {lowest:.1e}, expected above 0); show more pairs in both orders"
        )
    m = F.shape[1]
    if lowest >= 0.5:
        return np.ones(m)
    equal = np.full(m, min(1.0, 2.0 * lowest))
    s = _semidefinite_program(F) if solver == "cvxpy" else _coordinate_ascent(F)
    s = _shrink_into_cone(F, s)
    return s if s.sum() >= equal.sum() else equal * (1 - 1e-10)


def _coordinate_ascent(F: Floats, *, tolerance: float = 1e-5, max_sweeps: int = 50) -> Floats:
    """Barrier coordinate ascent (Askari et al. 2021, FANOK) from the interior point s = 0.

    Maximises ``sum s_j + mu log det(2 Sigma - diag(s))`` for a falling mu. The determinant is linear in one s_j, so a
    coordinate step is ``s_j = s_max_j - mu``. Each mu is swept until the steps are small against it: a mu that falls
    faster leaves some s_j stuck at 0.
    """
    s = np.zeros(F.shape[1])
    mu = 1.0
    while mu > tolerance:
        inverse = _barrier_inverse(F, s)  # afresh for every mu: rank-one updates drift
        for _ in range(max_sweeps):
            before = s.copy()
            _sweep(F, s, inverse, mu)
            if np.abs(s - before).max() <= 0.05 * mu:
                break
        mu *= 0.5
    return s


def _barrier_inverse(F: Floats, s: Floats) -> Floats:
    """Inverse of ``M = I - sum_j u_j f_j f_j'`` (n x n), ``u = 2 / (2 - s)``; ``2 Sigma >= diag(s)`` iff ``M >= 0``."""
    return np.asarray(np.linalg.inv(np.eye(F.shape[0]) - (F * (2.0 / (2.0 - s))) @ F.T), dtype=np.float64)


def _sweep(F: Floats, s: Floats, inverse: Floats, mu: float) -> None:
    """One step for every coordinate, in place."""
    for j in range(F.shape[1]):
        f = F[:, j]
        u = 2.0 / (2.0 - s[j])
        Mf = inverse @ f
        h = float(f @ Mf)
        u_max = (1.0 + u * h) / max(h, 1e-300)  # 1 / (f' M_{-j}^{-1} f)
        s_max = 2.0 - 2.0 / u_max
        s[j] = min(max(s_max - mu, 0.0), 1.0)
        change = 2.0 / (2.0 - s[j]) - u
        if change:
            inverse += np.outer(Mf, Mf) * (change / (1.0 - change * h))


def _semidefinite_program(F: Floats) -> Floats:
    """The exact reference, for small m."""
    import cvxpy

    cp: Any = cvxpy  # its stubs do not tell all it has

    m = F.shape[1]
    s = cp.Variable(m)
    Sigma = np.eye(m) - F.T @ F
    problem = cp.Problem(cp.Maximize(cp.sum(s)), [s >= 0, s <= 1, 2 * Sigma - cp.diag(s) >> 0])
    problem.solve(solver=cp.CLARABEL)
    if s.value is None:
        raise DesignError(f"the semidefinite program for s ended as {problem.status}; use the default solver")
    return np.asarray(np.clip(s.value, 0.0, 1.0), dtype=np.float64)


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
