"""Runs that people ask for, beside those of the schedule."""

from evenhand.domain import Batch, Project, Trigger
from evenhand.server.worker import Runs
from evenhand.store import Store

from tests.backend.stored_crowd import crowd_rows


def test_run_that_somebody_asked_for_is_carried_out_even_where_a_scheduled_one_waited(
    store: Store, project: Project
) -> None:
    store.comparisons.apply(project.id, Batch(comparisons=crowd_rows()[0]))
    runs = Runs(store, "a")
    store.runs.request(project.id, Trigger.MANUAL)
    runs.once()
    waiting = store.runs.request(project.id, Trigger.SCHEDULE)  # nothing is new: by itself it would be dropped
    asked = store.runs.request(project.id, Trigger.MANUAL, "ada")
    assert (asked.id, asked.trigger, asked.requested_by) == (waiting.id, Trigger.MANUAL, "ada")
    assert store.runs.request(project.id, Trigger.SCHEDULE).trigger == Trigger.MANUAL
    runs.once()
    assert store.runs.get(asked.id).status == "done"
