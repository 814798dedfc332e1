"""Pulls against an in-memory Label Studio: whatever events lost, the store ends equal to what Label Studio holds."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from evenhand.domain import Batch, Project, ProjectRef
from evenhand.ingest.pull import ProjectGoneError, pull_project
from evenhand.label_studio.client import LabelStudioClient, project_epoch
from evenhand.label_studio.transport import LabelStudioTokenError, LabelStudioUnreachableError, Transport
from evenhand.project_config import parse_config
from evenhand.projects.reading import reading_of
from evenhand.store import Store

from harness.databases import new_store
from harness.fake_label_studio import LEGACY_TOKEN, URL, FakeLabelStudio
from harness.judged import judged_answers


@dataclass(frozen=True)
class Mirror:
    """A Label Studio with a project, and the store that pulls from it."""

    server: FakeLabelStudio
    store: Store
    client: LabelStudioClient
    project: Project

    def pull(self, *, full: bool = False) -> dict[str, int]:
        found = self.store.projects.get(self.project.id)
        return pull_project(self.store, self.client, found, full=full).to_json()

    def stored(self) -> dict[int, tuple[str | None, float | None, str]]:
        return {
            row["annotation_id"]: (row["annotator_id"], row["outcome"], row["status"])
            for row in self.store.comparisons.rows(self.project.id)
        }

    def expected(self) -> dict[int, tuple[str, float | None, str]]:
        rows: dict[int, tuple[str, float | None, str]] = {}
        for key, annotation in self.server.annotations.items():
            user = str(annotation["completed_by"])
            if annotation["was_cancelled"]:
                rows[key] = (user, None, "skip")
            else:
                side = annotation["result"][0]["value"]["selected"]
                rows[key] = (user, 1.0 if side == "left" else -1.0, "answer")
        return rows


@pytest.fixture
def mirror(tmp_path: Path) -> Iterator[Mirror]:
    """Four tasks, each answered by Ann and by Bob, of which nothing has been pulled yet."""
    server = FakeLabelStudio()
    number = server.add_project("Pairs")
    server.add_user("ann@example.com", "Ann", "Lee")
    server.add_user("bob@example.com")
    for index in range(4):
        task = server.add_task(number, {"text1": f"item {index}", "text2": f"item {index + 1}"}, overlap=2)
        server.annotate(task, 2, "left")
        server.annotate(task, 3, "right" if index % 2 else "left")
    described = server.projects[number]
    ref = ProjectRef(number, project_epoch(described))
    client = LabelStudioClient(Transport(URL, LEGACY_TOKEN, session=server.session(), sleep=lambda seconds: None))
    with closing(new_store(tmp_path / "evenhand.db")) as store:
        project = store.projects.register(URL, ref, title="Pairs", label_config=described["label_config"])
        yield Mirror(server, store, client, project)


def test_a_reading_tells_pages_tasks_and_answers(mirror: Mirror) -> None:
    told: list[tuple[int, int, int, int]] = []
    pull_project(mirror.store, mirror.client, mirror.project, full=True, tell=lambda *found: told.append(found))
    assert told[-1] == (len(told), 4, 8, 4)


@pytest.fixture
def pulled(mirror: Mirror) -> Mirror:
    """The same an hour after the first pull."""
    mirror.pull()
    mirror.server.tick(3600)
    return mirror


def test_first_pull_stores_everything(mirror: Mirror) -> None:
    report = mirror.pull()
    assert report["full"]
    assert report["is_first"]
    assert (report["tasks"], report["annotations"], report["added"]) == (4, 8, 8)
    assert mirror.stored() == mirror.expected()


def test_second_pull_without_changes_repairs_nothing(pulled: Mirror) -> None:
    seq = pulled.store.projects.get(pulled.project.id).seq
    report = pulled.pull()
    assert not report["full"]
    assert report["repaired"] == 0
    assert pulled.store.projects.get(pulled.project.id).seq == seq


def test_incremental_pull_reads_only_tasks_changed_lately(pulled: Mirror) -> None:
    pulled.server.annotate(2, 1, "right")
    pulled.pull()
    pulled.server.tick(3600)
    pulled.server.annotate(3, 1, "right")
    report = pulled.pull()
    assert not report["full"]
    assert (report["tasks"], report["added"]) == (2, 1)
    assert pulled.stored() == pulled.expected()


def test_edit_skip_and_deleted_annotation_are_healed_incrementally(pulled: Mirror) -> None:
    pulled.server.edit(1, "right")
    pulled.server.delete_annotation(2)
    pulled.server.annotate(3, 1, [], was_cancelled=True)
    report = pulled.pull()
    assert not report["full"]
    assert (report["added"], report["updated"], report["removed"]) == (1, 1, 1)
    assert pulled.stored() == pulled.expected()


def test_deleted_task_is_noticed_by_the_count_although_no_time_moves(pulled: Mirror) -> None:
    pulled.server.delete_task(2)
    report = pulled.pull()
    assert not report["full"]
    assert (report["tasks_removed"], report["removed"]) == (1, 2)
    assert pulled.stored() == pulled.expected()


def test_raised_overlap_reopens_tasks_in_the_store(pulled: Mirror) -> None:
    pulled.server.tasks[1]["is_labeled"] = False
    pulled.pull()
    assert {task.task_id: task.is_labeled for task in pulled.store.tasks.all(pulled.project.id)} == {
        1: False,
        2: True,
        3: True,
        4: True,
    }


def test_annotation_with_an_old_time_is_noticed_by_the_count(pulled: Mirror) -> None:
    before = dict(pulled.server.tasks[1])
    pulled.server.tick(3600)
    pulled.server.annotate(1, 1, "left")
    pulled.server.tasks[1]["updated_at"] = before["updated_at"]
    pulled.server.tasks[4]["updated_at"] = before["updated_at"]
    pulled.store.projects.finish_pull(
        pulled.project.id, {}, watermark=pulled.server.now.timestamp() + 3600, was_full=False
    )
    report = pulled.pull()
    assert report["full"]
    assert pulled.stored() == pulled.expected()


def test_count_that_never_adds_up_causes_one_full_pull_only(mirror: Mirror, monkeypatch: pytest.MonkeyPatch) -> None:
    described = mirror.server._one_project

    def odd(number: int, **options: Any) -> tuple[int, dict[str, object]]:
        status, body = described(number, **options)
        return status, {**body, "total_annotations_number": body["total_annotations_number"] + 3}

    monkeypatch.setattr(mirror.server, "_one_project", odd)
    assert mirror.pull()["difference"] == -3
    assert not mirror.pull()["full"]


def test_event_that_arrives_while_the_pull_reads_survives_it(pulled: Mirror) -> None:
    late = [row for row in pulled.store.comparisons.rows(pulled.project.id) if row["annotation_id"] == 1]
    assert late
    read_tasks = pulled.client.tasks

    def with_event(*args: Any, **options: Any) -> Iterator[list[dict[str, object]]]:
        for page in read_tasks(*args, **options):
            number = pulled.server.annotate(1, 1, "right")
            from evenhand.label_studio.payloads import read_comparison, read_task

            reading = reading_of(pulled.store.projects.get(pulled.project.id))
            task = read_task(pulled.server.tasks[1], reading)
            pulled.store.comparisons.apply(
                pulled.project.id,
                Batch(comparisons=[read_comparison(pulled.server.annotations[number], task, reading)]),
            )
            yield page

    pulled.client.tasks = with_event  # type: ignore[method-assign]  # the fake stands in for one call
    pulled.pull(full=True)
    assert pulled.stored() == pulled.expected()


def test_annotation_wrongly_thought_deleted_is_revived(pulled: Mirror) -> None:
    pulled.store.comparisons.apply(pulled.project.id, Batch(deleted_annotations=[1]))
    report = pulled.pull(full=True)
    assert report["revived"] == 1
    assert pulled.stored() == pulled.expected()


def test_names_are_taken_over(pulled: Mirror) -> None:
    people = pulled.store.annotators.get(pulled.project.id)
    assert (people["2"].name, people["2"].email) == ("Ann Lee", "ann@example.com")
    assert people["3"].name == "bob@example.com"


def test_removed_account_keeps_its_answers_and_its_name(pulled: Mirror) -> None:
    pulled.server.remove_user(2)
    pulled.pull(full=True)
    answers = pulled.store.comparisons.of_annotator(pulled.project.id, "2")
    assert [row["status"] for row in answers] == ["answer"] * 4
    assert pulled.store.annotators.get(pulled.project.id)["2"].name == "removed (was Ann Lee)"
    pulled.pull()
    assert pulled.store.annotators.get(pulled.project.id)["2"].name == "removed (was Ann Lee)"
    assert pulled.store.projects.get(pulled.project.id).counts.get("unreadable", 0) == 0


def test_changed_label_config_leads_to_a_full_pull_with_the_new_reading(pulled: Mirror) -> None:
    pulled.server.projects[1]["label_config"] = pulled.server.projects[1]["label_config"].replace(
        'name="pw"', 'name="compare"'
    )
    report = pulled.pull()
    assert report["full"]
    assert pulled.stored() == pulled.expected()


def test_settings_that_do_not_fit_keep_rows_as_unreadable_until_they_do(pulled: Mirror) -> None:
    pulled.store.projects.set_config(pulled.project.id, parse_config({"control": "nothing"}))
    pulled.pull()
    assert {status for _, _, status in pulled.stored().values()} == {"unreadable"}
    pulled.store.projects.set_config(pulled.project.id, parse_config({}))
    pulled.pull()
    assert pulled.stored() == pulled.expected()


def test_strange_annotations_are_kept_and_marked_never_judged(mirror: Mirror) -> None:
    strange: tuple[Any, ...] = ("up", None, {}, "")
    for selected in strange:
        mirror.server.annotate(1, 1, [{"value": {"selected": selected}, "from_name": "pw", "type": "pairwise"}])
    mirror.server.annotate(1, 1, "left", completed_by=None)
    mirror.server.annotate(1, 1, "left", id="not a number")
    report = mirror.pull()
    assert report["unreadable"] == 5
    assert report["broken"] == 1
    assert len(judged_answers(mirror.store, mirror.project.id)) == 8


def test_project_deleted_in_label_studio_raises_and_keeps_the_data(pulled: Mirror) -> None:
    del pulled.server.projects[1]
    with pytest.raises(ProjectGoneError, match="deleted, or not visible"):
        pulled.pull()
    assert len(pulled.store.comparisons.rows(pulled.project.id)) == 8


def test_project_id_reused_after_a_reinstall_raises_and_mixes_nothing(pulled: Mirror) -> None:
    pulled.server.projects[1]["created_at"] = "2027-01-01T00:00:00.000000Z"
    pulled.server.annotate(1, 1, "left")
    with pytest.raises(ProjectGoneError, match="reinstalled"):
        pulled.pull()
    assert len(pulled.store.comparisons.rows(pulled.project.id)) == 8


def test_connection_lost_in_mid_pull_keeps_what_was_read_and_the_next_pull_completes(
    mirror: Mirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evenhand.label_studio.client.PAGE_SIZE", 2)
    mirror.server.fail_when("GET", "^/api/tasks$", after=1)
    with pytest.raises(LabelStudioUnreachableError):
        mirror.pull()
    assert len(mirror.store.comparisons.rows(mirror.project.id)) == 4
    assert mirror.store.projects.get(mirror.project.id).last_pull_at is None
    mirror.server.judges.clear()
    mirror.pull()
    assert mirror.stored() == mirror.expected()


def test_revoked_token_raises_token_error_and_changes_nothing(mirror: Mirror) -> None:
    transport = Transport(URL, "a.b.c", session=mirror.server.session(), sleep=lambda seconds: None)
    with pytest.raises(LabelStudioTokenError):
        replace(mirror, client=LabelStudioClient(transport)).pull()
    assert mirror.store.comparisons.rows(mirror.project.id) == []


def test_secrets_of_the_project_are_not_stored(pulled: Mirror, tmp_path: Path) -> None:
    pulled.store.close()
    content = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"hunter2" not in content
    assert b"project-token" not in content
