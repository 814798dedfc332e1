"""Independent, dense implementations of the paper, to hold the fast ones against."""

from typing import Any

import numpy as np


def dense_design(answers: Any, n_items: Any, n_annotators: Any) -> Any:
    """D and A as the paper writes them, columns of A normalised."""
    rows = np.arange(len(answers))
    D = np.zeros((len(answers), n_items))
    D[rows, answers.left] = 1.0
    D[rows, answers.right] = -1.0
    A = np.zeros((len(answers), n_annotators))
    A[rows, answers.annotator] = 1.0
    return D, A / np.sqrt(A.sum(axis=0))


def project_out(D: Any, X: Any) -> Any:
    """X with the column space of D removed."""
    U, d, _ = np.linalg.svd(D, full_matrices=False)
    U = U[:, d > 1e-9 * d.max()]
    return X - U @ (U.T @ X)


def complement(*blocks: Any) -> Any:
    """Orthonormal basis of what is orthogonal to all columns given."""
    stacked = np.concatenate(blocks, axis=1)
    U, d, _ = np.linalg.svd(stacked, full_matrices=True)
    return U[:, int((d > 1e-9 * d.max()).sum()) :]


def symmetric_root(Sigma: Any, s: Any) -> Any:
    """C with C'C = 2S - S Sigma^{-1} S."""
    V = 2 * np.diag(s) - np.diag(s) @ np.linalg.solve(Sigma, np.diag(s))
    values, vectors = np.linalg.eigh((V + V.T) / 2)
    return (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T


def dense_knockoffs(D: Any, A: Any, s: Any, Q: Any, C: Any = None) -> Any:
    """A_tilde = A (I - Sigma^{-1} S) + Q C on the projected design; any C with C'C = 2S - S Sigma^{-1} S will do."""
    Ap = project_out(D, A)
    Sigma = Ap.T @ Ap
    C = symmetric_root(Sigma, s) if C is None else C
    return Ap, Ap @ (np.eye(len(s)) - np.linalg.solve(Sigma, np.diag(s))) + Q @ C


def svd_route(D: Any, A: Any, y: Any, s: Any, Q: Any, C: Any) -> Any:
    """Remark 1: rotate to the orthogonal complement U2 of D first, then build knockoffs of U2'A there."""
    U2 = complement(D)
    A2, y2, Q2 = U2.T @ A, U2.T @ y, U2.T @ Q
    A2_tilde = A2 @ (np.eye(len(s)) - np.linalg.solve(A2.T @ A2, np.diag(s))) + Q2 @ C
    return A2.T @ y2, A2_tilde.T @ y2


def printed_lbi(D: Any, X: Any, y: Any, *, kappa: Any, dt: Any, steps: Any) -> Any:
    """Algorithm 1 as printed, theta with its own gradient step; returns the entry time of every column."""
    theta = np.zeros(D.shape[1])
    gamma = np.zeros(X.shape[1])
    w = np.zeros(X.shape[1])
    entry = np.full(X.shape[1], np.inf)
    # theta is unpenalised and starts at its least-squares value; its own step follows gamma
    theta = np.linalg.lstsq(D, y, rcond=None)[0]
    for k in range(steps):
        residual = y - D @ theta - X @ gamma
        w = w + dt * X.T @ residual
        theta = theta + kappa * dt * D.T @ residual
        gamma = kappa * np.sign(w) * np.maximum(np.abs(w) - 1.0, 0.0)
        new = (gamma != 0) & np.isinf(entry)
        entry[new] = (k + 1) * dt
    return entry
