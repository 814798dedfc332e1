"""What owners state about the sides, what followed from confirmed flags, and letting a project go."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from evenhand.administer.disconnect import disconnect_project
from evenhand.app import create_app
from evenhand.domain import Trigger
from evenhand.errors import StoreBusyError
from evenhand.projects.overview import project_named
from evenhand.projects.reading import change_config, state_sides
from evenhand.publish.follow_up import SOURCE, SWAPPED, undo_follow_up
from evenhand.settings import Settings
from evenhand.store import runs as leases
from evenhand.store.runs import chore_lease
from flask.testing import FlaskClient

from harness.databases import new_store
from tests.backend.publishing import SETTINGS, World
from tests.backend.test_publish import SCORES
from tests.backend.test_publish import world as world  # the fixture


def test_statement_is_kept_with_name_and_time_and_asks_for_a_run_if_it_changes_anything(world: World) -> None:
    store, project = world.store, world.project
    project = state_sides(store, project, "unknown", by="ana")
    assert store.runs.latest(project.id, status=None) is None  # what the audit does anyway
    project = state_sides(store, project, "shuffled", by="ana")
    assert project.config["sides"] == "random"
    run = store.runs.latest(project.id, status=None)
    assert run is not None
    assert (run.trigger, run.requested_by) == (Trigger.CONNECT, "ana")
    state_sides(store, project, "shuffled", by="bo")  # nothing new
    lines = store.statements.all(project.id)
    assert [(line["sides"], line["said_by"]) for line in lines] == [("shuffled", "ana"), ("unknown", "ana")]
    assert all(line["said_at"] > 0 for line in lines)


def test_statement_by_the_settings_page_is_kept_too(world: World) -> None:
    change_config(world.store, world.project, {"q": 0.2}, by="ana")
    assert world.store.statements.all(world.project.id) == []
    change_config(world.store, world.project, {"sides": "random"}, by="ana")
    (line,) = world.store.statements.all(world.project.id)
    assert (line["sides"], line["said_by"]) == ("random", "ana")
    assert world.store.runs.latest(world.project.id, status=None) is not None


def confirmed(world: World, kind: str) -> None:
    """Flag somebody, confirm it, and let follow what the project chose."""
    config = {"after_confirm": kind, "review_tasks": 2}
    world.store.projects.set_config(world.project.id, world.config(**config))
    world.run(SCORES, {"2": 0.5})
    world.store.decisions.add(world.project.id, "2", "confirm", author="lead")
    world.publish()


def test_confirmed_flag_makes_a_project_with_sides_by_new_coins_once_and_undo_removes_it(world: World) -> None:
    confirmed(world, "relabel")
    world.publish()
    (row,) = world.store.follow_ups.all(world.project.id)
    number = row["detail"]["project"]
    anew = [task["data"] for task in world.server.tasks.values() if task["project"] == number]
    assert {data[SOURCE] for data in anew} == set(row["detail"]["tasks"])
    for data in anew:
        source = world.server.tasks[data[SOURCE]]["data"]
        expected = (source["text2"], source["text1"]) if data[SWAPPED] else (source["text1"], source["text2"])
        assert (data["text1"], data["text2"]) == expected
    assert len({data["evenhand_coin"] for data in anew}) == len(anew)
    assert "was deleted" in undo_follow_up(world.store, world.client, row)
    assert number not in world.server.projects
    world.publish()
    assert len(world.store.follow_ups.all(world.project.id)) == 1  # what was undone is not done again


def test_undo_of_a_project_that_holds_answers_leaves_it(world: World) -> None:
    confirmed(world, "relabel")
    (row,) = world.store.follow_ups.all(world.project.id)
    number = row["detail"]["project"]
    task = next(key for key, task in world.server.tasks.items() if task["project"] == number)
    world.server.annotate(task, 3, "left")
    assert "holds answers and stays" in undo_follow_up(world.store, world.client, row)
    assert number in world.server.projects


def test_confirmed_flag_raises_the_overlap_and_undo_lowers_it(world: World) -> None:
    confirmed(world, "overlap")
    (row,) = world.store.follow_ups.all(world.project.id)
    tasks = [world.server.tasks[task] for task in row["detail"]["tasks"]]
    assert [(task["overlap"], task["is_labeled"]) for task in tasks] == [(3, False), (3, False)]
    undo_follow_up(world.store, world.client, row)
    assert [task["overlap"] for task in tasks] == [2, 2]


def test_disconnect_removes_what_is_ours_and_keeps_or_erases_the_rest(world: World) -> None:
    world.run(SCORES, {"2": 0.5})
    world.publish()
    world.client.create_webhook(world.project.ls_project_id, "http://evenhand.test:9090/webhook", {})
    done = disconnect_project(world.store, world.client, SETTINGS, world.project, with_alerts=True, erase=False)
    assert (done.webhooks, done.tabs, done.alerts_projects) == (1, 1, 1)
    assert world.tabs() == []
    assert world.winners() == {}
    assert world.store.projects.all() == []
    assert world.store.comparisons.rows(world.project.id)
    again = world.store.projects.register(world.project.ls_url, world.ref())
    assert (again.id, again.deleted_at) == (world.project.id, None)  # taken up again
    assert project_named(world.store, again.ls_url, again.ls_project_id).id == again.id
    world.store.statements.add(again.id, "shuffled", "ana")
    disconnect_project(world.store, world.client, SETTINGS, again, with_alerts=True, erase=True)
    assert world.store.comparisons.rows(world.project.id) == []
    (bare,) = world.store.people.projects(world.project.ls_url)
    assert (bare.title, bare.label_config) == ("[erased]", "")  # what its sealed log of settings refers to


def while_waiting(monkeypatch: pytest.MonkeyPatch, work: Callable[[], None]) -> None:
    """Let somebody else do this as soon as a lease has to be waited for."""
    monkeypatch.setattr(leases, "time", SimpleNamespace(monotonic=lambda: 0.0, sleep=lambda _: work()))


def test_disconnect_waits_for_a_worker_that_publishes_and_nothing_comes_back(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.run(SCORES, {"2": 0.5})
    lease = world.store.leases.acquire(chore_lease("publish", world.project.id), "worker", 30)
    assert lease is not None

    def publish() -> None:
        world.publish()
        world.store.leases.release(lease)

    while_waiting(monkeypatch, publish)
    done = disconnect_project(world.store, world.client, SETTINGS, world.project, with_alerts=True, erase=False)
    assert (done.tabs, done.alerts_projects) == (1, 1)
    assert world.tabs() == []
    assert not world.store.projects.is_served(world.project.id)


def test_disconnect_waits_for_a_worker_that_reads_the_cards(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.run(SCORES, {"2": 0.5})
    world.publish()
    cards = world.alerts()
    lease = world.store.leases.acquire(chore_lease("pull", cards.id), "worker", 30)
    assert lease is not None
    was_there: list[bool] = []

    def read() -> None:
        was_there.append(cards.ls_project_id in world.server.projects)
        world.store.leases.release(lease)

    while_waiting(monkeypatch, read)
    done = disconnect_project(world.store, world.client, SETTINGS, world.project, with_alerts=True, erase=True)
    assert was_there == [True]
    assert done.alerts_projects == 1


def test_disconnect_gives_up_on_a_worker_that_does_not_end(world: World) -> None:
    world.store.leases.acquire(chore_lease("pull", world.project.id), "worker", 30)
    with (
        pytest.raises(StoreBusyError, match="busy with 'pull"),
        world.store.leases.without_chores(world.project.id, "us", patience=0.2),
    ):
        pass
    assert world.store.leases.acquire(chore_lease("publish", world.project.id), "worker", 30) is not None


def test_disconnect_and_erase_leaves_of_decisions_only_their_seals(world: World) -> None:
    world.run(SCORES, {"2": 0.5})
    world.store.decisions.add(world.project.id, "2", "confirm", author="lead", comment="Ann always clicks left")
    disconnect_project(world.store, None, SETTINGS, world.project, with_alerts=False, erase=True)
    assert world.store.projects.all() == []
    lines = world.store.decisions.page(world.project.id).rows
    assert [line["decision"] for line in lines] == ["erase", "confirm"]
    assert not [line for line in lines if "Ann" in line["comment"] or "lead" in line["author"]]
    assert world.store.decisions.verify(world.project.id).intact
    assert world.store.findings.all(1) == []


@pytest.fixture
def secret_only(tmp_path: Path) -> FlaskClient:
    """A service on loopback with a webhook secret and no other credentials."""
    settings = Settings(label_studio_url="http://ls", webhook_secret="s3cret")
    return create_app(settings, new_store(tmp_path / "evenhand.db")).test_client()


def test_start_training_needs_no_secret_where_setup_needs_no_credentials(
    secret_only: FlaskClient, payload: Callable[[str], Any]
) -> None:
    assert secret_only.post("/setup", json=payload("req_setup")).status_code == 200
    assert secret_only.post("/webhook", json=payload("req_train")).status_code == 200
    probe = secret_only.post("/webhook", json=payload("req_train"), headers={"X-Evenhand-Probe": "1"})
    assert probe.get_json() == {"ok": True, "probe": "START_TRAINING"}
    assert secret_only.post("/webhook", json=payload("req_webhook_ANNOTATION_CREATED")).status_code == 401
    elsewhere = {"REMOTE_ADDR": "192.0.2.7"}
    assert secret_only.post("/webhook", json=payload("req_train"), environ_base=elsewhere).status_code == 401
