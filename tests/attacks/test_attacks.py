"""The attacks in their short form; those that are about times only are left to the command."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.service import Service
from tests.attacks import cases

#: Afterwards guesses are turned away for a while, and so is everybody else from this address.
LAST = "wrong-passwords"
NAMES = [*sorted({*cases.ATTACKS} - {"names-by-time", LAST}), LAST]


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with cases.attacked(tmp_path_factory.mktemp("attacked")) as service:
        yield service


@pytest.mark.slow
@pytest.mark.attacks
@pytest.mark.parametrize("name", NAMES)
def test_attack_on_the_running_service_fails(name: str, attacked: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cases, "SLACK", 60.0)  # times are promised for a quiet machine, and held by the command
    outcome = cases.ATTACKS[name](attacked, cases.SHORT)
    assert outcome.held, outcome.seen
