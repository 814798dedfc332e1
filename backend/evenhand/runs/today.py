"""What a lead looks at every morning: who answered how much, how fast and how many were skipped, day by day."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from evenhand.domain import Project
from evenhand.store import Store
from fdr_core.report.document import plain

DAY = 86_400.0
DAYS = 14
SKIPPED = ("skip", "empty")


@dataclass(frozen=True)
class Work:
    """
    Two weeks of a project, the last day being today (UTC).

    Attributes
    ----------
    people : by annotator, what each did: days (answers of each day), today, yesterday, answers, skipped (a share) and
        seconds (median).
    total : the same of all together, and of how many people it is today's and yesterday's work (active, before).
    """

    people: dict[str, dict[str, Any]]
    total: dict[str, Any]


def work(store: Store, project: Project, *, among: Collection[str] | None = None) -> Work:
    """Sum up the last two weeks, of everybody or of some."""
    first = np.floor(store.clock() / DAY) * DAY - (DAYS - 1) * DAY
    rows = pd.DataFrame(store.comparisons.since(project.id, float(first)), columns=["who", "at", "status", "seconds"])
    if among is not None:
        rows = rows[rows["who"].isin(list(among))]
    who, names = pd.factorize(rows["who"])
    day = np.clip((rows["at"].to_numpy(float) - first) // DAY, 0, DAYS - 1).astype(np.int64)
    skipped = rows["status"].isin(SKIPPED).to_numpy(bool)
    n = len(names)
    days = np.bincount(who[~skipped] * DAYS + day[~skipped], minlength=n * DAYS).reshape(n, DAYS)
    skips = np.bincount(who[skipped], minlength=n)
    seconds = pd.to_numeric(rows["seconds"]).where(~skipped)
    medians = seconds.groupby(who).median().reindex(range(n)).to_numpy()
    people = {str(name): _figures(days[k], int(skips[k]), medians[k]) for k, name in enumerate(names.tolist())}
    total = _figures(days.sum(axis=0), int(skips.sum()), seconds.median())
    active = {"active": int((days[:, -1] > 0).sum()), "before": int((days[:, -2] > 0).sum())}
    return Work(people, {**total, **active})


def _figures(days: Any, skips: int, seconds: Any) -> dict[str, Any]:
    answers = int(days.sum())
    return {
        "days": [int(number) for number in days],
        "today": int(days[-1]),
        "yesterday": int(days[-2]),
        "answers": answers,
        "skipped": skips / (answers + skips) if answers + skips else None,
        "seconds": plain(float(seconds)),
    }
