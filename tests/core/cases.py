"""Small seeded designs shared by the tests of the numeric core."""

from typing import Any

import numpy as np
import pandas as pd
from numpy.random import Generator

from fdr_core import Comparisons
from fdr_core.answers import Answers, Sums, sum_answers


def crowd(
    rng: Generator,
    *,
    n_annotators: int = 20,
    n_items: int = 8,
    n_answers: int = 600,
    n_biased: int = 4,
    bias: float = 0.6,
    graded: bool = False,
) -> Answers:
    """Answers with own coins, a few annotators leaning to one side."""
    annotator = rng.integers(n_annotators, size=n_answers)
    annotator[:n_annotators] = np.arange(n_annotators)
    left = rng.integers(n_items, size=n_answers)
    right = (left + rng.integers(1, n_items, size=n_answers)) % n_items
    theta = rng.normal(size=n_items)
    latent = 1.5 * (theta[left] - theta[right]) + rng.logistic(size=n_answers)
    y = np.clip(np.round(latent), -3, 3) / 3 if graded else np.where(latent > 0, 1.0, -1.0)
    clicks = (annotator < n_biased) & (rng.random(n_answers) < bias)
    y[clicks] = np.where(annotator[clicks] % 2, 1.0, -1.0)
    return Answers(annotator, left, right, y, np.arange(n_answers), np.ones(n_answers))


def sums_of(answers: Answers, n_items: int = 8, n_annotators: int = 20) -> Sums:
    """All sums of a small table."""
    return sum_answers(answers, n_items, n_annotators)


def comparisons_of(rows: list[Any]) -> Comparisons:
    """Comparisons of rows: annotator, left, right, outcome."""
    return Comparisons.from_frame(pd.DataFrame(rows, columns=["annotator", "left", "right", "outcome"]))
