"""After flags are confirmed: which answers a lean can have changed, and what the ranking is without these people."""

from __future__ import annotations

from collections.abc import Collection, Hashable
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from fdr_core.answer_table import AnswerTable
from fdr_core.answers import sum_answers
from fdr_core.consensus.ranking import Ranking, ranking
from fdr_core.design import ridge_for
from fdr_core.types import Floats

#: An answer is worth asking anew where the lean decided it with this probability at least.
LIKELY = 0.1


def decided_by_lean(outcome: Floats, expected: Floats, lean: Floats | float) -> Floats:
    """
    Probability that a lean, and not the items, decided each answer.

    Somebody of lean g answers by its side with probability ``|g|`` whatever stands there, else as the others do, who
    choose that side with probability pi. By Bayes' rule an answer for the side was another choice but for the lean with
    probability ``|g| (1 - pi) / (|g| + (1 - |g|) pi)``; an answer against the side, or a tie, cannot be the lean's.

    Parameters
    ----------
    outcome : (k,) answers in [-1, 1], positive for the left item.
    expected : (k,) mean outcome by a consensus that this person has no part in; NaN where it cannot tell, taken as 0.
    lean : of the person, in [-1, 1], positive for left; one, or one for each answer.
    """
    size, side = np.abs(lean), np.sign(lean)
    pi = (1 + side * np.nan_to_num(expected)) / 2
    clicked = size * (1 - pi) / np.maximum(size + (1 - size) * pi, 1e-12)
    return np.where(side * outcome > 0, clicked, 0.0)


@dataclass(frozen=True)
class Without:
    """What the others say: the scores without these people's answers, and the pairs that change order by that.

    ``scores`` has a row per item that still has answers, with its ``component``: items of different ones were never
    compared. ``changes`` is as `Ranking.order_changes` has it, ``n_pairs`` counts the pairs that have an order.
    ``n_lost`` items have no answers left.
    """

    scores: pd.DataFrame
    changes: pd.DataFrame
    n_pairs: int
    n_lost: int


def without(
    table: AnswerTable, people: Collection[Hashable], present: dict[Hashable, float], *, method: str
) -> Without:
    """
    Fit the consensus of everybody else.

    All answers of these people are left out, not only those of the leaning side: what is left of somebody after one
    side is taken away leans to the other.

    Parameters
    ----------
    people : labels of the annotators to leave out.
    present : score of every item as the ranking has it now, by label.
    method : as in `fdr_core.consensus.ranking.ranking`.
    """
    kept = np.array([label not in people for label in table.annotators.tolist()], dtype=bool)
    answers = table.answers.take(kept[table.answers.annotator])
    if not len(answers):
        nothing = pd.DataFrame({"item": [], "score": [], "component": []})
        return Without(nothing, pd.DataFrame(), 0, len(table.items))
    shown = np.unique(np.concatenate([answers.left, answers.right]))
    answers = answers.relabel(np.cumsum(kept) - 1, np.searchsorted(shown, np.arange(len(table.items))))
    sums = sum_answers(answers, len(shown), int(kept.sum()))
    nobody = np.zeros(0, dtype=np.int64)
    fit = ranking(answers, sums, nobody, method=method, fallback_ridge=ridge_for(answers))
    items = table.items[shown]
    sizes = np.bincount(fit.component)
    return Without(
        fit.table(items)[["item", "score", "component"]],
        replace(fit, raw=_scores(fit, items, present)).order_changes(items),
        int((sizes * (sizes - 1) // 2).sum()),
        len(table.items) - len(shown),
    )


def _scores(fit: Ranking, items: np.ndarray, present: dict[Hashable, float]) -> Floats:
    """The present scores in the fit's order; an item that had none keeps its new one."""
    return np.array([present.get(item, new) for item, new in zip(items.tolist(), fit.theta, strict=True)])
