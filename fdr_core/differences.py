"""Where the exact list and knockoff LBI differ, and why, in words, one sentence per annotator."""

from __future__ import annotations

from dataclasses import dataclass

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
