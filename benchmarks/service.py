"""The service under load and under kill -9: real processes, real HTTP on loopback, bounded in count and time.

python -m benchmarks.service             60 s of 200 events/s beside a 1,000-annotator run; 20 kills; run-now latency
python -m benchmarks.service --quick     10 s and 4 kills
python -m benchmarks.service --million   a million answers: runs, memory, SIGTERM and kill -9 in mid-run, restarts
python -m benchmarks.service --catch-up  a million answers that came at once: until a run and live evidence know them
DATABASE_URL=postgresql://… python -m benchmarks.service     the same on PostgreSQL (an empty database)
"""

import argparse
import contextlib
import http.client
import itertools
import os
import random
import signal
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import psutil
from evenhand.domain import Batch, ProjectRef
from evenhand.store import Store, open_store
from evenhand.store.schema import projects

from benchmarks import growth, growth_fill
from harness.label_configs import PAIRWISE
from harness.service import EPOCH, Service, event, fill, register, stored_ids, wait_for_run


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
            f"load: {sender.sent} events at {rate:.0f}/s for {seconds:.0f} s "
            "beside runs over 1,000 annotators, 100k answers"
        )
        print(
            f"  acknowledged {len(sender.acknowledged)}, refused {sender.refused}, "
            f"acknowledged but missing {len(missing)}"
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
            assert service.process is not None
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
            f"run now: 100 annotators, 10,001 answers: {', '.join(f'{s:.2f}' for s in seconds)} s "
            "from answer to stored run"
        )
    finally:
        service.stop()


MILLION, NEWS = 1_000_000, 1_000
ENDING_LIMIT = 30.0


def million(folder: Path, size: int = MILLION) -> None:
    """One project of a million answers; live evidence of them counts as seen, as it would be after months."""
    service = Service(folder)
    store = open_store(service.settings)
    project = store.projects.register("", ProjectRef(1, EPOCH), title="million", label_config=PAIRWISE)
    growth_fill.fill(store, project.id, growth_fill.Crowd.of(size))
    with store.engine.begin() as connection:
        connection.execute(projects.update().values(live_seq=projects.c.seq))
    figures: dict[str, str] = {}
    service.start()
    try:
        figures["first run, all answers read; from queue to stored (CPU)"] = _run_after_news(service, store, project.id)
        runs = [_run_after_news(service, store, project.id) for _ in range(3)]
        figures[f"a run after {NEWS:,} new answers; from queue to stored (CPU)"] = ", ".join(runs)
        figures["peak memory of the worker"] = f"{_peak(service):.0f} MB"
        _begin_run(service, store, project.id)
        figures["SIGTERM in mid-run: everything ended after"] = f"{_ended(service):.1f} s"
        figures["healthy again after"] = f"{service.start():.1f} s"
        seconds = _finish(store, project.id)
        figures["that run, repeated, stored after"] = f"{seconds:.1f} s"
        figures["peak memory of the new worker"] = f"{_peak(service):.0f} MB"
        _begin_run(service, store, project.id)
        _kill(service)
        figures["kill -9 of everything in mid-run: healthy after"] = f"{service.start():.1f} s"
        figures["that run, taken over and repeated, stored after"] = f"{_finish(store, project.id):.1f} s"
    finally:
        service.stop()
        store.close()
    print(
        f"{size:,} answers of 1,000 annotators, load average {os.getloadavg()[0]:.1f}\n\n| what | measured |\n|---|---|"
    )
    for what, figure in figures.items():
        print(f"| {what} | {figure} |", flush=True)


def catch_up(folder: Path, size: int = MILLION) -> None:
    """Seconds from the start of a service that finds answers nobody counted yet to a run and live evidence of all."""
    service = Service(folder)
    store = open_store(service.settings)
    project = store.projects.register("", ProjectRef(1, EPOCH), title="backlog", label_config=PAIRWISE)
    growth_fill.fill(store, project.id, growth_fill.Crowd.of(size))
    up, begun = service.start(), time.perf_counter()
    try:
        service.api("POST", f"/projects/{project.id}/runs", {})
        _finish(store, project.id)
        while (found := store.projects.get(project.id)).live_seq < found.seq:
            time.sleep(0.1)
        seconds, spent = time.perf_counter() - begun, _worker(service).cpu_times()
        print(
            f"{size:,} answers caught up with and judged in {seconds:.1f} s (CPU {spent.user + spent.system:.1f} s), "
            f"the service was up after {up:.1f} s, peak {_peak(service):.0f} MB, load average {os.getloadavg()[0]:.1f}"
        )
    finally:
        service.stop()
        store.close()


def _add_news(store: Store, project_id: int) -> None:
    """New answers, as a pull would bring them."""
    first = store.projects.get(project_id).seq + 10_000_000
    store.comparisons.apply(project_id, Batch(comparisons=growth.rows(first, NEWS)))


def _run_after_news(service: Service, store: Store, project_id: int) -> str:
    """Seconds from the request of a run to its stored result, and the worker's CPU time meanwhile."""
    _add_news(store, project_id)
    spent = _worker(service).cpu_times()
    service.api("POST", f"/projects/{project_id}/runs", {})
    _finish(store, project_id)
    used, done = _worker(service).cpu_times(), store.runs.latest(project_id)
    assert done is not None
    assert done.finished_at is not None
    cpu = used.user + used.system - spent.user - spent.system
    return f"{done.finished_at - done.requested_at:.1f} s ({cpu:.1f} s)"


def _begin_run(service: Service, store: Store, project_id: int) -> None:
    """Ask for a run and wait until it is well under way."""
    _add_news(store, project_id)
    service.api("POST", f"/projects/{project_id}/runs", {})
    while (newest := store.runs.latest(project_id, status=None)) is None or (newest.progress or 0.0) < 0.03:
        time.sleep(0.05)


def _finish(store: Store, project_id: int, limit: float = 600.0) -> float:
    """Seconds until the newest run is done."""
    begun = time.perf_counter()
    while time.perf_counter() - begun < limit:
        newest = store.runs.latest(project_id, status=None)
        if newest is not None and newest.status in ("done", "failed"):
            assert newest.status == "done", newest.error
            return time.perf_counter() - begun
        time.sleep(0.05)
    raise SystemExit(f"a run did not end within {limit:.0f} s")


def _family(service: Service) -> list[psutil.Process]:
    assert service.process is not None
    return [service.process, *service.process.children(recursive=True)]


def _worker(service: Service) -> psutil.Process:
    (worker,) = [member for member in _family(service) if "worker" in member.cmdline()]
    return worker


def _peak(service: Service) -> float:
    """The most megabytes the worker ever had in memory, as Linux counts."""
    status = Path(f"/proc/{_worker(service).pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def _ended(service: Service) -> float:
    """Seconds from SIGTERM until no process is left."""
    family, begun = _family(service), time.perf_counter()
    family[0].terminate()
    _, left = psutil.wait_procs(family, timeout=ENDING_LIMIT)
    assert not left, left
    return time.perf_counter() - begun


def _kill(service: Service) -> None:
    family = _family(service)
    for member in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            member.kill()
    psutil.wait_procs(family, timeout=5)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--million", action="store_true")
    parser.add_argument("--catch-up", action="store_true")
    parser.add_argument("--answers", type=int, default=MILLION, help="of --catch-up")
    options = parser.parse_args()
    seconds, times = (10.0, 4) if options.quick else (60.0, 20)
    print(
        f"{os.cpu_count()} cores, {'PostgreSQL' if 'DATABASE_URL' in os.environ else 'SQLite'}, "
        f"{time.strftime('%Y-%m-%d')}"
    )
    parts: list[Callable[[Path], None]] = [partial(load, seconds=seconds), partial(kills, times=times), run_now]
    parts = [million] if options.million else [partial(catch_up, size=options.answers)] if options.catch_up else parts
    for part in parts:
        with tempfile.TemporaryDirectory() as folder:
            part(Path(folder))


if __name__ == "__main__":
    main()
