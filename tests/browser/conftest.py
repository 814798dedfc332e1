"""A real service in a process of its own, and a browser that fails a test on any console error or foreign request."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from evenhand.settings import Settings
from evenhand.store import open_store
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Dialog, Page, Request

from harness import serving as process
from harness import world
from harness.components import ROOT
from harness.opened import token_header

NOWHERE = "http://127.0.0.1:9"


@dataclass(frozen=True)
class Service:
    """A running Evenhand: web and worker."""

    url: str
    folder: Path

    def ui(self, path: str = "") -> str:
        return f"{self.url}/ui/{path}"

    def opened(self, browser: Browser, **options: Any) -> BrowserContext:
        """A context that has followed the link which whoever started the service was given."""
        made = browser.new_context(**options)
        made.request.get(self.ui(), headers={**token_header(self.folder), "Accept": "text/html"})
        return made


@contextmanager
def serving(folder: Path, **environment: str) -> Iterator[Service]:
    """Run `evenhand serve` on a port of its own until the block ends."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
    settings = {"MODEL_DIR": str(folder), "LOG_LEVEL": "WARNING", "OMP_NUM_THREADS": "1"}
    with process.serving(
        [sys.executable, "-m", "evenhand.cli", "serve"],
        folder=ROOT,
        environment={**kept, **settings, **environment},
        log=folder / "service.log",
    ) as (_, url):
        yield Service(url, folder)


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service with a project in every state; its Label Studio cannot be reached."""
    folder = tmp_path_factory.mktemp("service")
    store = open_store(Settings(model_dir=folder, database_url=f"sqlite:///{folder / 'evenhand.db'}"))
    for project in (
        world.simulated(store, 1, "Photo captions", annotators=60, biased=8),
        world.simulated(store, 2, "x", annotators=14, biased=3, answers=100, seed=4, hostile=True),
        world.simulated(store, 3, "One annotator", annotators=1, biased=0, answers=30),
    ):
        world.judge(store, project)
    for text in world.HOSTILE:
        store.decisions.add(2, "1", "watch", author=text[:200], comment=text)
    world.register(store, 4, "No data yet")
    world.fail(store, world.register(store, 5, "Failed run"), "the paper's construction needs more answers than 2m + n")
    world.many_annotators(store, 6, 10_000)
    world.judge(store, world.simulated(store, 7, "Queue", annotators=24, biased=4, bias=0.8, seed=3))
    store.events.count("ANNOTATION_CREATED", "rejected", 12)
    store.close()
    with serving(folder, LABEL_STUDIO_URL=NOWHERE, LABEL_STUDIO_API_KEY="a" * 40) as running:
        yield running


@dataclass
class Watch:
    """What must not happen while a page is looked at."""

    complaints: list[str] = field(default_factory=list)
    expected: list[str] = field(default_factory=list)

    def follow(self, page: Page) -> None:
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.complaints.append(f"error in a script: {error}"))
        page.on("request", self._request)
        page.on("dialog", self._dialog)

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not any(text in message.text for text in self.expected):
            self.complaints.append(f"console: {message.text}")

    def _request(self, request: Request) -> None:
        parts = urlsplit(request.url)
        if parts.scheme not in ("data", "blob", "about") and parts.hostname != "127.0.0.1":
            self.complaints.append(f"request to {request.url[:200]}")

    def _dialog(self, dialog: Dialog) -> None:
        self.complaints.append(f"a dialog opened: {dialog.message}")
        dialog.dismiss()


@pytest.fixture
def watch() -> Iterator[Watch]:
    """Fail the test afterwards on anything that must not happen."""
    watching = Watch()
    yield watching
    assert watching.complaints == []


@pytest.fixture
def context(browser: Browser, service: Service, watch: Watch) -> Iterator[BrowserContext]:
    made = service.opened(browser, viewport={"width": 1280, "height": 900}, accept_downloads=True)
    made.set_default_timeout(60_000)  # others may be working beside us
    made.on("page", watch.follow)
    yield made
    made.close()


@pytest.fixture
def page(context: BrowserContext) -> Page:
    return context.new_page()
