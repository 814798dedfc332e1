"""What the benchmarks print, held against peers on few data sets."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.preferences import CELLS, accuracies, crowd
from benchmarks.results.consensus import peers
from benchmarks.results.consensus_ours import ours
from benchmarks.results.plan import SHARES


@pytest.mark.slow
def test_consensus_is_at_or_above_the_peers_in_all_six_cells() -> None:
    for shared in (False, True):
        for share in SHARES:
            found = ours(share, shared, 6)["methods"] | peers(share, shared, 6, 0)["methods"]
            taus = {name: np.array(measured["tau"]) for name, measured in found.items()}
            error = taus["logistic"].std(ddof=1) / np.sqrt(6)
            for peer in ("choix", "evalica", "glm", "squares"):
                if len(taus[peer]):
                    assert taus["logistic"].mean() >= taus[peer].mean() - error, (share, shared, peer)


@pytest.mark.slow
def test_export_trains_a_better_reward_than_all_votes_where_a_third_lean() -> None:
    cell = next(cell for cell in CELLS if (cell.votes, cell.share) == (3, 0.3))
    rngs = [np.random.default_rng(seed) for seed in range(3)]
    found = np.array([accuracies(*crowd(cell, rng), rng) for rng in rngs])
    assert found[:, 2].mean() > found[:, 0].mean()
