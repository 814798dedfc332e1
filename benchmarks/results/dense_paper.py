"""The paper's algorithm as it is written: dense knockoff columns, then the ISS path on the rows."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from benchmarks.results.design import rotated
from fdr_core.comparisons import Comparisons
from harness.scenarios import Q

Floats = NDArray[np.float64]


def dense_paper(comparisons: Comparisons, rng: Generator) -> NDArray[np.bool_]:
    """Mark whom knockoff+ selects, one draw, equal slack for everybody (1 on nearly every random design)."""
    A, y = rotated(comparisons)
    m = A.shape[1]
    A_tilde = knockoff_columns(A, rng)
    entry = iss_entries(np.concatenate([A, A_tilde], axis=1), y, most_losses=(Q * m - 1) / (1 + Q))
    own, other = entry[:m], entry[m:]
    W = np.maximum(own, other) * np.sign(own - other)
    return select_plus(W)


def knockoff_columns(A: Floats, rng: Generator) -> Floats:
    """A_tilde = A (I - Sigma^{-1} S) + Q C with C'C = 2S - S Sigma^{-1} S and a random orthonormal Q beside A."""
    m = A.shape[1]
    Sigma = A.T @ A
    s = min(1.0, 2.0 * float(np.linalg.eigvalsh(Sigma)[0])) * (1 - 1e-9)
    inverse = np.linalg.inv(Sigma)
    values, vectors = np.linalg.eigh(2 * s * np.eye(m) - s * s * inverse)
    C = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    basis = np.linalg.qr(A)[0]
    noise = rng.standard_normal(A.shape)
    noise -= basis @ (basis.T @ noise)
    copies: Floats = A - s * (A @ inverse) + np.linalg.qr(noise)[0] @ C
    return copies


def iss_entries(X: Floats, y: Floats, *, most_losses: float) -> Floats:
    """Follow Inverse Scale Space event by event, least squares on the rows; stop once no later threshold can pass."""
    m = X.shape[1] // 2
    p, entry, t, losses = np.zeros(2 * m), np.zeros(2 * m), 0.0, 0
    support: list[int] = []
    residual = y.copy()
    decided = np.zeros(m, dtype=bool)
    while losses <= most_losses and not decided.all():
        v = X.T @ residual
        v[support] = 0.0
        wait = np.where(np.abs(v) > 1e-12, (np.sign(v) - p) / np.where(v == 0, 1.0, v), np.inf)
        wait[wait <= 0] = np.inf
        column = int(np.argmin(wait))
        if np.isinf(wait[column]):
            break
        t += wait[column]
        p += wait[column] * v
        p[column] = np.sign(v[column])
        support.append(column)
        if not decided[column % m]:
            decided[column % m] = True
            losses += column >= m
        entry[column] = max(entry[column], 1.0 / t)
        support, residual = _settle(X, y, support, p)
    return entry


def _settle(X: Floats, y: Floats, support: list[int], p: Floats) -> tuple[list[int], Floats]:
    """Least squares on the support; columns whose coefficient has the wrong sign leave it."""
    while True:
        gamma = np.linalg.lstsq(X[:, support], y, rcond=None)[0]
        wrong = gamma * p[support] < 0
        if not wrong.any() or wrong.all():
            return support, y - X[:, support] @ gamma
        support = [column for column, is_wrong in zip(support, wrong, strict=True) if not is_wrong]


def select_plus(W: Floats) -> NDArray[np.bool_]:
    """Select by knockoff+ (T1)."""
    order = np.argsort(-np.abs(W), kind="stable")
    wins, losses = np.cumsum(W[order] > 0), np.cumsum(W[order] < 0)
    passes = np.flatnonzero(((1 + losses) <= Q * wins * (1 + 1e-12)) & (W[order] != 0))
    selected = np.zeros(len(W), dtype=bool)
    if passes.size:
        kept = order[: passes[-1] + 1]
        selected[kept] = W[kept] > 0
    return selected
