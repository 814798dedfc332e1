"""How the service grows: ingest, catch-up, detection and storage at 10k to 10M comparisons in one project.

python -m benchmarks.growth                       PostgreSQL (started here) and SQLite, up to 10M: most of an hour
python -m benchmarks.growth --quick               up to 100k
python -m benchmarks.growth --sizes 10000 1000000 --databases sqlite

Large tables are filled by a bulk path, which the run at 10k first proves to leave the same state as ingest. Every
case runs in a process of its own, so that its peak memory is its own. Times are given twice: elapsed, which depends on
what else the machine does, and in brackets the CPU time of service and database together. The last column is the
exponent of a least-squares line through the logarithms (of the CPU times): 0 does not grow, 1 grows as the number of
comparisons does.
"""

import argparse
import contextlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from evenhand.domain import Batch, Comparison, Project, ProjectRef, Trigger, plain_answer
from evenhand.ingest.events import handle_event
from evenhand.label_studio import payloads
from evenhand.runs.run import analyse
from evenhand.runs.statistics import StatisticsCache
from evenhand.server.worker import Runs
from evenhand.settings import Settings
from evenhand.store import Store
from evenhand.store.engine import migrate, open_engine
from evenhand.store.schema import annotators, changes, comparisons, projects, tasks
from sqlalchemy import select, text

from benchmarks.growth_fill import ANSWERS_PER_ANNOTATOR, ITEMS, Crowd, fill
from harness.label_configs import PAIRWISE
from harness.service import event

SIZES = (10_000, 100_000, 1_000_000, 10_000_000)
DATABASES = ("postgresql", "sqlite")
EPOCH = 1_700_000_000
EVENTS, BULK, NEWS, ROUNDS = 200, 10_000, 10_000, 50
BATCH = 5_000
MINUTES = 40
TIMED = {
    "event_ms": "one event, webhook path (ms)",
    "bulk_us": "one answer, pull path (µs)",
    "load_s": "statistics from scratch (s)",
    "catch_up_s": f"catch up with {NEWS:,} answers (s)",
    "detect_s": "a run: audit, 21 draws, evidence (s)",
    "round_ms": "a worker's round with nothing to do (ms)",
}
SIZED = {"bytes": "stored bytes per comparison", "peak_mb": "peak memory of the worker (MB)"}


class Meter:
    """Elapsed time, and the CPU time that this process and the database server spent meanwhile."""

    def __init__(self, store: Store) -> None:
        self._server: list[psutil.Process] = []
        if store.database.on_postgres:
            with store.engine.connect() as connection:
                pid = connection.execute(text("SELECT pg_backend_pid()")).scalar_one()
            postmaster = psutil.Process(pid).parent()
            self._server = [postmaster, *postmaster.children()] if postmaster else []

    def of(self, work: Callable[[], Any], per: float = 1.0) -> tuple[float, float]:
        """Elapsed and CPU seconds of a piece of work, divided by `per`."""
        begun, spent = time.perf_counter(), self._cpu()
        work()
        return (time.perf_counter() - begun) / per, (self._cpu() - spent) / per

    def _cpu(self) -> float:
        total = time.process_time()
        for process in self._server:
            with contextlib.suppress(psutil.NoSuchProcess):
                used = process.cpu_times()
                total += used.user + used.system
        return total


def open_empty(url: str, clock: Callable[[], float] = time.time) -> tuple[Store, Project]:
    engine = open_engine(url)
    migrate(engine)
    store = Store(engine, clock)
    return store, store.projects.register("", ProjectRef(1, EPOCH), title="growth", label_config=PAIRWISE)


def prove_same(urls: list[str], size: int = 10_000) -> None:
    """Fill one database by ingest and one in bulk, and compare every row."""
    states = []
    for url, is_bulk in zip(urls, (False, True), strict=True):
        store, project = open_empty(url, lambda: EPOCH + 1.0)
        crowd = Crowd.of(size)
        if is_bulk:
            fill(store, project.id, crowd)
        else:
            store.comparisons.apply(project.id, crowd.batch())
        with store.engine.connect() as connection:
            found = {
                table.name: connection.execute(select(table).order_by(*table.primary_key)).all()
                for table in (projects, tasks, comparisons, changes, annotators)
            }
        states.append(found)
        store.close()
    for name, rows in states[0].items():
        assert rows == states[1][name], f"the bulk path writes other rows into {name}"


def case(url: str, size: int) -> dict[str, Any]:
    """Fill, then measure everything at this size."""
    store, project = open_empty(url)
    begun = time.perf_counter()
    fill(store, project.id, Crowd.of(size))
    figures: dict[str, Any] = {"fill_s": time.perf_counter() - begun}
    settle(store)
    figures["bytes"] = stored_bytes(store, url) / size
    meter = Meter(store)
    figures["event_ms"] = meter.of(lambda: events(store, first=size + 1), EVENTS / 1e3)
    news = rows(size + 1_000_000, BULK)
    parts = [Batch(comparisons=news[k : k + BATCH]) for k in range(0, BULK, BATCH)]
    figures["bulk_us"] = meter.of(lambda: [store.comparisons.apply(project.id, part) for part in parts], BULK / 1e6)
    cache = StatisticsCache(store)
    figures["load_s"] = meter.of(lambda: cache.catch_up(store.projects.get(project.id)))
    store.comparisons.apply(project.id, Batch(comparisons=rows(size + 2_000_000, NEWS)))
    figures["catch_up_s"] = meter.of(lambda: cache.catch_up(store.projects.get(project.id)))
    project = store.projects.get(project.id)
    current = cache.catch_up(project)
    result: list[Any] = []
    figures["detect_s"] = meter.of(lambda: result.append(analyse(store, project, current, lambda *_: None)))
    figures["flagged"] = result[0].summary["flagged"]
    figures["annotators"] = result[0].summary["data"]["annotators"]
    figures["parts"] = result[0].timings
    runs = settled_worker(store, project, result[0])
    figures["round_ms"] = meter.of(lambda: [runs.once() for _ in range(ROUNDS)], ROUNDS / 1e3)
    figures["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    store.close()
    return figures


def settle(store: Store) -> None:
    """Let the database tidy up after the bulk load, as it would have in the months of real growth."""
    if store.database.on_postgres:
        with store.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(text("VACUUM ANALYZE"))
            connection.execute(text("CHECKPOINT"))


def stored_bytes(store: Store, url: str) -> float:
    if not store.database.on_postgres:
        path = url.removeprefix("sqlite:///")
        return float(sum(Path(path + end).stat().st_size for end in ("", "-wal") if Path(path + end).exists()))
    names = ("comparisons", "changes", "tasks", "annotators")
    with store.engine.connect() as connection:
        sizes = [connection.execute(text(f"SELECT pg_total_relation_size('{name}')")).scalar_one() for name in names]
    return float(sum(sizes))


def events(store: Store, first: int) -> None:
    """Events one at a time, each from its parsed body to a durable answer."""
    settings = Settings.from_env({})
    for number in range(first, first + EVENTS):
        handle_event(store, settings, payloads.read_event(json.loads(event(number, 1, 1 + number % 60))))


def rows(first: int, size: int) -> list[Comparison]:
    crowd = Crowd.of(size, seed=2)
    return [
        plain_answer(first + i, f"{1000 + who}", f"item {left}", f"item {right}", y, at=EPOCH + 1.0)
        for i, (who, left, right, y) in enumerate(crowd.answers())
    ]


def settled_worker(store: Store, project: Project, result: Any) -> Runs:
    """A worker that has looked at a project which was judged and did not change since."""
    with store.engine.begin() as connection:
        seen = {"live_seq": projects.c.seq}
        connection.execute(projects.update().where(projects.c.id == project.id).values(**seen))
    run = store.runs.request(project.id, Trigger.MANUAL)
    claimed = store.runs.claim("growth", 60.0)
    assert claimed is not None
    store.runs.finish(run.id, claimed[1], result)
    runs = Runs(store, "growth")
    runs.once()
    return runs


def measure(url: str, size: int) -> dict[str, Any] | None:
    """Run a case in a process of its own; None if it does not end in time."""
    command = [sys.executable, "-m", "benchmarks.growth", "--case", url, str(size)]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60 * MINUTES, check=False)
    except subprocess.TimeoutExpired:
        return None
    if ended.returncode:
        raise SystemExit(f"{size:,} comparisons failed: {ended.stderr[-2000:]}")
    told: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return told


@contextlib.contextmanager
def databases(kind: str, folder: Path) -> Iterator[Callable[[], str]]:
    """A way to make fresh databases of one kind."""
    if kind == "sqlite":
        numbers = iter(range(1000))
        yield lambda: f"sqlite:///{folder / f'{next(numbers)}.db'}"
        return
    from harness import components
    from harness.postgres import running_postgres

    programs = components.postgres()
    if programs is None:
        raise SystemExit("PostgreSQL's programs were not found; install postgresql, or use --databases sqlite")
    with running_postgres(programs, hurried=False) as server:
        yield server.new_database


def exponent(sizes: list[int], values: list[float]) -> float:
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def shown(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def table(kind: str, results: dict[int, dict[str, Any]]) -> None:
    """One row per figure: elapsed (CPU of service and database), and the exponent of the latter."""
    sizes = sorted(results)
    print(
        f"\n{kind}: one project, {ITEMS} items, {ANSWERS_PER_ANNOTATOR:,} answers per annotator (at least 50 people)\n"
    )
    print(f"| elapsed (CPU) | {' | '.join(f'{size:,}' for size in sizes)} | exponent |")
    print(f"|---|{'---|' * (len(sizes) + 1)}")
    for name, words in {**TIMED, **SIZED}.items():
        values = [results[size][name] for size in sizes]
        cells = [f"{shown(v[0])} ({shown(v[1])})" if name in TIMED else shown(v) for v in values]
        fitted = exponent(sizes, [v[1] if name in TIMED else v for v in values]) if len(sizes) > 1 else float("nan")
        print(f"| {words} | {' | '.join(cells)} | {fitted:.2f} |", flush=True)
    for size in sizes:
        parts = ", ".join(f"{name} {value:.1f}" for name, value in results[size]["parts"].items())
        print(f"  {size:,}: filled in {results[size]['fill_s']:.0f} s, {results[size]['annotators']:,} annotators, "
              f"{results[size]['flagged']} flagged; seconds: {parts}")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--databases", nargs="+", choices=DATABASES, default=list(DATABASES))
    parser.add_argument("--case", nargs=2, metavar=("URL", "SIZE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        print(json.dumps(case(options.case[0], int(options.case[1]))))
        return
    sizes = [size for size in options.sizes if not options.quick or size <= 100_000]
    print(f"{os.cpu_count()} cores, {time.strftime('%Y-%m-%d')}, load average {os.getloadavg()[0]:.1f}")
    for kind in options.databases:
        with tempfile.TemporaryDirectory() as folder, databases(kind, Path(folder)) as fresh:
            prove_same([fresh(), fresh()])
            print(f"{kind}: at 10,000 the bulk path leaves the same rows as ingest", flush=True)
            results = {}
            for size in sizes:
                found = measure(fresh(), size)
                if found is None:
                    print(f"{kind}: {size:,} left out: it did not end within {MINUTES} minutes")
                    break
                results[size] = found
                print(f"{kind} {size:,}: {found}", file=sys.stderr, flush=True)
            table(kind, results)


if __name__ == "__main__":
    main()
