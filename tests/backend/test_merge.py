"""How a batch changes stored rows, on dictionaries alone: what is deleted, counted, and left as it was."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from evenhand.domain import Comparison
from evenhand.judged import Policy
from evenhand.store.merge import Merge, _order

from tests.backend.test_store_comparisons import BASE, TASK

OTHER_TASK = replace(TASK, task_id=11)


def merge_of(merge: Merge, *, as_of: int | None = None) -> Merge:
    """The next batch on the rows that another one left."""
    return Merge(rows=merge.rows, tasks=merge.tasks, seq=merge.seq, at=9.0, policy=merge.policy, as_of=as_of)


def stored(*comparisons: Comparison, policy: Policy | None = None) -> Merge:
    """Two tasks and these answers."""
    merge = Merge(rows={}, tasks={}, seq=0, at=0.0, policy=policy or Policy(), as_of=None)
    for task in (TASK, OTHER_TASK):
        merge.put_task(task)
    for comparison in comparisons:
        merge.put(comparison)
    return merge


def test_deleted_task_takes_its_own_answers_along_and_no_others() -> None:
    before = stored(BASE, replace(BASE, annotation_id=2), replace(BASE, annotation_id=3, task_id=11))
    merge = merge_of(before)
    merge.delete_task(10)
    assert {key for key, row in merge.rows.items() if row["deleted"]} == {1, 2}
    assert merge.dirty_rows == {1, 2}
    assert [(change["annotation_id"], change["weight"]) for change in merge.changes] == [(1, -1), (2, -1)]
    assert merge.tally == Counter(deleted=2)
    assert merge.counts == Counter(answer=-2, judged=-2)
    assert merge.tasks[10]["deleted"]
    assert not merge.tasks[11]["deleted"]
    assert merge.dirty_tasks == {10}


def test_deleted_task_leaves_an_answer_that_was_deleted_before_as_it_was() -> None:
    before = stored(BASE)
    before.delete(1)
    merge, row = merge_of(before), dict(before.rows[1])
    merge.delete_task(10)
    assert merge.rows[1] == row
    assert merge.dirty_rows == set()
    assert merge.tally == Counter()


def test_deleted_task_deleted_again_changes_nothing_but_late_answers() -> None:
    before = stored(BASE)
    before.delete_task(10)
    merge = merge_of(before)
    merge.delete_task(10)
    assert (merge.seq, merge.dirty_tasks, merge.dirty_rows) == (before.seq, set(), set())


def test_annotation_deleted_again_is_unchanged() -> None:
    before = stored(BASE)
    before.delete(1)
    merge = merge_of(before)
    merge.delete(1)
    assert merge.tally == Counter(unchanged=1)
    assert merge.dirty_rows == set()


def test_annotation_that_changed_since_the_pull_began_is_not_deleted_by_it() -> None:
    before = stored(BASE)
    since, current = merge_of(before, as_of=before.rows[1]["seq"] - 1), merge_of(before, as_of=before.rows[1]["seq"])
    since.delete(1)
    assert since.tally == Counter(unchanged=1)
    assert not since.rows[1]["deleted"]
    current.delete(1)
    assert current.tally == Counter(deleted=1)


def test_deleted_task_never_seen_leaves_a_tombstone_with_its_number() -> None:
    merge = Merge(rows={}, tasks={}, seq=7, at=0.0, policy=Policy(), as_of=None)
    merge.delete_task(5)
    assert merge.tasks[5] == {
        "task_id": 5, "updated_at": 0.0, "left_item": None, "right_item": None, "coin": None, "stratum": None,
        "is_labeled": None, "deleted": True, "seq": 8,
    }  # fmt: skip


@pytest.mark.parametrize(("as_of", "is_deleted"), [(0, False), (2, True), (99, True)])
def test_task_missing_in_a_pull_is_deleted_unless_it_changed_since(as_of: int, is_deleted: bool) -> None:
    merge = merge_of(stored(), as_of=as_of)
    merge.delete_task(11)
    assert merge.tasks[11]["deleted"] is is_deleted


@pytest.mark.parametrize(
    ("change", "policy", "counts"),
    [
        ({}, Policy(), {"answer": 1, "judged": 1, "ground_truth": 0}),
        ({"outcome": None, "status": "skip"}, Policy(), {"skip": 1, "judged": 0, "ground_truth": 0}),
        ({"ground_truth": True}, Policy(), {"answer": 1, "judged": 1, "ground_truth": 1}),
        ({"ground_truth": True}, Policy(ground_truth=False), {"answer": 1, "judged": 0, "ground_truth": 1}),
        ({"status": "prediction"}, Policy(), {"prediction": 1, "judged": 0, "ground_truth": 0}),
        ({"status": "prediction"}, Policy(predictions=True), {"prediction": 1, "judged": 1, "ground_truth": 0}),
    ],
)
def test_counts_of_one_answer_follow_status_and_policy(
    change: dict[str, Any], policy: Policy, counts: dict[str, int]
) -> None:
    assert dict(stored(replace(BASE, **change), policy=policy).counts) == counts


def test_task_sent_again_without_its_state_keeps_the_known_one() -> None:
    before = stored()
    before.put_task(replace(TASK, is_labeled=True, updated_at=200.0))
    merge = merge_of(before)
    merge.put_task(replace(TASK, is_labeled=None, updated_at=300.0))
    assert merge.tasks[10]["is_labeled"] is True
    assert merge.tasks[10]["updated_at"] == 300.0


def test_every_change_takes_the_next_number_of_the_sequence() -> None:
    """Two tasks, then an answer and what it adds to what is judged, then its edit: the old one out, the new one in."""
    merge = stored(BASE)
    assert [merge.tasks[key]["seq"] for key in (10, 11)] == [1, 2]
    assert (merge.rows[1]["seq"], merge.rows[1]["first_seq"], merge.seq) == (4, 4, 4)
    merge.put(replace(BASE, outcome=-1.0 if BASE.outcome == 1.0 else 1.0, updated_at=BASE.updated_at + 1))
    assert [change["seq"] for change in merge.changes] == [4, 6, 7]
    assert [change["weight"] for change in merge.changes] == [1, -1, 1]
    assert [change["is_first"] for change in merge.changes] == [True, False, False]
    assert (merge.rows[1]["seq"], merge.rows[1]["first_seq"], merge.seq) == (7, 4, 7)


def test_contents_of_one_moment_have_an_order_that_does_not_know_the_order_of_their_fields() -> None:
    one = {"status": "answer", "outcome": 1.0, "coin": None}
    assert _order(one) == _order(dict(reversed(one.items())))
    assert _order({**one, "status": "unreadable"}) < _order(one)
    assert _order(one) != _order({**one, "outcome": -1.0})


@pytest.mark.parametrize("is_first", [True, False])
def test_two_states_of_one_moment_end_as_the_same_row_whichever_comes_first(is_first: bool) -> None:
    left, right = replace(BASE, outcome=1.0), replace(BASE, outcome=-1.0)
    merge = stored(*((left, right) if is_first else (right, left)))
    assert merge.rows[1]["outcome"] == 1.0


def test_who_gave_an_answer_stays_known_when_the_account_goes() -> None:
    merge = merge_of(stored(BASE), as_of=99)
    merge.put(replace(BASE, annotator_id=None))
    assert (merge.rows[1]["annotator_id"], merge.rows[1]["status"]) == (BASE.annotator_id, "answer")
    assert merge.changes == []


def test_an_answer_that_never_had_an_author_is_kept_and_not_judged() -> None:
    merge = stored(replace(BASE, annotator_id=None))
    assert (merge.rows[1]["status"], merge.rows[1]["outcome"]) == ("unreadable", None)
    assert "belongs to nobody" in merge.rows[1]["reason"]


def test_erasure_is_the_one_way_to_forget() -> None:
    before = stored(replace(BASE, annotator_id=None, status="erased", outcome=None))
    merge = merge_of(before, as_of=99)
    merge.put(replace(BASE, annotator_id=None))
    assert (merge.rows[1]["status"], merge.rows[1]["outcome"]) == ("erased", None)
