"""What `python -m tests.faults`, which injects faults into a real service for minutes, finds and says."""

from __future__ import annotations

import pytest

from tests.faults.__main__ import QUICK, chosen, row
from tests.faults.cases import CASES
from tests.faults.crowd import Ledger
from tests.faults.rig import Outcome


def test_ledger_finds_what_is_missing_stale_or_not_deleted() -> None:
    ledger = Ledger(states={1: 5.0, 2: 5.0, 3: 5.0, 4: 5.0}, deleted={3, 4})
    rows = {
        1: {"deleted": False, "updated_at": 5.0},
        2: {"deleted": False, "updated_at": 4.0},
        3: {"deleted": True, "updated_at": 5.0},
        4: {"deleted": False, "updated_at": 5.0},
    }
    assert ledger.missing(rows) == [2, 4]
    assert ledger.missing({}) == [1, 2, 3, 4]


def test_table_names_failures_and_skips() -> None:
    failed = Outcome("torn-log", "sqlite", failures=["3 acknowledged states are missing"])
    assert "FAILED: 3 acknowledged states are missing" in row(failed)[-1]
    assert "skipped: no compiler" in row(Outcome("clock-back", "sqlite", skipped="no compiler"))[-1]


def test_faults_are_chosen_by_name_and_database() -> None:
    assert [(case.name, database) for case, database in chosen(["kill-web"], "postgres", False)] == [
        ("kill-web", "postgres")
    ]
    assert [case.name for case, _ in chosen([], None, True)] == [case.name for case in CASES if case.name in QUICK]
    assert chosen(["torn-log"], "postgres", False) == []
    with pytest.raises(SystemExit, match="unknown fault nonsense"):
        chosen(["nonsense"], None, False)
