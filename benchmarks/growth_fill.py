"""Fills a project by the bulk path: the rows that ingest would write, without its work per row."""

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
from evenhand.domain import Batch, Task, plain_answer
from evenhand.store import Store
from evenhand.store.schema import annotators, changes, comparisons, projects, tasks
from sqlalchemy import insert, update

ANSWERS_PER_TASK = 3
ANSWERS_PER_ANNOTATOR = 1000
ITEMS = 200
START = 1_700_000_000.0
CHUNK = 500_000


@dataclass(frozen=True)
class Crowd:
    """Answers by number: three people per task, sides by coin, every tenth person leans to the left."""

    annotator: np.ndarray
    left: np.ndarray
    right: np.ndarray
    outcome: np.ndarray

    @classmethod
    def of(cls, size: int, seed: int = 1, *, people: int | None = None) -> "Crowd":
        rng = np.random.default_rng(seed)
        people = people or max(50, size // ANSWERS_PER_ANNOTATOR)
        n_tasks = -(-size // ANSWERS_PER_TASK)
        theta = rng.normal(size=ITEMS)
        left = rng.integers(0, ITEMS, n_tasks)
        right = (left + rng.integers(1, ITEMS, n_tasks)) % ITEMS
        task = np.arange(size) // ANSWERS_PER_TASK
        # Three different people per task: a random first, and two at fixed distances.
        first = rng.integers(0, people, n_tasks)[task]
        who = (first + (np.arange(size) % ANSWERS_PER_TASK) * 17) % people
        judged = theta[left[task]] - theta[right[task]] + rng.logistic(scale=0.7, size=size) > 0
        clicks = (who % 10 == 0) & (rng.random(size) < 0.5)
        return cls(who, left[task], right[task], np.where(judged | clicks, 1.0, -1.0))

    def __len__(self) -> int:
        return len(self.annotator)

    def answers(self) -> Iterator[tuple[int, int, int, float]]:
        """Annotator, left, right and outcome of every answer."""
        columns = (self.annotator, self.left, self.right, self.outcome)
        return zip(*(column.tolist() for column in columns), strict=True)

    def batch(self) -> Batch:
        """The same answers for ingest's own path."""
        size = len(self)
        n_tasks = -(-size // ANSWERS_PER_TASK)
        items = [[f"item {k}" for k in side[::ANSWERS_PER_TASK].tolist()] for side in (self.left, self.right)]
        seen = [
            Task(k + 1, items[0][k], items[1][k], None, None, None, None, None, updated_at=START)
            for k in range(n_tasks)
        ]
        rows = [
            plain_answer(
                i + 1,
                f"{1000 + who}",
                f"item {left}",
                f"item {right}",
                y,
                at=START + i,
                task=i // ANSWERS_PER_TASK + 1,
            )
            for i, (who, left, right, y) in enumerate(self.answers())
        ]
        return Batch(comparisons=rows, tasks=seen)


def fill(store: Store, project_id: int, crowd: Crowd) -> None:
    """Write all rows that one batch of ingest would have written."""
    copy = _copy_postgres if store.database.on_postgres else _copy_sqlite
    with store.engine.begin() as connection:  # built at the end, which leaves the same indexes in less time
        for index in comparisons.indexes:
            index.drop(connection)
    size, n_tasks = len(crowd), -(-len(crowd) // ANSWERS_PER_TASK)
    copy(store, tasks.name, _task_columns(crowd, project_id, n_tasks))
    copy(store, comparisons.name, _comparison_columns(crowd, project_id, n_tasks))
    copy(store, changes.name, _change_columns(crowd, project_id, n_tasks, store.clock()))
    with store.engine.begin() as connection:
        for index in comparisons.indexes:
            index.create(connection)
    who, first = np.unique(crowd.annotator, return_index=True)
    people = [
        {"project_id": project_id, "annotator_id": f"{1000 + a}", "first_seen": START + i}
        for a, i in zip(who.tolist(), first.tolist(), strict=True)
    ]
    with store.engine.begin() as connection:
        connection.execute(insert(annotators), people)
        counts = {"answer": size, "ground_truth": 0, "judged": size}
        # Tasks take a number each, answers two: one for the row, one for what statistics see of it.
        values = {"seq": n_tasks + 2 * size, "counts": counts}
        connection.execute(update(projects).where(projects.c.id == project_id).values(**values))


def _chunks(size: int) -> Iterator[np.ndarray]:
    for start in range(0, size, CHUNK):
        yield np.arange(start, min(start + CHUNK, size))


def _named(prefix: str, numbers: np.ndarray) -> pa.Array:
    names = pa.array([f"{prefix}{k}" for k in range(int(numbers.max()) + 1)])
    return names.take(pa.array(numbers))


def _task_columns(crowd: Crowd, project_id: int, n_tasks: int) -> Iterator[dict[str, Any]]:
    for i in _chunks(n_tasks):
        yield {
            "project_id": np.full(len(i), project_id),
            "task_id": i + 1,
            "left_item": _named("item ", crowd.left[i * ANSWERS_PER_TASK]),
            "right_item": _named("item ", crowd.right[i * ANSWERS_PER_TASK]),
            "deleted": np.zeros(len(i), dtype=bool),
            "updated_at": np.full(len(i), START),
            "seq": i + 1,
        }


def _answer_columns(crowd: Crowd, project_id: int, i: np.ndarray) -> dict[str, Any]:
    return {
        "project_id": np.full(len(i), project_id),
        "annotation_id": i + 1,
        "task_id": i // ANSWERS_PER_TASK + 1,
        "annotator_id": _named("", 1000 + crowd.annotator[i]),
        "left_item": _named("item ", crowd.left[i]),
        "right_item": _named("item ", crowd.right[i]),
        "outcome": crowd.outcome[i],
    }


def _comparison_columns(crowd: Crowd, project_id: int, n_tasks: int) -> Iterator[dict[str, Any]]:
    for i in _chunks(len(crowd)):
        yield {
            **_answer_columns(crowd, project_id, i),
            "status": pa.array(["answer"]).take(pa.array(np.zeros(len(i), dtype=int))),
            "ground_truth": np.zeros(len(i), dtype=bool),
            "lead_time": np.full(len(i), 3.0),
            "created_at": START + i,
            "updated_at": START + i,
            "deleted": np.zeros(len(i), dtype=bool),
            "seq": n_tasks + 2 * i + 2,
            "first_seq": n_tasks + 2 * i + 2,
        }


def _change_columns(crowd: Crowd, project_id: int, n_tasks: int, now: float) -> Iterator[dict[str, Any]]:
    for i in _chunks(len(crowd)):
        coins = pa.array([f"task:{k}" for k in np.unique(i // ANSWERS_PER_TASK + 1).tolist()])
        yield {
            **_answer_columns(crowd, project_id, i),
            "seq": n_tasks + 2 * i + 2,
            "coin": coins.take(pa.array(i // ANSWERS_PER_TASK - i[0] // ANSWERS_PER_TASK)),
            "weight": np.ones(len(i), dtype=int),
            "is_first": np.ones(len(i), dtype=bool),
            "at": np.full(len(i), now),
        }


def _copy_postgres(store: Store, table: str, parts: Iterator[dict[str, Any]]) -> None:
    for part in parts:
        sink = io.BytesIO()
        pyarrow.csv.write_csv(pa.table(part), sink, pyarrow.csv.WriteOptions(include_header=False))
        with store.engine.begin() as connection:
            cursor = connection.connection.cursor()
            cursor.execute("SET LOCAL session_replication_role = replica")  # the project is known to be there
            with cursor.copy(f"COPY {table} ({', '.join(part)}) FROM STDIN WITH (FORMAT csv)") as copy:
                copy.write(sink.getvalue())


def _copy_sqlite(store: Store, table: str, parts: Iterator[dict[str, Any]]) -> None:
    for part in parts:
        statement = f"INSERT INTO {table} ({', '.join(part)}) VALUES ({', '.join('?' * len(part))})"
        columns = [_plain(values) for values in part.values()]
        with store.database.write() as connection:
            connection.connection.cursor().executemany(statement, list(zip(*columns, strict=True)))


def _plain(values: Any) -> list[Any]:
    listed: Callable[[], list[Any]] = values.to_pylist if isinstance(values, pa.Array) else values.tolist
    return listed()
