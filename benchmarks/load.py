"""The service under more and more events until it degrades, and for a long time: real processes, HTTP on loopback.

python -m benchmarks.load              200 events/s and multiples of it, 20 s each, beside runs over 100,000 answers
python -m benchmarks.load --quick      5 s each
python -m benchmarks.load --rates 1000 --seconds 30            one rate, for so long
python -m benchmarks.load --postgres --workers 2               PostgreSQL (started here), two web processes
python -m benchmarks.load --soak       20 minutes of edits at 50 events/s with runs and readers; memory must not grow
DATABASE_URL=postgresql://… python -m benchmarks.load     the same on PostgreSQL (an empty database)
"""

import argparse
import asyncio
import contextlib
import itertools
import json
import multiprocessing
import os
import random
import resource
import socket
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from benchmarks.growth import databases
from harness.service import Service, event, fill, register, stored_ids, wait_for_run

BASE_RATE = 200.0
MULTIPLES = (1, 2, 3, 5)
PATIENCE_SECONDS = 10.0
SOAK_RATE = 50.0
SOAK_TASKS = 500
SOAK_PEOPLE = 40
SAMPLE_SECONDS = 5.0
WINDOW_SECONDS = 180.0
GROWTH = 0.05
COLUMNS = (
    *("offered/s", "events", "acknowledged", "refused 503", "else"),
    *("median ms", "p99 ms", "refusal p99 ms", "/health p99 ms", "client lag p99 ms", "web MB"),
)


@dataclass
class Tally:
    """What became of the events of one step; `lag` is how late the clients themselves were, no fault of the service."""

    taken: list[int] = field(default_factory=list)
    latency: list[float] = field(default_factory=list)
    refusal: list[float] = field(default_factory=list)
    other: Counter[str] = field(default_factory=Counter)
    sent: int = 0
    lag: list[float] = field(default_factory=list)


async def _post(port: int, body: bytes) -> tuple[int, bool]:
    """Send one event on a connection of its own, as Label Studio does; status, and whether it says when to retry."""
    # Plain sockets: the clients share the machine with what they measure, and streams would cost them twice as much.
    loop, answer = asyncio.get_running_loop(), b""
    with socket.socket() as connection:
        connection.setblocking(False)
        await loop.sock_connect(connection, ("127.0.0.1", port))
        head = "POST /webhook HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        head += f"Content-Length: {len(body)}\r\n"
        await loop.sock_sendall(connection, head.encode() + b"Connection: close\r\n\r\n" + body)
        while piece := await loop.sock_recv(connection, 65_536):
            answer += piece
    status = int(answer[9:12]) if answer else 0
    return status, b"\r\nretry-after:" in answer.lower()


async def _event(port: int, number: int, body: bytes, due: float, tally: Tally) -> None:
    begun = time.perf_counter()
    tally.lag.append(begun - due)
    try:
        status, says_when = await asyncio.wait_for(_post(port, body), PATIENCE_SECONDS)
    except (OSError, TimeoutError) as error:
        tally.other[type(error).__name__] += 1
        return
    spent = time.perf_counter() - begun
    if status == 200:
        tally.taken.append(number)
        tally.latency.append(spent)
    elif status == 503 and says_when:
        tally.refusal.append(spent)
    else:
        tally.other[f"status {status}"] += 1


async def _offer(port: int, bodies: Iterable[tuple[int, bytes]], rate: float, seconds: float) -> Tally:
    """Open loop: events are sent when they are due, whether or not earlier ones were answered."""
    tally, under_way = Tally(), set()
    begun = time.perf_counter()
    for index, (number, body) in enumerate(bodies):
        due = begun + index / rate
        if due >= begun + seconds:
            break
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        tally.sent += 1
        task = asyncio.create_task(_event(port, number, body, due, tally))
        under_way.add(task)
        task.add_done_callback(under_way.discard)
    while under_way:
        await asyncio.wait(under_way)
    return tally


def _offer_in_process(pipe: Connection, port: int, rate: float, seconds: float, first: int) -> None:
    """A process of its own for the clients, so that they do not wait for the measuring."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    bodies = ((number, event(number, 1, 1 + number % 60)) for number in itertools.count(first))
    pipe.send(asyncio.run(_offer(port, bodies, rate, seconds)))


def offer(service: Service, rate: float, seconds: float, first: int) -> Tally:
    """Offer events at a rate from another process."""
    ours, theirs = multiprocessing.get_context("spawn").Pipe()
    arguments = (theirs, service.port, rate, seconds, first)
    process = multiprocessing.get_context("spawn").Process(target=_offer_in_process, args=arguments)
    process.start()
    tally: Tally = ours.recv()
    process.join()
    return tally


@contextlib.contextmanager
def repeated(work: Callable[[], object], every: float) -> Iterator[Any]:
    """Do something again and again in the background; a service that is busy is asked again later."""
    stop = threading.Event()

    def loop() -> None:
        while not stop.wait(every):
            with contextlib.suppress(OSError, SystemExit):
                work()

    thread = threading.Thread(target=loop, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(30)


def memory(service: Service) -> dict[str, float]:
    """Resident megabytes of the web processes and of the worker."""
    assert service.process is not None
    sizes = {"web": 0.0, "worker": 0.0}
    for child in service.process.children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            sizes["worker" if "worker" in child.cmdline() else "web"] += child.memory_info().rss / 2**20
    return sizes


def _timed_health(service: Service) -> float:
    """Seconds until a health check is answered; as long as it takes to give up where it is not."""
    begun = time.perf_counter()
    status = service.call("GET", "/health")[0]
    return time.perf_counter() - begun if status == 200 else PATIENCE_SECONDS


def load(folder: Path, seconds: float, rates: Sequence[float], workers: int) -> bool:
    """Offer events at each rate; return whether all that was acknowledged is stored and no answer was an error.

    A client that gives up or is cut off counts under "else": it was not acknowledged, and it knows.
    """
    service = Service(folder, {"WORKERS": str(workers)})
    service.start()
    try:
        project_id = register(service, 1)
        fill(service, project_id, 1_000, 200, 100_000)
        print("| " + " | ".join(COLUMNS) + " |\n|" + "---|" * len(COLUMNS), flush=True)
        acknowledged: set[int] = set()
        clean, first = True, 1
        with repeated(lambda: service.api("POST", f"/projects/{project_id}/runs", {}), 2.0):
            for rate in rates:
                health: list[float] = []
                with repeated(lambda: health.append(_timed_health(service)), 0.2):  # noqa: B023 - used up in this round
                    tally = offer(service, rate, seconds, first)
                first += tally.sent
                acknowledged |= set(tally.taken)
                clean &= not any(what.startswith("status") for what in tally.other)
                print(_line(rate, tally, health, memory(service)["web"]), flush=True)
                time.sleep(2.0)
        missing = acknowledged - stored_ids(service, project_id)
        print(f"acknowledged but missing: {len(missing)} of {len(acknowledged)}; load average {os.getloadavg()[0]:.1f}")
        return clean and not missing
    finally:
        service.stop()


def _line(rate: float, tally: Tally, health: Sequence[float], web: float) -> str:
    ms = np.array(tally.latency or [np.nan]) * 1000
    refusal = f"{np.quantile(tally.refusal, 0.99) * 1000:.0f}" if tally.refusal else ""
    lag = f"{np.quantile(tally.lag, 0.99) * 1000:.0f}"
    alive = f"{np.quantile(health or [np.nan], 0.99) * 1000:.0f}"
    other = ", ".join(f"{count} {what}" for what, count in tally.other.items()) or "0"
    cells = (f"{rate:.0f}", tally.sent, len(tally.taken), len(tally.refusal), other)
    return (
        "| "
        + " | ".join(
            map(
                str,
                (*cells, f"{np.median(ms):.0f}", f"{np.quantile(ms, 0.99):.0f}", refusal, alive, lag, f"{web:.0f}"),
            )
        )
        + " |"
    )


class SteadyCrowd:
    """Edits, and as many new answers as deletions, on a fixed set of tasks: the data keep their size."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        self._numbers = itertools.count(1)
        self._alive: list[tuple[int, int, int]] = []
        self.made = 0

    def fill(self, count: int) -> Iterable[tuple[int, bytes]]:
        """The answers at the beginning."""
        return (self._create() for _ in range(count))

    def changes(self) -> Iterable[tuple[int, bytes]]:
        """Eight edits, one new answer, one deletion, in random order."""
        while True:
            kind = self._rng.choice((self._create, self._delete, *[self._edit] * 8))
            yield kind()

    def _create(self) -> tuple[int, bytes]:
        number = next(self._numbers)
        self._alive.append((number, self._rng.randrange(SOAK_TASKS), 1 + self._rng.randrange(SOAK_PEOPLE)))
        return self._body(*self._alive[-1], "ANNOTATION_CREATED")

    def _edit(self) -> tuple[int, bytes]:
        return self._body(*self._rng.choice(self._alive), "ANNOTATION_UPDATED")

    def _delete(self) -> tuple[int, bytes]:
        number, _, _ = self._alive.pop(self._rng.randrange(len(self._alive)))
        body = json.loads(event(number, 1, 1))
        body = {"action": "ANNOTATIONS_DELETED", "annotations": [{"id": number}], "project": body["project"]}
        return number, json.dumps(body).encode()

    def _body(self, number: int, task: int, person: int, action: str) -> tuple[int, bytes]:
        self.made += 1
        body = json.loads(event(task + 1, 1, person))
        # Microseconds in the order of sending, so that every edit is newer than the one before.
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime()) + f".{self.made % 1_000_000:06d}Z"
        body["action"] = action
        body["annotation"] |= {"id": number, "updated_at": stamp}
        return number, json.dumps(body).encode()


def soak(folder: Path, seconds: float, warm_up: float, rate: float = SOAK_RATE) -> bool:
    """A steady crowd for a long time; return whether memory stayed within its bound and every event was taken."""
    service = Service(folder)
    service.start()
    crowd, samples, reads = SteadyCrowd(9), [], Counter[int]()
    begun = time.monotonic()

    def sample() -> None:
        samples.append((time.monotonic() - begun, memory(service)))

    def read() -> None:
        for path in ("/ui/", f"/ui/projects/{project_id}", f"/api/v1/projects/{project_id}/annotators", "/metrics"):
            reads[service.call("GET", path)[0]] += 1

    try:
        project_id = register(service, 1)
        asyncio.run(_offer(service.port, crowd.fill(4_000), 150.0, 60.0))
        service.api("POST", f"/projects/{project_id}/runs", {})
        wait_for_run(service, project_id, 60.0)
        begun = time.monotonic()
        with repeated(sample, SAMPLE_SECONDS), repeated(read, 2.0):
            tally = asyncio.run(_offer(service.port, crowd.changes(), rate, seconds))
        runs = next(
            value
            for value in service.api("GET", f"/projects/{project_id}/runs?limit=1000").values()
            if isinstance(value, list)
        )
        ms = np.array(tally.latency) * 1000
        print(f"{tally.sent} events at {rate:.0f}/s for {seconds / 60:.0f} min: {len(tally.taken)} acknowledged, "
              f"{len(tally.refusal)} refused, else {dict(tally.other)}; median {np.median(ms):.0f} ms, "
              f"p99 {np.quantile(ms, 0.99):.0f} ms; {len(runs)} runs; pages read by status {dict(reads)}")  # fmt: skip
        return _judge_memory(samples, seconds, warm_up) and not tally.other and set(reads) == {200}
    finally:
        service.stop()


def _judge_memory(samples: list[tuple[float, dict[str, float]]], seconds: float, warm_up: float) -> bool:
    """Compare the medians of the time right after the warm-up and of the end; print one line a part."""
    window = min(WINDOW_SECONDS, (seconds - warm_up) / 2)
    steady = True
    print("| part | start MB | after warm-up MB | end MB | growth | highest MB |\n|---|---|---|---|---|---|")
    for part in ("web", "worker"):
        series = [(at, sizes[part]) for at, sizes in samples]
        early = float(np.median([size for at, size in series if warm_up <= at < warm_up + window]))
        late = float(np.median([size for at, size in series if at >= seconds - window]))
        growth = late / early - 1
        steady &= growth <= GROWTH
        highest = max(size for _, size in series)
        print(f"| {part} | {series[0][1]:.1f} | {early:.1f} | {late:.1f} | {growth:+.1%} | {highest:.1f} |", flush=True)
    return steady


@contextlib.contextmanager
def postgres_if(wanted: bool) -> Iterator[None]:
    """An empty PostgreSQL of our own in DATABASE_URL while the block lasts, if one is wanted."""
    if not wanted:
        yield
        return
    with databases("postgresql", Path()) as fresh:
        os.environ["DATABASE_URL"] = fresh()
        try:
            yield
        finally:
            del os.environ["DATABASE_URL"]


def main() -> int:
    """Run what was asked for; 1 if a promise was broken."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--soak", action="store_true")
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--rates", type=float, nargs="+", default=[multiple * BASE_RATE for multiple in MULTIPLES])
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--workers", type=int, default=1, help="web processes")
    parser.add_argument("--postgres", action="store_true", help="on a PostgreSQL started here")
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        postgres_if(options.postgres),
    ):
        database = "PostgreSQL" if "DATABASE_URL" in os.environ else "SQLite"
        print(
            f"{os.cpu_count()} cores, {database}, {options.workers} web processes, {time.strftime('%Y-%m-%d')}, "
            f"load average {os.getloadavg()[0]:.1f}"
        )
        if options.soak:
            minutes = 1.0 if options.quick else options.minutes
            held = soak(Path(folder), 60.0 * minutes, 15.0 * minutes)
        else:
            seconds = options.seconds or (5.0 if options.quick else 20.0)
            held = load(Path(folder), seconds, options.rates, options.workers)
    print("held" if held else "BROKEN")
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
