"""The attacks in their short form, each against a service of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.attacks import cases


@pytest.mark.slow
@pytest.mark.parametrize("name", cases.ATTACKS)
def test_attack_on_the_running_service_fails(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cases, "SLACK", 60.0)  # times are promised for a quiet machine, and held by the command
    outcome = cases.run(name, tmp_path, cases.SHORT)
    assert outcome.held, outcome.seen
