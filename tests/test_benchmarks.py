"""What the benchmarks print, held against peers on few data sets."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.preferences import shares_right
from benchmarks.results.consensus import peers
from benchmarks.results.consensus_ours import ours
from benchmarks.results.plan import SHARES
from fdr_core.simulate import unique_pairs


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
def test_preferences_have_more_right_labels_than_majority_and_than_dropping_the_flagged() -> None:
    for harder in (False, True):
        shares = np.array([shares_right(unique_pairs(rng=np.random.default_rng(k), harder=harder)) for k in range(8)])
        majority, dropped, ours = shares.mean(axis=0)
        assert ours > majority
        assert ours > dropped
