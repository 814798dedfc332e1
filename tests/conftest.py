"""What all tests share: one BLAS thread, required components, PostgreSQL, real data sets, hypothesis profiles."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from _pytest.nodeid import coerce_node_id
from hypothesis import HealthCheck, settings

from harness import components
from harness.block_list import blocking_settings
from harness.label_studio import LabelStudioServer
from harness.postgres import PostgresServer, running_postgres

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# BLAS reads these once, when numpy is loaded: no import above may load it.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

#: By the time they take; alone: with a Label Studio of their own, beside the shared one.
GROUPS = ("labelstudio", "browser", "alone", "spark", "postgres", "attacks")
MISSING_DATA = "data set not present: "
CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-domain-reliability",
    "--disable-sync",
    "--no-first-run",
    "--no-pings",
]

settings.register_profile("dev", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)


def pytest_configure(config: pytest.Config) -> None:
    """Choose the hypothesis profile: in CI the same examples every time."""
    settings.load_profile("ci" if components.is_ci() else "dev")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests that need the same server share a process, so that it is started once; those that take longest go first."""
    items.sort(key=lambda item: ((*GROUPS, "").index(_group(item)), item.get_closest_marker("slow") is None))
    for item in items:
        if (group := _group(item)) not in ("", "alone") and hasattr(config, "workerinput"):
            # What --dist loadgroup goes by; pytest-xdist 3.8 writes it where pytest 9.2 no longer looks.
            item._id = coerce_node_id(f"{item.nodeid}@{group}")
            assert item.nodeid.endswith(f"@{group}")


def _group(item: pytest.Item) -> str:
    name = next((name for name in GROUPS if item.get_closest_marker(name)), "")
    is_shared = "label_studio" in getattr(item, "fixturenames", ())
    return "alone" if name == "labelstudio" and not is_shared else name


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test whose component is missing; in CI fail it, so that nothing goes unseen."""
    for marker, (find, remedy) in components.COMPONENTS.items():
        if item.get_closest_marker(marker) and find() is None:
            if components.is_ci():
                pytest.fail(f"CI=true, but {remedy}", pytrace=False)
            pytest.skip(remedy)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name the real data sets that tests asked for and did not find; their absence never fails."""
    reasons = [report.longrepr[2] for report in terminalreporter.stats.get("skipped", []) if len(report.longrepr) == 3]
    names = {reason.split(MISSING_DATA, 1)[1].split(" ", 1)[0] for reason in reasons if MISSING_DATA in reason}
    if names:
        terminalreporter.write_line(f"real data sets not found (set EVENHAND_DATA): {', '.join(sorted(names))}")


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """Return where the real data sets would be: EVENHAND_DATA, else beside the project."""
    named = os.environ.get("EVENHAND_DATA")
    return Path(named) if named else components.ROOT.parent / "shared" / "data"


@pytest.fixture(scope="session")
def dataset(data_folder: Path) -> Callable[[str], Path]:
    """Return a function from a data set's name to its folder, which skips the test when it is not there."""

    def find(name: str) -> Path:
        folder = data_folder / name
        if not (folder / "comparisons.csv").is_file():
            pytest.skip(f"{MISSING_DATA}{name} (no comparisons.csv in {folder}; set EVENHAND_DATA)")
        return folder

    return find


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """Start one PostgreSQL server for the session; mark the test `postgres`."""
    programs = components.postgres()
    assert programs is not None, "mark tests that use PostgreSQL with pytest.mark.postgres"
    with running_postgres(programs) as server:
        yield server


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> str:
    """Return the address of a fresh, empty database."""
    return postgres_server.new_database()


@pytest.fixture
def migrated_postgres_url(postgres_server: PostgresServer) -> str:
    """Return the address of a fresh database at the newest schema."""
    return postgres_server.migrated_database()


@pytest.fixture(scope="session")
def chromium() -> Path:
    """Return the browser's program; mark the test `browser`."""
    program = components.chromium()
    assert program is not None, "mark tests that use Chromium with pytest.mark.browser"
    return program


@pytest.fixture(scope="session")
def browser(chromium: Path) -> Iterator[Browser]:
    """One Chromium a process: Playwright's loop cannot run twice in it."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=str(chromium), args=CHROMIUM_FLAGS)
        yield launched
        launched.close()


@pytest.fixture(scope="session")
def label_studio_program() -> Path:
    """Return the label-studio program; mark the test `labelstudio`."""
    program = components.label_studio()
    assert program is not None, "mark tests that use Label Studio with pytest.mark.labelstudio"
    return program


@pytest.fixture(scope="session")
def label_studio(label_studio_program: Path) -> Iterator[LabelStudioServer]:
    """The one Label Studio of a run; of this machine's addresses it reaches the usual one."""
    with LabelStudioServer(settings=blocking_settings()) as server:
        yield server
