"""The slack s of fixed-design knockoffs: how far each copy stands from its annotator, ``0 < diag(s) < 2 Sigma``.

``A_j'A~_j = Sigma_jj - s_j``: with ``s_j = 0`` a copy equals its annotator, who can then never be selected. The paper
maximises ``sum s_j`` (a semidefinite program), whose solution lies at a corner and gives some annotators just that. The
default maximises the entropy instead, which is interior by construction.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator, cg

from fdr_core.errors import ConfigurationError, DesignError, MissingExtraError
from fdr_core.projection import smallest_eigenvalue
from fdr_core.types import Floats, Mask

SOLVERS = ("auto", "sdp", "cvxpy")
#: A copy that shares more than this of its annotator's direction cannot tell whether that annotator leans.
LIKE_ITS_ANNOTATOR = 0.95


@dataclass(frozen=True)
class Slack:
    """The chosen s.

    Attributes
    ----------
    s : (m,) slack, strictly feasible or shrunk to be.
    near_zero : (m,) whose copy is so much like them that no draw can select them.
    n_iter, converged : of the solver; a point that has not converged is feasible all the same.
    """

    s: Floats
    near_zero: Mask
    n_iter: int
    converged: bool


def slack(F: Floats, *, solver: str = "auto") -> Slack:
    """Choose s given ``Sigma = I - F'F``.

    ``s = 1`` where it is feasible, that is iff ``lambda_min(Sigma) >= 1/2``: then no solver runs.

    Parameters
    ----------
    F : (n, m).
    solver : "auto", maximum entropy; "sdp", the paper's semidefinite program by coordinate ascent; "cvxpy", the same
        program by cvxpy, the reference (minutes from some 150 annotators).

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
    n_iter, converged = 0, True
    if lowest >= 0.5:
        s = np.ones(F.shape[1])
    elif solver == "auto":
        s, n_iter, converged = _maximum_entropy(F, np.full(F.shape[1], lowest))
    else:
        s = _shrink_into_cone(F, _semidefinite_program(F) if solver == "cvxpy" else _coordinate_ascent(F))
    information = 1.0 - np.einsum("ij,ij->j", F, F)  # Sigma_jj
    return Slack(s, information - s > LIKE_ITS_ANNOTATOR * information, n_iter, converged)


def _maximum_entropy(F: Floats, s: Floats, *, tolerance: float = 1e-4, max_iter: int = 100) -> tuple[Floats, int, bool]:
    """Maximise ``log det diag(s) + log det(2 Sigma - diag(s))`` by Newton steps from a feasible s.

    The objective is self-concordant: a step of ``1 / (1 + decrement)`` is feasible and an ascent from anywhere
    (Nesterov and Nemirovskii 1994); longer ones are tried first. At the optimum ``s_j <= Sigma_jj <= 1``. Reference:
    Spector and Janson (2022), Powerful knockoffs via minimizing reconstructability.
    """
    for n_iter in range(1, max_iter + 1):
        step, decrement = _newton_step(F, s)
        share, safe, reached = 1.0, 1.0 / (1.0 + decrement), _entropy(F, s)
        while share > safe and _entropy(F, s + share * step) < reached + 0.1 * share * decrement**2:
            share *= 0.5
        s = s + max(share, safe) * step
        if decrement <= tolerance:
            return s, n_iter, True
    return s, max_iter, False


def _entropy(F: Floats, s: Floats) -> float:
    """The objective of `_maximum_entropy`; minus infinity outside."""
    if s.min() <= 0.0 or s.max() >= 2.0:
        return -np.inf
    try:
        root = np.linalg.cholesky(np.eye(F.shape[0]) - (F * (2.0 / (2.0 - s))) @ F.T)
    except np.linalg.LinAlgError:
        return -np.inf
    return float(np.log(s * (2.0 - s)).sum() + 2.0 * np.log(np.diag(root)).sum())


def _newton_step(F: Floats, s: Floats) -> tuple[Floats, float]:
    """The Newton step and its length in the local norm.

    With ``d = 2 - s`` and ``Y'Y = 2 D^{-1} F'(I - 2 F D^{-1} F')^{-1} F D^{-1}`` the inverse of ``2 Sigma - diag(s)``
    is ``P = D^{-1} + Y'Y``; the gradient is ``1/s - diag(P)``, minus the Hessian ``diag(1/s^2) + P o P``.
    """
    n, m = F.shape
    inverse_d = 1.0 / (2.0 - s)
    scaled = F * inverse_d
    root = np.linalg.cholesky(np.eye(n) - 2.0 * scaled @ F.T)
    Y = np.sqrt(2.0) * np.linalg.solve(root, scaled)
    length = np.einsum("ij,ij->j", Y, Y)
    gradient = 1.0 / s - inverse_d - length
    own = s**-2.0 + inverse_d**2 + 2.0 * inverse_d * length

    def curvature(v: Floats) -> Floats:
        v = np.ravel(v)
        return np.asarray(own * v + np.einsum("ij,ij->j", Y, ((Y * v) @ Y.T) @ Y))

    diagonal = own + length**2
    hessian = LinearOperator((m, m), matvec=curvature, dtype=np.float64)
    precondition = LinearOperator((m, m), matvec=lambda v: np.ravel(v) / diagonal, dtype=np.float64)
    step, _ = cg(hessian, gradient, rtol=0.03, M=precondition)
    return step, float(np.sqrt(max(step @ curvature(step), 0.0)))


def _coordinate_ascent(F: Floats, *, tolerance: float = 1e-5, max_sweeps: int = 50) -> Floats:
    """The semidefinite program by barrier coordinate ascent (Askari et al. 2021, FANOK) from the interior point s = 0.

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
    """``max sum s_j`` subject to ``0 <= s_j <= 1``, ``diag(s) <= 2 Sigma``, as the paper has it."""
    try:
        import cvxpy
    except ImportError as error:
        raise MissingExtraError('this solver needs cvxpy; install it with: pip install "evenhand[paper]"') from error

    cp: Any = cvxpy  # its stubs do not declare all it has

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
