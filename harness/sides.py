"""Teams whose sides were assigned in a known way, and what the audit and exact tests make of them."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator
from scipy.stats import binom

from fdr_core.answers import Answers, sum_answers
from fdr_core.audit import Audit, AuditInput, audit
from fdr_core.baselines import benjamini_hochberg
from fdr_core.design import item_solver, ridge_for
from fdr_core.evidence import sign_flip_p_values
from fdr_core.types import Floats

Q = 0.1
N_ITEMS = 20


def own_coins(
    rng: Generator, *, m: int, each: int, heads: float | Floats = 0.5, leaning: float = 0.0, n_items: int = N_ITEMS
) -> Answers:
    """A team with a coin per answer; the better item stands left with probability ``heads``; a share leans left."""
    theta = rng.permutation(np.linspace(-1, 1, n_items))
    who = np.repeat(np.arange(m), each)
    one = rng.integers(n_items, size=who.size)
    two = (one + rng.integers(1, n_items, size=who.size)) % n_items
    turned = (theta[one] > theta[two]) != (rng.random(who.size) < np.asarray(heads))
    left, right = np.where(turned, two, one), np.where(turned, one, two)
    y = np.where(3 * (theta[left] - theta[right]) + rng.logistic(size=who.size) > 0, 1.0, -1.0)
    y[(who < leaning * m) & (rng.random(who.size) < 0.5)] = 1.0
    return Answers(who, left, right, y, np.arange(who.size), np.ones(who.size))


def audited(answers: Answers, source: str = "own", n_items: int = N_ITEMS) -> Audit:
    """The audit of a table of answers."""
    m = int(answers.annotator.max()) + 1
    return audit(AuditInput(answers, sum_answers(answers, n_items, m), source), q=Q)


def opposite_batches(m: int, each: int) -> Floats:
    """``heads`` of two halves of a crowd: the better item left in 80 % of one, in 20 % of the other."""
    return np.where(np.repeat(np.arange(m) < m // 2, each), 0.8, 0.2)


def has_flag(answers: Answers, test: str, n_items: int = N_ITEMS) -> bool:
    """Whether Benjamini-Hochberg on exact tests per annotator, of "clicks" or "residuals", flags anybody."""
    m = int(answers.annotator.max()) + 1
    if test == "clicks":
        n = np.bincount(answers.annotator, minlength=m)
        left = np.bincount(answers.annotator, answers.outcome > 0, minlength=m)
        p = np.minimum(1.0, 2 * binom.cdf(np.minimum(left, n - left), n, 0.5))
    else:
        sums = sum_answers(answers, n_items, m)
        theta = item_solver(sums.laplacian, ridge=ridge_for(answers)).solve(sums.Dy)
        p = sign_flip_p_values(answers, theta, m)
    return bool(benjamini_hochberg(p, Q).any())
