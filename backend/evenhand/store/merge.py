"""How a batch changes stored rows: newest wins, deletions stay, a pull is the truth for what it could see.

Pure bookkeeping on dictionaries, so that the rules can be tested without a database. An event wins over a stored
row if its `updated_at` is later; at equal times the larger content wins, whatever arrived first. A tombstone never
yields to an event. A pull that began at sequence number `as_of` overrules every row, tombstones included, that did
not change since.

Rows hold what Label Studio holds; evidence is what their authors submitted first. Where the two part (an edit, another
author, other items on the task) the history keeps the first submission; deleted rows keep it themselves.
"""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from evenhand.domain import FIRST_FURTHER, Comparison, Task, further_ids
from evenhand.judged import Policy, coin_label

Row = dict[str, Any]
#: Where a row stands as evidence: its first submission is kept in the history, or somebody else wrote it.
KEPT, FOREIGN = "kept", "foreign"
#: Kinds of annotation that say what a person chose.
GIVEN = ("answer", "prediction")
FIRST_COLUMNS = (
    "annotator_id", "task_id", "left_item", "right_item", "coin", "stratum", "outcome", "status", "ground_truth",
)  # fmt: skip
NOBODY = "completed_by is empty; the answer belongs to nobody"
JUDGED_COLUMNS = ("annotator_id", "task_id", "left_item", "right_item", "coin", "stratum", "outcome")
TOMBSTONE = Comparison(
    0, None, None, None, None, None, None, None, "empty", None, False, None, created_at=0.0, updated_at=0.0
)


def judged(row: Mapping[str, Any], policy: Policy) -> Row | None:
    """The part of a row that statistics see, or None if it is left out; the coin is the task unless recorded."""
    if not policy.judges(row):
        return None
    values = {name: row[name] for name in JUDGED_COLUMNS}
    values["coin"] = coin_label(values["coin"], values["task_id"])
    return values


class Merge:
    """Applies a batch to rows in memory and keeps what must be written."""

    def __init__(
        self,
        *,
        rows: dict[int, Row],
        tasks: dict[int, Row],
        seq: int,
        at: float,
        policy: Policy,
        as_of: int | None,
        reads_anew: bool = False,
        totals: Mapping[str, int] | None = None,
    ) -> None:
        self.totals = totals or {}
        self.rows, self.tasks = rows, tasks
        self.seq, self.at, self.policy, self.as_of, self.reads_anew = seq, at, policy, as_of, reads_anew
        self.revisions: list[Row] = []
        self.dirty_rows: set[int] = set()
        self.dirty_tasks: set[int] = set()
        self.new_labels: dict[str, str] = {}
        self.sizes: dict[str, tuple[int, int]] = {}
        self.new_annotators: dict[str, float] = {}
        #: In whose names events told of answers that Label Studio's API never showed, and does not hold.
        self.invented: set[str | None] = set()
        self.changes: list[Row] = []
        self.tally: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()

    def put_task(self, task: Task) -> None:
        """Store a task unless a newer state is known or it was deleted."""
        content = {**vars(task), "deleted": False}
        labels = {task.left_item: content.pop("left_label"), task.right_item: content.pop("right_label")}
        labels |= content.pop("labels")
        self.sizes |= content.pop("sizes")
        old = self.tasks.get(task.task_id)
        if old is not None:
            if old["is_labeled"] is not None and content["is_labeled"] is None:
                content["is_labeled"] = old["is_labeled"]
            same = {name: old[name] for name in content} == content
            if same or not self._yields(old, content, task.updated_at):
                return
        self.seq += 1
        self.tasks[task.task_id] = {**content, "seq": self.seq}
        self.dirty_tasks.add(task.task_id)
        self.new_labels.update({item: label for item, label in labels.items() if item is not None and label})

    def put(self, comparison: Comparison) -> None:
        """Store an annotation's state if it is newer than the one known."""
        key = comparison.annotation_id
        if comparison.annotator_id is None:
            comparison = _attributed(comparison, self.rows.get(key))
        content: Row = dict(vars(comparison))
        by, is_shown = content.pop("updated_by"), self.as_of is not None
        task = self.tasks.get(comparison.task_id) if comparison.task_id is not None else None
        task_deleted = task is not None and task["deleted"]
        old = self.rows.get(key)
        if comparison.status == "unreadable":
            self.tally["unreadable"] += 1
        if old is not None:
            if is_shown and not old["is_verified"]:
                old["is_verified"] = True
                self.dirty_rows.add(key)
            stays_deleted = old["deleted"] and (task_deleted or not self._overrules(old))
            same = not old["deleted"] and {name: old[name] for name in content} == content
            if stays_deleted or same or not self._yields(old, content, comparison.updated_at):
                self.tally["unchanged"] += 1
                return
        self.tally["inserted" if old is None else "revived" if old["deleted"] else "updated"] += 1
        if comparison.annotator_id is not None and (old is None or old["annotator_id"] != comparison.annotator_id):
            self.new_annotators.setdefault(comparison.annotator_id, comparison.created_at)
        first_seq, standing = (old["first_seq"], old["standing"]) if old else (None, None)
        new = {**content, "deleted": task_deleted, "first_seq": first_seq, "standing": standing}
        new["is_verified"] = is_shown or bool(old and old["is_verified"])
        kind = self._revision(old, new, by)
        if kind is not None and standing is None:
            new["standing"] = FOREIGN if kind == "written" else KEPT
        self._replace(key, old, new)
        for further in further_ids(key, old["pairs"] if old else None, since=comparison.pairs or 1):
            self.delete(further)  # the list has become shorter
        if kind is not None:
            is_first = standing is None and kind != "written"
            self._keep(kind, new if kind == "written" or old is None else old, by, is_first)

    def delete(self, annotation_id: int) -> None:
        """Leave a tombstone, also for an annotation never seen, so that a late event cannot bring it back."""
        old = self.rows.get(annotation_id)
        if old is not None and (old["deleted"] or self._is_newer(old)):
            self.tally["unchanged"] += 1
            return
        for further in further_ids(annotation_id, old["pairs"] if old else None):
            self.delete(further)
        self.tally["deleted"] += 1
        empty = {"annotation_id": annotation_id, "first_seq": None, "standing": None, "is_verified": False}
        base = {key: value for key, value in (old or {**vars(TOMBSTONE), **empty}).items() if key != "updated_by"}
        is_invented = self.as_of is not None and not base["is_verified"] and base["status"] in GIVEN
        if is_invented:
            base["standing"] = FOREIGN
            self.invented.add(base["annotator_id"])
        self._replace(annotation_id, old, {**base, "deleted": True})
        if old is not None and old["status"] in GIVEN:
            self._keep("vanished" if is_invented else "delete", old, None, is_first=False)

    def delete_task(self, task_id: int) -> None:
        """Leave a tombstone for a task and for every annotation on it."""
        old = self.tasks.get(task_id)
        if old is not None and self._is_newer(old):
            return
        for key, row in list(self.rows.items()):
            if row["task_id"] == task_id and not row["deleted"]:
                self.delete(key)
        if old is not None and old["deleted"]:
            return
        self.seq += 1
        empty = dict.fromkeys(("left_item", "right_item", "coin", "stratum", "is_labeled"))
        self.tasks[task_id] = {"task_id": task_id, "updated_at": 0.0, **empty, **(old or {})}
        self.tasks[task_id].update(deleted=True, seq=self.seq)
        self.dirty_tasks.add(task_id)

    def rejudge(self, annotation_id: int, former: Policy) -> None:
        """Write the change that a new policy makes for one row; the row itself stays."""
        row = self.rows[annotation_id]
        self._step(row, judged(row, former), judged(row, self.policy))
        self.dirty_rows.add(annotation_id)

    def _revision(self, old: Row | None, new: Row, by: str | None) -> str | None:
        """What kind of revision of somebody's answer this is; None for a first submission, or the same answer."""
        if old is None or old["status"] not in GIVEN:
            is_foreign = new["status"] in GIVEN and by is not None and by != new["annotator_id"]
            return "written" if is_foreign else None
        if old["annotator_id"] != new["annotator_id"]:
            return "author"
        answered = ("digest",) if old["digest"] and new["digest"] else ("outcome", "status")
        if any(old[name] != new[name] for name in answered):
            return "edit"
        if old["ground_truth"] != new["ground_truth"]:
            return "mark"
        shown = ("left_item", "right_item", "coin", "outcome")
        return "task" if not self.reads_anew and any(old[name] != new[name] for name in shown) else None

    def _keep(self, kind: str, row: Row, by: str | None, is_first: bool) -> None:
        """Add a fact to the history; the first one of an annotation keeps what was submitted first."""
        self.revisions.append(
            {
                **{name: row[name] for name in FIRST_COLUMNS},
                "annotation_id": row["annotation_id"],
                "seq": self.rows[row["annotation_id"]]["seq"],
                "kind": kind,
                "by_id": by,
                "at": self.at,
                "is_first": is_first,
            }
        )

    def _overrules(self, old: Row) -> bool:
        """Whether this batch is a pull that began after the stored row last changed."""
        return self.as_of is not None and bool(old["seq"] <= self.as_of)

    def _is_newer(self, old: Row) -> bool:
        """Whether the stored row changed after the pull this batch comes from began."""
        return self.as_of is not None and bool(old["seq"] > self.as_of)

    def _yields(self, old: Row, content: Row, updated_at: float) -> bool:
        """Whether the stored row gives way to the new content."""
        if self._overrules(old):
            return True
        if old["deleted"] or updated_at != old["updated_at"]:
            return not old["deleted"] and bool(updated_at > old["updated_at"])
        return _order(content) > _order({name: old[name] for name in content})

    def _replace(self, key: int, old: Row | None, new: Row) -> None:
        """Put a row in place, with its signed changes and counts."""
        self.seq += 1
        new["seq"] = self.seq
        before = judged(old, self.policy) if old else None
        after = judged(new, self.policy)
        self._count(old, before, -1)
        self._count(new, after, +1)
        self._step(new, before, after)
        self.rows[key] = new
        self.dirty_rows.add(key)

    def _step(self, row: Row, before: Row | None, after: Row | None) -> None:
        """Record -old/+new where what is judged differs."""
        if before == after:
            return
        for values, weight in ((before, -1), (after, +1)):
            if values is None:
                continue
            self.seq += 1
            is_first = weight > 0 and row["first_seq"] is None
            if is_first:
                row["first_seq"] = self.seq
                is_first = row["standing"] != FOREIGN
            self.changes.append(
                {
                    **values,
                    "seq": self.seq,
                    "annotation_id": row["annotation_id"],
                    "weight": weight,
                    "is_first": is_first,
                    "at": self.at,
                }
            )
        row["seq"] = self.seq

    def _count(self, row: Row | None, values: Row | None, sign: int) -> None:
        """Keep the project's counts of live rows."""
        if row is None or row["deleted"]:
            return
        self.counts[row["status"]] += sign
        if row["annotation_id"] >= FIRST_FURTHER:
            self.counts["further"] += sign
        self.counts["judged"] += sign * (values is not None)
        self.counts["ground_truth"] += sign * bool(row["ground_truth"])


def _attributed(comparison: Comparison, old: Row | None) -> Comparison:
    """Who gave an answer, once known, stays known: Label Studio forgets it when the account is removed."""
    if old is not None and old["annotator_id"] is not None:
        return replace(comparison, annotator_id=old["annotator_id"])
    if old is not None and old["status"] == "erased":
        return replace(TOMBSTONE, annotation_id=comparison.annotation_id, task_id=comparison.task_id, status="erased")
    if comparison.status in GIVEN:
        return replace(comparison, status="unreadable", reason=NOBODY, outcome=None, answers=None)
    return comparison


def _order(content: Row) -> tuple[bool, str]:
    """A total order on contents, the same on every machine; a readable answer beats an unreadable one."""
    return content.get("status") != "unreadable", json.dumps(content, sort_keys=True, default=str)
