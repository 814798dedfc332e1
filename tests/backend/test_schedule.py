"""When runs and pulls are due."""

from dataclasses import replace

import pytest

from backend.config import ProjectConfig
from backend.domain import Project, Run
from backend.schedule import has_new_settings, pull_is_due, run_is_due

NOW = 1_000_000.0


def project(**changes):
    config = ProjectConfig(every_minutes=60.0, every_answers=200).to_json()
    base = Project(
        id=1, ls_url="http://ls", ls_project_id=1, epoch=1, title="t", kind="comparison", label_config="",
        config=config, setup_params={}, task_fields=(), alerts_for=None, seq=500, live_seq=500, created_at=NOW - 7200,
        ls_updated_at=None, last_event_at=NOW - 10, last_pull_at=NOW - 60, last_pull=None, pull_watermark=None,
        full_pull_needed=False, counts={}, deleted_at=None,
    )  # fmt: skip
    return replace(base, **changes)


def run(status="done", finished=NOW - 100, **changes):
    names = dict.fromkeys(Run.__dataclass_fields__)
    known = {"id": 1, "project_id": 1, "status": status, "trigger": "schedule", "requested_at": finished - 5}
    return replace(Run(**{**names, **known}), finished_at=finished if status in ("done", "failed") else None, **changes)


def test_run_with_enough_new_answers_is_due():
    assert run_is_due(project(), run(), 200, NOW)
    assert not run_is_due(project(), run(), 199, NOW)


def test_run_after_the_interval_is_due_with_a_single_new_answer():
    assert run_is_due(project(), run(finished=NOW - 3600), 1, NOW)


def test_run_while_one_waits_or_runs_is_not_due():
    assert not run_is_due(project(), run("queued"), 10_000, NOW)
    assert not run_is_due(project(), run("running"), 10_000, NOW)


def test_run_during_a_burst_waits_for_quiet_but_not_for_ever():
    bursting = project(last_event_at=NOW - 0.5)
    assert not run_is_due(bursting, run(finished=NOW - 20), 200, NOW)
    assert run_is_due(bursting, run(finished=NOW - 31), 200, NOW)


def test_run_right_after_another_or_after_a_failure_waits():
    assert not run_is_due(project(), run(finished=NOW - 4), 5000, NOW)
    assert not run_is_due(project(), run("failed", NOW - 100), 5000, NOW)
    assert run_is_due(project(), run("failed", NOW - 301), 5000, NOW)


def test_run_with_both_schedules_switched_off_is_never_due():
    config = ProjectConfig(every_minutes=None, every_answers=None).to_json()
    assert not run_is_due(project(config=config), run(finished=0.0), 10**6, NOW)


@pytest.mark.parametrize(
    ("changes", "due"),
    [
        ({}, False),
        ({"last_pull_at": None}, True),
        ({"full_pull_needed": True}, True),
        ({"last_pull_at": NOW - 901}, True),
        ({"kind": "demo", "last_pull_at": None}, False),
        ({"deleted_at": NOW, "last_pull_at": None}, False),
    ],
)
def test_pull_is_due_by_time_or_need(changes, due):
    assert pull_is_due(project(**changes), 15.0, NOW) is due


def test_new_settings_are_told_from_those_of_the_last_run():
    same = run(seq=500, config=project().config)
    assert not has_new_settings(project(), same)
    assert has_new_settings(project(config={**project().config, "q": 0.2}), same)
    assert has_new_settings(project(), None)
