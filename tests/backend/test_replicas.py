"""Two web servers and two workers on one PostgreSQL: one run per project at a time, and a dead worker's run goes on."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from evenhand.domain import Batch, Run, plain_answer
from evenhand.projects.reading import change_config
from evenhand.settings import Settings
from evenhand.store import Store, open_store
from evenhand.store.schema import leases, runs
from evenhand.web.passwords import TOKEN
from sqlalchemy import select, update

from harness.crowds import shaped
from harness.label_configs import PAIRWISE
from harness.serving import start

CREATED, EPOCH = "2023-11-14T22:13:20.000000Z", 1_700_000_000
PROJECTS = (1, 2)
PROGRAM = (sys.executable, "-m", "evenhand.cli")
#: Far longer than anything takes: others may be working beside us.
PATIENCE_SECONDS = 240.0


class Replicas:
    """The processes, the addresses of the web servers, and the database behind all of them."""

    def __init__(self, folder: Path, database_url: str) -> None:
        known = {key: os.environ[key] for key in ("PATH", "HOME", "LANG") if key in os.environ}
        self._environment = {**known, "MODEL_DIR": str(folder), "DATABASE_URL": database_url, "OMP_NUM_THREADS": "1"}
        self._folder, self._log = folder, (folder / "log").open("ab")
        self.store: Store = open_store(Settings.from_env(self._environment))
        self.webs: dict[str, subprocess.Popen[bytes]] = {}
        self.workers: list[subprocess.Popen[bytes]] = []

    def start_web(self) -> None:
        command = [*PROGRAM, "serve", "--no-worker"]
        process, address = start(command, folder=self._folder, environment=self._environment, log=self._folder / "log")
        self.webs[address] = process

    def start_worker(self) -> None:
        command = [*PROGRAM, "worker"]
        self.workers.append(subprocess.Popen(command, env=self._environment, stdout=self._log, stderr=self._log))

    def worker_of(self, project_id: int) -> subprocess.Popen[bytes] | None:
        """Who holds the lease of a project's run; its owner names the process."""
        with self.store.engine.connect() as connection:
            held = connection.execute(select(leases).where(leases.c.name == f"run:{project_id}")).first()
        now = self.store.database.time()
        owner = held.owner if held is not None and held.expires_at > now else ""
        return next((worker for worker in self.workers if f":{worker.pid}:" in owner), None)

    def let_lease_run_out(self, project_id: int) -> None:
        """As if LEASE_SECONDS had passed since a dead worker renewed it."""
        with self.store.engine.begin() as connection:
            connection.execute(update(leases).where(leases.c.name == f"run:{project_id}").values(expires_at=0.0))

    def attempts(self, run_id: int) -> int:
        """How often a run was begun."""
        with self.store.engine.connect() as connection:
            return int(connection.execute(select(runs.c.attempts).where(runs.c.id == run_id)).scalar_one())

    def runs(self, project_id: int) -> list[Run]:
        rows = self.store.runs.page(project_id).rows
        return [self.store.runs.get(row["id"]) for row in reversed(rows)]

    def stop(self) -> None:
        running = [process for process in (*self.webs.values(), *self.workers) if process.poll() is None]
        for process in running:
            process.terminate()
        for process in running:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(30)
        self.store.close()
        self._log.close()


@contextmanager
def running_replicas(folder: Path, database_url: str) -> Iterator[Replicas]:
    replicas = Replicas(folder, database_url)
    try:
        for start in (replicas.start_web, replicas.start_web, replicas.start_worker, replicas.start_worker):
            start()
        for web in replicas.webs:
            wait_until(lambda web=web: call(f"{web}/health")[0] == 200, PATIENCE_SECONDS)
        yield replicas
    finally:
        replicas.stop()


def wait_until(condition: Any, seconds: float) -> None:
    begun = time.monotonic()
    while not condition():
        assert time.monotonic() - begun < seconds, f"not within {seconds:.0f} s"
        time.sleep(0.05)


def call(url: str, body: Any = None, token: str = "") -> tuple[int, Any]:
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
    request = urllib.request.Request(url, data, headers)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return int(answer.status), json.loads(answer.read())
    except urllib.error.HTTPError as error:
        error.close()
        return error.code, None
    except OSError:
        return 0, None


def event(number: int, project: int, choice: str, moment: int) -> dict[str, Any]:
    """An annotation as Label Studio announces it; a later moment is an edit of the same annotation."""
    stamp = f"2026-01-01T00:{moment // 60:02d}:{moment % 60:02d}.{number % 1_000_000:06d}Z"
    times = {"created_at": stamp, "updated_at": stamp}
    result = {"value": {"selected": choice}, "from_name": "pw", "to_name": "left", "type": "pairwise", "id": "x"}
    annotation = {"id": number, "task": number, "completed_by": 1 + number % 20, "was_cancelled": False, **times}
    data = {"text1": f"item {number % 30}", "text2": f"item {30 + number % 17}"}
    return {
        "action": "ANNOTATION_CREATED" if moment == 0 else "ANNOTATION_UPDATED",
        "annotation": {**annotation, "result": [result], "ground_truth": False, "lead_time": 2.0},
        "task": {"id": number, "data": data, "is_labeled": False, **times},
        "project": {"id": project, "title": "pairs", "label_config": PAIRWISE, "created_at": CREATED},
    }


def send(replicas: Replicas, numbers: range, acknowledged: set[tuple[int, int]]) -> None:
    """Alternate between the web servers; the edit of an annotation goes to the other one than its first state."""
    webs = list(replicas.webs)
    for number in numbers:
        project = PROJECTS[number % len(PROJECTS)]
        first, second = (webs[(number // 2 + turn) % 2] for turn in (0, 1))
        for web, choice, moment in ((first, "left", 0), (second, "right", 5)):
            body = event(number, project, choice, moment)
            wait_until(lambda web=web, body=body: call(f"{web}/webhook", body)[0] == 200, PATIENCE_SECONDS)
        acknowledged.add((project, number))


def fill(store: Store, project_id: int, *, m: int, n: int, N: int) -> None:
    """Write answers by the bulk path."""
    c = shaped(m, n, N, rng=np.random.default_rng(5)).comparisons
    rows = [
        plain_answer(
            1_000_000 + i,
            f"a{c.annotator[i]}",
            f"item {c.left[i]}",
            f"item {c.right[i]}",
            float(c.outcome[i]),
            at=1.7e9 + i,
        )
        for i in range(len(c))
    ]
    store.comparisons.apply(project_id, Batch(comparisons=rows))


def set_up(replicas: Replicas) -> list[int]:
    """Two projects, each announced to both web servers at once; runs when asked for, the first one's without end."""
    ids: list[int] = []
    for number in PROJECTS:
        body = {"project": f"{number}.{EPOCH}", "schema": PAIRWISE, "hostname": "", "extra_params": {}}
        callers = [threading.Thread(target=call, args=(f"{web}/setup", body)) for web in replicas.webs]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()
    for project in replicas.store.projects.all():
        lbi = "off" if ids else "draws=10000,seconds=none"
        wanted = {"every_answers": None, "every_minutes": None, "lbi": lbi}
        change_config(replicas.store, project, wanted, by="test")
        fill(replicas.store, project.id, m=60, n=40, N=4000)
        ids.append(project.id)
    return ids


class Watcher(threading.Thread):
    """Looks at the runs all the time; two running at once in one project is what must never be seen."""

    def __init__(self, replicas: Replicas, ids: list[int]) -> None:
        super().__init__(daemon=True)
        self._replicas, self._ids, self._ended = replicas, ids, threading.Event()
        self.most = 0
        self.looks = 0

    def run(self) -> None:
        while not self._ended.wait(0.05):
            for project_id in self._ids:
                states = [run.status for run in self._replicas.runs(project_id)]
                self.most = max(self.most, states.count("running"))
                self.looks += 1

    def stop(self) -> None:
        self._ended.set()
        self.join(10)


@pytest.mark.postgres
@pytest.mark.slow
def test_replicas_worker_killed_in_mid_run_the_other_takes_over_and_nothing_is_lost_or_doubled(
    tmp_path: Path, postgres_url: str
) -> None:
    acknowledged: set[tuple[int, int]] = set()
    with running_replicas(tmp_path, postgres_url) as replicas, contextlib.ExitStack() as ends:
        ids = set_up(replicas)
        assert len(ids) == len(PROJECTS), "one project each, though both web servers were told at once"
        senders = [
            threading.Thread(target=send, args=(replicas, range(start, start + 80), acknowledged))
            for start in (1000, 2000)
        ]
        for sender in senders:
            sender.start()
        watcher = Watcher(replicas, ids)
        watcher.start()
        ends.callback(watcher.stop)
        token = replicas.store.secrets.get(TOKEN)
        paths = [f"{web}/api/v1/projects/{project_id}/runs" for project_id in ids for web in replicas.webs]
        for path in paths:  # refused while too many events wait
            wait_until(lambda path=path: call(path, {}, token)[0] in (200, 201, 202), PATIENCE_SECONDS)
        wait_until(lambda: replicas.worker_of(ids[0]) is not None, PATIENCE_SECONDS)
        victim = replicas.worker_of(ids[0])
        assert victim is not None
        cut_off = next(run for run in replicas.runs(ids[0]) if run.status == "running")
        victim.kill()
        victim.wait()
        project = replicas.store.projects.get(ids[0])
        change_config(replicas.store, project, {"lbi": "off"}, by="test")  # so that its successor comes to an end
        survivor = next(worker for worker in replicas.workers if worker is not victim)
        replicas.let_lease_run_out(ids[0])
        wait_until(lambda: replicas.attempts(cut_off.id) == 2, PATIENCE_SECONDS)
        assert replicas.worker_of(ids[0]) in (survivor, None)
        for sender in senders:
            sender.join()
        wait_until(
            lambda: all(run.status in ("done", "failed") for key in ids for run in replicas.runs(key)), PATIENCE_SECONDS
        )
        watcher.stop()
        found = {project_id: replicas.runs(project_id) for project_id in ids}
        assert replicas.store.runs.get(cut_off.id).status == "done"
        assert all(run.status == "done" for of_project in found.values() for run in of_project)
        assert all(1 <= len(of_project) <= len(replicas.webs) for of_project in found.values()), (
            "requests share a waiting run"
        )
        assert watcher.most == 1
        assert watcher.looks > 20
        for project_id, number in zip(ids, PROJECTS, strict=True):
            rows = replicas.store.comparisons.rows(project_id)
            stored = {row["annotation_id"]: row for row in rows if row["annotation_id"] < 1_000_000}
            assert set(stored) >= {key for project, key in acknowledged if project == number}
            assert len(rows) == len({row["annotation_id"] for row in rows})
            assert {row["outcome"] for row in stored.values()} == {-1.0}, "the edit is newer, whichever server got it"
            for run in found[project_id]:
                assert len(replicas.store.findings.all(run.id)) == (run.summary or {})["data"]["annotators"]
        assert len(acknowledged) == 160
