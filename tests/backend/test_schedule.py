"""When runs and pulls are due."""

from dataclasses import replace
from typing import Any

import pytest
from evenhand.domain import Project, Run
from evenhand.project_config import ProjectConfig
from evenhand.runs.schedule import has_new_settings, pull_is_due, run_is_due

NOW = 1_000_000.0


def project(**changes: Any) -> Project:
    config = ProjectConfig.model_validate({"every_minutes": 60.0, "every_answers": 200}).to_json()
    base = Project(
        id=1, ls_url="http://ls", ls_project_id=1, epoch=1, title="t", kind="comparison", label_config="",
        config=config, setup_params={}, task_fields=(), alerts_for=None, seq=500, live_seq=500, created_at=NOW - 7200,
        ls_updated_at=None, last_event_at=NOW - 10, last_pull_at=NOW - 60, last_pull=None, pull_watermark=None,
        full_pull_needed=False, counts={}, deleted_at=None,
    )  # fmt: skip
    return replace(base, **changes)


def run(status: str = "done", finished: float = NOW - 100, **changes: Any) -> Run:
    names: dict[str, Any] = dict.fromkeys(Run.__dataclass_fields__)
    known: dict[str, Any] = {
        "id": 1,
        "project_id": 1,
        "status": status,
        "trigger": "schedule",
        "requested_at": finished - 5,
    }
    return replace(Run(**{**names, **known}), finished_at=finished if status in ("done", "failed") else None, **changes)


def test_run_with_enough_new_answers_is_due() -> None:
    assert run_is_due(project(), run(), 200, NOW)
    assert not run_is_due(project(), run(), 199, NOW)


def test_run_after_the_interval_is_due_with_a_single_new_answer() -> None:
    assert run_is_due(project(), run(finished=NOW - 3600), 1, NOW)


def test_run_while_one_waits_or_runs_is_not_due() -> None:
    assert not run_is_due(project(), run("queued"), 10_000, NOW)
    assert not run_is_due(project(), run("running"), 10_000, NOW)


def test_run_during_a_burst_waits_for_quiet_but_not_for_ever() -> None:
    bursting = project(last_event_at=NOW - 0.5)
    assert not run_is_due(bursting, run(finished=NOW - 20), 200, NOW)
    assert not run_is_due(bursting, run(finished=NOW - 29.5), 200, NOW)
    assert run_is_due(bursting, run(finished=NOW - 30), 200, NOW)


@pytest.mark.parametrize(("quiet", "due"), [(1.9, False), (2.0, True)])
def test_run_after_a_burst_waits_two_quiet_seconds(quiet: float, due: bool) -> None:
    assert run_is_due(project(last_event_at=NOW - quiet), run(finished=NOW - 20), 200, NOW) is due


def test_run_of_a_project_without_any_event_or_run_is_due_by_its_age() -> None:
    assert run_is_due(project(last_event_at=None), None, 1, NOW)
    assert run_is_due(project(created_at=NOW - 3), None, 200, NOW)
    assert not run_is_due(project(created_at=NOW - 3599), None, 1, NOW)


def test_run_with_a_moment_far_ahead_counts_as_long_past() -> None:
    """The clock was set back; replicas' clocks may differ by a minute."""
    assert not run_is_due(project(), run(finished=NOW + 60), 200, NOW)
    assert run_is_due(project(), run(finished=NOW + 61), 200, NOW)


def test_run_right_after_another_or_after_a_failure_waits() -> None:
    assert not run_is_due(project(), run(finished=NOW - 4.9), 5000, NOW)
    assert run_is_due(project(), run(finished=NOW - 5), 5000, NOW)
    assert not run_is_due(project(), run("failed", NOW - 299), 5000, NOW)
    assert run_is_due(project(), run("failed", NOW - 300), 5000, NOW)


def test_run_with_both_schedules_switched_off_is_never_due() -> None:
    config = ProjectConfig.model_validate({"every_minutes": None, "every_answers": None}).to_json()
    assert not run_is_due(project(config=config), run(finished=0.0), 10**6, NOW)


@pytest.mark.parametrize(
    ("changes", "due"),
    [
        ({}, False),
        ({"last_pull_at": None}, True),
        ({"full_pull_needed": True}, True),
        ({"full_pull_needed": True, "kind": "alerts", "last_pull_at": NOW - 4.9}, False),
        ({"full_pull_needed": True, "kind": "alerts", "last_pull_at": NOW - 5.0}, True),
        ({"last_pull_at": NOW - 899}, False),
        ({"last_pull_at": NOW - 900}, True),
        ({"kind": "demo", "last_pull_at": None}, False),
        ({"deleted_at": NOW, "last_pull_at": None}, False),
    ],
)
def test_pull_is_due_by_time_or_need(changes: dict[str, Any], due: bool) -> None:
    assert pull_is_due(project(**changes), 15.0, NOW) is due


def test_pull_switched_off_is_due_only_where_it_is_needed() -> None:
    assert not pull_is_due(project(last_pull_at=NOW - 10**6), 0.0, NOW)
    assert pull_is_due(project(last_pull_at=NOW - 60), 1.0, NOW)
    assert pull_is_due(project(full_pull_needed=True), 0.0, NOW)


def test_new_settings_are_told_from_those_of_the_last_run() -> None:
    same = run(seq=500, config=project().config)
    assert not has_new_settings(project(), same)
    assert has_new_settings(project(config={**project().config, "q": 0.2}), same)
    assert has_new_settings(project(), None)
