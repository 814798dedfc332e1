"""Projects for the dashboard to show, and a service that shows them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from evenhand.app import create_app
from evenhand.domain import Project
from evenhand.settings import Settings
from evenhand.store import Store
from flask import Flask
from flask.testing import FlaskClient

from harness import world
from harness.databases import new_store


@pytest.fixture(scope="module")
def store(module_store: Store) -> Store:
    return module_store


@pytest.fixture(scope="module")
def judged(store: Store) -> Project:
    """Twelve people, two of whom lean, judged twice under different settings."""
    project = world.simulated(store, 1, "Captions", annotators=12, biased=2, answers=80, bias=0.8, seed=5)
    world.judge(store, project)
    return project


@pytest.fixture(scope="module")
def hostile(store: Store) -> Project:
    project = world.simulated(store, 2, "x", annotators=8, biased=1, answers=40, bias=0.8, seed=6, hostile=True)
    world.judge(store, project)
    for text in world.HOSTILE:
        store.decisions.add(project.id, "1", "watch", author=text[:200], comment=text)
    return project


@pytest.fixture(scope="module")
def empty(store: Store) -> Project:
    return world.register(store, 3, "Empty")


@pytest.fixture(scope="module")
def alone(store: Store) -> Project:
    project = world.simulated(store, 4, "Alone", annotators=1, biased=0, answers=30)
    world.judge(store, project)
    return project


@pytest.fixture(scope="module")
def app(module_settings: Settings, store: Store) -> Flask:
    return create_app(module_settings, store)


@pytest.fixture
def client(app: Flask) -> FlaskClient:
    """A browser of its own on the shared app."""
    return app.test_client()


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[tuple[FlaskClient, Store, Settings]]:
    """An empty service."""
    settings = Settings(model_dir=tmp_path, database_url=f"sqlite:///{tmp_path / 'fresh.db'}", log_level="ERROR")
    with closing(new_store(tmp_path / "fresh.db")) as store:
        yield create_app(settings, store).test_client(), store, settings
