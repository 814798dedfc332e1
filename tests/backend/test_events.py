"""What an event changes besides its answers: the project's description and the data fields known of its tasks."""

from __future__ import annotations

from typing import Any

import pytest
from evenhand.domain import Project, ProjectRef
from evenhand.ingest.events import build_batch, handle_event, handle_setup
from evenhand.label_studio.payloads import read_event, read_setup
from evenhand.settings import Settings
from evenhand.store import Store

from harness.label_configs import PAIRWISE

SETTINGS = Settings(label_studio_url="http://ls")


def pulled(store: Store, number: int) -> Project:
    """A project that was pulled once and had no tasks then."""
    made = store.projects.register("http://ls", ProjectRef(number, 7), title="old", label_config=PAIRWISE)
    store.projects.finish_pull(made.id, {}, watermark=None, was_full=True)
    return store.projects.get(made.id)


@pytest.fixture
def known(sqlite_store: Store) -> Project:
    """A project whose tasks have two fields so far."""
    return sqlite_store.projects.add_task_fields(pulled(sqlite_store, 1).id, {"text1", "text2"})


def task(**data: str) -> dict[str, Any]:
    return {"id": 10, "data": {"text1": "a", "text2": "b", **data}, "updated_at": "2026-11-16T10:00:00Z"}


@pytest.mark.parametrize(
    ("fields", "is_read_otherwise"),
    [({}, False), ({"note": "x"}, False), ({"evenhand_coin": "c1"}, True)],
    ids=["known fields", "a field nobody reads", "the recorded coin"],
)
def test_field_never_seen_asks_for_a_full_pull_only_where_it_changes_the_reading(
    sqlite_store: Store, known: Project, fields: dict[str, str], is_read_otherwise: bool
) -> None:
    build_batch(sqlite_store, known, [], [task(**fields)])
    after = sqlite_store.projects.get(known.id)
    assert after.full_pull_needed is is_read_otherwise
    assert set(after.task_fields) == {"text1", "text2", *fields}


def test_first_fields_of_a_project_ask_for_no_full_pull(sqlite_store: Store) -> None:
    made = pulled(sqlite_store, 2)
    build_batch(sqlite_store, made, [], [task(evenhand_coin="c1")])
    assert sqlite_store.projects.get(made.id).full_pull_needed is False


def describing(**fields: Any) -> dict[str, Any]:
    return {"action": "PROJECT_UPDATED", "project": {"id": 1, "created_at": "1970-01-01T00:00:07Z", **fields}}


@pytest.mark.parametrize(
    ("first", "then", "title"),
    [
        ({}, {"title": "new"}, "new"),
        ({"updated_at": "2026-11-16T10:00:00Z"}, {"title": "new", "updated_at": "2026-11-16T11:00:00Z"}, "new"),
        ({"updated_at": "2026-11-16T10:00:00Z"}, {"title": "late", "updated_at": "2026-11-16T09:00:00Z"}, "old"),
        ({"updated_at": "2026-11-16T10:00:00Z"}, {"title": "undated"}, "old"),
    ],
    ids=["no times known", "newer", "older", "undated after a dated one"],
)
def test_title_that_rides_along_with_an_event_is_taken_over_if_it_is_newer(
    sqlite_store: Store, known: Project, first: dict[str, Any], then: dict[str, Any], title: str
) -> None:
    for fields in (first, then):
        handle_event(sqlite_store, SETTINGS, read_event(describing(**fields)))
    assert sqlite_store.projects.get(known.id).title == title


def test_setup_without_an_epoch_means_the_newest_project_of_that_id(sqlite_store: Store) -> None:
    pulled(sqlite_store, 1)
    for number in (1, 2):
        handle_setup(sqlite_store, SETTINGS, read_setup({"project": str(number), "schema": PAIRWISE}))
    found = {(project.ls_project_id, project.epoch) for project in sqlite_store.projects.all()}
    assert found == {(1, 7), (2, 0)}
