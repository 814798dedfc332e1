"""Pulls against an in-memory Label Studio: whatever events lost, the store ends equal to what Label Studio holds."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from backend.domain import Batch, Project, ProjectRef
from backend.ingest.pull import ProjectGoneError, pull_project
from backend.label_studio.client import LabelStudioClient, project_epoch
from backend.label_studio.transport import LabelStudioTokenError, LabelStudioUnreachableError, Transport
from backend.projects.config import parse_config
from backend.projects.reading import reading_of
from backend.store import Store
from harness.databases import new_store
from harness.fake_label_studio import LEGACY_TOKEN, URL, FakeLabelStudio
from harness.judged import judged_answers


@pytest.fixture
def server() -> FakeLabelStudio:
    return FakeLabelStudio()


@pytest.fixture
def client(server: FakeLabelStudio) -> LabelStudioClient:
    return LabelStudioClient(Transport(URL, LEGACY_TOKEN, session=server.session(), sleep=lambda seconds: None))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = new_store(tmp_path / "evenhand.db")
    yield store
    store.close()


@pytest.fixture
def project(server: FakeLabelStudio, store: Store) -> Project:
    number = server.add_project("Pairs")
    server.add_user("ann@example.com", "Ann", "Lee")
    server.add_user("bob@example.com")
    for index in range(4):
        task = server.add_task(number, {"text1": f"item {index}", "text2": f"item {index + 1}"}, overlap=2)
        server.annotate(task, 2, "left")
        server.annotate(task, 3, "right" if index % 2 else "left")
    described = server.projects[number]
    ref = ProjectRef(number, project_epoch(described))
    return store.projects.register(URL, ref, title="Pairs", label_config=described["label_config"])


def stored(store: Store, project: Project) -> dict[int, tuple[str | None, float | None, str]]:
    return {
        row["annotation_id"]: (row["annotator_id"], row["outcome"], row["status"])
        for row in store.comparisons.rows(project.id)
    }


def expected(server: FakeLabelStudio) -> dict[int, tuple[str, float | None, str]]:
    rows: dict[int, tuple[str, float | None, str]] = {}
    for key, annotation in server.annotations.items():
        user = str(annotation["completed_by"])
        if annotation["was_cancelled"]:
            rows[key] = (user, None, "skip")
        else:
            side = annotation["result"][0]["value"]["selected"]
            rows[key] = (user, 1.0 if side == "left" else -1.0, "answer")
    return rows


def pull(store: Store, client: LabelStudioClient, project: Project, *, full: bool = False) -> dict[str, int]:
    return pull_project(store, client, store.projects.get(project.id), full=full).to_json()


def test_first_pull_stores_everything(
    server: FakeLabelStudio, store: Store, client: LabelStudioClient, project: Project
) -> None:
    report = pull(store, client, project)
    assert report["full"]
    assert report["is_first"]
    assert (report["tasks"], report["annotations"], report["added"]) == (4, 8, 8)
    assert stored(store, project) == expected(server)


def test_second_pull_without_changes_repairs_nothing(
    server: FakeLabelStudio, store: Store, client: LabelStudioClient, project: Project
) -> None:
    pull(store, client, project)
    seq = store.projects.get(project.id).seq
    report = pull(store, client, project)
    assert not report["full"]
    assert report["repaired"] == 0
    assert store.projects.get(project.id).seq == seq


def test_incremental_pull_reads_only_tasks_changed_lately(
    server: FakeLabelStudio, store: Store, client: LabelStudioClient, project: Project
) -> None:
    pull(store, client, project)
    server.tick(3600)
    server.annotate(2, 1, "right")
    pull(store, client, project)
    server.tick(3600)
    server.annotate(3, 1, "right")
    report = pull(store, client, project)
    assert not report["full"]
    assert (report["tasks"], report["added"]) == (2, 1)
    assert stored(store, project) == expected(server)


def test_edit_skip_and_deleted_annotation_are_healed_incrementally(
    server: FakeLabelStudio, store: Store, client: LabelStudioClient, project: Project
) -> None:
    pull(store, client, project)
    server.tick(3600)
    server.edit(1, "right")
    server.delete_annotation(2)
    server.annotate(3, 1, [], was_cancelled=True)
    report = pull(store, client, project)
    assert not report["full"]
    assert (report["added"], report["updated"], report["removed"]) == (1, 1, 1)
    assert stored(store, project) == expected(server)


def test_deleted_task_is_noticed_by_the_count_although_no_time_moves(
    server: FakeLabelStudio, store: Store, client: LabelStudioClient, project: Project
) -> None:
    pull(store, client, project)
    server.tick(3600)
    server.delete_task(2)
    report = pull(store, client, project)
    assert not report["full"]
    assert (report["tasks_removed"], report["removed"]) == (1, 2)
    assert stored(store, project) == expected(server)


def test_raised_overlap_reopens_tasks_in_the_store(
    server: FakeLabelStudio, store: Store, client: LabelStudioClient, project: Project
) -> None:
    pull(store, client, project)
    server.tick(3600)
    server.tasks[1]["is_labeled"] = False
    pull(store, client, project)
    assert {task.task_id: task.is_labeled for task in store.tasks.all(project.id)} == {
        1: False,
        2: True,
        3: True,
        4: True,
    }


def test_annotation_with_an_old_time_is_noticed_by_the_count(
    server: FakeLabelStudio, store: Store, client: LabelStudioClient, project: Project
) -> None:
    pull(store, client, project)
    before = dict(server.tasks[1])
    server.tick(3600)
    server.annotate(1, 1, "left")
    server.tasks[1]["updated_at"] = before["updated_at"]
    server.tasks[4]["updated_at"] = before["updated_at"]
    store.projects.finish_pull(project.id, {}, watermark=server.now.timestamp() + 3600, was_full=False)
    report = pull(store, client, project)
    assert report["full"]
    assert stored(store, project) == expected(server)


def test_count_that_never_adds_up_causes_one_full_pull_only(
    server: FakeLabelStudio, store: Store, client: LabelStudioClient, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    described = server._one_project

    def odd(number: int, **options: Any) -> tuple[int, dict[str, object]]:
        status, body = described(number, **options)
        return status, {**body, "total_annotations_number": body["total_annotations_number"] + 3}

    monkeypatch.setattr(server, "_one_project", odd)
    assert pull(store, client, project)["difference"] == -3
    assert not pull(store, client, project)["full"]


def test_event_that_arrives_while_the_pull_reads_survives_it(
    server: FakeLabelStudio, store: Store, client: LabelStudioClient, project: Project
) -> None:
    pull(store, client, project)
    late = [row for row in store.comparisons.rows(project.id) if row["annotation_id"] == 1]
    assert late
    read_tasks = client.tasks

    def with_event(*args: Any, **options: Any) -> Iterator[list[dict[str, object]]]:
        for page in read_tasks(*args, **options):
            number = server.annotate(1, 1, "right")
            from backend.label_studio.payloads import read_comparison, read_task

            reading = reading_of(store.projects.get(project.id))
            task = read_task(server.tasks[1], reading)
            store.comparisons.apply(
                project.id, Batch(comparisons=[read_comparison(server.annotations[number], task, reading)])
            )
            yield page

    client.tasks = with_event  # type: ignore[method-assign]  # the fake stands in for one call
    pull(store, client, project, full=True)
    assert stored(store, project) == expected(server)


def test_annotation_wrongly_thought_deleted_is_revived(
    server: FakeLabelStudio, store: Store, client: LabelStudioClient, project: Project
) -> None:
    pull(store, client, project)
    store.comparisons.apply(project.id, Batch(deleted_annotations=[1]))
    report = pull(store, client, project, full=True)
    assert report["revived"] == 1
    assert stored(store, project) == expected(server)


def test_names_are_taken_over(
    server: FakeLabelStudio, store: Store, client: LabelStudioClient, project: Project
) -> None:
    pull(store, client, project)
    people = store.annotators.get(project.id)
    assert (people["2"].name, people["2"].email) == ("Ann Lee", "ann@example.com")
    assert people["3"].name == "bob@example.com"


def test_changed_label_config_leads_to_a_full_pull_with_the_new_reading(
    server: FakeLabelStudio, store: Store, client: LabelStudioClient, project: Project
) -> None:
    pull(store, client, project)
    server.projects[1]["label_config"] = server.projects[1]["label_config"].replace('name="pw"', 'name="compare"')
    report = pull(store, client, project)
    assert report["full"]
    assert stored(store, project) == expected(server)


def test_settings_that_do_not_fit_keep_rows_as_unreadable_until_they_do(
    server: FakeLabelStudio, store: Store, client: LabelStudioClient, project: Project
) -> None:
    pull(store, client, project)
    store.projects.set_config(project.id, parse_config({"control": "nothing"}))
    pull(store, client, project)
    assert {status for _, _, status in stored(store, project).values()} == {"unreadable"}
    store.projects.set_config(project.id, parse_config({}))
    pull(store, client, project)
    assert stored(store, project) == expected(server)


def test_strange_annotations_are_kept_and_marked_never_judged(
    server: FakeLabelStudio, store: Store, client: LabelStudioClient, project: Project
) -> None:
    strange: tuple[Any, ...] = ("tie", None, {}, "LEFT")
    for selected in strange:
        server.annotate(1, 1, [{"value": {"selected": selected}, "from_name": "pw", "type": "pairwise"}])
    server.annotate(1, 1, "left", completed_by=None)
    server.annotate(1, 1, "left", id="not a number")
    report = pull(store, client, project)
    assert report["unreadable"] == 5
    assert report["broken"] == 1
    assert len(judged_answers(store, project.id)) == 8


def test_project_deleted_in_label_studio_raises_and_keeps_the_data(
    server: FakeLabelStudio, store: Store, client: LabelStudioClient, project: Project
) -> None:
    pull(store, client, project)
    del server.projects[1]
    with pytest.raises(ProjectGoneError, match="deleted, or not visible"):
        pull(store, client, project)
    assert len(store.comparisons.rows(project.id)) == 8


def test_project_id_reused_after_a_reinstall_raises_and_mixes_nothing(
    server: FakeLabelStudio, store: Store, client: LabelStudioClient, project: Project
) -> None:
    pull(store, client, project)
    server.projects[1]["created_at"] = "2027-01-01T00:00:00.000000Z"
    server.annotate(1, 1, "left")
    with pytest.raises(ProjectGoneError, match="reinstalled"):
        pull(store, client, project)
    assert len(store.comparisons.rows(project.id)) == 8


def test_connection_lost_in_mid_pull_keeps_what_was_read_and_the_next_pull_completes(
    server: FakeLabelStudio,
    store: Store,
    client: LabelStudioClient,
    project: Project,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("backend.label_studio.client.PAGE_SIZE", 2)
    server.fail_when("GET", "^/api/tasks$", after=1)
    with pytest.raises(LabelStudioUnreachableError):
        pull(store, client, project)
    assert len(store.comparisons.rows(project.id)) == 4
    assert store.projects.get(project.id).last_pull_at is None
    server.judges.clear()
    pull(store, client, project)
    assert stored(store, project) == expected(server)


def test_revoked_token_raises_token_error_and_changes_nothing(
    server: FakeLabelStudio, store: Store, project: Project
) -> None:
    transport = Transport(URL, "a.b.c", session=server.session(), sleep=lambda seconds: None)
    with pytest.raises(LabelStudioTokenError):
        pull(store, LabelStudioClient(transport), project)
    assert store.comparisons.rows(project.id) == []


def test_secrets_of_the_project_are_not_stored(
    server: FakeLabelStudio, store: Store, client: LabelStudioClient, project: Project, tmp_path: Path
) -> None:
    pull(store, client, project)
    store.close()
    content = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"hunter2" not in content
    assert b"project-token" not in content
