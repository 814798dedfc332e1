"""The check of dependencies without a network: the lock files against the advisories we know."""

from __future__ import annotations

import datetime

import pytest

from scripts.check_advisories import LOCKS, ROOT, holes, read_advisories, read_pins, too_old


@pytest.mark.parametrize("lock", LOCKS)
def test_lock_file_pins_nothing_with_a_known_hole(lock: str) -> None:
    pins = read_pins((ROOT / lock).read_text(encoding="utf-8"))
    assert len(pins) > 30
    assert holes(pins, read_advisories(), lock) == []


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("flask==3.1.2 \\", "CVE-2026-27205"),
        ("Werkzeug==2.0.2", "overrides.txt"),
        ("pyarrow==14.0.0", "CVE-2023-47248"),
        ("flask==3.1.3 ; python_version > '3'", ""),
    ],
)
def test_check_names_the_hole_of_an_old_pin(line: str, expected: str) -> None:
    found = holes(read_pins(line), read_advisories(), "x.lock")
    assert expected in "\n".join(found)
    assert bool(found) == bool(expected)


def test_accepted_advisory_is_no_hole() -> None:
    known = read_advisories()
    entry = {**known["advisory"][0], "accepted": "for a reason"}
    assert holes(read_pins("flask==1.0"), {"advisory": [entry], "overridden": []}, "x.lock") == []


def test_every_advisory_says_what_it_means_for_us() -> None:
    for entry in read_advisories()["advisory"]:
        assert {"package", "id", "vulnerable", "matters"} <= set(entry)
        assert entry["id"].startswith(("CVE-", "GHSA-", "PYSEC-"))


@pytest.mark.parametrize(("days", "is_too_old"), [(0, False), (90, False), (91, True), (-1, True)])
def test_release_with_an_old_list_is_refused_with_the_command_that_renews_it(days: int, is_too_old: bool) -> None:
    known = {"reviewed": datetime.date(2026, 11, 16)}
    found = too_old(known, datetime.date(2026, 11, 16) + datetime.timedelta(days=days))
    assert (found is not None) == is_too_old
    assert found is None or "pip-audit --require-hashes" in found
