"""Fixtures of the service's tests: one store contract on SQLite and on a real PostgreSQL, captured payloads."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from evenhand.app import create_app
from evenhand.domain import Project, ProjectRef
from evenhand.label_studio.transport import Transport
from evenhand.settings import Settings
from evenhand.store import Store, open_store
from evenhand.store.engine import open_engine
from evenhand.web import passwords
from flask import Flask
from flask.testing import FlaskClient
from werkzeug.security import generate_password_hash

from harness.databases import new_store
from harness.label_configs import PAIRWISE
from harness.opened import hold_the_token
from tests.backend.closed_service import CLOSED
from tests.backend.compiled_once import keep_what_is_compiled

SLOW, QUICK = "scrypt:32768:8:1", "scrypt:1024:8:1"
ON_BOTH = ("sqlite", pytest.param("postgres", marks=pytest.mark.postgres))
PAYLOADS = Path(__file__).resolve().parent.parent / "data" / "payloads"


class FakeClock:
    """A clock that stands still until it is moved."""

    def __init__(self, now: float = 1_800_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


@pytest.fixture(autouse=True, scope="session")
def compiled_once() -> Iterator[None]:
    """Templates, routes and statements are compiled once for all the services that tests make."""
    with pytest.MonkeyPatch.context() as patch:
        keep_what_is_compiled(patch)
        yield


@pytest.fixture(autouse=True)
def quick_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hashes of passwords that cost nothing; what they cost people is tested by `test_password_hash_is_slow`."""
    monkeypatch.setattr(
        passwords, "generate_password_hash", lambda password, method: generate_password_hash(password, QUICK)
    )
    monkeypatch.setattr(passwords, "_DUMMY_HASH", passwords._DUMMY_HASH.replace(SLOW, QUICK))


@pytest.fixture(autouse=True, scope="session")
def no_pauses() -> Iterator[None]:
    """Nobody waits before asking Label Studio again; how long the service does is tested by `test_client`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(Transport.__init__.__kwdefaults__ or {}, "sleep", lambda _seconds: None)
        yield


@pytest.fixture(autouse=True, scope="session")
def open_doors_known() -> Iterator[None]:
    """Clients of an open service hold its token, as the browser of whoever started it does."""
    with pytest.MonkeyPatch.context() as patch:
        hold_the_token(patch)
        yield


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(params=ON_BOTH)
def empty_database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    url: str = request.getfixturevalue("postgres_url") if request.param == "postgres" else sqlite_url(tmp_path)
    return url


@pytest.fixture(params=ON_BOTH)
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of the database behind `store`."""
    url: str = request.getfixturevalue("migrated_postgres_url") if request.param == "postgres" else sqlite_url(tmp_path)
    return url


def sqlite_url(folder: Path) -> str:
    return f"sqlite:///{folder / 'evenhand.db'}"


@pytest.fixture
def store(database_url: str, clock: FakeClock) -> Iterator[Store]:
    if database_url.startswith("sqlite:///"):
        opened = new_store(Path(database_url.removeprefix("sqlite:///")), clock)
    else:
        opened = Store(open_engine(database_url), clock)
    yield opened
    opened.close()


@pytest.fixture
def sqlite_store(tmp_path: Path, clock: FakeClock) -> Iterator[Store]:
    opened = new_store(tmp_path / "single.db", clock)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def module_settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Settings of a service whose store lasts for all tests of a module."""
    folder = tmp_path_factory.mktemp("module")
    return Settings(model_dir=folder, database_url=f"sqlite:///{folder / 'evenhand.db'}", log_level="ERROR")


@pytest.fixture(scope="module")
def module_store(module_settings: Settings) -> Iterator[Store]:
    with closing(open_store(module_settings)) as opened:
        yield opened


@pytest.fixture
def closed(sqlite_store: Store) -> Flask:
    """A service that lets nobody in without credentials."""
    return create_app(CLOSED, sqlite_store)


@pytest.fixture
def open_client(sqlite_store: Store) -> FlaskClient:
    """A client of a service without credentials, which serves its own machine only."""
    return create_app(Settings(), sqlite_store).test_client()


@pytest.fixture
def project(store: Store) -> Project:
    return store.projects.register("http://ls", ProjectRef(1, 1_794_803_224), title="pw1", label_config=PAIRWISE)


@pytest.fixture
def payload() -> Callable[[str], Any]:
    """Return a captured body by file name; of a file with several the first."""

    def read(name: str) -> Any:
        captured = json.loads((PAYLOADS / f"{name}.json").read_text(encoding="utf-8"))
        captured = captured[0] if isinstance(captured, list) else captured
        return captured.get("body", captured)

    return read
