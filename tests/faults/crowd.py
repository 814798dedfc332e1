"""People at work in the stand-in: they answer, edit and delete, and each change is told to the service once."""

import http.client
import itertools
import json
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from harness.service import Service
from harness.stand_in import StandIn

Json = dict[str, Any]
ANNOTATORS = 14
LEANING = 2
ITEMS = 20
TASKS = 80
SECONDS_LABEL_STUDIO_WAITS = 1.0


@dataclass
class Ledger:
    """What the service acknowledged, by annotation: the newest state it said it has."""

    sent: int = 0
    acknowledged: int = 0
    last_acknowledged_at: float = 0.0
    states: dict[int, float] = field(default_factory=dict)
    deleted: set[int] = field(default_factory=set)
    refused: dict[int, int] = field(default_factory=dict)
    #: Where Label Studio's clock goes back, a later state may carry an earlier time; then only presence is asked for.
    has_order: bool = True

    def missing(self, rows: dict[int, Json]) -> list[int]:
        """Annotations whose acknowledged state is not in the store (or was overtaken by nothing newer)."""
        lost = [
            key
            for key, moment in self.states.items()
            if key not in rows
            or (self.has_order and not rows[key]["deleted"] and rows[key]["updated_at"] < moment - 1e-5)
        ]
        return sorted({*lost, *(key for key in self.deleted if key not in rows or not rows[key]["deleted"])})


class Crowd:
    """Annotators of one project; `deliver` takes each event to the service."""

    def __init__(self, stand_in: StandIn, service: Service, *, seed: int, tasks: int = TASKS) -> None:
        self.stand_in, self.service = stand_in, service
        self.ledger = Ledger()
        self._rng = random.Random(seed)
        self._lock = threading.Lock()
        studio = stand_in.studio
        studio.tick()
        self.project = studio.add_project(title="Pairs under fire", maximum_annotations=ANNOTATORS)
        self.people = [studio.add_user(f"annotator{k}@example.com") for k in range(ANNOTATORS)]
        self.tasks = [self._new_task() for _ in range(tasks)]
        self._open = [(task, person) for task in self.tasks for person in self.people]
        self._rng.shuffle(self._open)
        self.alive: list[int] = []
        self.deliver: Callable[[Json], None] = self.send
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []

    def answer_before(self, count: int) -> None:
        """Answers given before the service was there: no event tells of them."""
        for _ in range(count):
            self._answer()

    def add_tasks(self, count: int) -> None:
        """More work, of which no event tells: the service has something to publish once it knows."""
        with self._lock, self.stand_in.lock:
            made = [self._new_task() for _ in range(count)]
            self.tasks += made
            self._open += [(task, person) for task in made for person in self.people]

    def begin(self, rate: float, threads: int = 4) -> None:
        """Work at a steady rate in the background."""
        self._stop.clear()
        self._threads = [
            threading.Thread(target=self._work, args=(threads / rate,), daemon=True) for _ in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        """Put the mouse down."""
        self._stop.set()
        for thread in self._threads:
            thread.join(30)

    def _work(self, gap: float) -> None:
        due = time.monotonic()
        while not self._stop.wait(max(0.0, due - time.monotonic())):
            due = max(due + gap, time.monotonic() - 1.0)
            self.deliver(self.change())

    def change(self) -> Json:
        """Carry out one change in Label Studio and return the event that tells of it."""
        with self._lock, self.stand_in.lock:
            dice = self._rng.random()
            if dice < 0.15 and self.alive:
                return self._edit(self._rng.choice(self.alive))
            if (dice < 0.25 or not self._open) and self.alive:
                return self._delete(self.alive.pop(self._rng.randrange(len(self.alive))))
            return self._event("ANNOTATION_CREATED", self._answer())

    def send(self, event: Json) -> None:
        """Post as Label Studio does: once, with a second's patience."""
        try:
            status = self.service.call(
                "POST", "/webhook", json.dumps(event).encode(), timeout=SECONDS_LABEL_STUDIO_WAITS
            )[0]
        except (OSError, http.client.HTTPException):
            status = 0
        with self._lock:
            self._settle(event, status)

    def _settle(self, event: Json, status: int) -> None:
        ledger = self.ledger
        ledger.sent += 1
        if status != 200:
            ledger.refused[status] = ledger.refused.get(status, 0) + 1
            return
        ledger.acknowledged += 1
        ledger.last_acknowledged_at = time.monotonic()
        if event["action"] == "ANNOTATIONS_DELETED":
            ledger.deleted |= {row["id"] for row in event["annotations"]}
        else:
            row = event["annotation"]
            moment = datetime.fromisoformat(row["updated_at"]).timestamp()
            ledger.states[row["id"]] = max(moment, ledger.states.get(row["id"], 0.0))

    def _new_task(self) -> int:
        left, right = self._rng.sample(range(ITEMS), 2)
        return self.stand_in.studio.add_task(self.project, {"text1": f"item {left}", "text2": f"item {right}"})

    def _answer(self) -> int:
        task, person = self._open.pop()
        data = self.stand_in.studio.tasks[task]["data"]
        gap = (int(data["text1"].split()[1]) - int(data["text2"].split()[1])) / ITEMS
        honest = "left" if gap + self._rng.gauss(0.0, 0.4) > 0 else "right"
        side = "left" if person in self.people[:LEANING] else honest
        annotation = self.stand_in.studio.annotate(task, person, side)
        self.alive.append(annotation)
        return annotation

    def _edit(self, annotation: int) -> Json:
        row = self.stand_in.studio.annotations[annotation]
        chosen = row["result"][0]["value"]["selected"]
        is_leaning = row["completed_by"] in self.people[:LEANING]
        self.stand_in.studio.edit(annotation, chosen if is_leaning else {"left": "right", "right": "left"}[chosen])
        return self._event("ANNOTATION_UPDATED", annotation)

    def _delete(self, annotation: int) -> Json:
        row = self.stand_in.studio.annotations[annotation]
        self._open.insert(0, (row["task"], row["completed_by"]))
        self.stand_in.studio.delete_annotation(annotation)
        return {"action": "ANNOTATIONS_DELETED", "annotations": [{"id": annotation}], "project": self._described()}

    def _event(self, action: str, annotation: int) -> Json:
        row = dict(self.stand_in.studio.annotations[annotation])
        task = dict(self.stand_in.studio.tasks[row["task"]])
        return {"action": action, "annotation": row, "task": task, "project": self._described()}

    def _described(self) -> Json:
        return dict(self.stand_in.studio.projects[self.project])


class Scrambler:
    """Delivers every event up to three times, in an order of its own."""

    def __init__(self, crowd: Crowd, *, seed: int, window: int = 60) -> None:
        self._crowd, self._window = crowd, window
        self._rng = random.Random(seed)
        self._held: list[Json] = []
        self._lock = threading.Lock()
        self.delivered = itertools.count()

    def __call__(self, event: Json) -> None:
        """Hold the event and its copies back, and send others that waited."""
        with self._lock:
            self._held += [event] * self._rng.choice((1, 2, 3))
            self._rng.shuffle(self._held)
            due = self._held[self._window :]
            del self._held[self._window :]
        for waiting in due:
            self._send(waiting)

    def flush(self) -> None:
        """Send everything that still waits."""
        with self._lock:
            due, self._held = self._held, []
        for waiting in due:
            self._send(waiting)

    def _send(self, event: Json) -> None:
        self._crowd.send(event)
        next(self.delivered)
