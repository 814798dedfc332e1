"""Comparisons, tasks, annotators and items: what Label Studio told us, and what is judged of it."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import groupby
from typing import Any

from sqlalchemy import BindParameter, Connection, Select, Text, bindparam, cast, func, select, update
from sqlalchemy.dialects import postgresql, sqlite

from backend.config import ProjectConfig
from backend.domain import Annotator, Answers, Applied, Batch, Change, Page, Task
from backend.errors import NotFoundError
from backend.schema import annotators, changes, comparisons, event_counts, items, projects, tasks
from backend.store.base import CHUNK, StoreBase, as_mapping, chunks, page
from backend.store.erased import Erased
from backend.store.merge import Merge, Policy, Row, coin_label, counted_statuses

# The statements of the path every event takes, built once.
_IDS: BindParameter[Any] = bindparam("ids", expanding=True)
_OWN = comparisons.c.project_id == bindparam("project")
_BY_ANNOTATION = select(comparisons).where(_OWN, comparisons.c.annotation_id.in_(_IDS))
_BY_TASK = select(comparisons).where(_OWN, comparisons.c.task_id.in_(_IDS))
_TASKS = select(tasks).where(tasks.c.project_id == bindparam("project"), tasks.c.task_id.in_(_IDS))
_PROJECT = select(projects.c.seq, projects.c.config, projects.c.counts).where(projects.c.id == bindparam("project"))
_LOCKED_PROJECT = _PROJECT.with_for_update()
_UPDATE_PROJECT = update(projects).where(projects.c.id == bindparam("key"))
_INSERT_CHANGES = changes.insert()
#: What statistics see of an answer; the coin is the task unless recorded, as `coin_label` has it.
_COIN = func.coalesce(comparisons.c.coin, "task:" + cast(comparisons.c.task_id, Text))
_JUDGED = [comparisons.c[name] for name in ("annotator_id", "left_item", "right_item", "outcome")] + [_COIN]
LARGE_CHUNK = 50_000
TIMED_AT_ONCE = 200


class ComparisonStore(StoreBase):
    """Reading and writing answers."""

    def apply(self, project_id: int, batch: Batch) -> Applied:
        """Apply a batch in one durable transaction; repeats and any order end in the same state."""
        with self._write() as connection:
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
        with self._read() as connection:
            rows = connection.execute(query).all()
        seen = present if isinstance(present, set | frozenset) else set(present)
        wanted = None if within_tasks is None else set(within_tasks)
        gone = [key for key, task in rows if key not in seen and (wanted is None or task in wanted)]
        parts = [Batch(deleted_annotations=part, as_of=as_of) for part in chunks(gone)]
        return sum((self.apply(project_id, part) for part in parts), Applied())

    def delete_missing_tasks(self, project_id: int, present: Collection[int], *, as_of: int) -> Applied:
        """Tombstone live tasks (and their annotations) a full pull did not find."""
        query = select(tasks.c.task_id).where(tasks.c.project_id == project_id, ~tasks.c.deleted, tasks.c.seq <= as_of)
        with self._read() as connection:
            stored = set(connection.execute(query).scalars())
        parts = [Batch(deleted_tasks=part, as_of=as_of) for part in chunks(sorted(stored - set(present)))]
        return sum((self.apply(project_id, part) for part in parts), Applied())

    def rejudge(self, connection: Connection, project_id: int, former: ProjectConfig) -> None:
        """Write the changes that follow from a new policy on ground truth and predictions."""
        merge = self._load(connection, project_id, Batch())
        old = policy_of(former.to_json())
        if old == merge.policy:
            return
        query = select(comparisons).where(
            comparisons.c.project_id == project_id,
            ~comparisons.c.deleted,
            comparisons.c.ground_truth | (comparisons.c.status == "prediction"),
        )
        merge.rows = {row.annotation_id: _row(row) for row in connection.execute(query)}
        for key in merge.rows:
            merge.rejudge(key, old)
        merge.counts["judged"] += sum(change["weight"] for change in merge.changes)
        self._save(connection, project_id, merge)

    def changes_since(self, project_id: int, seq: int, *, limit: int = 10_000) -> list[Change]:
        """The next changes after `seq`, in commit order; an empty list means caught up."""
        query = select(changes).where(changes.c.project_id == project_id, changes.c.seq > seq)
        with self._read() as connection:
            rows = connection.execute(query.order_by(changes.c.seq).limit(limit)).mappings()
            return [Change(**{key: value for key, value in row.items() if key != "project_id"}) for row in rows]

    def count_changes(self, project_id: int, seq: int) -> int:
        """How many answers came in (weight +1) after `seq`."""
        query = select(func.count()).where(
            changes.c.project_id == project_id, changes.c.seq > seq, changes.c.weight > 0
        )
        with self._read() as connection:
            return connection.execute(query).scalar_one()

    def load_answers(self, project_id: int) -> Answers:
        """Every judged answer as columns, in order of annotation id, consistent at the `seq` returned."""
        with self._read(snapshot=True, patient=True) as connection:
            project = _project_row(connection, project_id)
            policy = policy_of(project["config"])
            answers = Answers(project["seq"], [], [], [], [], [], [], [], [], [], [])
            for row in _judged_rows(connection, project_id, policy):
                _append(answers, row)
            return answers

    @contextmanager
    def judged_answers(self, project_id: int) -> Iterator[tuple[int, Iterator[Sequence[Sequence[Any]]]]]:
        """The sequence number, and all judged answers up to it in parts of annotator, left, right, outcome, coin.

        For statistics of large projects: memory holds one part at a time, and only what statistics need.
        """
        with self._read(snapshot=True, patient=True) as connection:
            project = _project_row(connection, project_id)
            query = _judged(project_id, policy_of(project["config"]), _JUDGED).order_by(comparisons.c.annotation_id)
            streaming = connection.execution_options(yield_per=LARGE_CHUNK).execute(query)
            yield project["seq"], (list(zip(*part, strict=True)) for part in streaming.partitions())

    def answer_times(self, project_id: int, annotator_ids: Collection[str]) -> Iterator[tuple[str, list[Any]]]:
        """Of each of these annotators the answers, oldest first, as (created_at, lead_time, outcome)."""
        columns = (comparisons.c.annotator_id, comparisons.c.created_at, comparisons.c.lead_time, comparisons.c.outcome)
        query = select(*columns).where(
            comparisons.c.project_id == project_id, ~comparisons.c.deleted, comparisons.c.status == "answer"
        )
        order = (comparisons.c.annotator_id, comparisons.c.created_at, comparisons.c.annotation_id)
        for part in chunks(sorted(annotator_ids), TIMED_AT_ONCE):
            with self._read(patient=True) as connection:
                rows = connection.execute(query.where(comparisons.c.annotator_id.in_(part)).order_by(*order)).all()
            for annotator, own in groupby(rows, key=lambda row: row[0]):
                yield annotator, [tuple(row)[1:] for row in own]

    def first_coins(self, project_id: int, after: int, upto: int) -> Iterator[Sequence[Any]]:
        """(annotator, coin) of every first submission with after < seq <= upto, in large parts."""
        query = select(changes.c.annotator_id, changes.c.coin).where(
            changes.c.project_id == project_id,
            changes.c.seq > after,
            changes.c.seq <= upto,
            changes.c.is_first,
            changes.c.weight > 0,
        )
        with self._read(patient=True) as connection:
            yield from connection.execution_options(yield_per=LARGE_CHUNK).execute(query).partitions()

    def annotator_answers(self, project_id: int, annotator_id: str, *, limit: int | None = None) -> list[Row]:
        """One annotator's live rows, oldest first, left-out ones included (with status and reason)."""
        query = (
            select(comparisons)
            .where(comparisons.c.project_id == project_id, comparisons.c.annotator_id == annotator_id)
            .where(~comparisons.c.deleted)
            .order_by(comparisons.c.annotation_id)
            .limit(limit)
        )
        with self._read() as connection:
            return [dict(as_mapping(row)) for row in connection.execute(query)]

    def comparison_rows(self, project_id: int, *, include_deleted: bool = False) -> list[Row]:
        """All stored rows of a project by annotation id (tests, exports, repairs)."""
        query = select(comparisons).where(comparisons.c.project_id == project_id)
        query = query if include_deleted else query.where(~comparisons.c.deleted)
        with self._read() as connection:
            return [dict(as_mapping(row)) for row in connection.execute(query.order_by(comparisons.c.annotation_id))]

    def skips(self, project_id: int) -> list[Row]:
        """Skipped presentations with their annotator, items and coin."""
        query = select(comparisons).where(
            comparisons.c.project_id == project_id, ~comparisons.c.deleted, comparisons.c.status == "skip"
        )
        with self._read() as connection:
            rows = [dict(as_mapping(row)) for row in connection.execute(query)]
        return [{**row, "coin": coin_label(row["coin"], row["task_id"])} for row in rows]

    def get_tasks(self, project_id: int, task_ids: Collection[int]) -> dict[int, Task]:
        """Stored tasks by id, deleted ones included; ids never seen are absent."""
        with self._read() as connection:
            stored = _tasks(connection, project_id, list(task_ids))
        return {key: _task(row) for key, row in stored.items()}

    def list_tasks(
        self, project_id: int, *, limit: int = 100, cursor: str | None = None, is_labeled: bool | None = None
    ) -> Page:
        """A page of live tasks by id."""
        query = select(tasks).where(tasks.c.project_id == project_id, ~tasks.c.deleted)
        if is_labeled is not None:
            query = query.where(tasks.c.is_labeled == is_labeled)
        with self._read() as connection:
            return page(connection, query, [(tasks.c.task_id, False)], limit=limit, cursor=cursor)

    def iter_tasks(self, project_id: int) -> Iterator[Task]:
        """All live tasks, read in pages so that no transaction stays open."""
        last = 0
        while True:
            query = select(tasks).where(tasks.c.project_id == project_id, ~tasks.c.deleted, tasks.c.task_id > last)
            with self._read() as connection:
                rows = connection.execute(query.order_by(tasks.c.task_id).limit(CHUNK)).mappings().all()
            for row in rows:
                yield _task(dict(row))
            if len(rows) < CHUNK:
                return
            last = rows[-1]["task_id"]

    def annotator_tasks(self, project_id: int, annotator_ids: Collection[str]) -> dict[str, list[int]]:
        """The tasks each of these annotators answered."""
        found: dict[str, list[int]] = {annotator: [] for annotator in annotator_ids}
        query = select(comparisons.c.annotator_id, comparisons.c.task_id).where(
            comparisons.c.project_id == project_id, ~comparisons.c.deleted, comparisons.c.status == "answer"
        )
        with self._read() as connection:
            for part in chunks(sorted(found)):
                for annotator, task in connection.execute(query.where(comparisons.c.annotator_id.in_(part))):
                    found[annotator].append(task)
        return found

    def name_annotators(
        self, project_id: int, names: Mapping[str, tuple[str | None, str | None]], *, insert: bool = False
    ) -> int:
        """Set names and e-mail addresses by annotator id; people never seen are added only with `insert`."""
        if not names:
            return 0
        with self._write() as connection:
            _project_row(connection, project_id, lock=True)
            names = Erased.of(connection, project_id).keep(names)
            if not names:
                return 0
            if insert:
                rows = [{"project_id": project_id, "annotator_id": key} for key in sorted(names)]
                connection.execute(self._insert_new(annotators), rows)
            statement = (
                update(annotators)
                .where(annotators.c.project_id == project_id, annotators.c.annotator_id == bindparam("key"))
                .values(name=bindparam("new_name"), email=bindparam("new_email"))
            )
            values = [{"key": key, "new_name": name, "new_email": email} for key, (name, email) in names.items()]
            connection.execute(statement, values)
        return len(names)

    def list_annotators(self, project_id: int, ids: Collection[str] | None = None) -> dict[str, Annotator]:
        """Annotators of a project by id."""
        query = select(annotators).where(annotators.c.project_id == project_id)
        found: dict[str, Annotator] = {}
        with self._read() as connection:
            parts: Sequence[Any] = [None] if ids is None else list(chunks(sorted(ids)))
            for part in parts:
                chosen = query if part is None else query.where(annotators.c.annotator_id.in_(part))
                for row in connection.execute(chosen):
                    found[row.annotator_id] = Annotator(row.annotator_id, row.name, row.email, row.first_seen)
        return found

    def item_labels(self, project_id: int, ids: Collection[str] | None = None) -> dict[str, str]:
        """Readable labels by item id."""
        query = select(items.c.item, items.c.label).where(items.c.project_id == project_id)
        found: dict[str, str] = {}
        with self._read() as connection:
            parts: Sequence[Any] = [None] if ids is None else list(chunks(sorted(ids)))
            for part in parts:
                chosen = query if part is None else query.where(items.c.item.in_(part))
                found.update((row.item, row.label) for row in connection.execute(chosen))
        return found

    def _load(self, connection: Connection, project_id: int, batch: Batch) -> Merge:
        """Lock the project and read every row the batch can touch."""
        project = _project_row(connection, project_id, lock=True)
        ids = {row.annotation_id for row in batch.comparisons} | set(batch.deleted_annotations)
        task_ids = {row.task_id for row in batch.comparisons if row.task_id is not None}
        task_ids |= {task.task_id for task in batch.tasks} | set(batch.deleted_tasks)
        rows: dict[int, Row] = {}
        for statement, wanted in ((_BY_ANNOTATION, ids), (_BY_TASK, set(batch.deleted_tasks))):
            for part in chunks(sorted(wanted)):
                found = connection.execute(statement, {"project": project_id, "ids": part})
                rows.update((row.annotation_id, _row(row)) for row in found)
        return Merge(
            rows=rows,
            tasks=_tasks(connection, project_id, sorted(task_ids)),
            seq=project["seq"],
            at=self.clock(),
            policy=policy_of(project["config"]),
            as_of=batch.as_of,
            totals=project["counts"],
        )

    def _save(self, connection: Connection, project_id: int, merge: Merge, *, events: Sequence[str] = ()) -> None:
        """Write what a merge changed; the project's row, locked first, is written last."""
        own = {"project_id": project_id}
        if merge.dirty_rows:
            rows = [{**own, **merge.rows[key]} for key in sorted(merge.dirty_rows)]
            connection.execute(self._upsert(comparisons), rows)
        if merge.changes:
            connection.execute(_INSERT_CHANGES, [{**own, **change} for change in merge.changes])
        if merge.dirty_tasks:
            rows = [{**own, **merge.tasks[key]} for key in sorted(merge.dirty_tasks)]
            connection.execute(self._upsert(tasks), rows)
        if merge.new_annotators:
            rows = [{**own, "annotator_id": key, "first_seen": at} for key, at in sorted(merge.new_annotators.items())]
            connection.execute(self._insert_new(annotators), rows)
        if merge.new_labels:
            rows = [{**own, "item": item, "label": label} for item, label in sorted(merge.new_labels.items())]
            connection.execute(self._insert_new(items), rows)
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
            self._count_event(connection, kind, "accepted", number)

    def _count_event(self, connection: Connection, kind: str, outcome: str, number: int) -> None:
        """Add to an event counter."""
        values = {"kind": kind, "outcome": outcome, "count": number, "last_at": self.clock()}
        connection.execute(_count_statement(self.engine.dialect.name), values)


@cache
def _count_statement(dialect: str) -> Any:
    """The statement that adds to an event counter."""
    insert = postgresql.insert(event_counts) if dialect == "postgresql" else sqlite.insert(event_counts)
    raised = {"count": event_counts.c.count + insert.excluded["count"], "last_at": insert.excluded["last_at"]}
    return insert.on_conflict_do_update(index_elements=["kind", "outcome"], set_=raised)


def policy_of(config: Mapping[str, Any]) -> Policy:
    """The part of a project's stored settings that decides which answers count."""
    return Policy(ground_truth=config["count_ground_truth"], predictions=config["count_predictions"])


def _project_row(connection: Connection, project_id: int, *, lock: bool = False) -> Mapping[str, Any]:
    """The project's sequence number, settings and counts; `lock` serialises writers of one project."""
    row = connection.execute(_LOCKED_PROJECT if lock else _PROJECT, {"project": project_id}).mappings().first()
    if row is None:
        raise NotFoundError(f"project {project_id} does not exist; `evenhand status` lists the projects")
    return dict(row)


def _judged_rows(connection: Connection, project_id: int, policy: Policy) -> Iterator[Any]:
    """Stream the judged rows in order of annotation id."""
    streaming = connection.execution_options(yield_per=CHUNK)
    yield from streaming.execute(_judged(project_id, policy, [comparisons]).order_by(comparisons.c.annotation_id))


def _judged(project_id: int, policy: Policy, columns: Sequence[Any]) -> Select[Any]:
    """The query for the answers that count."""
    query = select(*columns).where(
        comparisons.c.project_id == project_id,
        ~comparisons.c.deleted,
        comparisons.c.status.in_(counted_statuses(policy)),
        comparisons.c.outcome.is_not(None),
    )
    return query if policy.ground_truth else query.where(~comparisons.c.ground_truth)


def _append(answers: Answers, row: Any) -> None:
    """Add one row to the columns."""
    answers.annotation_id.append(row.annotation_id)
    answers.annotator.append(row.annotator_id)
    answers.left.append(row.left_item)
    answers.right.append(row.right_item)
    answers.outcome.append(row.outcome)
    answers.coin.append(coin_label(row.coin, row.task_id))
    answers.task.append(row.task_id)
    answers.stratum.append(row.stratum)
    answers.time.append(row.created_at)
    answers.lead_time.append(row.lead_time)


def _tasks(connection: Connection, project_id: int, ids: Sequence[int]) -> dict[int, Row]:
    """Stored tasks by id."""
    found: dict[int, Row] = {}
    for part in chunks(ids):
        rows = connection.execute(_TASKS, {"project": project_id, "ids": part})
        found.update((row.task_id, _row(row)) for row in rows)
    return found


def _row(row: Any) -> Row:
    """A stored row without its project."""
    return {key: value for key, value in row._mapping.items() if key != "project_id"}


def _task(row: Mapping[str, Any]) -> Task:
    """A stored task as a record; labels live in the items table."""
    names = ("task_id", "left_item", "right_item", "coin", "stratum", "is_labeled", "updated_at", "deleted")
    return Task(**{name: row[name] for name in names}, left_label=None, right_label=None)
