"""Small simulated crowds with known truth, written without the code under test."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np


def write_small_team(path: Path, *, seed: int, n_annotators: int = 12, n_biased: int = 2, answers: int = 100) -> None:
    """Write a team's comparisons: the first ones, called leans-*, click left on four answers of ten."""
    rng = np.random.default_rng(seed)
    theta = np.linspace(-1, 1, 20)
    with path.open("w", newline="", encoding="utf-8") as sink:
        rows = csv.writer(sink)
        rows.writerow(["annotator", "left", "right", "choice"])
        for annotator in range(n_annotators):
            name = f"leans-{annotator}" if annotator < n_biased else f"judges-{annotator}"
            for _ in range(answers):
                left, right = rng.choice(20, size=2, replace=False)
                prefers_left = rng.random() < 1 / (1 + np.exp(-3 * (theta[left] - theta[right])))
                clicks_left = annotator < n_biased and rng.random() < 0.4
                rows.writerow(
                    [name, f"item-{left}", f"item-{right}", "left" if clicks_left or prefers_left else "right"]
                )
