"""The options of `detect`: their ranges, and what follows from them once the audit has spoken."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from fdr_core._version import __version__
from fdr_core.audit import Audit
from fdr_core.errors import ConfigurationError
from fdr_core.knockoffs.slack import SOLVERS
from fdr_core.paths import PATHS
from fdr_core.selection import CUTS

AGGREGATES = ("majority", "evalues")
VARIANCES = ("plain", "two-pass")
#: Below this many assessable annotators d = ceil(1/q) copies: a single one can be flagged, and lists differ less from
#: seed to seed (measured). Beyond, five: copies cost time, and long lists are steady anyway.
FEW_ANNOTATORS, COPIES_FOR_MANY = 500, 5
STATISTICS = ("auto", "likelihood", "path")
#: Likelihood ratios are cheap: about this many copies per draw over all annotators make the count of false flags
#: steady, within a bound for one annotator and for all answers of all draws together.
COPIES_IN_ALL, MOST_COPIES, MOST_SIGNS = 10_000, 100, 50_000_000


@dataclass(frozen=True)
class Options:
    """See `detect`."""

    q: float
    method: str
    path: str
    cut: str
    copies: int | None
    draws: int
    seed: int
    sides: str
    min_bias: float
    aggregate: str
    variance: str | None
    slack_solver: str
    statistic: str

    def check(self) -> None:
        """Refuse values outside their range, naming the option."""
        _require(
            isinstance(self.q, (int, float)) and 0.0 < self.q < 1.0,
            "q",
            self.q,
            "a number between 0 and 1, such as 0.1",
        )
        _require(self.path in PATHS, "path", self.path, f"one of {', '.join(PATHS)}")
        _require(self.cut in CUTS, "cut", self.cut, f"one of {', '.join(CUTS)}")
        _require(_is_whole(self.draws) and self.draws >= 1, "draws", self.draws, "a whole number of at least 1")
        _require(
            self.copies is None or (_is_whole(self.copies) and self.copies >= 1),
            "copies",
            self.copies,
            "None or at least 1",
        )
        _require(_is_whole(self.seed) and self.seed >= 0, "seed", self.seed, "a whole number of at least 0")
        _require(
            isinstance(self.min_bias, (int, float)) and 0.0 <= self.min_bias <= 1.0,
            "min_bias",
            self.min_bias,
            "in [0, 1]",
        )
        _require(self.aggregate in AGGREGATES, "aggregate", self.aggregate, f"one of {', '.join(AGGREGATES)}")
        _require(
            self.variance in (None, *VARIANCES), "variance", self.variance, f"None or one of {', '.join(VARIANCES)}"
        )
        _require(self.slack_solver in SOLVERS, "slack_solver", self.slack_solver, f"one of {', '.join(SOLVERS)}")
        _require(self.statistic in STATISTICS, "statistic", self.statistic, f"one of {', '.join(STATISTICS)}")
        _require(
            self.statistic != "likelihood" or self.aggregate != "evalues",
            "statistic",
            self.statistic,
            "'path' or 'auto' with aggregate='evalues': e-values come from races on the path",
        )

    @property
    def by_likelihood(self) -> bool:
        """Whether columns are ordered by likelihood ratio instead of by entry on the path."""
        if self.statistic != "auto":
            return self.statistic == "likelihood"
        return self.method != "paper" and self.aggregate == "majority" and self.draws > 1

    def copies_for(self, verdict: Audit, n_answers: int) -> int:
        """Knockoff copies per annotator."""
        n_judged = int(verdict.assessable.sum())
        least = math.ceil(1.0 / self.q - 1e-12) if n_judged < FEW_ANNOTATORS else COPIES_FOR_MANY
        if self.by_likelihood:
            affordable = MOST_SIGNS // max(1, n_answers * self.draws)
            return self.copies or max(least, min(COPIES_IN_ALL // max(1, n_judged), affordable, MOST_COPIES))
        return 1 if verdict.construction == "paper" else self.copies or least

    def variance_for(self, verdict: Audit) -> str:
        """Which pooled variance the paper's construction uses."""
        return self.variance or ("plain" if self.method == "paper" else "two-pass")

    def draw_level(self) -> float:
        """Level of a single draw: half of q where e-values are averaged (Ren and Barber 2023)."""
        return self.q / 2.0 if self.aggregate == "evalues" else self.q

    def as_dict(self, copies: int, ridge: float) -> dict[str, Any]:
        """Everything needed to run the same detection again."""
        statistic = "likelihood" if self.by_likelihood else "path"
        return {**self.__dict__, "statistic": statistic, "copies": copies, "ridge": ridge, "version": __version__}


def _require(holds: bool, name: str, seen: Any, expected: str) -> None:
    if not holds:
        raise ConfigurationError(f"{name} was {seen!r}; expected {expected}")


def _is_whole(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)
