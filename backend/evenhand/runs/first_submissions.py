"""Evidence is made of first submissions: what runs take from the answers that stand, and what they tell of the rest."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from evenhand.domain import Project
from evenhand.runs.statistics import Current
from evenhand.store import Store
from evenhand.store.revisions import Correction, History, SideCounts
from fdr_core import Detection, SufficientStatistics
from fdr_core.answer_table import AnswerTable
from fdr_core.consensus.ranking import Ranking, ranking
from fdr_core.design import ridge_for

PROBLEM = "answers_revised"
#: Revisions are named in a problem for so long; the annotator's page shows all of them.
SHOWN_SECONDS = 30 * 86_400.0
#: Deletions do not tell who made them: so many of one person's answers are worth a look.
MANY_DELETIONS = 5
WORDS: Mapping[str, str] = {
    "edit": "edited",
    "delete": "removed",
    "written": "written in their name",
    "author": "given another author",
    "task": "shown with other items",
    "mark": "marked as ground truth or not",
}


@contextmanager
def corrected(current: Current, corrections: Sequence[Correction]) -> Iterator[SufficientStatistics]:
    """The statistics with these corrections, which are taken back at the end."""
    for step in corrections:
        _apply(current, step, step.weight)
    yield current.statistics
    for step in reversed(corrections):
        _apply(current, step, -step.weight)


def ranking_as_it_stands(
    statistics: SufficientStatistics, detection: Detection, *, consensus: str
) -> tuple[Ranking, AnswerTable] | None:
    """The ranking of the answers that stand, with the leans of the flagged taken out; None where none stand."""
    if not len(statistics):
        return None
    table = AnswerTable.of(statistics)
    flagged = np.flatnonzero(np.isin(table.annotators.astype(str), [str(name) for name in detection.flagged]))
    answers = table.answers
    return ranking(answers, table.sums, flagged, method=consensus, fallback_ridge=ridge_for(answers)), table


def report_revisions(store: Store, project: Project) -> None:
    """Name in a problem whose answers were touched by others, and by whom as far as that is known."""
    found: dict[tuple[str, str, str | None], set[int]] = {}
    for row in store.revisions.since(project.id, store.clock() - SHOWN_SECONDS):
        if row["annotator_id"] is not None and row["by_id"] != row["annotator_id"]:
            key = (row["kind"], row["annotator_id"], row["by_id"])
            found.setdefault(key, set()).add(row["annotation_id"])
    counts = Counter({key: len(ids) for key, ids in found.items() if key[0] != "delete" or len(ids) >= MANY_DELETIONS})
    if not counts:
        store.problems.resolve(project.id, PROBLEM)
        return
    named = store.annotators.get(project.id)
    told = "; ".join(_sentence(*key, number, named) for key, number in counts.most_common(10))
    more = len(counts) - 10
    store.problems.open(
        project.id,
        PROBLEM,
        f"{told}{f'; and {more} more' if more > 0 else ''}. Evidence is made of first submissions and stays as it was",
        "Ask who did it and why. If answers should not count, an owner withdraws them on the annotator's page.",
    )


def history_words(history: History, named: Mapping[str, Any]) -> str:
    """What became of somebody's answers later, by the side first chosen; evidence is of first submissions."""
    told = [
        _by_side(history.removed, "removed later"),
        _by_side(history.edited, "edited later"),
        _by_side(history.written_by_others, "written by others in this name, which are evidence against nobody"),
    ]
    others = history.edited_by_others.total
    if others:
        told[1] += f" ({others} not by the annotator)"
    if history.by:
        told.append(f"by {', '.join(_name(user, named) for user in history.by[:5])}")
    return "; ".join(part for part in told if part)


def _by_side(counts: SideCounts, what: str) -> str:
    """So many answers, and for which side they were; nothing where there are none."""
    if not counts.total:
        return ""
    sides = [(counts.right, "right"), (counts.left, "left"), (counts.ties, "a tie")]
    parts = ", ".join(f"{number} of them {side}" for number, side in sides if number)
    return f"{'1 answer was' if counts.total == 1 else f'{counts.total} answers were'} {what}, {parts}"


def _sentence(kind: str, annotator: str, by: str | None, number: int, named: Mapping[str, Any]) -> str:
    """One fact in words."""
    answers = "an answer" if number == 1 else f"{number} answers"
    who = "by whom is not known" if by is None else f"by {_name(by, named)}"
    return f"{answers} of {_name(annotator, named)} {'was' if number == 1 else 'were'} {WORDS[kind]}, {who}"


def _name(user: str, named: Mapping[str, Any]) -> str:
    """A user as people know them."""
    person = named.get(user)
    return f"{person.name} (user {user})" if person is not None and person.name else f"user {user}"


def _apply(current: Current, step: Correction, weight: int) -> None:
    change = current.statistics.add if weight > 0 else current.statistics.remove
    items = (step.left_item, step.right_item)
    change(step.annotator_id, *items, step.outcome, coin=step.coin, coin_source=current.coin_source)
