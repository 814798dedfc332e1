"""A simulated team whose answers are ready to be stored."""

from typing import Any

import numpy as np
from evenhand.domain import plain_answer

from fdr_core.simulate import small_team


def crowd_rows(
    n_annotators: int = 14, n_biased: int = 2, n_answers: int = 60, seed: int = 3, start: float = 1_700_000_000.0
) -> tuple[Any, ...]:
    """Answers of a simulated team as stored comparisons, each under a task of its own."""
    simulated = small_team(n_annotators, n_biased, n_answers, rng=np.random.default_rng(seed), bias=0.8)
    c = simulated.comparisons
    mixed = np.random.default_rng(seed).permutation(len(c))
    rows = [
        plain_answer(
            k + 1,
            str(c.annotators[c.annotator[i]]),
            f"item {c.items[c.left[i]]}",
            f"item {c.items[c.right[i]]}",
            float(c.outcome[i]),
            at=start + k,
            task=int(i) + 1,
            lead_time=2.0 + k % 5,
        )
        for k, i in enumerate(mixed)
    ]
    biased = {str(label) for label, is_biased in zip(c.annotators, simulated.is_biased, strict=True) if is_biased}
    return rows, biased
