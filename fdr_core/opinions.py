"""The two opinions about a crowd as people read them: exact tests with their list, and knockoff LBI."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fdr_core.paper.run import LbiResult
from fdr_core.randomisation import Tests
from fdr_core.randomisation.shared import as_e
from fdr_core.selection import WeightedList
from fdr_core.types import Floats, Mask


@dataclass(frozen=True)
class Opinions:
    """Both lists, one entry per annotator, with the numbers behind them.

    Attributes
    ----------
    exact, lbi : on the list of the exact tests, of knockoff LBI.
    q_value : adjusted p-value of the exact test.
    share : of draws that select; unselectable : LBI could not select, whatever the answers.
    q : target error rate; shortest : the shortest list that LBI can select.
    by_evalues : whether LBI's draws were combined by e-values.
    """

    exact: Mask
    lbi: Mask
    q_value: Floats
    share: Floats
    unselectable: Mask
    q: float
    shortest: int
    by_evalues: bool


def differences(opinions: Opinions) -> list[str]:
    """Say for every annotator why the two lists differ; "" where they agree."""
    return [
        _only_exact(opinions, j) if exact and not lbi else _only_lbi(opinions, j) if lbi and not exact else ""
        for j, (exact, lbi) in enumerate(zip(opinions.exact, opinions.lbi, strict=True))
    ]


def _only_exact(opinions: Opinions, j: int) -> str:
    told = (
        f"The exact test flags this annotator (adjusted p-value {_number(opinions.q_value[j])}, q = {opinions.q:g}); "
    )
    if opinions.unselectable[j]:
        return told + "knockoff LBI cannot: in this design the copy hardly differs from the annotator."
    if not opinions.lbi.any() and opinions.exact.sum() < opinions.shortest:
        return told + f"knockoff LBI selects nobody: with these settings its shortest list has {opinions.shortest}."
    selected = f"knockoff LBI does so in {100 * opinions.share[j]:.0f} % of the draws"
    if opinions.by_evalues:
        return told + f"{selected}, too few for its e-values."
    return told + (
        f"{selected}, and more than half are needed. It weighs all answers alike; the exact test weighs those against "
        "a clear consensus more."
    )


def _only_lbi(opinions: Opinions, j: int) -> str:
    return (
        f"Knockoff LBI selects this annotator in {100 * opinions.share[j]:.0f} % of the draws; the exact test does "
        f"not, since its adjusted p-value {_number(opinions.q_value[j])} is above q = {opinions.q:g}."
    )


def _number(value: float) -> str:
    return "below 0.0001" if value < 0.0001 else f"{value:.3g}"


EXACT_COLUMNS = ["annotator", "p_value", "listed_p_value", "weight", "q_value", "side", "e_value"]
LBI_COLUMNS = ["annotator", "share", "e_value", "entry", "selectable"]


@dataclass(frozen=True, repr=False)
class Exact:
    """The exact tests of one detection.

    Attributes
    ----------
    flagged : labels on the list, strongest first.
    annotators : one row per tested annotator: ``p_value``, ``listed_p_value`` (1 where the bias is below ``min_bias``;
        what the list rests on), ``weight`` in the list (mean 1), ``q_value`` (adjusted), ``side`` (1 left, -1 right),
        ``e_value`` of bets on the coins (NaN where the list needs none).
    proven : labels of those who are on the list with a proof.
    how : annotators were tested: by "own coins", "shared coins", "both orders", or with "sides fixed"; "none".
    independent : whether the tests of honest annotators are, of each other.
    """

    flagged: list[Any]
    annotators: pd.DataFrame
    how: str
    independent: bool = False
    proven: list[Any] = field(default_factory=list)

    @classmethod
    def nobody(cls) -> Exact:
        """No tests."""
        return cls([], pd.DataFrame(columns=EXACT_COLUMNS), "none")

    @classmethod
    def of(
        cls, tests: Tests, listed: WeightedList, proven: Mask, labels: NDArray[np.object_], *, independent: bool
    ) -> Exact:
        """Give the tested annotators their labels."""
        e_value = np.full(len(labels), np.nan) if tests.log_e is None else as_e(tests.log_e)
        columns = (labels, tests.told_p_value, tests.p_value, tests.weight, listed.q_value, tests.side, e_value)
        table = pd.DataFrame(dict(zip(EXACT_COLUMNS, columns, strict=True)))
        order = table[listed.flagged].sort_values(["q_value", "p_value"], kind="stable")
        with_proof = set(labels[proven].tolist())
        flagged = order["annotator"].tolist()
        return cls(flagged, table, tests.kind, independent, [label for label in flagged if label in with_proof])

    def __repr__(self) -> str:
        return f"Exact({len(self.flagged)} of {len(self.annotators)} tested annotators flagged; {self.how})"


@dataclass(frozen=True)
class PathRecord:
    """The regularisation path of the annotators' own columns: ``gamma[k, j]`` at ``times[k]``."""

    times: Floats
    gamma: Floats
    annotators: NDArray[np.object_]


@dataclass(frozen=True, repr=False)
class Lbi:
    """Knockoff LBI of one detection.

    Attributes
    ----------
    flagged : labels on its list, strongest first.
    annotators : one row per judged annotator: ``share`` of draws that select, average ``e_value``, ``entry`` level of
        the own column, ``selectable`` (False where the copy hardly differs from the annotator).
    W : (draws done, judged) level of each race, positive where the annotator's own column entered first.
    path : of the own columns, for plots.
    draws_done, draws_asked : fewer are done than asked where they would not fit the budget.
    """

    flagged: list[Any]
    annotators: pd.DataFrame
    W: Floats
    path: PathRecord
    draws_done: int
    draws_asked: int
    converged: bool

    @classmethod
    def of(cls, result: LbiResult | None, labels: NDArray[np.object_], *, asked: int) -> Lbi:
        """Give the judged annotators their labels; ``labels`` are those of everybody."""
        if result is None:
            nothing = PathRecord(np.zeros(0), np.zeros((0, 0)), labels[:0])
            return cls([], pd.DataFrame(columns=LBI_COLUMNS), np.zeros((0, 0)), nothing, 0, asked, True)
        judged = labels[result.judged]
        columns = (judged, result.share, result.e_values, result.entry, ~result.near_zero)
        table = pd.DataFrame(dict(zip(LBI_COLUMNS, columns, strict=True)))
        path = PathRecord(result.path.times, result.path.gamma, judged)
        return cls(labels[result.chosen].tolist(), table, result.W, path, result.draws_done, asked, result.converged)

    def __repr__(self) -> str:
        done = f"{self.draws_done} of {self.draws_asked} draws"
        return f"Lbi({len(self.flagged)} of {len(self.annotators)} judged annotators selected; {done})"
