"""A clock that is set, forward or back: nobody waits for it to come round again."""

from dataclasses import replace
from pathlib import Path

import pytest
from evenhand.domain import Project, ProjectRef, Publication, Trigger
from evenhand.ingest.pull import pull_project
from evenhand.label_studio.client import LabelStudioClient, project_epoch
from evenhand.label_studio.transport import LabelStudioUnreachableError, Transport
from evenhand.project_config import ProjectConfig
from evenhand.publish.context import Context
from evenhand.runs.schedule import pull_is_due, run_is_due
from evenhand.server.worker import Chores
from evenhand.settings import Settings
from evenhand.store import Store
from evenhand.store.schema import leases
from sqlalchemy import update

from harness.fake_label_studio import LEGACY_TOKEN, URL, FakeLabelStudio
from tests.backend.conftest import FakeClock
from tests.backend.test_schedule import NOW, run
from tests.backend.test_schedule import project as scheduled

HOUR = 3600.0


def set_database_clock_back(store: Store, seconds: float) -> None:
    """Seen from a clock that was set back, every lease ends that much later."""
    with store.engine.begin() as connection:
        connection.execute(update(leases).values(expires_at=leases.c.expires_at + seconds))


def test_lease_of_a_dead_worker_is_free_after_the_clock_was_set_back(store: Store) -> None:
    assert store.leases.acquire("pull:1", "dead", 30) is not None
    assert store.leases.acquire("pull:1", "alive", 30) is None
    set_database_clock_back(store, HOUR)
    assert store.leases.acquire("pull:1", "alive", 30) is not None


def test_run_of_a_dead_worker_is_taken_over_after_the_clock_was_set_back(store: Store, project: Project) -> None:
    wanted = store.runs.request(project.id, Trigger.MANUAL)
    assert store.runs.claim("dead", 10) is not None
    assert store.runs.claim("alive", 10) is None
    set_database_clock_back(store, HOUR)
    taken = store.runs.claim("alive", 10)
    assert taken is not None
    assert taken[0].id == wanted.id


def test_run_of_a_living_worker_is_not_lost_when_the_clock_is_set_forward(store: Store, project: Project) -> None:
    store.runs.request(project.id, Trigger.MANUAL)
    claimed = store.runs.claim("alive", 10)
    assert claimed is not None
    set_database_clock_back(store, -HOUR)
    store.runs.progress(claimed[0].id, claimed[1], 0.5, seconds=10)
    assert store.runs.claim("other", 10) is None


def test_lease_is_never_given_for_longer_than_the_bound_by_which_stale_ones_are_told(store: Store) -> None:
    lease = store.leases.acquire("long", "one", 1e6)
    assert lease is not None
    assert store.leases.acquire("long", "two", 30) is None
    assert store.leases.renew(lease, 1e6).expires_at < store.database.time() + 301


def test_schedule_with_its_last_run_and_pull_in_the_future_goes_on() -> None:
    ahead = scheduled(last_event_at=NOW + HOUR, last_pull_at=NOW + HOUR)
    assert run_is_due(ahead, run(finished=NOW + HOUR), 200, NOW)
    assert pull_is_due(ahead, 15.0, NOW)


def test_schedule_with_replicas_a_little_apart_keeps_its_distances() -> None:
    near = scheduled(last_pull_at=NOW + 1)
    assert not run_is_due(near, run(finished=NOW + 1), 5000, NOW)
    assert not pull_is_due(near, 15.0, NOW)


def test_chore_pause_ends_when_the_clock_was_set_back(sqlite_store: Store, clock: FakeClock) -> None:
    chores = Chores(sqlite_store, Settings(), "me", FakeLabelStudio().session())
    found = sqlite_store.projects.register("http://ls", ProjectRef(1, 1))
    chores._pause("pull", found, LabelStudioUnreachableError("away"))
    assert chores._pausing("pull", found, clock.now)
    assert not chores._pausing("pull", found, clock.now + 60)
    assert not chores._pausing("pull", found, clock.now - HOUR)


def test_failed_publication_is_tried_again_when_the_clock_was_set_back(sqlite_store: Store, clock: FakeClock) -> None:
    found = sqlite_store.projects.register("http://ls", ProjectRef(1, 1))
    client = LabelStudioClient(Transport(URL, LEGACY_TOKEN, session=FakeLabelStudio().session()))
    context = Context(sqlite_store, client, found, ProjectConfig.model_validate({}), None, clock.now, None)
    with pytest.raises(LabelStudioUnreachableError), context.attempt("tab", "content"):
        raise LabelStudioUnreachableError("away")
    assert context.is_waiting("tab")
    assert not replace(context, now=clock.now + 31).is_waiting("tab")
    assert not replace(context, now=clock.now - HOUR).is_waiting("tab")


def test_waiting_alert_is_due_when_the_clock_was_set_back_a_day(sqlite_store: Store, clock: FakeClock) -> None:
    sqlite_store.notifications.add("fact", {})
    sqlite_store.notifications.settle("fact", error="away", next_try_at=clock.now + 30)
    assert sqlite_store.notifications.due() == []
    clock.now -= 24 * HOUR
    assert [row["key"] for row in sqlite_store.notifications.due()] == ["fact"]


def test_login_is_not_blocked_for_hours_when_the_clock_was_set_back(sqlite_store: Store, clock: FakeClock) -> None:
    for _ in range(8):
        sqlite_store.logins.record("who", succeeded=False)
    assert sqlite_store.logins.delay("who") > 0
    clock.now -= HOUR
    assert sqlite_store.logins.delay("who") == 0


def test_publication_record_without_next_try_never_waits(sqlite_store: Store, clock: FakeClock) -> None:
    found = sqlite_store.projects.register("http://ls", ProjectRef(1, 1))
    sqlite_store.publications.put(Publication(found.id, "tab", "state", None, None, "done", 0, None, None, clock.now))
    client = LabelStudioClient(Transport(URL, LEGACY_TOKEN, session=FakeLabelStudio().session()))
    assert not Context(sqlite_store, client, found, ProjectConfig.model_validate({}), None, clock.now, None).is_waiting(
        "tab"
    )


def test_pull_after_label_studios_clock_was_set_back_reads_changes_with_earlier_times(
    sqlite_store: Store, tmp_path: Path
) -> None:
    server = FakeLabelStudio()
    server.tick(HOUR)
    number = server.add_project("Pairs")
    user = server.add_user("ann@example.com")
    annotation = server.annotate(server.add_task(number, {"text1": "a", "text2": "b"}), user, "left")
    described = server.projects[number]
    ref = ProjectRef(number, project_epoch(described))
    found = sqlite_store.projects.register(URL, ref, label_config=described["label_config"])
    client = LabelStudioClient(Transport(URL, LEGACY_TOKEN, session=server.session()))
    pull_project(sqlite_store, client, found, full=True)
    server.tick(-HOUR)
    for side, outcome, is_full in (("right", -1.0, True), ("left", 1.0, False)):
        server.edit(annotation, side)
        report = pull_project(sqlite_store, client, sqlite_store.projects.get(found.id), full=False)
        assert sqlite_store.comparisons.rows(found.id)[0]["outcome"] == outcome
        assert report.full is is_full  # the first pull learns of it, later ones need not read everything
