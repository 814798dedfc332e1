"""Independent, dense implementations of the paper, to hold the fast ones against."""

import numpy as np


def dense_design(answers, n_items, n_annotators):
    """D and A as the paper writes them, columns of A normalised."""
    rows = np.arange(len(answers))
    D = np.zeros((len(answers), n_items))
    D[rows, answers.left] = 1.0
    D[rows, answers.right] = -1.0
    A = np.zeros((len(answers), n_annotators))
    A[rows, answers.annotator] = 1.0
    return D, A / np.sqrt(A.sum(axis=0))


def project_out(D, X):
    """X with the column space of D removed."""
    U, d, _ = np.linalg.svd(D, full_matrices=False)
    U = U[:, d > 1e-9 * d.max()]
    return X - U @ (U.T @ X)


def complement(*blocks):
    """Orthonormal basis of what is orthogonal to all columns given."""
    stacked = np.concatenate(blocks, axis=1)
    U, d, _ = np.linalg.svd(stacked, full_matrices=True)
    return U[:, int((d > 1e-9 * d.max()).sum()) :]


def dense_knockoffs(D, A, s, Q):
    """A_tilde = A (I - Sigma^{-1} S) + Q C on the projected design, C'C = 2S - S Sigma^{-1} S."""
    Ap = project_out(D, A)
    Sigma = Ap.T @ Ap
    SigmaInv_S = np.linalg.solve(Sigma, np.diag(s))
    V = 2 * np.diag(s) - np.diag(s) @ SigmaInv_S
    values, vectors = np.linalg.eigh((V + V.T) / 2)
    C = (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
    return Ap, Ap @ (np.eye(len(s)) - SigmaInv_S) + Q @ C


def svd_route(D, A, y, s, Q):
    """Remark 1: rotate to the orthogonal complement U2 of D first, then build knockoffs of U2'A there."""
    U2 = complement(D)
    A2, y2, Q2 = U2.T @ A, U2.T @ y, U2.T @ Q
    Sigma = A2.T @ A2
    SigmaInv_S = np.linalg.solve(Sigma, np.diag(s))
    V = 2 * np.diag(s) - np.diag(s) @ SigmaInv_S
    values, vectors = np.linalg.eigh((V + V.T) / 2)
    C = (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
    A2_tilde = A2 @ (np.eye(len(s)) - SigmaInv_S) + Q2 @ C
    return A2.T @ y2, A2_tilde.T @ y2


def printed_lbi(D, X, y, *, kappa, dt, steps):
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
