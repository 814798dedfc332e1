"""The components that other tests rely on behave as those tests assume."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
from evenhand.administer.doctor import SUPPORTED

from harness import components
from harness.postgres import PostgresServer, running_postgres
from tests.label_studio.releases import RELEASES


@pytest.mark.postgres
def test_postgres_server_new_database_is_empty_and_separate(postgres_server: PostgresServer) -> None:
    first, second = postgres_server.new_database(), postgres_server.new_database()
    assert first != second
    with psycopg.connect(first.replace("+psycopg", "")) as connection:
        tables = connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone()
    assert tables == (0,)


@pytest.mark.postgres
def test_postgres_server_after_use_is_stopped() -> None:
    programs = components.postgres()
    assert programs is not None
    with running_postgres(programs) as server:
        address = server.url().replace("+psycopg", "")
        psycopg.connect(address).close()
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(address)
    assert not server.folder.exists()


@pytest.mark.parametrize(("value", "expected"), [("true", True), ("1", True), ("", False), ("false", False)])
def test_is_ci_values_as_documented(monkeypatch: pytest.MonkeyPatch, value: str, expected: bool) -> None:
    monkeypatch.setenv("CI", value)
    assert components.is_ci() is expected


def test_dataset_absent_skips_with_name_and_remedy(
    dataset: Callable[[str], Path],
) -> None:
    with pytest.raises(pytest.skip.Exception, match=r"data set not present: no-such-set .*EVENHAND_DATA"):
        dataset("no-such-set")


@pytest.mark.browser
def test_chromium_program_exists(chromium: Path) -> None:
    assert chromium.is_file()


def test_releases_of_label_studio_that_doctor_calls_tried_are_those_that_trials_run() -> None:
    assert tuple(version.rpartition(".")[0] for version in reversed(RELEASES)) == SUPPORTED
    locked = (components.ROOT / "requirements-label-studio.lock").read_text(encoding="utf-8")
    assert f"label-studio=={RELEASES[0]} " in locked
