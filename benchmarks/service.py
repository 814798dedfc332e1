"""The service under load and under kill -9: real processes, real HTTP on loopback, bounded in count and time.

python -m benchmarks.service             60 s of 200 events/s beside a 1,000-annotator run; 20 kills; run-now latency
python -m benchmarks.service --quick     10 s and 4 kills
DATABASE_URL=postgresql://… python -m benchmarks.service     the same on PostgreSQL (an empty database)
"""

import argparse
import contextlib
import http.client
import itertools
import json
import os
import random
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import psutil

from backend.domain import Batch, Comparison
from backend.settings import Settings
from backend.store import open_store
from fdr_core.simulate import shaped

EPOCH, CREATED = 1_700_000_000, "2023-11-14T22:13:20.000000Z"
LABEL_CONFIG = (
    '<View><Pairwise name="pw" toName="left,right"/>'
    '<Text name="left" value="$text1"/><Text name="right" value="$text2"/></View>'
)


class Service:
    """`evenhand serve` on a free loopback port with a folder of its own."""

    def __init__(self, folder: Path, variables: Mapping[str, str] | None = None) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        keep = {key: os.environ[key] for key in ("PATH", "HOME", "DATABASE_URL") if key in os.environ}
        self.environment = {
            **keep,
            "MODEL_DIR": str(folder),
            "PORT": str(self.port),
            "LOG_LEVEL": "WARNING",
            "OMP_NUM_THREADS": "1",
            **(variables or {}),
        }
        self.settings = Settings.from_env(self.environment)
        self.log = (folder / "service.log").open("ab")
        self.process: psutil.Popen | None = None

    def start(self) -> float:
        """Start and wait until it answers; return the seconds that took."""
        begun = time.perf_counter()
        command = [sys.executable, "-m", "backend.cli", "serve"]
        self.process = psutil.Popen(command, env=self.environment, stdout=self.log, stderr=self.log)
        try:
            self.wait_healthy()
        except BaseException:
            self.stop()
            raise
        return time.perf_counter() - begun

    def wait_healthy(self, limit: float = 60.0) -> float:
        begun = time.perf_counter()
        while time.perf_counter() - begun < limit:
            with contextlib.suppress(OSError, http.client.HTTPException):
                if self.call("GET", "/health")[0] == 200:
                    return time.perf_counter() - begun
            time.sleep(0.05)
        raise SystemExit("the service did not become healthy within a minute")

    def stop(self) -> None:
        if self.process is not None and self.process.is_running():
            family = [self.process, *self.process.children(recursive=True)]
            self.process.terminate()
            for member in psutil.wait_procs(family, timeout=20)[1]:
                member.kill()

    def call(self, method: str, path: str, body: bytes | None = None, timeout: float = 5.0) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            connection.request(method, path, body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def api(self, method: str, path: str, body: dict | None = None) -> dict:
        text = json.dumps(body).encode() if body is not None else None
        status, answer = self.call(method, f"/api/v1{path}", text, timeout=30.0)
        if status >= 300:
            raise SystemExit(f"{method} {path} answered {status}: {answer[:300]!r}")
        return json.loads(answer)


def event(number: int, project: int, annotator: int) -> bytes:
    """An ANNOTATION_CREATED event as Label Studio sends it."""
    left, right = number % 50, (number * 7 + 1) % 50
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime()) + f".{number % 1_000_000:06d}Z"
    result = {"value": {"selected": random.choice(("left", "right"))}, "from_name": "pw", "to_name": "pw"}
    return json.dumps(
        {
            "action": "ANNOTATION_CREATED",
            "annotation": {
                "id": number,
                "task": number,
                "project": project,
                "completed_by": annotator,
                "result": [{**result, "type": "pairwise", "origin": "manual", "id": "x"}],
                "was_cancelled": False,
                "ground_truth": False,
                "lead_time": 3.5,
                "created_at": stamp,
                "updated_at": stamp,
            },
            "task": {
                "id": number,
                "data": {"text1": f"item {left}", "text2": f"item {right if right != left else 51}"},
                "created_at": stamp,
                "updated_at": stamp,
                "is_labeled": False,
            },
            "project": {"id": project, "title": "load", "label_config": LABEL_CONFIG, "created_at": CREATED},
        }
    ).encode()


def register(service: Service, project: int) -> int:
    """Set the project up as Label Studio does; return our id."""
    body = {"project": f"{project}.{EPOCH}", "schema": LABEL_CONFIG, "hostname": "", "extra_params": {}}
    status, answer = service.call("POST", "/setup", json.dumps(body).encode())
    assert status == 200, answer
    projects = service.api("GET", "/projects")
    rows = next(value for value in projects.values() if isinstance(value, list))
    return next(row["id"] for row in rows if row["ls_project_id"] == project)


def fill(service: Service, project_id: int, m: int, n: int, N: int) -> None:
    """Write answers by the bulk path."""
    c = shaped(m, n, N, rng=np.random.default_rng(5)).comparisons
    store = open_store(service.settings)
    rows = (
        Comparison(
            10_000_000 + i, 10_000_000 + i, str(1000 + c.annotator[i]), f"item {c.left[i]}", f"item {c.right[i]}", None,
            None, float(c.outcome[i]), "answer", None, False, 3.0, 1.7e9 + i, 1.7e9 + i,
        )
        for i in range(len(c))
    )  # fmt: skip
    while batch := list(itertools.islice(rows, 10_000)):
        store.apply(project_id, Batch(comparisons=batch))
    store.close()


class Sender:
    """Posts events at a steady rate from several threads; remembers what was acknowledged and how fast."""

    def __init__(self, service: Service, project: int, rate: float, first: int) -> None:
        self._service, self._project, self._rate = service, project, rate
        self._numbers = itertools.count(first)
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self.acknowledged: list[int] = []
        self.latency: list[float] = []
        self.refused = 0
        self.sent = 0

    def run(self, seconds: float, threads: int = 8) -> None:
        end = time.perf_counter() + seconds
        workers = [threading.Thread(target=self._post, args=(end, threads, k)) for k in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()

    def _post(self, end: float, threads: int, k: int) -> None:
        gap = threads / self._rate
        due = time.perf_counter() + gap * k / threads
        while due < end:
            time.sleep(max(0.0, due - time.perf_counter()))
            with self._lock:
                number = next(self._numbers)
                self.sent += 1
            body = event(number, self._project, 1 + number % 60)
            begun = time.perf_counter()
            try:
                status, _ = self._service.call("POST", "/webhook", body)
            except (OSError, http.client.HTTPException):
                status = 0
            with self._lock:
                if status == 200:
                    self.acknowledged.append(number)
                    self.latency.append(time.perf_counter() - begun)
                else:
                    self.refused += 1
            due += gap


def stored_ids(service: Service, project_id: int) -> set[int]:
    store = open_store(service.settings)
    try:
        return {row["annotation_id"] for row in store.comparison_rows(project_id)}
    finally:
        store.close()


def load(folder: Path, seconds: float, rate: float = 200.0) -> None:
    service = Service(folder)
    service.start()
    try:
        project_id = register(service, 1)
        fill(service, project_id, 1_000, 200, 100_000)
        runs = 0
        stop = threading.Event()

        def keep_running() -> None:
            nonlocal runs
            while not stop.is_set():
                service.api("POST", f"/projects/{project_id}/runs", {})
                runs += 1
                stop.wait(2.0)

        runner = threading.Thread(target=keep_running)
        runner.start()
        time.sleep(1.0)
        sender = Sender(service, 1, rate, first=1)
        sender.run(seconds)
        stop.set()
        runner.join()
        missing = set(sender.acknowledged) - stored_ids(service, project_id)
        done = service.api("GET", f"/projects/{project_id}/runs")
        ms = np.array(sender.latency) * 1000
        print(
            f"load: {sender.sent} events at {rate:.0f}/s for {seconds:.0f} s beside runs over 1,000 annotators, 100k answers"
        )
        print(
            f"  acknowledged {len(sender.acknowledged)}, refused {sender.refused}, acknowledged but missing {len(missing)}"
        )
        print(f"  latency ms: median {np.median(ms):.1f}, p99 {np.quantile(ms, 0.99):.1f}, max {ms.max():.1f}")
        states = [row["status"] for row in next(value for value in done.values() if isinstance(value, list))]
        print(f"  runs requested {runs}, stored {len(states)}: {', '.join(states)}")
    finally:
        service.stop()


def kills(folder: Path, times: int) -> None:
    service = Service(folder)
    service.start()
    rng = random.Random(7)
    slowest, sender, what = 0.0, Sender(service, 1, 100.0, first=1), []
    try:
        project_id = register(service, 1)
        fill(service, project_id, 200, 50, 10_000)
        thread = threading.Thread(target=sender.run, args=(times * 4.0 + 3.0,))
        thread.start()
        for _ in range(times):
            time.sleep(rng.uniform(0.5, 2.5))
            with contextlib.suppress(SystemExit, OSError, http.client.HTTPException):
                service.api("POST", f"/projects/{project_id}/runs", {})
            time.sleep(rng.uniform(0.0, 1.0))
            family = service.process.children(recursive=True)
            victim = rng.choice([service.process, *family, *family])
            what.append("everything" if victim is service.process else " ".join(victim.cmdline()[-2:])[:40])
            if victim is service.process:
                for member in [victim, *family]:
                    with contextlib.suppress(psutil.NoSuchProcess):
                        member.send_signal(signal.SIGKILL)
                psutil.wait_procs([victim, *family], timeout=5)
                slowest = max(slowest, service.start())
            else:
                victim.send_signal(signal.SIGKILL)
                slowest = max(slowest, service.wait_healthy())
        thread.join()
        service.wait_healthy()
        missing = set(sender.acknowledged) - stored_ids(service, project_id)
        service.api("POST", f"/projects/{project_id}/runs", {})
        finished = wait_for_run(service, project_id, 60.0)
        print(f"kill -9: {times} times ({', '.join(f'{what.count(w)} x {w}' for w in sorted(set(what)))})")
        print(
            f"  events sent {sender.sent}, acknowledged {len(sender.acknowledged)}, missing afterwards {len(missing)}"
        )
        print(f"  slowest back to healthy {slowest:.1f} s; a run afterwards: {finished}")
    finally:
        service.stop()


def wait_for_run(service: Service, project_id: int, limit: float) -> str:
    """Wait until no run waits or runs; return the newest one's status."""
    begun = time.perf_counter()
    while time.perf_counter() - begun < limit:
        runs = service.api("GET", f"/projects/{project_id}/runs")
        newest = next(value for value in runs.values() if isinstance(value, list))[0]
        if newest["status"] in ("done", "failed"):
            return str(newest["status"])
        time.sleep(0.05)
    return "not finished"


def run_now(folder: Path) -> None:
    service = Service(folder)
    service.start()
    try:
        project_id = register(service, 1)
        fill(service, project_id, 100, 100, 10_000)
        service.api("POST", f"/projects/{project_id}/runs", {})
        wait_for_run(service, project_id, 60.0)
        seconds = []
        for k in range(3):
            status, _ = service.call("POST", "/webhook", event(k + 1, 1, 3))
            begun = time.perf_counter()
            assert status == 200
            service.api("POST", f"/projects/{project_id}/runs", {})
            state = wait_for_run(service, project_id, 60.0)
            seconds.append(time.perf_counter() - begun)
            assert state == "done"
        print(
            f"run now: 100 annotators, 10,001 answers: {', '.join(f'{s:.2f}' for s in seconds)} s from answer to stored run"
        )
    finally:
        service.stop()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    seconds, times = (10.0, 4) if options.quick else (60.0, 20)
    print(
        f"{os.cpu_count()} cores, {'PostgreSQL' if 'DATABASE_URL' in os.environ else 'SQLite'}, {time.strftime('%Y-%m-%d')}"
    )
    for part, arguments in ((load, (seconds,)), (kills, (times,)), (run_now, ())):
        with tempfile.TemporaryDirectory() as folder:
            part(Path(folder), *arguments)


if __name__ == "__main__":
    main()
