"""Stored cells as the figures that tables and claims quote."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.results import plan
from benchmarks.results.cells import Cell, Store, is_fresh
from harness.scenarios import Q

PASS, FAIL, TOO_FEW, NOT_RUN = "PASS", "FAIL", "too few runs", "not run"
LEAST_SETS = int(plan.SETTLED["report"]["least_sets"])
LARGEST_SE = float(plan.SETTLED["report"]["largest_se"])


def together(words: Iterable[str]) -> str:
    """One word for many: a failure counts first, then what is not known yet."""
    found = set(words)
    return next((word for word in (FAIL, TOO_FEW, PASS) if word in found), NOT_RUN)


@dataclass(frozen=True)
class Rate:
    """Error rate and power of a method in a scenario, with standard errors; ``reason`` where it cannot run."""

    fdp: np.ndarray
    power: np.ndarray
    reason: str = ""

    @property
    def runs(self) -> int:
        """Number of data sets."""
        return len(self.fdp)

    @property
    def fdr(self) -> float:
        """Mean share of false flags."""
        return float(self.fdp.mean())

    @property
    def fdr_se(self) -> float:
        """Its standard error, from a spread of at least .02 so that a few perfect runs claim no certainty."""
        return max(float(self.fdp.std()), 0.02) / float(np.sqrt(self.runs))

    @property
    def mean_power(self) -> float:
        """Mean share of the leaning found."""
        return float(self.power.mean())

    @property
    def power_se(self) -> float:
        """Its standard error."""
        return float(self.power.std()) / float(np.sqrt(self.runs))

    @property
    def holds(self) -> bool:
        """Whether the error rate is at most q, give or take two standard errors."""
        return self.fdr <= Q + 2.0 * self.fdr_se

    @property
    def is_enough(self) -> bool:
        """Whether there are as many data sets as the plan wants before a rate is judged."""
        return self.runs >= LEAST_SETS

    def word(self, *, is_null: bool) -> str:
        """PASS, FAIL or too few runs; where nobody leans PASS wants a small standard error as well."""
        if not self.is_enough or (self.holds and is_null and self.fdr_se > LARGEST_SE):
            return TOO_FEW
        return PASS if self.holds else FAIL


class Results:
    """The results of a plan as far as they are stored."""

    def __init__(self, store: Store, size: plan.Size) -> None:
        self.size = size
        self._store = store
        self.tables = plan.cells(size)
        self._cells: dict[str, Cell] = {cell.name: cell for cells in self.tables.values() for cell in cells}
        self.missing: list[str] = []
        self.stale: list[str] = []
        self.dates: list[str] = []
        self.seconds = 0.0
        self._results: dict[str, Any] = {}
        for cell in self._cells.values():
            self._load(cell)

    def get(self, name: str) -> Any:
        """Give a cell's result, None where it was not computed."""
        return self._results.get(name)

    def rate(self, scenario: str, method: str) -> Rate | None:
        """Give the error rate and power of a method in a scenario."""
        result = self.get(f"quality-{scenario}-{method}")
        if result is None:
            return None
        return Rate(np.array(result.get("fdp", [])), np.array(result.get("power", [])), result.get("reason", ""))

    def study_rates(self, kind: str, method: str) -> dict[str, Rate]:
        """Give the error rates in the cells of the paper's study, the true finds in the place of power."""
        found = {}
        for cell in self.tables["paper"]:
            result = self.get(cell.name)
            if result and cell.name.startswith(f"{kind}-") and result["methods"].get(method):
                measured = result["methods"][method]
                found[cell.name] = Rate(np.array(measured["fdp"]), np.array(measured["found"]))
        return found

    def _load(self, cell: Cell) -> None:
        record = self._store.latest(cell)
        if record is None or record["asked"] != cell.asked:
            self.missing.append(cell.name)
            return
        if not is_fresh(record, cell):
            self.stale.append(cell.name)
        self._results[cell.name] = record["result"]
        self.dates.append(record["date"])
        self.seconds += record["seconds"]


def paired_difference(ours: Rate, peer: Rate) -> tuple[float, float]:
    """Mean difference in power on the data sets that both saw, and its standard error."""
    n = min(ours.runs, peer.runs)
    difference = ours.power[:n] - peer.power[:n]
    return float(difference.mean()), float(difference.std()) / float(np.sqrt(n))
