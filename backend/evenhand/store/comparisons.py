"""What Label Studio told us: events, tasks, items, and the answers with the signed changes that statistics see."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from itertools import groupby
from typing import Any

from sqlalchemy import BindParameter, Connection, Text, bindparam, case, cast, delete, func, or_, select, update

from evenhand.domain import Applied, Batch, Page, Task, further_ids
from evenhand.judged import Policy, coin_label
from evenhand.project_config import ProjectConfig
from evenhand.store.annotators import Erased
from evenhand.store.database import CHUNK, Aggregate, Database, chunks, page, project_row, select_in, without_project
from evenhand.store.engine import insert_into
from evenhand.store.merge import Merge, Row
from evenhand.store.schema import (
    annotators,
    changes,
    comparisons,
    event_counts,
    items,
    projects,
    revisions,
    spending,
    tasks,
)


class EventStore(Aggregate):
    """Events counted by kind and outcome."""

    def count(self, kind: str, outcome: str, number: int = 1) -> None:
        """Count an event that changed nothing in the store (rejected, ignored)."""
        with self._database.write() as connection:
            self.count_in(connection, kind, outcome, number)

    def counts(self) -> list[dict[str, Any]]:
        """Counters by kind and outcome, with the time of the last one."""
        query = select(event_counts).order_by(event_counts.c.kind, event_counts.c.outcome)
        return [dict(row) for row in self._database.fetch(query).mappings()]

    def count_in(self, connection: Connection, kind: str, outcome: str, number: int) -> None:
        """Add to an event counter."""
        values = {"kind": kind, "outcome": outcome, "count": number, "last_at": self._database.clock()}
        connection.execute(_count_statement(self._database.on_postgres), values)


@cache
def _count_statement(on_postgres: bool) -> Any:
    """The statement that adds to an event counter."""
    insert = insert_into(event_counts, on_postgres=on_postgres)
    raised = {"count": event_counts.c.count + insert.excluded["count"], "last_at": insert.excluded["last_at"]}
    return insert.on_conflict_do_update(index_elements=["kind", "outcome"], set_=raised)


_TASKS = select(tasks).where(
    tasks.c.project_id == bindparam("project"), tasks.c.task_id.in_(bindparam("ids", expanding=True))
)


class TaskStore(Aggregate):
    """Reading stored tasks."""

    def get(self, project_id: int, task_ids: Collection[int]) -> dict[int, Task]:
        """Stored tasks by id, deleted ones included; ids never seen are absent."""
        with self._database.read() as connection:
            stored = task_rows(connection, project_id, list(task_ids))
        return {key: _task(row) for key, row in stored.items()}

    def page(
        self, project_id: int, *, limit: int = 100, cursor: str | None = None, is_labeled: bool | None = None
    ) -> Page:
        """A page of live tasks by id."""
        query = select(tasks).where(tasks.c.project_id == project_id, ~tasks.c.deleted)
        if is_labeled is not None:
            query = query.where(tasks.c.is_labeled == is_labeled)
        with self._database.read() as connection:
            return page(connection, query, [(tasks.c.task_id, False)], limit=limit, cursor=cursor)

    def of_pairs(self, project_id: int, pairs: Collection[tuple[str, str]]) -> dict[frozenset[str], list[int]]:
        """Ids of the live tasks on each of these pairs of items, in either order."""
        names = sorted({name for pair in pairs for name in pair})
        query = select(tasks.c.task_id, tasks.c.left_item, tasks.c.right_item).where(
            tasks.c.project_id == project_id,
            ~tasks.c.deleted,
            tasks.c.left_item.in_(names),
            tasks.c.right_item.in_(names),
        )
        found: dict[frozenset[str], list[int]] = {frozenset(pair): [] for pair in pairs}
        for task_id, left, right in self._database.fetch(query.order_by(tasks.c.task_id)):
            if frozenset((left, right)) in found:
                found[frozenset((left, right))].append(task_id)
        return found

    def all(self, project_id: int) -> Iterator[Task]:
        """All live tasks, read in pages so that no transaction stays open."""
        last = 0
        while True:
            query = select(tasks).where(tasks.c.project_id == project_id, ~tasks.c.deleted, tasks.c.task_id > last)
            rows = self._database.fetch(query.order_by(tasks.c.task_id).limit(CHUNK)).mappings().all()
            for row in rows:
                yield _task(dict(row))
            if len(rows) < CHUNK:
                return
            last = rows[-1]["task_id"]


def task_rows(connection: Connection, project_id: int, ids: Sequence[int]) -> dict[int, dict[str, Any]]:
    """Stored tasks by id."""
    found: dict[int, dict[str, Any]] = {}
    for part in chunks(ids):
        rows = connection.execute(_TASKS, {"project": project_id, "ids": part})
        found.update((row.task_id, without_project(row)) for row in rows)
    return found


def _task(row: Mapping[str, Any]) -> Task:
    """A stored task as a record; labels live in the items table."""
    names = ("task_id", "left_item", "right_item", "coin", "stratum", "is_labeled", "updated_at", "deleted")
    return Task(**{name: row[name] for name in names}, left_label=None, right_label=None)


class ItemStore(Aggregate):
    """What items are called."""

    def labels(self, project_id: int, ids: Collection[str] | None = None) -> dict[str, str]:
        """Readable labels by item id."""
        query = select(items.c.item, items.c.label).where(items.c.project_id == project_id)
        with self._database.read() as connection:
            return {row.item: row.label for row in select_in(connection, query, items.c.item, ids)}


# The statements of the path every event takes, built once.
_IDS: BindParameter[Any] = bindparam("ids", expanding=True)
_OWN = comparisons.c.project_id == bindparam("project")
_BY_ANNOTATION = select(comparisons).where(_OWN, comparisons.c.annotation_id.in_(_IDS))
_BY_TASK = select(comparisons).where(_OWN, comparisons.c.task_id.in_(_IDS))
_UPDATE_PROJECT = update(projects).where(projects.c.id == bindparam("key"))
_INSERT_CHANGES = changes.insert()
#: What statistics see of an answer; the coin is the task unless recorded, as `coin_label` has it.
_COIN = func.coalesce(comparisons.c.coin, "task:" + cast(comparisons.c.task_id, Text))
_JUDGED = [comparisons.c[name] for name in ("annotator_id", "left_item", "right_item", "outcome")] + [_COIN]
LARGE_CHUNK = 50_000
TIMED_AT_ONCE = 200
MOST_WORDS = 200


class ComparisonStore(Aggregate):
    """Reading and writing answers."""

    def __init__(self, database: Database, events: EventStore) -> None:
        super().__init__(database)
        self._events = events

    def apply(self, project_id: int, batch: Batch) -> Applied:
        """Apply a batch in one durable transaction; repeats and any order end in the same state."""
        with self._database.write() as connection:
            merge = self._load(connection, project_id, batch)
            for task in batch.tasks:
                merge.put_task(task)
            if batch.comparisons:
                for comparison in Erased.of(connection, project_id).without(batch.comparisons):
                    merge.put(comparison)
            for annotation_id in batch.deleted_annotations:
                merge.delete(annotation_id)
            for task_id in batch.deleted_tasks:
                merge.delete_task(task_id)
            self._save(connection, project_id, merge, events=batch.events)
            return Applied(**merge.tally, seq=merge.seq)

    def delete_missing(
        self, project_id: int, present: Collection[int], *, as_of: int, within_tasks: Collection[int] | None = None
    ) -> Applied:
        """Tombstone live annotations a pull did not find, unless they changed since it began at `as_of`.

        `present` holds the annotation ids seen (negated for drafts); `within_tasks` limits the check to the tasks
        an incremental pull looked at.
        """
        query = select(comparisons.c.annotation_id, comparisons.c.task_id).where(
            comparisons.c.project_id == project_id, ~comparisons.c.deleted, comparisons.c.seq <= as_of
        )
        rows = self._database.fetch(query).all()
        seen = present if isinstance(present, set | frozenset) else set(present)
        wanted = None if within_tasks is None else set(within_tasks)
        gone = [key for key, task in rows if key not in seen and (wanted is None or task in wanted)]
        parts = [Batch(deleted_annotations=part, as_of=as_of) for part in chunks(gone)]
        return sum((self.apply(project_id, part) for part in parts), Applied())

    def delete_missing_tasks(self, project_id: int, present: Collection[int], *, as_of: int) -> Applied:
        """Tombstone live tasks (and their annotations) a full pull did not find."""
        query = select(tasks.c.task_id).where(tasks.c.project_id == project_id, ~tasks.c.deleted, tasks.c.seq <= as_of)
        stored = set(self._database.fetch(query).scalars())
        parts = [Batch(deleted_tasks=part, as_of=as_of) for part in chunks(sorted(stored - set(present)))]
        return sum((self.apply(project_id, part) for part in parts), Applied())

    def rejudge(self, connection: Connection, project_id: int, former: ProjectConfig) -> None:
        """Write the changes that follow from a new policy on ground truth and predictions."""
        merge = self._load(connection, project_id, Batch())
        old = Policy.of(former.to_json())
        if old == merge.policy:
            return
        query = select(comparisons).where(comparisons.c.project_id == project_id, ~comparisons.c.deleted)
        if old.whose == merge.policy.whose:
            query = query.where(comparisons.c.ground_truth | (comparisons.c.status == "prediction"))
        merge.rows = {row.annotation_id: without_project(row) for row in connection.execute(query)}
        for key in merge.rows:
            merge.rejudge(key, old)
        merge.counts["judged"] += sum(change["weight"] for change in merge.changes)
        self._save(connection, project_id, merge)

    def changes_since(self, project_id: int, seq: int, *, limit: int = 10_000) -> Sequence[Any]:
        """The next rows of `changes` after `seq`, in commit order; an empty list means caught up."""
        query = select(changes).where(changes.c.project_id == project_id, changes.c.seq > seq)
        with self._database.read() as connection:
            return connection.execute(query.order_by(changes.c.seq).limit(limit)).all()

    def count_since(self, project_id: int, seq: int) -> int:
        """How many answers came in (weight +1) after `seq`."""
        query = select(func.count()).where(
            changes.c.project_id == project_id, changes.c.seq > seq, changes.c.weight > 0
        )
        return int(self._database.fetch(query).scalar_one())

    @contextmanager
    def judged(self, project_id: int) -> Iterator[tuple[int, Iterator[Sequence[Sequence[Any]]]]]:
        """The sequence number, and all judged answers up to it in parts of annotator, left, right, outcome, coin.

        For statistics of large projects: memory holds one part at a time, and only what statistics need.
        """
        with self._database.read(snapshot=True, patient=True) as connection:
            project = project_row(connection, project_id)
            judged = Policy.of(project["config"]).sql(comparisons)
            query = select(*_JUDGED).where(comparisons.c.project_id == project_id, *judged)
            query = query.order_by(comparisons.c.annotation_id)
            streaming = connection.execution_options(yield_per=LARGE_CHUNK).execute(query)
            yield project["seq"], (list(zip(*part, strict=True)) for part in streaming.partitions())

    def with_texts(self, project_id: int) -> list[Row]:
        """All judged answers, and those marked as ground truth, with how long and how formatted their items are."""
        texts = {side: items.alias(side) for side in ("left", "right")}
        sizes = [texts[side].c[name].label(f"{name}_{side}") for side in texts for name in ("chars", "marks")]
        own = (comparisons.c.stratum, comparisons.c.ground_truth, comparisons.c.created_at)
        with self._database.read(patient=True) as connection:
            policy = replace(_policy(connection, project_id), ground_truth=True)
            joined: Any = comparisons
            for side, text in texts.items():
                joined = joined.outerjoin(
                    text, (text.c.project_id == project_id) & (text.c.item == comparisons.c[f"{side}_item"])
                )
            query = select(*_JUDGED[:4], _COIN.label("coin"), *own, *sizes).select_from(joined)
            query = query.where(comparisons.c.project_id == project_id, *policy.sql(comparisons))
            return [dict(row._mapping) for row in connection.execute(query.order_by(comparisons.c.annotation_id))]

    @contextmanager
    def answered(self, project_id: int, control: str) -> Iterator[Iterator[Sequence[Sequence[Any]]]]:
        """All answers to one of several controls, in parts of annotator, left, right, outcome, coin.

        The same annotations count as for what is judged, whether or not they answer what is judged.
        """
        with self._database.read(snapshot=True, patient=True) as connection:
            counted = _policy(connection, project_id).sql(comparisons, answer="answers")
            query = select(*_JUDGED, comparisons.c.answers).where(comparisons.c.project_id == project_id, *counted)
            query = query.order_by(comparisons.c.annotation_id)
            streaming = connection.execution_options(yield_per=LARGE_CHUNK).execute(query)
            yield (part for rows in streaming.partitions() if (part := _answers_to(control, rows)))

    def times(self, project_id: int, annotator_ids: Collection[str]) -> Iterator[tuple[str, list[Any]]]:
        """Of each of these annotators the judged answers, oldest first, as (created_at, lead_time, outcome)."""
        columns = (comparisons.c.annotator_id, comparisons.c.created_at, comparisons.c.lead_time, comparisons.c.outcome)
        query = select(*columns).where(comparisons.c.project_id == project_id)
        order = (comparisons.c.annotator_id, comparisons.c.created_at, comparisons.c.annotation_id)
        for part in chunks(sorted(annotator_ids), TIMED_AT_ONCE):
            with self._database.read(patient=True) as connection:
                own = query.where(
                    comparisons.c.annotator_id.in_(part), *_policy(connection, project_id).sql(comparisons)
                )
                rows = connection.execute(own.order_by(*order)).all()
            for annotator, given in groupby(rows, key=lambda row: row[0]):
                yield annotator, [tuple(row)[1:] for row in given]

    def shown(self, project_id: int) -> list[tuple[str, str, str, str, float]]:
        """All judged answers as (annotator, left, right, coin, when)."""
        names = (comparisons.c.annotator_id, comparisons.c.left_item, comparisons.c.right_item, _COIN)
        query = select(*names, comparisons.c.created_at).where(comparisons.c.project_id == project_id)
        with self._database.read(patient=True) as connection:
            judged = _policy(connection, project_id).sql(comparisons)
            # an import without times has 0
            return [tuple(row) for row in connection.execute(query.where(*judged, comparisons.c.created_at > 0))]

    def since(self, project_id: int, moment: float) -> Sequence[Any]:
        """What was submitted from a moment on, as (annotator, when, status, lead time): answers and skips alike."""
        columns = (comparisons.c.annotator_id, comparisons.c.created_at, comparisons.c.status, comparisons.c.lead_time)
        query = select(*columns).where(
            comparisons.c.project_id == project_id,
            ~comparisons.c.deleted,
            comparisons.c.created_at >= moment,
            comparisons.c.annotator_id.is_not(None),
            comparisons.c.status.in_(("answer", "judge", "skip", "empty")),
        )
        with self._database.read() as connection:
            return connection.execute(query).all()

    def choices(self, project_id: int, items: Collection[str], *, but: str) -> dict[frozenset[str], dict[str, int]]:
        """How often everybody but one chose each item of the pairs among these, by pair; "" counts ties."""
        sides = (comparisons.c.left_item, comparisons.c.right_item)
        sign = case((comparisons.c.outcome > 0, 1), (comparisons.c.outcome < 0, -1), else_=0)
        query = select(sides[0], sides[1], sign, func.count()).where(
            comparisons.c.project_id == project_id,
            *(side.in_(list(items)) for side in sides),
            comparisons.c.annotator_id != but,
        )
        found: dict[frozenset[str], dict[str, int]] = {}
        with self._database.read() as connection:
            query = query.where(*_policy(connection, project_id).sql(comparisons))
            for left, right, side, n in connection.execute(query.group_by(*sides, sign)):
                counts = found.setdefault(frozenset((left, right)), {})
                chosen = left if side > 0 else right if side < 0 else ""
                counts[chosen] = counts.get(chosen, 0) + n
        return found

    def first_coins(self, project_id: int, after: int, upto: int) -> Iterator[Sequence[Any]]:
        """(annotator, coin) of every first submission with after < seq <= upto, in large parts."""
        query = select(changes.c.annotator_id, changes.c.coin).where(
            changes.c.project_id == project_id,
            changes.c.seq > after,
            changes.c.seq <= upto,
            changes.c.is_first,
            changes.c.weight > 0,
        )
        with self._database.read(patient=True) as connection:
            yield from connection.execution_options(yield_per=LARGE_CHUNK).execute(query).partitions()

    def of_annotator(self, project_id: int, annotator_id: str, *, limit: int | None = None) -> list[Row]:
        """One annotator's live rows, oldest first, left-out ones included (with status and reason)."""
        query = (
            select(comparisons)
            .where(comparisons.c.project_id == project_id, comparisons.c.annotator_id == annotator_id)
            .where(~comparisons.c.deleted)
            .order_by(comparisons.c.annotation_id)
            .limit(limit)
        )
        return [dict(row._mapping) for row in self._database.fetch(query)]

    def rows(self, project_id: int, *, include_deleted: bool = False) -> list[Row]:
        """All stored rows of a project by annotation id (tests, exports, repairs)."""
        query = select(comparisons).where(comparisons.c.project_id == project_id)
        query = query if include_deleted else query.where(~comparisons.c.deleted)
        return [dict(row._mapping) for row in self._database.fetch(query.order_by(comparisons.c.annotation_id))]

    def no_longer_read(self, project_id: int) -> int:
        """Answers that were judged once and hold nothing now, although nobody changed them."""
        mine = (comparisons.c.project_id == project_id, ~comparisons.c.deleted, comparisons.c.first_seq.is_not(None))
        edits = (
            select(revisions.c.seq)
            .where(revisions.c.project_id == project_id, revisions.c.kind == "edit")
            .where(revisions.c.annotation_id == comparisons.c.annotation_id)
        )
        query = select(func.count()).where(*mine, comparisons.c.status.in_(("empty", "unreadable")), ~edits.exists())
        with self._database.read() as connection:
            return int(connection.execute(query).scalar_one())

    def words(self, project_id: int) -> list[Row]:
        """What was answered, word by word: how it is read, how often, and a task with it; most frequent first."""
        columns = (comparisons.c.word, comparisons.c.status, comparisons.c.outcome, comparisons.c.reason)
        counted = (func.count().label("count"), func.min(comparisons.c.task_id).label("task_id"))
        query = select(*columns, *counted).where(
            comparisons.c.project_id == project_id,
            ~comparisons.c.deleted,
            or_(comparisons.c.word.is_not(None), comparisons.c.status == "unreadable"),
            comparisons.c.status.not_in(("draft", "judge")),
        )
        query = query.group_by(*columns).order_by(func.count().desc(), comparisons.c.word).limit(MOST_WORDS)
        return [dict(row._mapping) for row in self._database.fetch(query)]

    def skips(self, project_id: int) -> list[Row]:
        """Skipped presentations with their annotator, items and coin."""
        query = select(comparisons).where(
            comparisons.c.project_id == project_id,
            ~comparisons.c.deleted,
            comparisons.c.status == "skip",
            comparisons.c.left_item.is_not(None),
        )
        rows = [dict(row._mapping) for row in self._database.fetch(query)]
        return [{**row, "coin": coin_label(row["coin"], row["task_id"])} for row in rows]

    def tasks_of(self, project_id: int, annotator_ids: Collection[str]) -> dict[str, list[int]]:
        """The tasks on which an answer of each of these annotators is judged."""
        found: dict[str, list[int]] = {annotator: [] for annotator in annotator_ids}
        query = select(comparisons.c.annotator_id, comparisons.c.task_id).where(comparisons.c.project_id == project_id)
        with self._database.read() as connection:
            query = query.where(*_policy(connection, project_id).sql(comparisons))
            for annotator, task in select_in(connection, query, comparisons.c.annotator_id, found):
                found[annotator].append(task)
        return found

    def _load(self, connection: Connection, project_id: int, batch: Batch) -> Merge:
        """Lock the project and read every row the batch can touch."""
        project = project_row(connection, project_id, lock=True)
        ids = {row.annotation_id for row in batch.comparisons} | set(batch.deleted_annotations)
        task_ids = {row.task_id for row in batch.comparisons if row.task_id is not None}
        task_ids |= {task.task_id for task in batch.tasks} | set(batch.deleted_tasks)
        rows: dict[int, Row] = {}

        def read(statement: Any, wanted: set[int]) -> None:
            for part in chunks(sorted(wanted)):
                found = connection.execute(statement, {"project": project_id, "ids": part})
                rows.update((row.annotation_id, without_project(row)) for row in found)

        read(_BY_ANNOTATION, ids)
        read(_BY_TASK, set(batch.deleted_tasks))
        lists = [(row["annotation_id"], row["pairs"]) for row in rows.values() if row["pairs"]]
        read(_BY_ANNOTATION, {further for key, pairs in lists for further in further_ids(key, pairs)})
        return Merge(
            rows=rows,
            tasks=task_rows(connection, project_id, sorted(task_ids)),
            seq=project["seq"],
            at=self._database.clock(),
            policy=Policy.of(project["config"]),
            as_of=batch.as_of,
            reads_anew=batch.reads_anew,
            totals=project["counts"],
        )

    def _save(self, connection: Connection, project_id: int, merge: Merge, *, events: Sequence[str] = ()) -> None:
        """Write what a merge changed; the project's row, locked first, is written last."""
        own = {"project_id": project_id}
        if merge.dirty_rows:
            rows = [{**own, **merge.rows[key]} for key in sorted(merge.dirty_rows)]
            connection.execute(self._database.upsert(comparisons), rows)
        if merge.changes:
            connection.execute(_INSERT_CHANGES, [{**own, **change} for change in merge.changes])
        if merge.revisions:
            connection.execute(revisions.insert(), [{**own, **revision} for revision in merge.revisions])
        if merge.invented:  # runs may have spent evidence on what was never there: they begin anew
            theirs = (spending.c.project_id == project_id, spending.c.annotator_id.in_(merge.invented - {None}))
            connection.execute(delete(spending).where(*theirs))
        if merge.dirty_tasks:
            rows = [{**own, **merge.tasks[key]} for key in sorted(merge.dirty_tasks)]
            connection.execute(self._database.upsert(tasks), rows)
        if merge.new_annotators:
            rows = [{**own, "annotator_id": key, "first_seen": at} for key, at in sorted(merge.new_annotators.items())]
            connection.execute(self._database.insert_new(annotators), rows)
        if merge.new_labels:
            rows = [
                {**own, "item": item, "label": label, "chars": chars, "marks": marks}
                for item, label in sorted(merge.new_labels.items())
                for chars, marks in [merge.sizes.get(item, (None, None))]
            ]
            connection.execute(self._database.insert_new(items), rows)
        self._save_project(connection, project_id, merge, events)

    def _save_project(self, connection: Connection, project_id: int, merge: Merge, events: Sequence[str]) -> None:
        """Advance the project's sequence number and counts, and count the event."""
        values: Row = {"seq": merge.seq}
        if any(merge.counts.values()):
            names = {*merge.totals, *merge.counts}
            values["counts"] = {name: merge.totals.get(name, 0) + merge.counts[name] for name in sorted(names)}
        if events:
            values["last_event_at"] = merge.at
        connection.execute(_UPDATE_PROJECT, {"key": project_id, **values})
        for kind, number in sorted(Counter(events).items()):
            self._events.count_in(connection, kind, "accepted", number)


def _answers_to(control: str, rows: Iterable[Any]) -> Sequence[Sequence[Any]]:
    """Of rows as `judged` reads them, with the answers to all controls at the end, the columns of one control."""
    own = [(*row[:3], row[5][control], row[4]) for row in rows if control in row[5]]
    return list(zip(*own, strict=True))


def _policy(connection: Connection, project_id: int) -> Policy:
    """Which answers the project counts now."""
    return Policy.of(project_row(connection, project_id)["config"])
