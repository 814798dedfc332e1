"""Answers in the store: newest wins, tombstones stay, signed changes, equal to a fresh pull in any order."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from evenhand.domain import Batch, Comparison, Project, ProjectRef, Task
from evenhand.judged import Policy
from evenhand.project_config import ProjectConfig
from evenhand.store import Store
from evenhand.store.engine import open_engine
from evenhand.store.merge import Merge
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import event, text

from harness.databases import new_store
from harness.judged import judged_answers

BASE = Comparison(
    annotation_id=1,
    task_id=10,
    annotator_id="7",
    left_item="a",
    right_item="b",
    coin=None,
    stratum=None,
    outcome=1.0,
    status="answer",
    reason=None,
    ground_truth=False,
    lead_time=3.5,
    created_at=100.0,
    updated_at=100.0,
)
TASK = Task(10, "a", "b", "a", "b", None, None, False, 100.0)


def live(store: Store, project: Project) -> dict[int, tuple[Any, ...]]:
    rows = store.comparisons.rows(project.id)
    return {row["annotation_id"]: (row["outcome"], row["status"], row["updated_at"]) for row in rows}


def signed(store: Store, project: Project) -> list[tuple[int, float, bool]]:
    return [(c.weight, c.outcome, c.is_first) for c in store.comparisons.changes_since(project.id, 0)]


def test_apply_new_answer_is_stored_with_one_first_change(store: Store, project: Project) -> None:
    applied = store.comparisons.apply(
        project.id, Batch(comparisons=[BASE], tasks=[TASK], events=("ANNOTATION_CREATED",))
    )
    assert (applied.inserted, applied.changed) == (1, 1)
    assert signed(store, project) == [(1, 1.0, True)]
    answers = judged_answers(store, project.id)
    assert (answers.annotator, answers.left, answers.right, answers.outcome) == (["7"], ["a"], ["b"], [1.0])
    assert answers.coin == ["task:10"]
    assert answers.seq == store.projects.get(project.id).seq
    assert store.projects.get(project.id).counts["judged"] == 1
    assert store.events.counts()[0]["count"] == 1


def test_apply_repeated_answer_changes_nothing(store: Store, project: Project) -> None:
    store.comparisons.apply(project.id, Batch(comparisons=[BASE]))
    seq = store.projects.get(project.id).seq
    applied = store.comparisons.apply(project.id, Batch(comparisons=[BASE]))
    assert (applied.unchanged, applied.changed, applied.seq) == (1, 0, seq)


def test_apply_edit_subtracts_old_and_adds_new_which_is_never_first(store: Store, project: Project) -> None:
    store.comparisons.apply(project.id, Batch(comparisons=[BASE]))
    store.comparisons.apply(project.id, Batch(comparisons=[replace(BASE, outcome=-1.0, updated_at=101.0)]))
    assert signed(store, project) == [(1, 1.0, True), (-1, 1.0, False), (1, -1.0, False)]


def test_apply_older_event_after_newer_is_ignored(store: Store, project: Project) -> None:
    store.comparisons.apply(project.id, Batch(comparisons=[replace(BASE, outcome=-1.0, updated_at=101.0)]))
    store.comparisons.apply(project.id, Batch(comparisons=[BASE]))
    assert live(store, project) == {1: (-1.0, "answer", 101.0)}


def test_apply_equal_times_different_content_same_winner_in_both_orders(store: Store, project: Project) -> None:
    other = replace(BASE, outcome=-1.0)
    second = store.projects.register("http://ls", ProjectRef(2, 5))
    for row in (BASE, other):
        store.comparisons.apply(project.id, Batch(comparisons=[row]))
    for row in (other, BASE):
        store.comparisons.apply(second.id, Batch(comparisons=[row]))
    assert live(store, project) == live(store, second)


def test_apply_equal_times_readable_answer_beats_unreadable(store: Store, project: Project) -> None:
    unreadable = replace(BASE, status="unreadable", outcome=None, reason="the task's data are not known yet")
    for row in (unreadable, BASE, unreadable):
        store.comparisons.apply(project.id, Batch(comparisons=[row]))
    assert live(store, project) == {1: (1.0, "answer", 100.0)}


def test_delete_late_event_cannot_bring_the_answer_back(store: Store, project: Project) -> None:
    store.comparisons.apply(project.id, Batch(comparisons=[BASE]))
    store.comparisons.apply(project.id, Batch(deleted_annotations=[1]))
    store.comparisons.apply(project.id, Batch(comparisons=[replace(BASE, updated_at=200.0)]))
    assert live(store, project) == {}
    assert signed(store, project) == [(1, 1.0, True), (-1, 1.0, False)]
    assert store.projects.get(project.id).counts["judged"] == 0


def test_delete_before_creation_keeps_the_answer_out(store: Store, project: Project) -> None:
    store.comparisons.apply(project.id, Batch(deleted_annotations=[1]))
    store.comparisons.apply(project.id, Batch(comparisons=[BASE]))
    assert live(store, project) == {}
    assert store.comparisons.changes_since(project.id, 0) == []


def test_delete_task_removes_its_answers_and_later_ones(store: Store, project: Project) -> None:
    store.comparisons.apply(
        project.id, Batch(comparisons=[BASE, replace(BASE, annotation_id=2, task_id=11)], tasks=[TASK])
    )
    store.comparisons.apply(project.id, Batch(deleted_tasks=[10]))
    store.comparisons.apply(project.id, Batch(comparisons=[replace(BASE, annotation_id=3)]))
    assert set(live(store, project)) == {2}
    assert store.tasks.get(project.id, [10])[10].deleted


def test_pull_overrules_rows_that_did_not_change_since_it_began(store: Store, project: Project) -> None:
    store.comparisons.apply(project.id, Batch(comparisons=[replace(BASE, updated_at=999.0)]))
    store.comparisons.apply(project.id, Batch(deleted_annotations=[2]))
    as_of = store.projects.begin_pull(project.id)
    store.comparisons.apply(project.id, Batch(deleted_annotations=[3]))
    found = [BASE, replace(BASE, annotation_id=2), replace(BASE, annotation_id=3)]
    store.comparisons.apply(project.id, Batch(comparisons=found, as_of=as_of))
    assert live(store, project) == {1: (1.0, "answer", 100.0), 2: (1.0, "answer", 100.0)}


def test_delete_missing_spares_what_arrived_during_the_pull(store: Store, project: Project) -> None:
    store.comparisons.apply(project.id, Batch(comparisons=[BASE, replace(BASE, annotation_id=2)]))
    as_of = store.projects.begin_pull(project.id)
    store.comparisons.apply(project.id, Batch(comparisons=[replace(BASE, annotation_id=3)]))
    applied = store.comparisons.delete_missing(project.id, {1}, as_of=as_of)
    assert applied.deleted == 1
    assert set(live(store, project)) == {1, 3}


def test_delete_missing_within_tasks_leaves_other_tasks_alone(store: Store, project: Project) -> None:
    store.comparisons.apply(project.id, Batch(comparisons=[BASE, replace(BASE, annotation_id=2, task_id=11)]))
    store.comparisons.delete_missing(project.id, set(), as_of=store.projects.begin_pull(project.id), within_tasks={11})
    assert set(live(store, project)) == {1}


def test_delete_missing_tasks_takes_their_answers_along(store: Store, project: Project) -> None:
    other = replace(TASK, task_id=11)
    store.comparisons.apply(
        project.id, Batch(comparisons=[BASE, replace(BASE, annotation_id=2, task_id=11)], tasks=[TASK, other])
    )
    store.comparisons.delete_missing_tasks(project.id, [11], as_of=store.projects.begin_pull(project.id))
    assert set(live(store, project)) == {2}
    assert [task.task_id for task in store.tasks.all(project.id)] == [11]


def test_policy_change_adds_and_removes_answers_without_new_firsts(store: Store, project: Project) -> None:
    truth = replace(BASE, annotation_id=2, ground_truth=True)
    guess = replace(BASE, annotation_id=3, status="prediction", outcome=-1.0)
    store.comparisons.apply(project.id, Batch(comparisons=[BASE, truth, guess]))
    assert judged_answers(store, project.id).annotation_id == [1, 2]
    config = ProjectConfig.model_validate({"count_ground_truth": False, "count_predictions": True})
    store.projects.set_config(project.id, config)
    assert judged_answers(store, project.id).annotation_id == [1, 3]
    assert store.projects.get(project.id).counts["judged"] == 2
    store.projects.set_config(project.id, ProjectConfig.model_validate({}))
    assert [c.is_first for c in store.comparisons.changes_since(project.id, 0) if c.annotation_id == 2] == [
        True,
        False,
        False,
    ]
    assert replayed(store, project) == judged(store, project)


def test_changes_since_reads_in_batches_and_in_order(store: Store, project: Project) -> None:
    store.comparisons.apply(project.id, Batch(comparisons=[replace(BASE, annotation_id=n) for n in range(1, 26)]))
    seen, seq = [], 0
    while part := store.comparisons.changes_since(project.id, seq, limit=10):
        seen += [change.annotation_id for change in part]
        seq = part[-1].seq
    assert seen == list(range(1, 26))
    assert store.comparisons.count_since(project.id, 0) == 25


@pytest.mark.slow
def test_apply_ten_thousand_rows_in_one_batch_are_all_there(store: Store, project: Project) -> None:
    rows = [replace(BASE, annotation_id=n, annotator_id=str(n % 97)) for n in range(1, 10_001)]
    assert store.comparisons.apply(project.id, Batch(comparisons=rows)).inserted == 10_000
    assert len(judged_answers(store, project.id)) == 10_000
    assert len(store.annotators.get(project.id)) == 97


def test_names_and_labels_are_kept_per_project(store: Store, project: Project) -> None:
    store.comparisons.apply(project.id, Batch(comparisons=[BASE], tasks=[replace(TASK, left_label="Answer A")]))
    store.annotators.name(project.id, {"7": ("Ana", "ana@example.com"), "99": ("Nobody", None)})
    assert store.annotators.get(project.id, ["7"])["7"].name == "Ana"
    assert "99" not in store.annotators.get(project.id)
    assert store.items.labels(project.id) == {"a": "Answer A", "b": "b"}
    assert store.comparisons.tasks_of(project.id, ["7", "8"]) == {"7": [10], "8": []}


# --- any order, duplicates, losses: the state of a fresh pull ---------------------------------------------------

HISTORY = st.lists(
    st.tuples(
        st.sampled_from(["save", "save", "save", "skip", "delete", "delete_task"]),
        st.integers(1, 5),
        st.sampled_from([1.0, -1.0, 0.0]),
    ),
    min_size=1,
    max_size=14,
)
Event = tuple[str, Any]


def world(history: list[tuple[str, int, float]]) -> tuple[dict[int, Comparison], list[Event]]:
    """Play a history in Label Studio: what a fresh pull finds at the end, and the events it sent on the way."""
    present: dict[int, Comparison] = {}
    gone: set[int] = set()
    events: list[Event] = []
    for moment, (action, number, outcome) in enumerate(history):
        task = 10 + number % 2
        if action in ("save", "skip"):
            if number in gone or ("task", task) in events:
                continue
            is_skip = action == "skip"
            row = replace(
                BASE,
                annotation_id=number,
                task_id=task,
                annotator_id=str(number % 3),
                outcome=None if is_skip else outcome,
                status="skip" if is_skip else "answer",
                updated_at=100.0 + moment,
            )
            present[number] = row
            events.append(("put", row))
        elif action == "delete" and number in present:
            del present[number]
            gone.add(number)
            events.append(("delete", number))
        elif action == "delete_task" and ("task", task) not in events:
            for key in [key for key, row in present.items() if row.task_id == task]:
                del present[key]
                gone.add(key)
            events.append(("task", task))
    return present, events


def deliver(store: Store, project: Project, events: Sequence[Event]) -> None:
    for kind, value in events:
        if kind == "put":
            store.comparisons.apply(project.id, Batch(comparisons=[value]))
        elif kind == "delete":
            store.comparisons.apply(project.id, Batch(deleted_annotations=[value]))
        else:
            store.comparisons.apply(project.id, Batch(deleted_tasks=[value]))


def pull(store: Store, project: Project, present: dict[int, Comparison]) -> None:
    as_of = store.projects.begin_pull(project.id)
    store.comparisons.apply(project.id, Batch(comparisons=list(present.values()), as_of=as_of))
    store.comparisons.delete_missing(project.id, set(present), as_of=as_of)


def contents(store: Store, project: Project) -> dict[int, Comparison]:
    names = [name for name in BASE.__dict__ if name != "updated_by"]  # which its history keeps
    rows = store.comparisons.rows(project.id)
    return {row["annotation_id"]: Comparison(**{name: row[name] for name in names}) for row in rows}


def judged(store: Store, project: Project) -> Counter[tuple[Any, ...]]:
    a = judged_answers(store, project.id)
    return Counter(zip(a.annotator, a.left, a.right, a.coin, a.outcome, strict=True))


def replayed(store: Store, project: Project) -> Counter[tuple[Any, ...]]:
    """What statistics that only ever saw the changes would hold."""
    sums: Counter[tuple[Any, ...]] = Counter()
    for c in store.comparisons.changes_since(project.id, 0):
        sums[(c.annotator_id, c.left_item, c.right_item, c.coin, c.outcome)] += c.weight
    assert min(sums.values(), default=0) >= 0
    return +sums


def check_consistent(store: Store, project: Project) -> None:
    assert replayed(store, project) == judged(store, project)
    changes = store.comparisons.changes_since(project.id, 0)
    firsts = Counter(change.annotation_id for change in changes if change.is_first)
    assert all(count == 1 for count in firsts.values())
    assert store.projects.get(project.id).counts.get("judged", 0) == len(judged_answers(store, project.id))


@contextmanager
def ending_in(present: dict[int, Comparison], folder: Path) -> Iterator[tuple[Store, Project]]:
    """A store that must hold just what is present once the block has ended."""
    with closing(new_store(folder / "evenhand.db")) as store:
        project = store.projects.register("http://ls", ProjectRef(1, 5))
        yield store, project
        assert contents(store, project) == present
        check_consistent(store, project)


@pytest.mark.slow
@settings(max_examples=40)
@given(data=st.data(), history=HISTORY)
def test_events_in_any_order_with_duplicates_end_in_the_state_of_a_fresh_pull(
    data: st.DataObject, history: list[tuple[str, int, float]], tmp_path_factory: Any
) -> None:
    present, events = world(history)
    order = (
        data.draw(st.permutations(events + data.draw(st.lists(st.sampled_from(events), max_size=6)))) if events else []
    )
    with ending_in(present, tmp_path_factory.mktemp("order")) as (store, project):
        deliver(store, project, order)


@pytest.mark.slow
@settings(max_examples=40)
@given(data=st.data(), history=HISTORY)
def test_events_lost_and_healed_by_a_pull_end_in_the_state_of_a_fresh_pull(
    data: st.DataObject, history: list[tuple[str, int, float]], tmp_path_factory: Any
) -> None:
    present, events = world(history)
    order = data.draw(st.permutations(events))
    kept = [event for event in order if data.draw(st.booleans())]
    split = data.draw(st.integers(0, len(kept)))
    with ending_in(present, tmp_path_factory.mktemp("lost")) as (store, project):
        deliver(store, project, kept[:split])
        pull(store, project, present)
        deliver(store, project, kept[split:])
        pull(store, project, present)


def test_merge_seq_of_a_row_is_that_of_its_last_change() -> None:
    merge = Merge(rows={}, tasks={}, seq=5, at=0.0, policy=Policy(), as_of=None)
    merge.put(BASE)
    merge.put(replace(BASE, outcome=-1.0, updated_at=101.0))
    assert merge.rows[1]["seq"] == merge.seq == merge.changes[-1]["seq"]
    assert merge.rows[1]["first_seq"] == merge.changes[0]["seq"]


@pytest.mark.postgres
def test_reading_many_rows_slowly_has_no_limit_of_idleness(migrated_postgres_url: str) -> None:
    """On a busy machine a part of a large project takes longer than PostgreSQL lets a transaction stand idle."""
    store = Store(open_engine(migrated_postgres_url))
    project = store.projects.register("", ProjectRef(1, 1))
    store.comparisons.apply(project.id, Batch(comparisons=[replace(BASE, annotation_id=k) for k in range(1, 4)]))
    said: list[str] = []
    event.listen(store.engine, "before_cursor_execute", lambda *given: said.append(given[2]))
    with store.comparisons.judged(project.id) as (_, parts):
        assert sum(len(part[0]) for part in parts) == 3
    (limit,) = [words for words in said if "idle_in_transaction" in words]
    assert int(re.findall(r"'(\d+)s'", limit)[0]) >= 600
    store.close()


def test_sqlite_waits_for_the_disk_at_every_commit(tmp_path: Path) -> None:
    """The service's own engine, not that of the tests, which are in a hurry."""
    engine = open_engine(f"sqlite:///{tmp_path / 'evenhand.db'}")
    with engine.connect() as connection:
        told = [connection.execute(text(f"PRAGMA {name}")).scalar() for name in ("journal_mode", "synchronous")]
    engine.dispose()
    assert told == ["wal", 2]  # FULL
